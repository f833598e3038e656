"""The padding that the word SAME stands for, in numbers."""

from collections.abc import Sequence


def resolved(
    padding: str, image: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Padding before each spatial axis, then after each; the odd one comes after, and VALID is none.

    Args:
        padding: SAME, or any other word for none.
        image: Size of each spatial axis of what the window moves over.
        kernel: Size of the window.
        strides: Its steps.
        dilations: Distances within it.
    """
    if padding != "SAME":
        return [0] * (2 * len(image))
    totals = [
        max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
        for size, window, stride, dilation in zip(image, kernel, strides, dilations, strict=True)
    ]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]
