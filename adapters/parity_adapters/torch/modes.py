"""The ways PyTorch runs one and the same call, most of them by other kernels than the plain eager call."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import Any

import torch

from parity.adapter import Array
from parity_adapters.torch.arrays import from_numpy
from parity_adapters.torch.implementation import Call


def compiled(call: Call) -> Call:
    """``call`` through ``torch.compile``, compiled when it first meets a dtype."""

    @cache
    def build() -> Callable[..., torch.Tensor]:
        # Importing the compiler takes seconds, and it is needed only if such a row is run.
        from torch._dynamo import config as dynamo  # noqa: PLC0415
        from torch._inductor import config as inductor  # noqa: PLC0415

        # One compilation at a time, in this process: a pool of compiler processes would outlive a killed worker.
        inductor.compile_threads = 1
        # One function is compiled for each dtype, for value and gradient, for one length and then for any; the
        # default limit of 8 is below that.
        dynamo.cache_size_limit = max(64, dynamo.cache_size_limit)
        with _deprecation_accepted():  # the compiler itself still uses torch.jit
            import torch._inductor.compile_fx  # noqa: PLC0415
        # fullgraph: an error, where the default would silently fall back to the eager kernels.
        function: Callable[..., torch.Tensor] = torch.compile(call, fullgraph=True)
        return function

    def run(x: torch.Tensor) -> torch.Tensor:
        return build()(x)

    return run


def scripted(module: torch.nn.Module) -> Call:
    """``module`` through ``torch.jit.script``, scripted at the first call."""

    @cache
    def build() -> Callable[..., torch.Tensor]:
        with _deprecation_accepted():
            script: Callable[..., torch.Tensor] = torch.jit.script(module)
            return script

    def run(x: torch.Tensor) -> torch.Tensor:
        return build()(x)

    return run


@contextmanager
def _deprecation_accepted() -> Iterator[None]:
    """torch.jit is deprecated since PyTorch 2.13; it is measured because people still deploy with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.script", category=DeprecationWarning)
        yield


def one_element(call: Call) -> Call:
    """``call`` on each element as a tensor of its own: oneDNN and the vectorised loops do not take those."""
    return lambda x: torch.cat([call(element) for element in x.split(1)])


def strided(array: Array) -> torch.Tensor:
    """A tensor of the array's values that is not contiguous (stride 2)."""
    x = from_numpy(array)
    return torch.stack((x, x), dim=-1)[..., 0]


def autocast(dtype: torch.dtype) -> Callable[[], AbstractContextManager[Any]]:
    """Makes contexts of CPU autocast to ``dtype``."""
    return partial(torch.autocast, "cpu", dtype=dtype)


@contextmanager
def without_mkldnn() -> Iterator[None]:
    """A context in which PyTorch does not use oneDNN."""
    # torch.backends.mkldnn.flags would also set TF32 modes, and warn that the CPU has none.
    enabled = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = enabled
