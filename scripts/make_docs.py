"""Makes the pages of the documentation that are made of something else: the rules', and those of reference.

Usage: python scripts/make_docs.py [--docs DIR]

`parity.rules`, the help of every command, and the docstrings of what `parity` and `parity.testing` offer.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import click
from numpy.typing import ArrayLike

import parity
import parity.jobs.scan
import parity.jobs.scan_live
import parity.testing
import parity.testing.sessions
from parity import findings
from parity.cli import COMMANDS, group
from parity.rules import RULES, Rule

HERE: Final = Path(__file__).parents[1] / "docs"

WIDTH: Final = 100
"""Characters of a line of help."""

COMPARISONS: Final = "`parity diff`, `parity check`, `parity suite` and `parity identify`"

MEMBERS: Final = (FunctionType, property, cached_property, classmethod)
"""What of a class has a docstring of its own."""

SECTION: Final = re.compile(r"(Args|Attributes|Returns|Yields|Raises):$")
"""How a section of a docstring begins."""

ENTRY: Final = re.compile(r"    (\*{0,2}\w+): (.*)")
"""How an entry of a section begins."""

MODULES: Final = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
"""Modules before a name."""

NAMELESS: Final = re.compile(r"<(?:function )?<?\w+>?(?: at 0x\w+)?>")
"""A default value that cannot be typed."""

ARRAY_LIKE: Final = inspect.formatannotation(ArrayLike)
"""What NumPy makes of the name."""


def rules() -> Iterator[tuple[str, str]]:
    """A page for each rule, and one that lists them."""
    yield "rules/index.md", _rule_list()
    for name, rule in RULES.items():
        yield f"rules/{name}.md", _rule(name, rule)


def _rule_list() -> str:
    page = "# Rules\n\nEvery finding is of one of these kinds; `--allow RULE` makes its findings notes.\n"
    for title, names in (
        (f"Comparisons\n\nFindings of {COMPARISONS}.", findings.RULES),
        ("Scans\n\nFindings of `parity scan`, and of `parity check` when it scans.", findings.SCAN_RULES),
    ):
        rows = [f"| [`{name}`]({name}.md) | {RULES[name].summary} |" for name in names]
        page += "\n".join([f"\n## {title}\n", "| rule | says |", "|---|---|", *rows, ""])
    return page


def _rule(name: str, rule: Rule) -> str:
    known = ((findings.RULES, COMPARISONS), (findings.SCAN_RULES, "`parity scan`"))
    found = ", and of ".join(commands for names, commands in known if name in names)
    sections = {
        "What it means": rule.meaning,
        "How it is detected": rule.detection,
        "How to mend it": rule.mending,
        "Example": rule.example,
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"# {name}\n\n{rule.summary}\n\nA finding of {found}.\n\n{body}\n"


def command_line() -> str:
    """The help of every command."""
    top = click.Context(group, info_name="parity", **{**group.context_settings, "terminal_width": WIDTH})
    page = f"# Command line\n\n{_help(top)}"
    for name in sorted(COMMANDS):
        command = group.get_command(top, name)
        assert command is not None  # noqa: S101 – it is in the list
        page += f"\n## parity {name}\n\n{_help(click.Context(command, info_name=name, parent=top))}"
    return page


def _help(context: click.Context) -> str:
    return f"```text\n{context.get_help()}\n```\n"


def python() -> str:
    """What one can import, by its docstrings."""
    page = "# Python\n"
    for module, names in (
        (parity, parity.__all__),
        (parity.jobs.scan, ["scan"]),
        (parity.jobs.scan_live, ["scan_live"]),
        (parity.testing, parity.testing.__all__),
        (parity.testing.sessions, ["check_session"]),
    ):
        page += f"\n## {module.__name__}\n\n{_markdown(inspect.getdoc(module) or '')}\n"
        page += "".join(_public(module, name) for name in names)
    return page


def _public(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if not callable(value):
        return f"\n### {name}\n\n`{value!r}`\n"
    parts = [f"\n### {name}\n", f"```python\n{_signature(value, name)}\n```\n", _markdown(inspect.getdoc(value) or "")]
    if inspect.isclass(value):
        parts += [_member(name, member, value.__dict__[member]) for member in _members(value)]
    return "\n".join(parts) + "\n"


def _members(value: type) -> list[str]:
    """Public methods and properties that a class has of itself."""
    return [name for name, one in vars(value).items() if not name.startswith("_") and isinstance(one, MEMBERS)]


def _member(owner: str, name: str, value: Any) -> str:
    call = value.__func__ if isinstance(value, classmethod) else value
    title = _signature(call, name) if isinstance(call, FunctionType) else name
    return f"\n#### {owner}.{name}\n\n```python\n{title}\n```\n\n{_markdown(inspect.getdoc(value) or '')}"


def _signature(value: Any, name: str) -> str:
    """A call, one parameter a line where it is long; modules before the names of types are left out."""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return name
    parameters = [one for key, one in signature.parameters.items() if key not in {"self", "cls"}]
    returned = inspect.Signature.empty if inspect.isclass(value) else signature.return_annotation
    call = name + _plain(str(signature.replace(parameters=parameters, return_annotation=returned)))
    if len(call) <= WIDTH:
        return call
    keywords = next((k for k, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), len(parameters))
    lines = [*map(str, parameters[:keywords]), *["*"][: len(parameters) - keywords], *map(str, parameters[keywords:])]
    tail = call[call.rindex(")") :]
    return f"{name}(\n" + "".join(f"    {_plain(line)},\n" for line in lines) + tail


def _plain(text: str) -> str:
    return NAMELESS.sub("…", MODULES.sub("", text.replace(ARRAY_LIKE, "ArrayLike")))


def _markdown(text: str) -> str:
    """A docstring as Markdown: its sections as lists."""
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        begins = SECTION.match(line)
        if begins:
            section = begins[1]
            lines += [f"**{section}**", ""]
        elif section and line.strip():
            lines.append(_entry(line, named=section not in {"Returns", "Yields"}))
        else:
            lines.append(re.sub(r"::$", ":", line))
    return "\n".join(lines)


def _entry(line: str, *, named: bool) -> str:
    """A line of a section: the beginning of an item, or more of it."""
    begins = ENTRY.match(line) if named else None
    if begins:
        return f"- `{begins[1]}` – {begins[2]}"
    return f"    {line.strip()}" if named else line.strip()


def main(arguments: Sequence[str]) -> None:
    """Writes the pages."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--docs", type=Path, default=HERE, help="the folder of the documentation (default: docs)")
    docs = options.parse_args(arguments).docs
    for name, text in (*rules(), ("reference/cli.md", command_line()), ("reference/api.md", python())):
        page = docs / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
