"""What one model type truly computes, for its config as it is and with its activation fields changed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel, activations
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from parity.functions.probing import identified, sweep
from parity.scanner.knowledge import models
from parity.scanner.knowledge.names import may_hold_function
from scan_truth.classes import NEEDED, heads
from scan_truth.running import NotRun, Plan, built, computed, planned, told
from scan_truth.shrinking import LADDER, Shrink, shrink

DISTINCTIVE: Final = ("mish", "relu6", "leaky_relu", "gelu_10", "hardswish", "relu2", "laplace", "quick_gelu")
"""Values that a field is set to, each field to another one: what is run tells which field it comes from."""

CASES: Final = ("as it is", "distinctive", "usual")
"""The configs of a model type."""

USUAL: Final = "gelu"
"""A value that some classes rewrite and others do not, which all fields are set to once."""

FURTHER: Final = 4
"""Further sizes that are tried where some part did not run."""

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """One activation that a model computed.

    Attributes:
        variant: Its name with parameters; empty for a function without a name.
        scope: Path of the module that computes it.
        kind: Class of that module.
        source: Where the code stands.
        operators: What computes it.
    """

    variant: str
    scope: str
    kind: str
    source: str
    operators: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """One config of a model type.

    Attributes:
        what: One of `CASES`.
        text: The ``config.json``.
        changed: Values of the fields that were changed, by their path.
    """

    what: str
    text: str
    changed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One config of a model type, and what its model computed.

    Attributes:
        what: One of `CASES`.
        config: Text of the ``config.json``.
        changed: Values of the fields that were changed, by their path.
        ran: What was computed.
        model: Class of the model; empty for that of ``AutoModel``.
        idle: Functions of activation modules that the model has and that did not run.
    """

    what: str
    config: str
    changed: Mapping[str, str]
    ran: tuple[Ran, ...]
    model: str = ""
    idle: tuple[str, ...] = ()


@dataclass(slots=True)
class Measured:
    """What is known of one model type.

    Attributes:
        name: The model type.
        cases: Configs and what their models computed; none where no model was built and run.
        problem: Why there is none.
        shrink: How the config was made small.
        calls: What was called.
        failures: Calls for which no inputs were found, with the reason.
        unrun: Classes of configs of the parts that did not run.
        idle: Paths and classes of modules that did not run.
        spoilt: Cases that could not be run, with the reason.
    """

    name: str
    cases: list[Case] = field(default_factory=list)
    problem: str = ""
    shrink: str = ""
    calls: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    unrun: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    spoilt: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Measured":
        """What `to_json` wrote."""
        given = json.loads(text)
        cases = [
            Case(**{**case, "ran": tuple(Ran(**one) for one in case["ran"]), "idle": tuple(case["idle"])})
            for case in given.pop("cases")
        ]
        return cls(**given, cases=cases)


def measure(name: str) -> Measured:
    """Builds and runs the model of a model type; whatever fails is written down."""
    result = Measured(name)
    owner = CONFIG_MAPPING[name]
    try:
        config, plan = _smallest(owner, name, result)
    except Exception as error:  # noqa: BLE001 – whatever the library raises, this model is not built
        result.problem = told(error)
        return result
    configs = list(_configs(config))
    for given in configs:
        try:
            result.cases.append(_case(owner, given, plan, None))
        except Exception as error:  # noqa: BLE001 – likewise of this case
            result.spoilt[given.what] = told(error)
    _of_heads(owner, configs, result)
    if not result.cases:
        result.problem = next(iter(result.spoilt.values()))
    return result


def _smallest(owner: type[PreTrainedConfig], name: str, result: Measured) -> tuple[PreTrainedConfig, Plan]:
    """The smallest config of which all parts run, else that of which most do.

    Raises:
        Exception: None runs; it is that of the first.
    """
    first: Exception | None = None
    best: tuple[int, Shrink, PreTrainedConfig, Plan, PreTrainedModel] | None = None
    left = 0
    for how in LADDER:
        try:
            config = shrink(owner(**NEEDED.get(name, {})), how)
            model = built(owner, config.to_json_string(use_diff=False))
            plan = planned(model)
        except Exception as error:  # noqa: BLE001 – the next one may do
            first = first or error
            continue
        if best is None or len(plan.ran) > best[0]:
            best, left = (len(plan.ran), how, config, plan, model), FURTHER
        left -= 1
        if not plan.failures or not left:
            break
    if best is None:
        raise first or NotRun("nothing was tried")
    _, how, config, plan, model = best
    result.shrink = str(how)
    result.calls = [str(call) for call in plan.calls]
    result.failures = plan.failures
    result.unrun, result.idle = _not_run(model, plan)
    return config, plan


