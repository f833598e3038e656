"""Reads configs and graphs and says what their activations mean; the same as ``parity scan``, for a checkout.

python scripts/scan_hf_config.py config.json --target vllm
"""

import sys

from parity.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "scan")
    main()
