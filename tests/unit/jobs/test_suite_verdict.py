"""The rules of the suite's verdict: each is triggered by what it is about, and a near miss does not."""

from dataclasses import replace
from typing import Any

import pytest

from parity.errors import EngineError
from parity.findings import Finding
from parity.jobs.suite_verdict import (
    ACCURACY_ULP,
    CHECKS,
    GRADIENT_ULP,
    another_variant,
    finding_of_failure,
    findings_of,
    flushes_subnormals,
    gradient_less_accurate,
    gradient_not_finite_at_core,
    gradient_overflows_beyond,
    judged,
    less_accurate_than_its_class,
    loses_the_tail,
    not_finite_at_core,
    overflows_beyond,
    wrong_at_special,
)
from parity.measure.activation import Profile
from parity.worker import WorkerDiedError, WorkerHungError

FAULTLESS = Profile(
    adapter="toy", implementation="toy.gelu[approximate=none]", declared="gelu_erf", identified="gelu_erf",
    dtype="float32", accuracy="kernel", default_of=None, nearest="gelu_erf", reason="it fits", scaled_ulp=(0.6, 1.0),
    beyond_ulp=(0.0, 30.0),
    max_ulp=(0.9, -3.0), lost_below=None, flushes=False, nonfinite_core=None, nonfinite_beyond=None, special=(),
    gradient_ulp=(2.0, 0.5), gradient_core=None, gradient_beyond=None,
)  # fmt: skip


def with_(**changes: Any) -> Profile:
    return replace(FAULTLESS, **changes)


KERNEL = ACCURACY_ULP["kernel", 64]
KERNEL_16 = ACCURACY_ULP["kernel", 16]
COMPOSED_16 = ACCURACY_ULP["composed", 16]
EXACT = ACCURACY_ULP["exact", 64]

TABLE = [
    # check, what triggers it, rule, severity, what is said, near misses
    (
        another_variant, {"identified": "gelu_tanh"}, "activation-variant", "error",
        "declares gelu_erf and computes gelu_tanh",
        [{"declared": "gelu_tanh", "identified": "gelu_tanh"}, {"nearest": "gelu_tanh"}],
    ),
    (
        another_variant, {"identified": None, "reason": "nothing fits"}, "activation-unknown", "error",
        "computes no known variant (nothing fits)", [{"reason": "nothing fits"}],
    ),
    (
        another_variant, {"declared": "leaky_relu", "identified": "leaky_relu[negative_slope=0.2]"},
        "activation-variant", "error", "declares leaky_relu and computes leaky_relu[negative_slope=0.2]",
        [{"declared": "leaky_relu[negative_slope=0.2]", "identified": "leaky_relu[negative_slope=0.2]"}],
    ),
    (
        not_finite_at_core, {"nonfinite_core": -19.5}, "overflow", "error",
        "is not finite at x = -19.5, within |x| <= 20", [{"nonfinite_beyond": -20.5}, {"gradient_core": 1.0}],
    ),
    (not_finite_at_core, {"nonfinite_core": 0.0}, "overflow", "error", "is not finite at x = 0", [{}]),
    (
        gradient_not_finite_at_core, {"gradient_core": 1.5}, "overflow", "warning",
        "has a gradient that is not finite at x = 1.5", [{"nonfinite_core": 1.5}, {"gradient_beyond": 30.0}],
    ),
    (
        wrong_at_special, {"special": [("+inf", "inf", "NaN"), ("NaN", "NaN", "0")]}, "overflow", "warning",
        "gives NaN at +inf (exact: inf), 0 at NaN (exact: NaN)", [{"special": []}],
    ),
    (
        overflows_beyond, {"nonfinite_beyond": -148.0}, "overflow", "warning", "is not finite from |x| = 148",
        [{"gradient_beyond": 148.0}],
    ),
    (
        gradient_overflows_beyond, {"gradient_beyond": -21.0}, "overflow", "warning",
        "has a gradient that is not finite from |x| = 21", [{"nonfinite_beyond": 21.0}],
    ),
    (
        less_accurate_than_its_class, {"scaled_ulp": (1.01 * KERNEL, 2.5)}, "precision", "warning",
        "ulp at x = 2.5 (class kernel: 6)", [{"scaled_ulp": (KERNEL, 2.5)}, {"max_ulp": (1e9, -19.0)}],
    ),
    (
        less_accurate_than_its_class, {"scaled_ulp": (1.01 * KERNEL_16, 2.5), "dtype": "bfloat16"}, "precision",
        "warning", "class kernel: 1",
        [
            {"scaled_ulp": (KERNEL_16, 2.5), "dtype": "bfloat16"}, {"scaled_ulp": (1.01 * KERNEL_16, 2.5)},
            {"scaled_ulp": (COMPOSED_16, 2.5), "dtype": "float16", "accuracy": "composed"},
        ],
    ),
    (
        less_accurate_than_its_class, {"max_ulp": (1.01 * EXACT, 2.5), "accuracy": "exact"}, "precision", "warning",
        "class exact: 1", [{"max_ulp": (EXACT, 2.5), "accuracy": "exact"}, {"max_ulp": (1.01 * EXACT, 2.5)}],
    ),
    (
        gradient_less_accurate, {"gradient_ulp": (1.01 * GRADIENT_ULP[64], 0.25)}, "precision", "warning",
        "has a gradient off by 32.3 ulp at x = 0.25",
        [{"gradient_ulp": (GRADIENT_ULP[64], 0.25)}, {"gradient_ulp": None}],
    ),
    (
        loses_the_tail, {"lost_below": -5.5}, "precision", "note", "gives 0 at x = -5.5", [{"nonfinite_core": -5.5}],
    ),
    (flushes_subnormals, {"flushes": True}, "precision", "note", "flushes subnormal numbers to 0", [{}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "fault", "rule", "severity", "said", "near"), TABLE, ids=[f"{row[0].__name__}-{row[4]}" for row in TABLE]
)
def test_each_check(  # noqa: PLR0917 – a table
    check, fault: dict[str, Any], rule: str, severity: str, said: str, near: list[dict[str, Any]]
) -> None:
    found = check(with_(**fault))
    assert found is not None
    assert (found.rule, found.severity) == (rule, severity)
    assert said in found.message
    assert found.location == {"candidate": "toy: toy.gelu[approximate=none]"}
    assert check in CHECKS
    for miss in near:
        assert check(with_(**miss)) is None, miss


def test_every_check_is_in_the_table() -> None:
    assert {row[0] for row in TABLE} == set(CHECKS)


def test_a_faultless_profile_has_no_findings() -> None:
    assert findings_of([FAULTLESS]) == []
    assert judged([FAULTLESS]) == {("toy", "toy.gelu[approximate=none]", "float32"): "pass"}


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({"identified": "silu"}, "mismatch"),
        ({"nonfinite_core": 1.0, "flushes": True}, "mismatch"),
        ({"nonfinite_beyond": 100.0}, "warning"),
        ({"nonfinite_beyond": 100.0, "flushes": True}, "warning"),
        ({"flushes": True}, "pass"),
        ({"lost_below": -6.0}, "pass"),
    ],
)
def test_the_worst_finding_is_the_status(fault: dict[str, Any], status: str) -> None:
    assert list(judged([with_(**fault)]).values()) == [status]


