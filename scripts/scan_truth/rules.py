"""Which of the functions that ran a scan must have spoken of. Laid down before any result was looked at."""

import re
from typing import Final

from scan_truth.measuring import Ran

LIMITS: Final = frozenset({"hard_tanh", "identity", "threshold"})
"""They keep numbers within limits, as in a clamp."""

ARITHMETIC: Final = frozenset({"clamp", "clamp_min", "clamp_max", "abs", "maximum", "minimum", "mul", "where"})
"""Operators that alone make no activation, though a clamp at 0 is a ReLU: coordinates and counts are kept positive."""

SQUASHING: Final = frozenset({"sigmoid", "tanh", "softplus", "log_sigmoid", "hard_sigmoid", "softsign"})
"""They gate, weigh or bound: in recurrences, attention, state spaces, routers, poolers and caps of logits."""

FEED_FORWARD: Final = re.compile(r"mlp|ffn|feed_?forward|intermediate|activation|act_fn", re.IGNORECASE)
"""In the name or class of a module: part of a feed-forward block."""

ROUTES: Final = re.compile(r"moe|router|gate|pooler|attention|attn|mixer|connection", re.IGNORECASE)
"""Likewise: it chooses or weighs and is none, whatever else it is called."""


def must_be_told(ran: Ran) -> bool:
    """Whether a scan that does not speak of this function misses one.

    Every function with a name must be told but two sorts: limits of numbers, made by clamps; and squashing functions,
    unless the module that computes them is by name or class a feed-forward block or an activation in one.
    """
    name = ran.variant.partition("[")[0]
    if not name or name in LIMITS or (ran.operators and set(ran.operators.split()) <= ARITHMETIC):
        return False
    if name not in SQUASHING:
        return True
    where = f"{ran.scope.rpartition('.')[2]} {ran.kind}"
    return FEED_FORWARD.search(where) is not None and ROUTES.search(where) is None
