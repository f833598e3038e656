"""A page as one file: the template, the style sheet, the scripts and the plots' data in one another."""

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from parity.errors import InputError
from parity.report.html.parts import Figure, Page, visible

NEEDED: Final = ("jinja2", "plotly")
"""Packages of the extra ``html``."""

_LONG: Final = re.compile(r"\w{21,}")
"""A part of a name too long to stay in one piece."""


def check_installed() -> None:
    """Refuses before work is spent on a report that cannot be written.

    Raises:
        InputError: A package that it needs is missing.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"--format html needs {' and '.join(missing)}, not installed here.",
            hint='Install what it needs with `pip install "framework-parity[html]"`.',
        )


def render(page: Page) -> str:
    """The page as a document that loads nothing.

    A policy in its head lets nothing be fetched and no scripts run but its own two, known by their hashes: a name that
    got past the escaping could still not act.
    """
    check_installed()
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 – asked for in few reports
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 – likewise

    loader = PackageLoader("parity.report.html")
    pages = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    pages.filters["breakable"] = _breakable
    pages.policies["json.dumps_kwargs"] = {"allow_nan": False, "sort_keys": False}
    figures = {one.name: {"data": one.data, "layout": one.layout} for one in _figures(page)}
    plotly = str(get_plotlyjs()) if figures else ""
    own, style = (loader.get_source(pages, name)[0] for name in ("page.js", "style.css"))
    return pages.get_template("page.html").render(
        page=page,
        figures=figures,
        style=style,
        scripts=[plotly, own],
        hashes=[_hash(plotly), _hash(own)],
        adapters=_adapters(page.environment),
    )


def _shown(value: Any) -> Any:
    """Plain text as `visible` has it; numbers, and what is markup already, as they are."""
    return visible(value) if type(value) is str else value


def _breakable(text: str) -> Any:
    """A name with leave to be broken where its parts meet."""
    from markupsafe import Markup, escape  # noqa: PLC0415 – comes with jinja2

    safe = _LONG.sub(lambda found: found[0].replace("_", "_<wbr>"), str(escape(visible(text))))
    return Markup(re.sub(r"([./])(?=[^\W\d])", r"\1<wbr>", safe))  # noqa: S704 – escaped just above


def _hash(script: str) -> str:
    """As a content security policy names a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _figures(page: Page) -> list[Figure]:
    found: list[Figure] = []
    for section in page.sections:
        found += section.figures
        if section.explorer is not None:
            found += [section.explorer.curves, section.explorer.differences]
    return found


def _adapters(environment: Mapping[str, Any]) -> list[str]:
    """Each side or adapter with its versions, in a line."""
    adapters: Mapping[str, Mapping[str, str]] = environment.get("adapters", {})
    return [
        f"{name}: {', '.join(f'{package} {version}' for package, version in versions.items())}"
        for name, versions in adapters.items()
    ]
