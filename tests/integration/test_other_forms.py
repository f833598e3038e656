"""Two models whose tensors are not the same where the models are, and models that only seem to be."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from parity import diff

X = {"x": np.random.default_rng(0).standard_normal((4, 6, 16)).astype(np.float32)}


class Attention(nn.Module):
    """One head, whose values may be held as multiples."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Linear(16, 16))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        weights = (self.query(x) @ self.key(x).transpose(1, 2) / 4).softmax(-1)
        return self.norm(x + self.output(torch.tanh(weights) @ self.value(x)))


class Chosen(nn.Module):
    """The place of the largest score, which a small fault leaves where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(16, 16)
        self.scores = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.hidden(x).relu()).argmax(-1)


class Sure(nn.Module):
    """Scores so far apart that the softmax is 0 and 1 whatever a small fault does."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(16, 16)
        self.scores = nn.Linear(16, 3)
        with torch.no_grad():
            self.scores.weight.zero_()
            self.scores.weight[0, 0] = 0.5
            self.scores.bias.copy_(torch.tensor([200.0, 0.0, -200.0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.hidden(x).tanh()).softmax(-1)


def pair(kind: type[nn.Module]) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    one, two = kind().eval(), kind().eval()
    two.load_state_dict(one.state_dict())
    return one, two


def test_a_factor_that_is_taken_back_operators_later() -> None:
    one, two = pair(Attention)
    with torch.no_grad():
        two.value.weight[:8] *= 3
        two.value.bias[:8] *= 3
        two.output.weight[:, :8] /= 3
    report = diff(one, two, X)
    assert (report.verdict, [*report.findings]) == ("pass", [])
    with torch.no_grad():
        two.output.weight[:, :8] *= 1.01
    report = diff(one, two, X)
    assert report.verdict == "mismatch"


@pytest.mark.parametrize("layer", ["hidden", "scores"])
def test_a_saturated_softmax_acquits_nobody(layer: str) -> None:
    """The outputs are the very same, and the functions are not."""
    one, two = pair(Sure)
    with torch.no_grad():
        getattr(two, layer).weight *= 1.01
    assert torch.equal(one(torch.from_numpy(X["x"])), two(torch.from_numpy(X["x"])))
    report = diff(one, two, X)
    assert report.verdict == "mismatch"
    assert [finding.rule for finding in report.findings] == ["weights"]


@pytest.mark.parametrize("layer", ["hidden", "scores"])
def test_whole_numbers_acquit_nobody(layer: str) -> None:
    one, two = pair(Chosen)
    with torch.no_grad():
        getattr(two, layer).weight *= 1.0001
    assert torch.equal(one(torch.from_numpy(X["x"])), two(torch.from_numpy(X["x"])))
    report = diff(one, two, X)
    assert report.verdict == "mismatch"
    assert [finding.rule for finding in report.findings] == ["weights"]


class Masked(nn.Module):
    """Attention of which each row sees what came before, by an explicit mask; the scores are a layer of their own."""

    def __init__(self, fill: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.fill = fill

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return (scores.masked_fill(later, self.fill) * 1.0).softmax(-1) @ self.value(x)


def masked_pair(one: float, two: float) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    models = Masked(one).eval(), Masked(two).eval()
    models[1].load_state_dict(models[0].state_dict())
    return models


@pytest.mark.parametrize(("one", "two"), [(-torch.inf, -1e9), (-1e9, -torch.inf), (-3e38, -1e4), (-65504.0, -1e9)])
def test_what_masks_fill_in_is_there_to_be_hidden(one: float, two: float) -> None:
    report = diff(*masked_pair(one, two), X)
    assert (report.verdict, report.findings) == ("pass", [])


@pytest.mark.parametrize("fill", [-3.0, -10.0])
def test_a_filling_that_shows_through_is_a_fault(fill: float) -> None:
    report = diff(*masked_pair(-torch.inf, fill), X)
    assert report.verdict == "mismatch"
    assert [one.rule for one in report.findings] == ["attention-mask"]


class Padded(nn.Module):
    """Attention whose first two tokens see nothing: fused, or written out with a finite filling as exporters do."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        seen[:, :2] = False
        if self.fused:
            return F.scaled_dot_product_attention(query[:, None], key[:, None], value[:, None], attn_mask=seen)[:, 0]
        scores = query @ key.transpose(1, 2) / 4
        return scores.masked_fill(~seen, torch.finfo(x.dtype).min).softmax(-1).nan_to_num(0.0) @ value


def test_queries_that_see_nothing_are_told() -> None:
    torch.manual_seed(0)
    one, two = Padded(fused=True).eval(), Padded(fused=False).eval()
    two.load_state_dict(one.state_dict())
    report = diff(one, two, X)
    (finding,) = report.findings
    assert finding.rule == "attention-mask"
    assert "it shows only in the 8 of 24 queries that see nothing at all" in finding.message
    assert "inputs without padding tell" in finding.fix
