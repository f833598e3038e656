"""The rules of `parity scan`; the one that it shares with comparisons is with those."""

from collections.abc import Mapping
from typing import Final

from parity.rules.rule import Rule

RULES: Final[Mapping[str, Rule]] = {
    "config-conflict": Rule(
        summary="Two fields for the same activation disagree, or a key stands twice.",
        meaning="Which function the model computes depends on who reads the config, and in which order. Readers of "
        "JSON take the last of two equal keys in silence.",
        detection="The config is read with every key kept, also those that stand twice. For a known class of model it "
        "is known which field its code reads; rivals that mean another function are named.",
        mending="Keep the field that the model's code reads, and take the other out. The finding says which one "
        "counts.",
        example="""\
```json
{"model_type": "gemma", "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh", "hidden_act": "silu"}
```

```text
config-conflict  hidden_act stands 2 times, first as 'gelu', last as 'silu'; readers take the last.
config-conflict  Fields for the same activation disagree: hidden_act = 'silu' (silu) and hidden_activation =
'gelu_pytorch_tanh' (gelu_tanh).
→ Make them agree, or keep hidden_act alone.
```""",
    ),
    "config-unknown-activation": Rule(
        summary="A field names no activation that is known.",
        meaning="A misspelling, a function of the author's own, or a name that belongs to another library. Nothing "
        "can be said of what the model computes there.",
        detection="The value is looked up among the names of the library that the config belongs to; the nearest "
        "known name is offered. On a live model: the function was run, and is no known one.",
        mending="Correct the name. If the function is yours, `parity identify FILE.py:NAME` says which known one it "
        "is near.",
        example="""\
```json
{"model_type": "bert", "hidden_act": "gelu_pytorch_tahn"}
```

```text
config-unknown-activation  hidden_act = 'gelu_pytorch_tahn' names no activation that is known.
→ Did you mean 'gelu_pytorch_tanh'?
```""",
    ),
    "config-ignored-field": Rule(
        summary="A field that nothing reads.",
        meaning="The config says one thing and the model's code computes another, or the same by chance. To change "
        "the field changes nothing.",
        detection="Each class of the library was built with the field changed, to see whether anything in it changes. "
        "A note where the code computes what the field says, a warning where it does not.",
        mending="Take the field out, or make it say what is computed, so that nobody trusts it.",
        example="""\
```json
{"model_type": "gpt_oss", "hidden_act": "silu"}
```

```text
config-ignored-field  hidden_act = 'silu' is not read by 'gpt_oss' in transformers 5.24.0: its code computes
quick_gelu.
→ Take 'hidden_act' out, or make it say what is computed.
```""",
    ),
    "target-differs": Rule(
        summary="A deployment target computes another function than the model.",
        meaning="The model served there will not be the model that was trained, although no file is wrong.",
        detection="What each target does with each name is kept with its provenance – measured, source read, "
        "documented, or assumed from the name alone, which nobody has checked – and with the version for which it is "
        "known; the finding says which. `--measure` runs "
        "a target that is installed.",
        mending="The fix is of the target: a patch, a flag, another version, or another target. Or train with what "
        "the target computes.",
        example="""\
```json
{"model_type": "gemma", "hidden_act": "gelu"}
```

```text
parity scan config.json --target sglang

error: target-differs  config.json:1
  sglang (0.5.23) computes gelu_erf where the model computes gelu_tanh (hidden_act = 'gelu'), up to 0.000473
apart at
  x = 2.699: its gemma.py takes GeluAndMul('none'), the exact form, where Gemma is the tanh form (source read).
  → patch GeluAndMul("none") to GeluAndMul("tanh") in sglang/srt/models/gemma.py
```""",
    ),
    "optimizer-risk": Rule(
        summary="A setting of the runtime would change what the graph computes.",
        meaning="The graph is right, and stays so with the default settings. With one that is offered as an "
        "optimisation it would be another function.",
        detection="The activations of an ONNX graph that are spelt in a way that ONNX Runtime replaces, as measured "
        "by running each spelling with the setting.",
        mending="Leave the setting off, or export with an operator that the setting leaves as it is: opset 20's own "
        "Gelu.",
        example="A BERT exported with opset 17, whose erf is spelt out: with `optimization.enable_gelu_approximation "
        "= 1`, ONNX Runtime computes gelu_tanh for it, and Optimum's levels O3 and O4 set that.",
    ),
}
"""By name."""