def _not_run(model: nn.Module, plan: Plan) -> tuple[list[str], list[str]]:
    """Classes of the configs of parts that did not run, and modules that did not."""
    idle = [(path, module) for path, module in model.named_modules() if path not in plan.ran]
    unrun = {type(module.config).__name__ for _, module in idle if isinstance(module, PreTrainedModel)}
    return sorted(unrun), [f"{path} {type(module).__name__}" for path, module in idle if path]


def _configs(config: PreTrainedConfig) -> Iterator[Given]:
    """The config as it is, and with its activation fields changed."""
    yield Given(CASES[0], config.to_json_string(use_diff=True), {})
    document = json.loads(config.to_json_string(use_diff=False))
    places = list(_fields(document))
    if not places:
        return
    yield _changed(CASES[1], document, places, DISTINCTIVE)
    yield _changed(CASES[2], document, places, (USUAL,))


def _fields(node: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of the fields that name an activation."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        here = (*path, key)
        if isinstance(value, dict | list):
            yield from _fields(value, here)
        elif isinstance(value, str) and may_hold_function(str(key)) and _names_function(value):
            yield here


def _names_function(value: str) -> bool:
    return models.activation(value.removeprefix("gated-")) is not None


def _changed(what: str, document: dict[str, Any], places: list[Path], values: tuple[str, ...]) -> Given:
    """A config in which each of some fields has another value."""
    copy = json.loads(json.dumps(document))
    changed = {}
    for number, place in enumerate(places):
        holder: Any = copy
        for part in place[:-1]:
            holder = holder[part]
        prefix = "gated-" if holder[place[-1]].startswith("gated-") else ""
        holder[place[-1]] = prefix + values[number % len(values)]
        changed[".".join(map(str, place))] = holder[place[-1]]
    return Given(what, json.dumps(copy, indent=1), changed)


def _case(owner: type[PreTrainedConfig], given: Given, plan: Plan | None, kind: type[PreTrainedModel] | None) -> Case:
    """What a model of a config computes.

    Args:
        owner: Class of the config.
        given: The config.
        plan: How to run the model; None to find out.
        kind: Class of the model; None for that of ``AutoModel``.
    """
    model = built(owner, given.text, kind)
    plan = plan or planned(model)
    found = [
        Ran(
            one.variant,
            one.scope,
            type(model.get_submodule(one.scope)).__name__,
            one.source.rpartition("/")[2],
            " ".join(name.rpartition(".")[2] for name in one.operators),
        )
        for one in computed(model, plan)
    ]
    ran = tuple(dict.fromkeys(found))
    return Case(given.what, given.text, given.changed, ran, kind.__name__ if kind else "", _idle(model, plan.ran))


def _idle(model: nn.Module, ran: set[str]) -> tuple[str, ...]:
    """Functions of the activation modules of a model that did not run."""
    return tuple(sorted({_computes(module) for path, module in model.named_modules() if path not in ran} - {""}))


def _computes(module: nn.Module) -> str:
    """The function of an activation module, found by probing it; empty for other modules."""
    if type(module).__module__ not in {activations.__name__, nn.modules.activation.__name__}:
        return ""
    x = torch.from_numpy(sweep("float32"))
    try:
        with torch.no_grad():
            found = identified(module(x).double().numpy(), "float32")
    except (RuntimeError, TypeError, ValueError):  # attention stands among PyTorch's activations too
        return ""
    return found.variant.name if found and found.variant else ""


def _of_heads(owner: type[PreTrainedConfig], configs: Sequence[Given], result: Measured) -> None:
    """Runs further classes until every distinctive value has been computed, or there is no further class."""
    distinctive = next((one for one in configs if one.changed), None)
    if distinctive is None or not result.cases:
        return
    named = (models.activation(value.removeprefix("gated-")) for value in distinctive.changed.values())
    missing = {one.variant for one in named if one} - _seen(result.cases)
    for kind in heads(owner) if missing else ():
        try:
            first = _head(owner, distinctive, kind)
            found = missing & _seen([first])
            result.cases += [first, *(_head(owner, one, kind) for one in configs if found and one is not distinctive)]
        except Exception as error:  # noqa: BLE001 – whatever the library raises, this class is not run
            result.spoilt[kind.__name__] = told(error)
            continue
        missing -= {one.variant for one in first.ran}
        if not missing:
            return


def _head(owner: type[PreTrainedConfig], given: Given, kind: type[PreTrainedModel]) -> Case:
    """What another model of a config computes; where no inputs fit, which functions wait in it."""
    try:
        return _case(owner, given, None, kind)
    except NotRun:
        model = built(owner, given.text, kind)
        return Case(given.what, given.text, given.changed, (), kind.__name__, _idle(model, set()))


def _seen(cases: Sequence[Case]) -> set[str]:
    """Functions that ran or wait."""
    ran = {one.variant.partition("[")[0] for case in cases for one in case.ran}
    return ran.union(*(case.idle for case in cases))
