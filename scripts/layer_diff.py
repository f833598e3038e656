"""Compares two models layer by layer; the same as ``parity diff``, for a checkout.

python scripts/layer_diff.py torch:model.py:build model.onnx --inputs batch.npz
"""

import sys

from parity.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "diff")
    main()
