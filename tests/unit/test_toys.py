"""The models in NumPy, with which the core is tested, keep what adapters promise."""

import numpy as np

from parity.jobs.diff import diff
from parity.testing.sessions import check_session

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


def model(toy, approximate="none"):
    made = toy(x=(None, 8))
    w = made.weight("w", np.random.default_rng(1).standard_normal((8, 5)))
    made("gelu", made("matmul", "x", w, to="a"), to="b", scope="mlp.act", approximate=approximate)
    return made.gives(made("mul", "b", 2.0, to="y"))


def test_a_toy_is_a_session(toy, session) -> None:
    check_session(session(model(toy)), {"x": X})


def test_toys_are_compared_end_to_end(toy, toys_open) -> None:
    same = diff(model(toy), model(toy), {"x": X})
    assert (same.verdict, same.findings) == ("pass", [])
    report = diff(model(toy), model(toy, "tanh"), {"x": X})
    assert report.verdict == "mismatch"
    assert [one.rule for one in report.findings] == ["activation-variant"]
    assert report.first_divergence["candidate"]["scope"] == "mlp.act"
