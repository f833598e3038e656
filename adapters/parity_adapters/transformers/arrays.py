"""transformers computes with PyTorch tensors: the conversions are PyTorch's."""

from parity_adapters.torch.arrays import from_numpy, to_numpy

__all__ = ["from_numpy", "to_numpy"]
