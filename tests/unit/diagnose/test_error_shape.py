"""What an unexplained error looks like, in words."""

import numpy as np
import pytest

from parity.diagnose.error_shape import error_shape

Z = np.random.default_rng(0).standard_normal((4, 8, 50))


def at(*places: object) -> np.ndarray:
    error = np.zeros(Z.shape)
    error[tuple(places)] = np.random.default_rng(1).standard_normal(error[tuple(places)].shape) + 2
    return error


SHAPES = {
    "nothing differs": np.zeros(Z.shape),
    "a bias: 0.5 nearly everywhere": np.full(Z.shape, 0.5),
    "in proportion: the candidate's is 1.1 times the reference's": Z * 0.1,
    "at the border: first and last place of axis 2": at(slice(None), slice(None), [0, -1]),
    "in few places of axis 1: 3": at(slice(None), 3, slice(None)),
    "in few places of axis 2: 7, 30": at(slice(None), slice(None), [7, 30]),
    "outliers: 2 of 1600 elements": np.where((np.arange(1600) == 817) | (np.arange(1600) == 205), 1.0, 0.0).reshape(
        Z.shape
    )
    * 3,
    "spread over all elements": np.random.default_rng(2).standard_normal(Z.shape),
    "1 of 1600 elements are not finite on one of the sides": np.where(np.arange(1600) == 3, np.nan, 0.0).reshape(
        Z.shape
    ),
}


@pytest.mark.parametrize("words", SHAPES)
def test_each_shape_by_its_words(words: str) -> None:
    assert error_shape(SHAPES[words], Z) == words
