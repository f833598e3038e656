"""Every spelling that is written into models computes the variant that it is a spelling of."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper  # noqa: E402

from parity.functions import FORMULAS, parse, variant  # noqa: E402
from parity_adapters.onnxruntime.sessions import run_model  # noqa: E402
from parity_adapters.onnxruntime.spellings import own_attributes, spelling  # noqa: E402

X = np.linspace(-9, 9, 2001, dtype=np.float32)

WITHOUT = {"xielu", "sparse_plus", "sparse_sigmoid", *(name for name, one in FORMULAS.items() if one.arity == 2)}

OTHERS = (
    *("leaky_relu[negative_slope=0.2]", "elu[alpha=0.5]", "celu[alpha=2]", "quick_gelu[alpha=1.5]", "softplus[beta=2]"),
    *("hard_sigmoid[slope=0.2]", "hard_swish[slope=0.2]", "hard_tanh[low=-2,high=3]", "soft_shrink[threshold=1]"),
    *("hard_shrink[threshold=1]", "threshold[threshold=0.5]", "softplus[threshold=20]", "squareplus[b=2]"),
)


@pytest.mark.parametrize("opset", [14, 18, 22])
@pytest.mark.parametrize("name", [*sorted(FORMULAS.keys() - WITHOUT), *OTHERS])
def test_a_spelling_computes_its_variant(name: str, opset: int) -> None:
    wanted = parse(name)
    found = spelling(wanted, opset)
    assert found is not None
    ends = [helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, [len(X)]) for end in "xy"]
    numbers = [numpy_helper.from_array(np.float32(value), key) for key, value in found.constants.items()]
    graph = helper.make_graph(found.nodes, "g", ends[:1], ends[1:], numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    (y,) = run_model(model, [X], level="none")
    np.testing.assert_allclose(y, wanted.value(X), rtol=2e-5, atol=3e-6)


@pytest.mark.parametrize("name", [*sorted(WITHOUT - {"geglu_erf"}), "threshold[value=1]", "softplus[threshold=2]"])
def test_what_has_no_spelling_gets_none(name: str) -> None:
    assert spelling(parse(name), 22) is None


def test_an_operator_is_used_where_the_opset_has_it() -> None:
    ops = {n: [node.op_type for node in spelling(variant("gelu_erf"), n).nodes] for n in (17, 20)}
    assert ops == {17: ["Div", "Erf", "Add", "Mul", "Mul"], 20: ["Gelu"]}
    assert spelling(variant("celu"), 11) is None


def test_a_node_that_needs_other_attributes_alone() -> None:
    slope = spelling(variant("leaky_relu", negative_slope=0.2), 17)
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.01)
    assert own_attributes(node, slope) == {"alpha": pytest.approx(0.2)}
    assert own_attributes(helper.make_node("Elu", ["x"], ["y"]), slope) is None
    assert own_attributes(helper.make_node("LeakyRelu", ["x"], ["y"], domain="custom"), slope) is None
    assert own_attributes(node, spelling(variant("silu"), 17)) is None
