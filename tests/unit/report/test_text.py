"""Text reports: what names hold is shown as it is, and colour is for terminals."""

import re
from dataclasses import replace
from typing import Any

import pytest

from parity.findings import Finding
from parity.functions import variant
from parity.jobs.doctor import doctor
from parity.jobs.identify import identify
from parity.jobs.suite import SuiteReport
from parity.measure.activation import Row
from parity.report import doctor as doctor_report
from parity.report import identify as identify_report
from parity.report import suite as suite_report
from parity.report.diff import print_finding
from parity.report.terminal import console, number, one_line, plain, text_of, verdict_line

AWKWARD = "f[approximate=tanh] [bold red]x[/] [link=a] \\[b] (compile)"


def row(name: str = AWKWARD, **changes: Any) -> Row:
    return Row(
        **(
            {
                "adapter": "toy", "implementation": name, "declared": "relu", "identified": "relu", "dtype": "float32",
                "regime": "dense", "count": 10, "max_ulp": 0.5, "mean_ulp": 0.1, "max_abs": 1e-7, "scaled_ulp": 0.5,
            }
            | changes
        )
    )  # fmt: skip


def report(rows: list[Row], findings: tuple[Finding, ...] = (), families: dict[str, Any] | None = None) -> SuiteReport:
    families = families or {}
    return SuiteReport(
        verdict="pass", summary="All [of] it.", findings=findings, results=tuple(rows), families=families,
        defaults={}, environment={},
        coverage={"measurements": 1, "inputs": 10, "unsupported": 0, "failed": 0},
    )  # fmt: skip


def text(of: SuiteReport, *, colour: bool = False, width: int = 160) -> str:
    return suite_report.render(of, colour=colour, width=width, everything=True)


def test_names_with_brackets_survive() -> None:
    finding = Finding(
        rule="precision", severity="warning", message=f"{AWKWARD} is [off].", fix="[do] this",
        location={"candidate": f"toy: {AWKWARD}"},
    )  # fmt: skip
    shown = text(report([row()], (finding,), {"gelu": {"a[1]": "gelu_erf", "b[/]": "gelu_tanh"}}))
    for part in (AWKWARD, "is [off].", "[do] this", "a[1]", "b[/]", "All [of] it."):
        assert part in shown
    assert "\x1b" not in shown


def test_colour_is_there_when_asked_for_and_changes_no_word() -> None:
    plain_text, coloured = (text(report([row(status="warning")]), colour=colour) for colour in (False, True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == plain_text.split()


def test_each_implementation_is_one_line_with_its_worst_number_and_status() -> None:
    rows = [row("f"), row("f", regime="normal", scaled_ulp=2.25), row("f", dtype="float16", scaled_ulp=0.75),
            row("g", status="mismatch", identified=None), row("f", regime="tails", scaled_ulp=99.0)]  # fmt: skip
    lines = text(report(rows)).splitlines()
    (f,) = [line for line in lines if line.strip().startswith("f ")]
    assert "2.25" in f
    assert "0.75" in f
    assert "99" not in f
    (g,) = [line for line in lines if line.strip().startswith("g ")]
    assert "unknown" in g
    assert "mismatch" in g


@pytest.mark.parametrize("status", ["crashed", "hung", "failed", "not-installed"])
def test_adapters_that_gave_no_numbers_say_why(status: str) -> None:
    shown = text(report([row("f"), row("", status=status, reason="because [it] is so", regime="", count=0)]))
    assert f"toy: {status} – because [it] is so" in shown


def test_the_last_line_is_the_verdict() -> None:
    assert text(report([row()])).splitlines()[-1] == "PASS  All [of] it."


def test_a_narrow_page_loses_no_name() -> None:
    shown = text(report([row("a_rather_long_name[approximate=none]_that_does_not_fit")]), width=60)
    joined = "".join(line.split("  ")[0].strip() for line in shown.splitlines())
    assert "a_rather_long_name[approximate=none]_that_does_not_fit" in joined


def test_the_defaults_that_differ_are_a_table_and_the_others_a_line() -> None:
    shown = text(report([row()], families={
        "gelu": {"torch.nn.functional.gelu": "gelu_erf", "jax.nn.gelu": "gelu_tanh", "tf.nn.gelu": "gelu_erf"},
        "relu": {"a": "relu", "b": "relu"},
    }))  # fmt: skip
    (erf,) = [line for line in shown.splitlines() if "gelu_erf" in line]
    assert "torch.nn.functional.gelu, tf.nn.gelu" in erf
    (tanh,) = [line for line in shown.splitlines() if "gelu_tanh" in line]
    assert "jax.nn.gelu" in tanh
    assert "agree in all that was measured: relu." in shown


def test_the_name_of_a_family_with_brackets_survives() -> None:
    assert "gelu[x]" in text(report([row()], families={"gelu[x]": {"a": "gelu_erf", "b": "gelu_tanh"}}))


def test_the_doctor() -> None:
    found = doctor()
    awkward = replace(found.adapters["numpy"], name=AWKWARD, missing=("[this]>=1",), install='pip install "x[y]"')
    shown = doctor_report.render(replace(found, adapters={AWKWARD: awkward}), colour=False, width=200)
    for part in (AWKWARD, "missing [this]>=1", 'pip install "x[y]"'):
        assert part in shown
    assert shown.splitlines()[-1].startswith("PASS  ")


def test_an_identification() -> None:
    found = identify(lambda x: variant("leaky_relu", negative_slope=0.2).value(x).astype(x.dtype), dtype="float16")
    shown = identify_report.render(replace(found, summary="f[a] is it"), colour=False, width=160)
    assert "leaky_relu[negative_slope=0.2]" in shown
    assert "standard errors away" in shown
    assert shown.splitlines()[-1] == "PASS  f[a] is it"


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [(None, 3, "–"), (0.0, 3, "0"), (1234.5, 3, "1.23e+03"), (float("nan"), 3, "nan"),
     (float("inf"), 3, "inf"), (0.125, 2, "0.12")],
)  # fmt: skip
def test_numbers(value: float | None, digits: int, written: str) -> None:
    assert number(value, digits) == written


def test_plain_text_is_no_markup() -> None:
    assert plain("[bold]x[/bold]").plain == "[bold]x[/bold]"


def test_a_finding_gives_the_terminal_no_orders_and_stays_on_its_lines() -> None:
    name = "a\x1b[31m\nPASS"
    finding = Finding(
        rule="weights", severity="error", message=name, fix=name, location={"reference": name},
        evidence={"places": [name], "count": 1}, impact={"reason": name},
    )  # fmt: skip
    out = console(colour=False, width=120)
    print_finding(out, 1, finding)
    lines = text_of(out).splitlines()
    assert len(lines) == 6
    assert sum("a\\x1b[31m\\nPASS" in line for line in lines) == 5


def test_names_give_the_terminal_no_orders() -> None:
    assert plain("\x1b[31mred\x07\x9b").plain == "\\x1b[31mred\\x07\\x9b"
    assert verdict_line("pass", "a\x1bb").plain == "PASS  a\\x1bb"
    assert one_line("a\nb") == "a\\nb"
