"""Each conformance check is failed by an adapter that is broken in just that way, and passed by a good one."""

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from parity.adapter import Implementation
from parity.errors import InputError
from parity.functions import Variant, variant
from parity.testing import CHECK_NAMES, conformance_checks


def same(x):
    return x


RELU = Implementation(
    name="toy.relu[inplace=False] (eager)",
    variant=variant("relu"),
    dtypes=("float64", "float32", "float16", "bfloat16"),
    enter=same,
    function=lambda x: np.maximum(x, x.dtype.type(0)),
    leave=same,
    gradient=lambda x: (x > 0).astype(x.dtype),
    default_of="relu",
)
GLU = Implementation(
    name="toy.glu",
    variant=variant("glu"),
    dtypes=("float32",),
    enter=same,
    function=lambda x: x[:, 0] / (1 + np.exp(-x[:, 1])),
    leave=same,
)


def refuse(model: str, options: Any) -> Any:
    raise InputError(f"'{model}' is no model.")


@dataclass
class Toy:
    """An adapter that is right unless told otherwise."""

    name: Any = "toy"
    rows: Any = (RELU, GLU)
    numbers: Any = field(default_factory=lambda: {"toy": "1.0"})
    open: Any = refuse

    def versions(self):
        return self.numbers

    def activations(self):
        return self.rows


def with_row(**changes: Any) -> Toy:
    return Toy(rows=(replace(RELU, **changes),))


def raising(error: BaseException):
    def function(*_: Any) -> Any:
        raise error

    return function


def overwrite(x):
    y = np.maximum(x, x.dtype.type(0))
    x[0] = 1
    return y


def flush_subnormals(x):
    return np.where(np.abs(x) < x.dtype.type(6e-5), x.dtype.type(0), x)


calls = count()


def drifting(x):
    return RELU.function(x) + x.dtype.type(next(calls) % 2) * x.dtype.type(1e-3)


@pytest.mark.parametrize("name", CHECK_NAMES)
def test_a_good_adapter_passes(name):
    conformance_checks(Toy())[name]()


BROKEN = {
    "protocol": [
        (object(), "has no 'name'"),
        (Toy(open="model.onnx"), "'open'"),
    ],
    "name": [(Toy(name="Toy!"), "'Toy!'"), (Toy(name=None), "None")],
    "versions": [
        (Toy(numbers={}), "empty"),
        (Toy(numbers={"toy": ""}), "'toy' to ''"),
        (Toy(numbers={"toy": 1}), "to 1,"),
    ],
    "activations": [(Toy(rows=()), "empty"), (Toy(rows=("relu",)), "'relu'")],
    "names_unique": [(Toy(rows=(RELU, GLU, RELU)), "name of 2 implementations")],
    "names_well_formed": [
        (with_row(name="toy relu"), "toy relu"),
        (with_row(name="toy.relu (eager) (twice)"), "twice"),
        (with_row(name="toy.relu (eager)[flag=1]"), "flag=1"),
        (with_row(name=""), "''"),
        (with_row(default_of="Leaky_ReLU"), "'Leaky_ReLU'"),
    ],
    "variants": [
        (with_row(variant=Variant("relu7", ())), "relu7"),
        (with_row(variant=Variant("leaky_relu", (("slope", 0.1),))), "slope"),
        (with_row(variant=Variant("leaky_relu", ())), "leaky_relu"),
        (with_row(variant="relu"), "'relu'"),
    ],
    "dtypes": [
        (with_row(dtypes=()), "()"),
        (with_row(dtypes=("float8",)), "float8"),
        (with_row(dtypes=("float32", "float32")), "float32"),
    ],
    "round_trip": [
        (
            with_row(enter=flush_subnormals, dtypes=("float16",)),
            "float16: leave(enter(x)) at x = 5.960464477539063e-08 got 0.0; 2013 numbers change",
        ),
        (with_row(leave=lambda x: x.astype(np.float32), dtypes=("float16",)), "expected float16(65536,)"),
        (with_row(enter=np.abs), "numbers change"),
        (with_row(enter=np.nan_to_num, dtypes=("float32",)), "got"),
    ],
    "shape_and_dtype": [
        (with_row(function=lambda x: x[:-1]), "(255,)"),
        (with_row(function=lambda x: x[:, np.newaxis]), "(256, 1)"),
        (with_row(function=lambda x: x.astype(int)), "int"),
        (with_row(function=list), "list"),
    ],
    "values": [
        (with_row(function=same), "float64, declared relu: at x = -7.96875 got -7.96875, expected 0 within"),
        (with_row(function=lambda x: np.where(x == x[7], x.dtype.type(np.nan), RELU.function(x))), "got nan"),
        (with_row(function=lambda x: np.where(x == x[7], x.dtype.type(np.inf), RELU.function(x))), "got inf"),
        (Toy(rows=(replace(GLU, function=lambda x: GLU.function(x[:, ::-1])),)), "'toy.glu' float32, declared glu"),
    ],
    "gradients": [
        (with_row(gradient=np.ones_like), "gradient of relu: at x = "),
        (with_row(gradient=lambda x: x.sum()), "shape ()"),
        (Toy(rows=(replace(GLU, gradient=np.zeros_like),)), "'toy.glu' float32, gradient of glu"),
    ],
    "input_unchanged": [
        (with_row(function=overwrite), "the value changed its input, at 0 from -7.96875 to 1.0"),
        (with_row(gradient=overwrite), "the gradient changed its input"),
    ],
    "determinism": [(with_row(function=drifting), "expected the same twice")],
    "short_inputs": [
        (with_row(function=np.squeeze), "length 1: got shape ()"),
        (with_row(function=lambda x: RELU.function(x) + (len(x) == 1)), "at x = -7.96875 got 1.0"),
        (with_row(function=lambda x: np.zeros(1)), "length 0: got shape (1,)"),
        (with_row(function=raising(SystemExit(3))), "SystemExit(3)"),
    ],
    "open": [
        (Toy(open=lambda *_: None), "returned"),
        (Toy(open=raising(KeyError("model"))), "KeyError('model')"),
    ],
}


def test_every_check_has_a_broken_adapter():
    assert tuple(BROKEN) == CHECK_NAMES


@pytest.mark.parametrize(("name", "adapter", "message"), [(n, *case) for n, cases in BROKEN.items() for case in cases])
def test_a_broken_adapter_fails(name, adapter, message):
    with pytest.raises(AssertionError) as caught:
        conformance_checks(adapter)[name]()
    assert message in str(caught.value)


def test_refusing_short_inputs_is_allowed():
    conformance_checks(with_row(function=raising(ValueError("empty"))))["short_inputs"]()


def test_an_adapters_own_exception_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        conformance_checks(with_row(function=raising(ZeroDivisionError())))["values"]()


def test_a_long_list_of_problems_is_cut_and_counted():
    rows = tuple(replace(RELU, name=f"toy relu {n}") for n in range(25))
    with pytest.raises(AssertionError, match="… and 15 more"):
        conformance_checks(Toy(rows=rows))["names_well_formed"]()


def test_rows_are_built_once():
    class Counting(Toy):
        built = 0

        def activations(self):
            type(self).built += 1
            return iter((RELU,))

    for check in conformance_checks(Counting()).values():
        check()
    assert Counting.built == 1
