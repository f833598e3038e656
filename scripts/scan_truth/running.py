"""Builds a model from its config, runs it and each part that its own run leaves out, and lists what it computes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from parity.jobs.activations import ActivationSite, activations
from scan_truth.dummies import inputs
from scan_truth.shrinking import parts, read

FEATURES: Final = ("image", "video", "audio", "speech", "vision", "text", "qformer", "img")
"""What models of several parts have methods for: ``get_image_features`` and the like."""

MAIN: Final = {
    "image": ("pixel_values", "image_grid_thw"),
    "video": ("pixel_values_videos", "video_grid_thw"),
    "audio": ("input_features", "input_values"),
}

LARGEST: Final = 600_000_000
"""Numbers in a model beyond which it is too large to be run."""


class NotRun(Exception):  # noqa: N818 – no error of this program: the model is counted as not run
    """A model was built and none of the inputs tried fit it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a part of a model.

    Attributes:
        path: Of the module.
        method: Its name.
        arguments: Tensors and other values by name.
    """

    path: str
    method: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        shapes = (f"{name} {list(getattr(one, 'shape', []))}" for name, one in self.arguments.items())
        return f"{self.path or 'model'}.{self.method}({', '.join(shapes)})"


@dataclass(slots=True)
class Plan:
    """How to run all of a model.

    Attributes:
        calls: What to call, in order.
        failures: Why other calls failed, by what was called.
        ran: Paths of the modules that these calls run.
    """

    calls: list[Call] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Computed:
    """One activation that was run.

    Attributes:
        variant: Its name with parameters; empty for a function without a name.
        scope: Path of the module that computes it.
        source: File and line.
        operators: That compute it.
    """

    variant: str
    scope: str
    source: str
    operators: tuple[str, ...]

    @classmethod
    def of(cls, site: ActivationSite) -> "Computed":
        """An entry of `parity.activations` of a `Runs`."""
        scope = site.scope.removeprefix("model").removeprefix(".")
        return cls(str(site.variant or ""), scope, site.source or "", site.operators)


class Runs(nn.Module):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """A model that runs all calls of a plan, on tensors handed in one after the other.

    Args:
        model: The model itself.
        plan: The calls.
    """

    def __init__(self, model: nn.Module, plan: Plan) -> None:
        super().__init__()
        self.model = model
        self.calls = plan.calls

    def tensors(self) -> dict[str, Any]:
        """What it is to be called with."""
        return {
            f"{number}_{name}": value.numpy()
            for number, call in enumerate(self.calls)
            for name, value in call.arguments.items()
            if isinstance(value, torch.Tensor)
        }

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Every call."""
        given = iter(tensors)
        results: list[torch.Tensor] = []
        for call in self.calls:
            arguments = {
                name: next(given) if isinstance(value, torch.Tensor) else value
                for name, value in call.arguments.items()
            }
            result = getattr(self.model.get_submodule(call.path), call.method)(**arguments)
            results += tensors_in(result)
        return results


def tensors_in(result: Any) -> list[torch.Tensor]:
    """All tensors in a result."""
    leaves, _ = tree_flatten(result)
    found = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dataclass_fields__"):
            found += tensors_in([getattr(leaf, name) for name in leaf.__dataclass_fields__])
    return found


def built(owner: type[PreTrainedConfig], text: str, kind: type[PreTrainedModel] | None = None) -> PreTrainedModel:
    """The model of a ``config.json``, with weights drawn at random.

    Args:
        owner: Class of the config.
        text: The file.
        kind: Class of the model; None for that of ``AutoModel``.

    Raises:
        Exception: Whatever the library raises.
    """
    make = kind._from_config if kind else AutoModel.from_config  # noqa: SLF001 – what the Auto classes call
    config = read(owner, text)
    for one in parts(config):
        if hasattr(one, "use_cache"):
            one.use_cache = False
    with torch.device("meta"):
        size = sum(one.numel() for one in make(read(owner, text)).parameters())
    if size > LARGEST:
        raise NotRun(f"too large: {size / 1e9:.1f} billion numbers")
    torch.manual_seed(0)
    model: PreTrainedModel = make(config)
    return model.float().eval()


