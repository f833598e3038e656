"""The models in NumPy, with which the core is tested, keep what adapters promise."""

import numpy as np

from parity.testing.sessions import check_session

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


def model(toy):
    made = toy(x=(None, 8))
    w = made.weight("w", np.random.default_rng(1).standard_normal((8, 5)))
    made("gelu", made("matmul", "x", w, to="a"), to="b")
    return made.gives(made("mul", "b", 2.0, to="y"))


def test_a_toy_is_a_session(toy, session) -> None:
    check_session(session(model(toy)), {"x": X})
