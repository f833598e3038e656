"""`torch.onnx.verification` with intermediates, in a process of its own.

Usage: python verification.py PROGRAM.pt2 MODEL.onnx INPUTS.npz

Prints JSON: ``compared``, the number of values, ``warned``, those it warns of, and ``first``, the first of these.
"""

import json
import sys

import numpy as np
import onnx_ir
import torch
from torch.onnx import ONNXProgram
from torch.onnx.verification import verify_onnx_program


def main(exported: str, model: str, file: str) -> None:
    """Compares the exported program with the graph, value by value."""
    torch.set_num_threads(1)
    program = ONNXProgram(onnx_ir.load(model), torch.export.load(exported))
    inputs = tuple(torch.from_numpy(array) for array in np.load(file).values())
    infos = verify_onnx_program(program, inputs, compare_intermediates=True)
    warned = [info.name for info in infos if info.max_abs_diff > 0.01 or info.max_rel_diff > 0.1]
    print(json.dumps({"compared": len(infos), "warned": len(warned), "first": next(iter(warned), None)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
