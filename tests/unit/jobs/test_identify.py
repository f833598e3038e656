"""``parity.identify``: files and callables to reports."""

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from parity.errors import InputError
from parity.functions import variant
from parity.jobs.identify import identify, read_samples


def gelu(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return variant("gelu_erf").value(x).astype(x.dtype)


def half_table(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gelu(x.astype(np.float16)).astype(x.dtype)


X = np.random.default_rng(0).standard_normal(1_000)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_callable(dtype: str) -> None:
    report = identify(gelu, dtype=dtype)
    assert (report.verdict, report.variant, report.nearest) == ("pass", "gelu_erf", "gelu_erf")
    assert report.summary.startswith("gelu is gelu_erf: ")
    assert report.findings == ()
    assert report.margin > 6
    assert report.effective_bits == pytest.approx(
        {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype], abs=0.2
    )


def test_what_is_nothing_known_is_a_mismatch_with_the_nearest_and_how_far() -> None:
    report = identify(half_table)
    assert (report.verdict, report.variant, report.nearest) == ("mismatch", None, "gelu_erf")
    (finding,) = report.findings
    assert (finding.rule, finding.severity, finding.expected) == ("activation-unknown", "error", "gelu_erf")
    assert finding.evidence["residual_ulp"] == report.residual_ulp > 100
    assert 10 < report.effective_bits < 13


def test_inputs_that_tell_nothing_are_inconclusive(tmp_path: Path) -> None:
    x = np.linspace(8, 12, 500, dtype=np.float32)
    np.savez(tmp_path / "s.npz", x=x, y=gelu(x))
    report = identify(tmp_path / "s.npz")
    assert (report.verdict, report.variant) == ("inconclusive", None)
    assert {"relu", "gelu_tanh"} <= {report.nearest, *report.ambiguous}
    (finding,) = report.findings
    assert (finding.rule, finding.severity) == ("activation-unknown", "warning")
    assert "both sides of 0" in finding.fix


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_files_keep_the_dtype(tmp_path: Path, dtype: type, suffix: str) -> None:
    path = tmp_path / f"s{suffix}"
    arrays = {"x": X.astype(dtype).reshape(10, 100), "y": gelu(X.astype(dtype)).reshape(10, 100)}
    if suffix == ".npz":
        np.savez_compressed(path, other=np.array(["text"]), **arrays)
        if dtype is ml_dtypes.bfloat16:
            with pytest.raises(InputError, match="safetensors"):
                read_samples(path)
            return
    else:
        save_file({**arrays, "other": np.arange(3)}, path)
    x, y = read_samples(path)
    assert (x.dtype, y.dtype, x.shape) == (np.dtype(dtype), np.dtype(dtype), (10, 100))
    assert y.tobytes() == arrays["y"].tobytes()
    report = identify(path)
    assert report.variant == "gelu_erf"
    assert report.coverage["elements"] <= 1_000
    assert report.summary.startswith(f"{path} is gelu_erf")


def test_foreign_byte_order_in_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=X.astype(">f4"), y=gelu(X.astype(np.float32)).astype(">f4"))
    assert read_samples(tmp_path / "s.npz")[0].dtype == np.float32
    assert identify(tmp_path / "s.npz").variant == "gelu_erf"


def test_a_gated_file(tmp_path: Path) -> None:
    pairs = X.astype(np.float32).reshape(-1, 2)
    save_file({"x": pairs, "y": variant("swiglu").value(pairs).astype(np.float32)}, tmp_path / "s.safetensors")
    assert identify(tmp_path / "s.safetensors").variant == "swiglu"


@pytest.mark.parametrize("target", ["numpy:tanh", "np:tanh"])
def test_a_function_of_a_package(target: str) -> None:
    report = identify(target)
    assert report.variant == "tanh"
    assert set(report.environment["adapters"]) == {"numpy"}
    assert report.summary.startswith(f"{target} in float32 is tanh")


@pytest.mark.parametrize(
    ("name", "variant_"),
    [("relu", "relu"), ("Layer", "leaky_relu[negative_slope=0.2]"),
     ("inner.quick", "quick_gelu"), ("layer", "leaky_relu[negative_slope=0.2]")],
)  # fmt: skip
def test_a_function_in_a_file(tmp_path: Path, name: str, variant_: str) -> None:
    (tmp_path / "neighbour.py").write_text("slope = 0.2\n")
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom neighbour import slope\n"
        "def relu(x): return np.maximum(x, 0)\n"
        "class Layer:\n    def __call__(self, x): return np.where(x > 0, x, x * slope)\n"
        "layer = Layer()\n"
        "class inner:\n    quick = staticmethod(lambda x: x / (1 + np.exp(-1.702 * x)))\n"
    )
    assert identify(f"{tmp_path}/mine.py:{name}").variant == variant_


def test_a_module_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_mine.py").write_text(
        "import numpy as np\nfrom json import dumps\nsilu = lambda x: x / (1 + np.exp(-x))\n"
    )
    (tmp_path / "json.py").write_text("raise SystemExit('imported the wrong file')")
    monkeypatch.chdir(tmp_path)
    assert identify("of_mine:silu").variant == "silu"


def test_a_report_holds_the_numbers_of_the_identification() -> None:
    report = identify(gelu)
    assert math.isfinite(report.standard_error)
    assert report.margin == pytest.approx((1 - report.coefficient) / report.standard_error)
    assert report.runner_up == "gelu_tanh"
    assert report.max_residual_ulp >= report.residual_ulp
    assert report.ambiguous == ()


@pytest.mark.parametrize("function", [lambda x: x[:-1], lambda x: x.astype(int), lambda x: None])
def test_a_callable_that_is_no_activation(function) -> None:
    with np.errstate(all="ignore"), pytest.raises(InputError):
        identify(function)
