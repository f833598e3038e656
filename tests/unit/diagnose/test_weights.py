"""What was done to a weight, in words."""

import numpy as np
import pytest

from parity.diagnose.weights import relation
from parity.dtypes import FLOAT_DTYPES

RANDOM = np.random.default_rng(0)
W = RANDOM.standard_normal((24, 24)).astype(np.float32).astype(np.float64)
V = RANDOM.standard_normal(50)


def poked(w: np.ndarray, count: int) -> np.ndarray:
    changed = w.copy()
    changed.reshape(-1)[:count] += 1
    return changed


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (W, W * 0, "all zero"),
        (V, V.astype(np.float32).astype(np.float64), "rounded to float32"),
        (W, W.astype(np.float16).astype(np.float64), "rounded to float16"),
        (W, W.astype(FLOAT_DTYPES["bfloat16"]).astype(np.float64), "rounded to bfloat16"),
        (W, W.T, "transposed"),
        (W[:, :6].copy(), W[:, :6].T.reshape(24, 6), "transposed"),
        (V, np.roll(V, 1), "shifted by one"),
        (V, np.roll(V, -1), "shifted by one"),
        (W, np.roll(W, 1, axis=1), "shifted by one"),
        (V, V[::-1], "reversed"),
        (W, W[:, ::-1], "reversed"),
        (W, W[RANDOM.permutation(24)], "in another order"),
        (W, W * 1.5, "scaled by 1.5"),
        (W, -W, "scaled by -1"),
        (W, np.round(W * 16) / 16, "quantised to"),
        (W, poked(W, 3), "with 3 of 576 elements changed"),
        (W, W + 0.01 * RANDOM.standard_normal(W.shape), "slightly changed"),
        (W, RANDOM.standard_normal(W.shape), "other numbers"),
        (W * 0, W, "other numbers"),
    ],
)
def test_relation(ours: np.ndarray, theirs: np.ndarray, said: str) -> None:
    assert relation(ours, theirs).startswith(said)


def test_overflow_in_a_rounding_is_no_error() -> None:
    assert relation(W * 1e6, W * 2e6) == "scaled by 2"
