"""``parity diff --write-fix``: the candidate's file with what can be mended in it, each cause by a file of its own."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parity
from parity import DiffOptions
from parity.errors import InputError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import checker, external_data_helper, numpy_helper, parser  # noqa: E402

Make = Callable[[str], Any]

ERF = (
    "s{n} = Div (h{n}, root2) e{n} = Erf (s{n}) p{n} = Add (e{n}, one) m{n} = Mul (h{n}, p{n}) g{n} = Mul (m{n}, half)"
)
TANH = (
    "c{n} = Pow (h{n}, three) t{n} = Mul (c{n}, cubic) u{n} = Add (h{n}, t{n}) v{n} = Mul (u{n}, root2pi) "
    "z{n} = Tanh (v{n}) p{n} = Add (z{n}, one) m{n} = Mul (h{n}, p{n}) g{n} = Mul (half, m{n})"
)
SCALARS = {
    "root2": 2**0.5,
    "one": 1.0,
    "half": 0.5,
    "three": 3.0,
    "cubic": 0.044715,
    "root2pi": (2 / np.pi) ** 0.5,
    "eps": 1e-5,
    "eps3": 1e-3,
    "scale": 8**-0.5,
    "eighth": 0.125,
    "fill": -1e4,
    "fill9": -50.0,
}
SHAPES = {"w0": (8, 16), "w1": (16, 8), "w2": (8, 8), "w3": (8, 16), "filter": (3, 2, 3, 3)}


def model(body: str, *, opset: int = 17, x: str = "batch, 4, 8", y: str = "", dtype: str = "float") -> Any:
    """A graph from ``x`` to ``y`` in ONNX's text form, with the weights and scalars that it reads."""
    made = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": {opset}]> g ({dtype}[{x}] x) => ({dtype}[{y or x}] y) {{ {body} }}'
    )
    random = np.random.default_rng(3)
    kind = np.float16 if dtype == "float16" else np.float32
    known = {name: np.array(value, kind) for name, value in SCALARS.items()}
    known |= {name: random.standard_normal(shape).astype(kind) * kind(0.5) for name, shape in SHAPES.items()}
    known["mask"] = np.where(np.tri(4) > 0, 0.0, 1.0).astype(kind)
    known["pads"] = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    known["sizes"] = np.array([1, 1, 2, 2], np.float32)
    read = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(numpy_helper.from_array(known[name], name) for name in known if name in read)
    return made


def blocks(
    activation: str, *, norm: str = "LayerNormalization <epsilon = 0.00001>", count: int = 3, **kwargs: Any
) -> Any:
    """Blocks of a norm, two products and an activation between; the last one makes ``y``."""
    body = ""
    for n in range(count):
        source, target = "x" if n == 0 else f"r{n - 1}", "y" if n == count - 1 else f"r{n}"
        body += f"n{n} = {norm} ({source}, ones) h{n} = MatMul (n{n}, w0) {activation.format(n=n)} "
        body += f"q{n} = MatMul (g{n}, w1) {target} = Add ({source}, q{n}) "
    made = model(body, **kwargs)
    kind = onnx.helper.tensor_dtype_to_np_dtype(made.graph.input[0].type.tensor_type.elem_type)
    made.graph.initializer.append(numpy_helper.from_array(np.ones(8, kind), "ones"))
    return made


def repaired(reference: Any, candidate: Any, folder: Path, x: Any, **options: Any) -> tuple[Any, Any]:
    """The report, and the mended model."""
    asked = DiffOptions(write_fix=folder / "mended.onnx", **options)
    report = parity.diff(reference, candidate, {"x": x}, options=asked)
    assert report.verdict == "mismatch"
    assert report.repair is not None
    mended = None
    if report.repair.file:
        checker.check_model(str(folder / "mended.onnx"))
        mended = onnx.load(folder / "mended.onnx")
    return report, mended


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


ATTENTION = (
    "k = Transpose <perm = [0, 2, 1]> (x) s = MatMul (x, k) c = Mul (s, {}) {} p = Softmax (m) y = MatMul (p, x)"
)
IMAGES = {"x": "batch, 2, 6, 6", "y": "batch, c, h, w"}

CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "gelu-attribute": (
        blocks('g{n} = Gelu <approximate = "none"> (h{n})', opset=20),
        blocks('g{n} = Gelu <approximate = "tanh"> (h{n})', opset=20),
        normal(2, 4, 8),
        "activation-variant",
    ),
    "gelu-chain": (blocks(ERF), blocks(TANH), normal(2, 4, 8), "activation-variant"),
    "gelu-chain-to-tanh": (blocks(TANH), blocks(ERF), normal(2, 4, 8), "activation-variant"),
    "silu-for-relu": (
        blocks("i{n} = Sigmoid (h{n}) g{n} = Mul (h{n}, i{n})"),
        blocks("g{n} = Relu (h{n})"),
        normal(2, 4, 8),
        "activation-variant",
    ),
    "gated": (
        blocks("i{n} = Sigmoid (h{n}) a{n} = Mul (h{n}, i{n}) d{n} = MatMul (n{n}, w3) g{n} = Mul (d{n}, a{n})"),
        blocks(ERF.replace("g{n} =", "a{n} =") + " d{n} = MatMul (n{n}, w3) g{n} = Mul (d{n}, a{n})"),
        normal(2, 4, 8),
        "activation-variant",
    ),
    "leaky-slope": (
        blocks("g{n} = LeakyRelu <alpha = 0.2> (h{n})"),
        blocks("g{n} = LeakyRelu <alpha = 0.01> (h{n})"),
        normal(2, 4, 8),
        "activation-parameter",
    ),
    "elu-alpha": (
        blocks("g{n} = Elu <alpha = 0.5> (h{n})"),
        blocks("g{n} = Elu (h{n})"),
        normal(2, 4, 8),
        "activation-parameter",
    ),
    "epsilon-attribute": (
        blocks(ERF),
        blocks(ERF, norm="LayerNormalization <epsilon = 0.001>"),
        normal(2, 4, 8) * np.float32(0.1),
        "normalization-epsilon",
    ),
    "epsilon-constant": (
        model("s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) a = Add (m, eps) r = Sqrt (a) y = Div (x, r)"),
        model("s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) a = Add (m, eps3) r = Sqrt (a) y = Div (x, r)"),
        normal(2, 4, 8) * np.float32(0.1),
        "normalization-epsilon",
    ),
    "epsilon-missing": (
        model("s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) a = Add (m, eps3) r = Sqrt (a) y = Div (x, r)"),
        model("s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) r = Sqrt (m) y = Div (x, r)"),
        normal(2, 4, 8) * np.float32(0.1),
        "normalization-epsilon",
    ),
    "attention-scale": (
        model(ATTENTION.format("scale", "m = Identity (c)")),
        model(ATTENTION.format("eighth", "m = Identity (c)")),
        normal(2, 4, 8),
        "attention-scale",
    ),
    "attention-scale-missing": (
        model(ATTENTION.format("scale", "m = Identity (c)")),
        model(ATTENTION.replace("c = Mul (s, {})", "").format("m = Identity (s)")),
        normal(2, 4, 8),
        "attention-scale",
    ),
    "mask-fill": (
        model(ATTENTION.format("scale", "f = Mul (mask, fill) m = Add (c, f)"), x="batch, 4, 8"),
        model(ATTENTION.format("scale", "f = Mul (mask, fill9) m = Add (c, f)"), x="batch, 4, 8"),
        normal(2, 4, 8) * np.float32(6),
        "attention-mask",
    ),
    "softmax-axis": (
        model("p = Softmax <axis = -1> (x) y = MatMul (p, w2)"),
        model("p = Softmax <axis = 1> (x) y = MatMul (p, w2)"),
        normal(2, 4, 8),
        "softmax-axis",
    ),
    "pooling": (
        model("y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (x)", **IMAGES),
        model("y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)", **IMAGES),
        normal(2, 2, 6, 6),
        "pooling-divisor",
    ),
    "resize": (
        model('y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x,,sizes)', **IMAGES),
        model('y = Resize <mode = "linear"> (x,,sizes)', **IMAGES),
        normal(2, 2, 6, 6),
        "resize-coordinates",
    ),
    "padding-of-a-convolution": (
        model("y = Conv <strides = [2, 2], pads = [0, 0, 1, 1]> (x, filter)", **IMAGES),
        model('y = Conv <strides = [2, 2], auto_pad = "SAME_LOWER"> (x, filter)', **IMAGES),
        normal(2, 2, 6, 6),
        "padding",
    ),
    "padding-mode": (
        model('p = Pad <mode = "reflect"> (x, pads) y = Conv (p, filter)', **IMAGES),
        model("p = Pad (x, pads) y = Conv (p, filter)", **IMAGES),
        normal(2, 2, 6, 6),
        "padding",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_mended_at_all_of_its_places(name: str, tmp_path: Path) -> None:
    reference, candidate, x, rule = CASES[name]
    report, mended = repaired(reference, candidate, tmp_path, x)
    assert rule in {finding.rule for finding in report.findings}
    assert report.repair.verdict == "pass", report.repair
    assert report.repair.left == []
    assert report.repair.edits
    assert all(row.max_abs < 1e-4 for row in report.repair.outputs)
    assert mended.ir_version == 9
    assert [path.name for path in tmp_path.iterdir()] == ["mended.onnx"]


def test_live_models_and_float16(tmp_path: Path) -> None:
    """Constants are of the graph's own type; the user's object stays what it was."""
    reference, candidate = blocks(ERF), blocks("g{n} = Relu (h{n})", dtype="float16")
    before = candidate.SerializeToString()
    options = DiffOptions(write_fix=tmp_path / "mended.onnx")
    report = parity.diff(reference, candidate, {"x": normal(2, 4, 8)}, options=options)
    assert report.repair is not None
    assert report.repair.verdict == "pass"
    assert len(report.repair.edits) == 3
    assert candidate.SerializeToString() == before
    mended = onnx.load(tmp_path / "mended.onnx")
    assert {tensor.data_type for tensor in mended.graph.initializer} == {onnx.TensorProto.FLOAT16}
    assert [node.op_type for node in mended.graph.node].count("Erf") == 3


def test_a_constant_that_others_read_stays_theirs(tmp_path: Path) -> None:
    body = (
        "s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) a = Add (m, {}) r = Sqrt (a) d = Div (x, r) y = Mul (d, eps3)"
    )
    x = normal(2, 4, 8) * np.float32(0.1)
    report, mended = repaired(model(body.format("eps")), model(body.format("eps3")), tmp_path, x)
    assert report.repair.verdict == "pass"
    numbers = {one.name: numpy_helper.to_array(one).item() for one in mended.graph.initializer}
    assert numbers == {"eps3": pytest.approx(1e-3), "eps3/mended": pytest.approx(1e-5)}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_weights_in_external_data(tmp_path: Path, *, elsewhere: bool) -> None:
    """What is mended is written beside the new file, the rest too where the old one lies in another folder."""
    reference, candidate = blocks(ERF), blocks(ERF)
    wrong = next(one for one in candidate.graph.initializer if one.name == "w1")
    wrong.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(wrong) * np.float32(1.01), "w1"))
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(candidate, folder / "candidate.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    stored = (folder / "w.bin").read_bytes()
    file = (tmp_path if elsewhere else folder) / "mended.onnx"
    options = DiffOptions(write_fix=file)
    report = parity.diff(reference, folder / "candidate.onnx", {"x": normal(2, 4, 8)}, options=options)
    assert report.repair is not None
    assert report.repair.verdict == "pass"
    assert report.repair.edits == ["Weight 'w1' (16 × 8, float32) holds the reference's numbers."]
    assert (folder / "w.bin").read_bytes() == stored
    plain = onnx.load(file, load_external_data=False)
    places = {
        one.name: external_data_helper.ExternalDataInfo(one).location
        for one in plain.graph.initializer
        if external_data_helper.uses_external_data(one)
    }
    assert places["w1"] == "mended.onnx.data"
    assert places["w0"] == ("mended.onnx.data" if elsewhere else "w.bin")
    for one in onnx.load(file).graph.initializer:
        own = next(other for other in reference.graph.initializer if other.name == one.name)
        np.testing.assert_array_equal(numpy_helper.to_array(one), numpy_helper.to_array(own))


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    reference, candidate, x, _ = CASES["gelu-attribute"]
    report, _ = repaired(reference, candidate, tmp_path, x)
    assert report.repair.verdict == "pass"
    assert [one.name for one in tmp_path.iterdir()] == [Path(report.repair.file).name]


def test_nothing_to_mend_writes_nothing(tmp_path: Path) -> None:
    onnx.save(blocks(ERF), tmp_path / "candidate.onnx")
    options = DiffOptions(write_fix=tmp_path / "mended.onnx")
    report = parity.diff(blocks(ERF), tmp_path / "candidate.onnx", {"x": normal(2, 4, 8)}, options=options)
    assert report.verdict == "pass"
    assert report.repair is not None
    assert report.repair.summary == "There is nothing to mend: none was written."
    assert (report.repair.file, report.repair.verdict) == (None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["candidate.onnx"]


def test_what_no_cause_explains_is_left(tmp_path: Path) -> None:
    reference, candidate = model("s = Sin (x) y = Mul (x, s)"), model("s = Cos (x) y = Mul (x, s)")
    report, mended = repaired(reference, candidate, tmp_path, normal(2, 4, 8))
    assert mended is None
    assert {left.rule for left in report.repair.left} == {"unexplained"}
    assert not (tmp_path / "mended.onnx").exists()


def test_a_file_cannot_mend_the_optimizer(tmp_path: Path) -> None:
    reference = blocks("g{n} = Gelu (h{n})", opset=20)
    for node in reference.graph.node:
        if node.op_type == "Gelu":
            node.domain = "com.microsoft"
    reference.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    config = {"optimization.enable_gelu_approximation": "1"}
    report, mended = repaired(reference, reference, tmp_path, normal(2, 4, 8), candidate_session_config=config)
    assert mended is None
    (left,) = report.repair.left
    assert left.rule == "graph-optimizer"
    assert "without optimization.enable_gelu_approximation=1" in left.why


def test_an_allowed_rule_is_not_mended(tmp_path: Path) -> None:
    reference, candidate, x, _ = CASES["epsilon-attribute"]
    onnx.save(candidate, tmp_path / "candidate.onnx")
    options = DiffOptions(write_fix=tmp_path / "mended.onnx", allowed={"normalization-epsilon": None})
    report = parity.diff(reference, tmp_path / "candidate.onnx", {"x": x}, options=options)
    assert report.verdict == "pass"
    assert report.repair is not None
    assert report.repair.file is None


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(tmp_path: Path) -> None:
    onnx.save(blocks(ERF), tmp_path / "candidate.onnx")
    (tmp_path / "there.onnx").write_text("mine")
    (tmp_path / "data.onnx.data").write_text("mine")
    wrong = {
        "candidate.onnx": "is there already",
        "there.onnx": "is there already",
        "data.onnx": "data.onnx.data' is there already",
        "mended.pt": "has to end in .onnx",
        "nowhere/mended.onnx": "there is no folder",
    }
    for name, message in wrong.items():
        with pytest.raises(InputError, match=message):
            parity.diff("missing.pt2", tmp_path / "candidate.onnx", options=DiffOptions(write_fix=tmp_path / name))
    assert (tmp_path / "there.onnx").read_text() == "mine"
    with pytest.raises(InputError, match="the candidate is none") as caught:
        parity.diff(blocks(ERF), f"torch:{__file__}:build", options=DiffOptions(write_fix=tmp_path / "mended.onnx"))
    assert "change by hand" in caught.value.hint


def test_the_command_line(parity: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reference, candidate, x, _ = CASES["gelu-attribute"]
    onnx.save(reference, "reference.onnx")
    onnx.save(candidate, "candidate.onnx")
    np.savez("x.npz", x=x)
    asked = ("diff", "reference.onnx", "candidate.onnx", "--inputs", "x.npz")
    code, out, _ = parity(*asked, "--write-fix", "mended.onnx", "--format", "json")
    repair, timing = (json.loads(out)[name] for name in ("repair", "timing"))
    assert timing["total"] > timing["write-fix"] > timing["total"] / 20
    assert (code, repair["file"], repair["verdict"], repair["left"]) == (1, "mended.onnx", "pass", [])
    assert set(repair) == {"file", "edits", "left", "verdict", "summary", "outputs"}
    code, out, _ = parity(*asked, "--write-fix", "again.onnx")
    assert code == 1
    assert "with the mended graph: again.onnx\nPASS" in out
    assert "FILE.onnx" not in out, "that advice was followed"
    assert "--write-fix FILE.onnx" in parity(*asked)[1]
    assert "approximate is 'none' in place of 'tanh'" in out
    code, _, err = parity(*asked, "--write-fix", "again.onnx")
    assert code == 2
    assert "is there already" in err
    assert "Traceback" not in err
