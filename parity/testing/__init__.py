"""Checks that any adapter should pass, also one outside this repository.

An adapter that passes them can be run by `parity suite`: its rows are well formed, its arrays go in and out
unharmed, and each implementation is roughly what it declares. How exact it is, is the suite's question. In a
test module of yours, with pytest::

    import pytest

    from parity.testing import conformance_checks
    from my_package import adapter

    CHECKS = conformance_checks(adapter)


    @pytest.mark.parametrize("name", CHECKS)
    def test_conformance(name):
        CHECKS[name]()

Each check takes nothing, returns nothing, and raises AssertionError with a message that names the
implementation, dtype, input, what came and what should have come. pytest is not needed: any caller will do.
"""

from parity.testing.conformance import CHECK_NAMES, conformance_checks

__all__ = ["CHECK_NAMES", "conformance_checks"]
