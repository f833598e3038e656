"""The activation suite through the Python API: what each framework's unflagged GELU computes.

Usage: python scripts/run_parity_suite.py [ADAPTER ...]
"""

import sys

import parity
from parity.findings import EXIT_CODES

if __name__ == "__main__":
    report = parity.suite(adapters=sys.argv[1:])
    for api, variant in report.families["gelu"].items():
        print(f"{api:40} {variant}")
    print(report.summary)
    sys.exit(EXIT_CODES[report.verdict])