def planned(model: PreTrainedModel) -> Plan:
    """How to run all parts of a model.

    Raises:
        NotRun: None of them runs.
    """
    plan = Plan()
    names = {id(module): path for path, module in model.named_modules()}
    for part, path, method, main in _wanted(model, plan):
        try:
            arguments, ran = _fitting(part, method, main, names)
        except NotRun as error:
            plan.failures[f"{path or 'model'}.{method}"] = str(error)
        else:
            plan.calls.append(Call(path, method, arguments))
            plan.ran |= ran | ({path} if method == "forward" else set())
    if not plan.calls:
        raise NotRun(next(iter(plan.failures.values()), "nothing to call"))
    return plan


def _wanted(model: PreTrainedModel, plan: Plan) -> Iterator[tuple[PreTrainedModel, str, str, tuple[str, ...]]]:
    """What is to be called: a part, its path, the method, and its main inputs. It depends on what the plan holds."""
    yield model, "", "forward", (str(model.main_input_name),)
    for kind in FEATURES:
        method = f"get_{kind}_features"
        if hasattr(model, method) and not (kind == "text" and not plan.failures):
            yield model, "", method, MAIN.get(kind, ("pixel_values",))
    for path, module in model.named_modules():
        if isinstance(module, PreTrainedModel) and path and path not in plan.ran:
            yield module, path, "forward", (str(module.main_input_name),)


def _fitting(
    part: PreTrainedModel, method: str, main: tuple[str, ...], names: Mapping[int, str]
) -> tuple[dict[str, Any], set[str]]:
    """Inputs that a part runs on, and the modules that do.

    Raises:
        NotRun: None of those tried fits; the reason is that of the first.
    """
    call: Callable[..., Any] = getattr(part, method)
    problem = ""
    try:
        for arguments in inputs(call, part.config, main):
            try:
                with _noting(names) as ran, torch.no_grad():
                    if tensors_in(call(**arguments)):
                        return arguments, ran
                problem = problem or "returns no tensor"
            except Exception as error:  # noqa: BLE001 – whatever it raises, these inputs do not fit
                problem = problem or told(error)
    except Exception as error:
        raise NotRun(told(error)) from error  # in the config, sizes of inputs are not where they are looked for
    raise NotRun(problem or "no inputs known")


def told(error: Exception) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


@contextmanager
def _noting(names: Mapping[int, str]) -> Iterator[set[str]]:
    """A context in which paths of modules that run are noted."""
    ran: set[str] = set()

    def enter(module: nn.Module, _: Any) -> None:
        if id(module) in names:
            ran.add(names[id(module)])

    hook = module_hooks.register_module_forward_pre_hook(enter)
    try:
        yield ran
    finally:
        hook.remove()


class _Glus(TorchDispatchMode):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """Notes which modules call the gated linear unit: it halves its input, so it is no function of one tensor alone.

    Args:
        names: Paths of the modules.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__()
        self.found: list[str] = []
        self._names = names
        self._outer: list[str] = [""]

    def enter(self, module: nn.Module, _: Any) -> None:
        """Before a module runs."""
        self._outer.append(self._names.get(id(module), self._outer[-1]))

    def leave(self, *_: Any) -> None:
        """After it."""
        self._outer.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What PyTorch calls in the place of each operator."""
        if func is torch.ops.aten.glu.default:
            self.found.append(self._outer[-1])
        return func(*args, **(kwargs or {}))


def computed(model: PreTrainedModel, plan: Plan) -> list[Computed]:
    """Every activation that the calls of a plan compute, found among their operators and named by probing."""
    runs = Runs(model, plan).eval()
    sites = [Computed.of(site) for site in activations(runs, runs.tensors())]
    glus = _Glus({id(module): path for path, module in model.named_modules()})
    hooks = (
        module_hooks.register_module_forward_pre_hook(glus.enter),
        module_hooks.register_module_forward_hook(glus.leave, always_call=True),
    )
    try:
        with torch.no_grad(), glus:
            runs(*map(torch.from_numpy, runs.tensors().values()))
    finally:
        for hook in hooks:
            hook.remove()
    return [*sites, *(Computed("glu", scope, "", ("glu",)) for scope in glus.found)]
