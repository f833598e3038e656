"""``parity suite`` on adapters of other people: what they do wrong becomes rows, findings and exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.jobs.suite import SuiteReport
from parity.jobs.suite import suite as run_suite

FAST = ("--dtype", "float32", "--implementation", "same.*", "--implementation", "np.tanh", "--timeout", "60")
"""Of numpy one implementation; of the adapters made here all."""


def no_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture
def suite(parity):
    """Runs ``parity suite --format json`` on some adapters: the exit code and the document."""

    def run(*adapters: str, options: tuple[str, ...] = FAST) -> tuple[int, dict[str, Any]]:
        chosen = [word for name in adapters for word in ("--adapter", name)]
        code, out, err = parity("suite", *chosen, *options, "--format", "json")
        assert "Traceback" not in err
        return code, json.loads(out, parse_constant=no_constant)

    return run


def rows_of(document: dict[str, Any], implementation: str, **wanted: Any) -> list[dict[str, Any]]:
    return [
        row
        for row in document["results"]
        if row["implementation"] == implementation and all(row[name] == value for name, value in wanted.items())
    ]


def rules_of(document: dict[str, Any], place: str) -> list[tuple[str, str]]:
    return [(one["rule"], one["severity"]) for one in document["findings"] if one["location"]["candidate"] == place]


def numpy_is_whole(document: dict[str, Any]) -> bool:
    return {row["regime"] for row in rows_of(document, "np.tanh")} == {
        "dense",
        "normal",
        "tails",
        "subnormal",
        "special",
    }


def test_an_adapter_of_somebody_elses_works_beside_ours(suite, offer) -> None:
    offer(
        "toy",
        "[row('same.relu[inplace=False] (eager)', gradient=lambda x: (x > 0).astype(x.dtype), default_of='relu')]",
    )
    code, document = suite("numpy", "toy")
    assert (code, document["verdict"]) == (0, "pass")
    dense = rows_of(document, "same.relu[inplace=False] (eager)", regime="dense")
    assert len(dense) == 1
    assert dense[0] | {"count": 0, "worst_x": 0, "reason": ""} == dense[0] | {
        "adapter": "toy", "declared": "relu", "identified": "relu", "dtype": "float32", "max_ulp": 0.0, "mean_ulp": 0.0,
        "max_abs": 0.0, "gradient_max_abs": 0.0, "nonfinite": 0, "exhaustive": False, "status": "pass",
        "count": 0, "worst_x": 0, "reason": "",
    }  # fmt: skip
    assert document["defaults"]["same.relu[inplace=False]"] == "relu"
    assert document["environment"]["adapters"]["toy"] == {"toy": "1.0"}
    assert document["coverage"]["adapters"] == ["numpy", "toy"]
    assert numpy_is_whole(document)


CONTRACT = {
    "schema": str, "command": str, "verdict": str, "summary": str, "findings": list, "coverage": dict,
    "environment": dict, "results": list, "defaults": dict,
}  # fmt: skip
ROW = {
    "adapter", "implementation", "declared", "identified", "dtype", "regime", "exhaustive", "count", "max_ulp",
    "mean_ulp", "max_abs", "gradient_max_abs", "status",
}  # fmt: skip
FINDING = {"rule", "severity", "message", "fix", "location", "expected", "observed", "evidence"}


def test_the_document_keeps_the_contract(suite, offer) -> None:
    offer("toy", "[row('same.wrong', declared='gelu_erf'), row('same.nan', lambda x: relu(x) / (x != 1))]")
    code, document = suite("numpy", "toy")
    assert code == 1
    assert {name: type(document[name]) for name in CONTRACT} == CONTRACT
    assert (document["schema"], document["command"]) == ("framework-parity/1", "suite")
    assert all(set(row) >= ROW for row in document["results"])
    assert document["findings"]
    assert all(set(one) >= FINDING for one in document["findings"])
    assert all(one["severity"] in ("error", "warning", "note") for one in document["findings"])


FAULTS = {
    # row, rule, severity, what is said
    "another": ("declared='gelu_erf'", "activation-variant", "error", "declares gelu_erf and computes relu"),
    "tanh": (
        "exact('gelu_tanh'), declared='gelu_erf'", "activation-variant", "error",
        "declares gelu_erf and computes gelu_tanh",
    ),
    "square": ("lambda x: x * x", "activation-unknown", "error", "computes no known variant"),
    "constant": ("lambda x: x * 0 + 7", "activation-unknown", "error", "computes no known variant"),
    "nan_at_1": (
        "lambda x: np.where(x == 1, np.float32('nan'), relu(x))", "overflow", "error",
        "is not finite at x = 1, within |x| <= 20",
    ),
    "infinite_beyond_100": (
        "lambda x: np.where(np.abs(x) > 100, np.float32('inf'), relu(x))", "overflow", "warning",
        "is not finite from |x| = 10",
    ),
    "nan_at_infinity": (
        "lambda x: np.where(x == np.inf, np.float32('nan'), relu(x))", "overflow", "warning",
        "gives NaN at +inf (exact: inf)",
    ),
    "zero_at_nan": (
        "lambda x: np.where(np.isnan(x), np.float32(0), relu(x))", "overflow", "warning", "gives 0 at NaN (exact: NaN)",
    ),
    "inaccurate": ("lambda x: relu(x) * np.float32(1 + 4.5e-7)", "precision", "warning", "(class kernel: 6)"),
    "wrong_gradient": ("gradient=lambda x: x * 0", "precision", "warning", "has a gradient off by"),
    "nan_gradient": (
        "gradient=lambda x: np.where(x == 2, np.float32('nan'), (x > 0).astype(x.dtype))", "overflow", "warning",
        "has a gradient that is not finite at x = 2",
    ),
}  # fmt: skip

UNUSABLE = {
    "short": ("lambda x: x[:-1]", "returned shape"),
    "one_more_axis": ("lambda x: x[:, None]", "returned shape"),
    "scalar": ("lambda x: x.sum()", "returned shape ()"),
    "list": ("lambda x: list(x)", "AttributeError"),
    "none": ("lambda x: None", "AttributeError"),
    "raises": ("lambda x: 1 // 0", "ZeroDivisionError"),
    "short_gradient": ("relu, gradient=lambda x: x[:-1]", "Error: "),
}


@pytest.fixture(scope="module")
def faulty(offer_once) -> SuiteReport:
    """One run on an adapter that has every fault, beside numpy."""
    bodies = {name: fault[0] for name, fault in FAULTS.items()} | {name: body for name, (body, _) in UNUSABLE.items()}
    rows = ", ".join(f"row('same.{name}', {body})" for name, body in bodies.items())
    offer_once("faulty", f"[{rows}, row('same.good')]")
    return run_suite(adapters=["numpy", "faulty"], dtypes=["float32"], implementations=["same.*", "np.tanh"])


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_finding(faulty: SuiteReport, name: str) -> None:
    _, rule, severity, said = FAULTS[name]
    own = [one for one in faulty.findings if one.location["candidate"] == f"faulty: same.{name}"]
    (finding,) = [one for one in own if said in one.message]
    assert (finding.rule, finding.severity) == (rule, severity)
    assert finding.message.startswith(f"same.{name} ")
    assert finding.expected in ("relu", "gelu_erf")
    status = "mismatch" if severity == "error" else "warning"
    assert {row.status for row in faulty.results if row.implementation == f"same.{name}"} == {status}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_result_that_cannot_be_used_is_a_row_with_a_reason(faulty: SuiteReport, name: str) -> None:
    (row,) = [row for row in faulty.results if row.implementation == f"same.{name}"]
    assert row.status == "unsupported" or (row.status, name) == ("failed", "short_gradient")
    assert UNUSABLE[name][1] in row.reason


def test_faults_of_some_do_not_touch_the_rest(faulty: SuiteReport) -> None:
    assert {row.status for row in faulty.results if row.implementation == "same.good"} == {"pass"}
    assert sum(row.count > 0 for row in faulty.results if row.implementation == "np.tanh") == 5
    assert not [one for one in faulty.findings if one.location["candidate"] == "faulty: same.good"]
    assert faulty.verdict == "mismatch"


def test_warnings_alone_pass(parity, offer) -> None:
    offer("toy", f"[row('same.f', {FAULTS['infinite_beyond_100'][0]})]")
    code, out, _ = parity("suite", "--adapter", "toy", *FAST)
    assert code == 0
    assert "is not finite from |x| = 10" in out


@pytest.mark.parametrize(
    "function",
    [
        "lambda x: x.astype(complex)", "lambda x: x.astype(int)", "lambda x: x.astype(object)",
        "lambda x: x * np.float32('nan')",
    ],
)  # fmt: skip
def test_a_result_of_another_kind_of_number_does_not_end_the_suite(suite, offer, function: str) -> None:
    offer("toy", f"[row('same.bad', {function}), row('same.good')]")
    code, document = suite("toy")
    assert {row["status"] for row in rows_of(document, "same.bad")} <= {"unsupported", "mismatch", "failed"}
    assert rows_of(document, "same.good", regime="dense", status="pass")
    assert code in (0, 1, 4)


def test_another_dtype_than_was_given_is_measured_in_that_dtype(suite, offer) -> None:
    offer("toy", "[row('same.wide', lambda x: exact('gelu_erf')(x.astype(np.float64)), declared='gelu_erf')]")
    code, document = suite("toy")
    assert code == 0
    assert rows_of(document, "same.wide", regime="dense")[0]["identified"] == "gelu_erf"


def test_what_is_not_installed_is_a_note_and_no_failure(suite, offer) -> None:
    offer("lacking", requires="nowhere-to-be-found>=1")
    code, document = suite("numpy", "lacking")
    assert code == 0
    (row,) = [one for one in document["results"] if one["adapter"] == "lacking"]
    assert row["status"] == "not-installed"
    assert 'pip install "outside-lacking[lacking]"' in row["reason"]
    assert document["coverage"]["not_installed"] == ["lacking"]
    assert document["verdict"] == "pass"


def test_nothing_but_what_is_not_installed_is_no_pass(suite, offer) -> None:
    offer("lacking", requires="nowhere-to-be-found>=1")
    code, document = suite("lacking")
    assert (code, document["verdict"]) == (3, "inconclusive")


def test_filters_take_names_with_brackets_and_wildcards(suite, offer) -> None:
    offer("toy", "[row('same.f[a=1]'), row('same.f[a=2]'), row('same.g', declared='identity', function=same)]")
    for options, names in (
        (("--implementation", "same.f[a=1]"), {"same.f[a=1]"}),
        (("--implementation", "same.f[a=?]"), {"same.f[a=1]", "same.f[a=2]"}),
        (("--variant", "identity"), {"same.g"}),
        (("--variant", "i*"), {"same.g"}),
        (("--implementation", "same.g", "--regime", "dense", "--regime", "special"), {"same.g"}),
    ):
        code, document = suite("toy", options=options)
        assert code == 0
        assert {row["implementation"] for row in document["results"]} == names
        if "--regime" in options:
            assert {row["regime"] for row in document["results"]} == {"dense", "special"}


def test_sixteen_bit_dtypes_are_tried_over_every_number(suite, offer) -> None:
    offer("toy", "[row('same.f', dtypes=('float16', 'bfloat16'))]")
    code, document = suite("toy", options=())
    assert code == 0
    for dtype in ("float16", "bfloat16"):
        (row,) = rows_of(document, "same.f", regime="all", dtype=dtype)
        assert (row["count"], row["exhaustive"]) == (2**16, True)
        assert rows_of(document, "same.f", regime="normal", dtype=dtype)[0]["exhaustive"] is False


def test_the_text_report(parity, offer) -> None:
    offer("toy", "[row('same.f[approximate=tanh] (compile)', default_of='gelu'), row('same.wrong', declared='silu')]")
    code, out, err = parity("suite", "--adapter", "numpy", "--adapter", "toy", *FAST)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert any("same.f[approximate=tanh] (compile)" in line and "relu" in line for line in lines)
    assert "declares silu and computes relu" in out
    assert lines[-1].startswith("MISMATCH  ")
    assert "\x1b" not in out, "colour is for terminals"
    assert "[/" not in out
    assert "[bold" not in out


def test_quiet_is_one_sentence(parity, offer) -> None:
    offer("toy")
    code, out, err = parity("suite", "--adapter", "toy", *FAST, "--quiet")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert "all compute the variant that is declared" in out


def test_output_writes_the_file_and_says_the_verdict(parity, offer, tmp_path: Path) -> None:
    offer("toy")
    path = tmp_path / "report.json"
    code, out, err = parity("suite", "--adapter", "toy", *FAST, "--format", "json", "--output", path)
    assert (code, out) == (0, "")
    assert err.startswith("PASS  ")
    assert json.loads(path.read_text(), parse_constant=no_constant)["verdict"] == "pass"
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


def test_the_installed_command_in_a_users_folder_full_of_namesakes(offer, tmp_path: Path) -> None:
    offer("toy")
    for name in ("numpy.py", "json.py", "parity.py", "click.py", "safetensors.py"):
        (tmp_path / name).write_text("raise SystemExit('imported the wrong file')")
    command = [str(Path(sys.executable).with_name("parity")), "suite", "--adapter", "toy", *FAST, "--quiet"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert not np.any([word in run.stdout for word in ("wrong", "Traceback")])