def one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_what_holds_in_some_dtypes_is_said_of_those_alone() -> None:
    """F.gelu(+inf) is NaN on the oneDNN path, in float32 and bfloat16 only (measured on torch 2.13 CPU)."""
    nan = {"special": [("+inf", "inf", "NaN")]}
    profiles = [
        with_(dtype="float64"), with_(dtype="float32", **nan), with_(dtype="float16"), with_(dtype="bfloat16", **nan),
    ]  # fmt: skip
    finding = one(findings_of(profiles))
    assert finding.message == "toy.gelu[approximate=none] gives NaN at +inf (exact: inf) in float32, bfloat16."
    assert {"float32", "bfloat16"} <= set(finding.evidence)
    assert not {"float64", "float16"} & set(finding.evidence)
    assert list(judged(profiles).values()) == ["pass", "warning", "pass", "warning"]


def test_what_differs_by_dtype_is_said_for_each() -> None:
    finding = one(
        findings_of([with_(dtype="float16", nonfinite_beyond=148.0), with_(dtype="bfloat16", nonfinite_beyond=1e13)])
    )
    assert finding.message == (
        "toy.gelu[approximate=none] is not finite from |x| = 148 in float16; "
        "is not finite from |x| = 1e+13 in bfloat16."
    )


def test_findings_of_several_dtypes_take_the_worst_severity_and_kind() -> None:
    finding = one(
        findings_of([with_(dtype="float64", identified="gelu_tanh"), with_(dtype="float16", identified=None)])
    )
    assert finding.severity == "error"
    assert "computes gelu_tanh" in finding.message
    assert "no known variant" in finding.message


def test_different_implementations_and_different_kinds_are_different_findings() -> None:
    faults = {"nonfinite_beyond": 50.0, "special": [("NaN", "NaN", "0")]}
    profiles = [
        with_(implementation="b", **faults), with_(implementation="a", **faults), with_(adapter="aa", **faults),
    ]  # fmt: skip
    places = [finding.location["candidate"] for finding in findings_of(profiles)]
    assert places == ["aa: toy.gelu[approximate=none]"] * 2 + ["toy: a"] * 2 + ["toy: b"] * 2


@pytest.mark.parametrize(
    ("begun", "error", "place", "said"),
    [
        (("f[a=1]", "float16", "relu"), WorkerDiedError("It died.", hint="x"), "toy: f[a=1]", "f[a=1] in float16"),
        (None, WorkerHungError("It hung."), "toy", "It hung."),
        (None, EngineError("It failed."), "toy", "It failed."),
    ],
)  # fmt: skip
def test_a_failed_worker(begun: tuple[str, str, str] | None, error: EngineError, place: str, said: str) -> None:
    finding = finding_of_failure("toy", begun, error)
    assert (finding.rule, finding.severity) == ("unexplained", "warning")
    assert finding.location == {"candidate": place}
    assert said in finding.message
    assert finding.evidence["status"] == error.status
    assert finding.fix == error.hint
