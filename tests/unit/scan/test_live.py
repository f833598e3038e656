"""``parity.scan(model)``: a live model, by running and probing it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import parity  # noqa: E402


def test_a_live_model_is_probed():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 4), torch.nn.GELU(approximate="tanh")
    )
    report = parity.scan(model, {"input": np.ones((2, 4), np.float32)})
    assert [(use.variant, use.basis) for use in report.activations] == [("gelu_erf", "probed"), ("gelu_tanh", "probed")]
    assert report.verdict == "pass"
    assert "live:Sequential" in report.summary


def test_what_is_no_model_is_refused():
    with pytest.raises(parity.InputError):
        parity.scan(object())
