"""A plain run of one side in a process of its own: how long it takes to start, and one forward pass.

Usage: python plain.py hf:DIR|MODEL.onnx INPUTS.npz [PASSES]

Prints JSON: ``start-up``, from loading the framework to the model being ready, and ``forward``, the median of some
passes on one thread, in seconds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Inputs = Mapping[str, NDArray[Any]]


def torch_forward(folder: Path, inputs: Inputs) -> Callable[[], Any]:
    """One forward pass of the Hugging Face model in a folder."""
    import torch  # noqa: PLC0415 – the other side's process must not load it
    import transformers  # noqa: PLC0415

    torch.set_num_threads(1)
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder, local_files_only=True).eval()
    model.config.use_cache = False
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}

    def forward() -> None:
        with torch.no_grad():
            model(**tensors)

    return forward


def onnx_forward(file: Path, inputs: Inputs) -> Callable[[], Any]:
    """One run of an ONNX file as it is deployed: optimised."""
    import onnxruntime  # noqa: PLC0415 – the other side's process must not load it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def main(model: str, file: str, passes: str = "5") -> None:
    """Runs the model."""
    inputs = dict(np.load(file))
    start = time.perf_counter()
    made = torch_forward if model.startswith("hf:") else onnx_forward
    forward = made(Path(model.removeprefix("hf:")), inputs)
    ready = time.perf_counter()
    times = []
    for _ in range(int(passes)):
        begun = time.perf_counter()
        forward()
        times.append(time.perf_counter() - begun)
    print(json.dumps({"start-up": ready - start, "forward": statistics.median(times)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
