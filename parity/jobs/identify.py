"""``parity identify``: which function is this callable, or this table of inputs and outputs."""

import ast
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors

from parity.adapter import Array
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.errors import InputError
from parity.findings import Finding, Report, Verdict, environment
from parity.functions import Variant, parse
from parity.functions.identify import Identification
from parity.functions.identify import identify as identify_samples
from parity.inputs import CORE, probe
from parity.installation import adapter_statuses
from parity.worker import Worker

ADAPTER_OF_PACKAGE: Final[Mapping[str, str]] = {
    "torch": "torch",
    "transformers": "torch",
    "tensorflow": "tensorflow",
    "tf": "tensorflow",
    "keras": "tensorflow",
    "jax": "jax",
    "flax": "jax",
    "numpy": "numpy",
    "scipy": "numpy",
}
"""Whose tensors the functions of a package take."""

IMPORT_NAMES: Final = {"tf": "tensorflow", "np": "numpy", "F": "torch.nn.functional"}
"""What users write for a module whose name is longer."""

LARGEST_SAMPLES: Final = 2**32
"""Bytes that the arrays of a sample file may take."""

DAMAGE: Final = (
    OSError,
    ValueError,
    TypeError,  # a header that is Python, but not that of an array
    OverflowError,
    EOFError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,  # an encrypted entry, or a compression that this Python lacks
    MemoryError,
)
"""What zipfile and numpy.load raise on files that are not what they should be."""

SAMPLE_FILES: Final = (".npz", ".safetensors")

TELLING_INPUTS: Final = "Give inputs that reach where these variants part: about 1 to 6 on both sides of 0."

SAFETENSORS_DTYPES: Final = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyReport(Report):
    """What was identified; its fields are those of the JSON contract, with the evidence beside them."""

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]
    variant: str | None
    nearest: str
    residual_ulp: float
    max_residual_ulp: float
    worst_x: float
    runner_up: str
    margin: float
    coefficient: float
    standard_error: float
    effective_bits: float
    ambiguous: tuple[str, ...]
    coincide: tuple[str, ...]
    constants: Mapping[str, float]
    reason: str


def identify(
    target: str | Path | Callable[[Any], Any],
    *,
    adapter: str | None = None,
    dtype: str = "float32",
    expect: str | None = None,
    timeout: float = 300.0,
) -> IdentifyReport:
    """Says which activation variant a target is.

    Args:
        target: ``module:function`` or ``file.py:function`` (the file is executed), a ``.npz`` or ``.safetensors``
            file with tensors ``x`` and ``y``, or a callable from NumPy array to NumPy array.
        adapter: Whose tensors the function takes; by default told from its package, or from what its file imports.
        dtype: Dtype of the probe that a function is called with.
        expect: The variant that it has to be, as ``gelu_tanh`` or ``leaky_relu[negative_slope=0.2]``; another is a
            mismatch.
        timeout: Seconds until a function that does not return counts as hung.

    Raises:
        InputError: The target is none of these, or its arrays cannot be used.
        EngineError: The function or its framework failed.
    """
    kind = float_dtype(dtype)
    wanted = parse(expect) if expect else None
    versions: Mapping[str, Mapping[str, str]] = {}
    if callable(target) and adapter:
        raise InputError(
            "A callable is called here, with NumPy arrays, and not by an adapter.",
            hint="Name it as 'module:function' or 'file.py:function' to have it called with tensors of a framework.",
        )
    if callable(target):
        x = probe(dtype).x
        y = np.asarray(target(x.copy()))
        what = getattr(target, "__name__", repr(target))
    elif str(target).endswith(SAMPLE_FILES):
        x, y = read_samples(Path(target))
        what = str(target)
    else:
        x = probe(dtype).x
        chosen, y, found = _call(str(target), adapter, x, timeout)
        versions = {chosen: found}
        what = f"{target} in {kind.name}"
    asked = [wanted] if wanted else []
    return _report(what, identify_samples(x, y, extra=asked), wanted, (x, y), versions)


def _report(
    what: str,
    found: Identification,
    expected: Variant | None,
    samples: tuple[Array, Array],
    versions: Mapping[str, Mapping[str, str]],
) -> IdentifyReport:
    x, y = samples
    lost, near = _lost(x, y)
    named = found.variant
    # Some other name of the function that was expected is that function: celu with alpha 1 is elu.
    right = expected is None or named == expected or (named is not None and expected in found.coincide)
    verdict: Verdict = "pass"
    if named is None:
        verdict = "inconclusive" if found.undecided else "mismatch"
    elif not right or near:
        verdict = "mismatch"
    summary = f"{what} is {named}: {found.reason}." if named else f"{what} is not identified: {found.reason}."
    if not right and named:
        summary = f"{what} is {named}, not {expected}: {found.reason}."
    findings = []
    if named is None or not right:
        findings.append(
            Finding(
                rule="activation-variant" if named else "activation-unknown",
                severity="error" if verdict == "mismatch" else "warning",
                message=summary,
                fix="" if verdict == "mismatch" else TELLING_INPUTS,
                location={"candidate": what},
                expected=str(expected or found.nearest),
                observed=None if named is None else str(named),
                evidence={
                    "residual_ulp": found.residual_ulp,
                    "coefficient": found.coefficient,
                    "standard_error": found.standard_error,
                },
            )
        )
    if near and named and right:
        summary = f"{what} is {named} where it is finite, but not finite at {near} inputs within |x| <= {CORE:g}."
    if lost and (near or what.endswith(SAMPLE_FILES)):
        findings.append(
            Finding(
                rule="overflow",
                severity="error" if near else "warning",
                message=f"{what}: y is not finite at {lost} of {y.size} elements though x is, {near} of them within "
                f"|x| <= {CORE:g}; they were left out.",
                location={"candidate": what},
                evidence={"elements": lost},
            )
        )
    return IdentifyReport(
        verdict=verdict,
        summary=summary,
        findings=tuple(findings),
        coverage={"elements": found.count, "of": y.size, "not_finite": lost},
        environment=environment(versions, threads=1),
        variant=None if named is None else str(named),
        nearest=str(found.nearest),
        residual_ulp=found.residual_ulp,
        max_residual_ulp=found.max_residual_ulp,
        worst_x=found.worst_x,
        runner_up=str(found.runner_up),
        margin=found.margin,
        coefficient=found.coefficient,
        standard_error=found.standard_error,
        effective_bits=found.effective_bits,
        ambiguous=tuple(map(str, found.ambiguous)),
        coincide=tuple(map(str, found.coincide)),
        constants=found.constants,
        reason=found.reason,
    )


def _lost(x: Array, y: Array) -> tuple[int, int]:
    """Elements whose output is NaN or infinite though the input is finite, and how many of these are near zero."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        size = np.abs(x.astype(np.float64)).reshape(y.size, -1).max(axis=1)
        bad = ~np.isfinite(y.astype(np.float64)).reshape(-1)
    return int(np.sum(bad & np.isfinite(size))), int(np.sum(bad & (size <= CORE)))


def _call(target: str, adapter: str | None, x: Array, timeout: float) -> tuple[str, Array, Mapping[str, str]]:
    """The adapter that was used, the outputs of the function at ``x``, and the versions of its framework."""
    module, colon, name = target.rpartition(":")
    if not colon or not module or not name:
        dotted = target.rpartition(".")
        near = f"Did you mean {dotted[0]}:{dotted[2]}? " if dotted[0] and not target.endswith(".py") else ""
        raise InputError(
            f"'{target}' names nothing that can be identified.",
            hint=f"{near}Give module:function, file.py:function, or a .npz or .safetensors file with tensors x and y.",
        )
    if module.endswith(".py"):
        path = Path(module).absolute()
        packages = _imported(path)
        module = str(path)
    else:
        head, dot, rest = module.partition(".")
        module = IMPORT_NAMES.get(head, head) + dot + rest
        packages = [module.partition(".")[0]]
        own = Path(*module.split(".")).with_suffix(".py")
        if own.is_file():  # a module of the user's in this folder
            packages = _imported(own)
    chosen = adapter or next((ADAPTER_OF_PACKAGE[one] for one in packages if one in ADAPTER_OF_PACKAGE), "numpy")
    statuses = adapter_statuses()
    if chosen not in statuses:
        raise InputError.unknown("adapter", chosen, statuses)
    if statuses[chosen].missing:
        raise InputError(
            f"The adapter '{chosen}' lacks {', '.join(statuses[chosen].missing)}.",
            hint=f"Install it: {statuses[chosen].install}",
        )
    with Worker(chosen, timeout=timeout) as worker:
        arguments = {"module": module, "name": name, "folder": str(Path.cwd())}
        (message,) = worker.call("parity.measure.callables:evaluate", arguments, {"x": x})
    return chosen, message.arrays["y"], message.data["versions"]


def _imported(path: Path) -> list[str]:
    """Top-level packages that a Python file imports, in order; it is only parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", hint="Name an existing Python file.") from error
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} is not Python: {error}.", hint="Name a Python file and a function in it.") from error
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module.partition(".")[0])
    return found


def read_samples(path: Path) -> tuple[Array, Array]:
    """The tensors ``x`` and ``y`` of a ``.npz`` or ``.safetensors`` file.

    Raises:
        InputError: The file is missing, damaged or too large, lacks a tensor, or holds one of a type that cannot be
            used.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}.", hint="Name a .npz or .safetensors file with tensors x and y.")
    tensors = _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)
    for name in ("x", "y"):
        if name not in tensors:
            raise InputError(
                f"{path} has no tensor '{name}' (it has: {', '.join(sorted(tensors)) or 'none'}).",
                hint="Save the inputs as 'x' and the outputs as 'y'.",
            )
    return tensors["x"], tensors["y"]


def _read_npz(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > LARGEST_SAMPLES:
            raise InputError(
                f"{path} unpacks to {size / 2**30:.1f} GiB; at most {LARGEST_SAMPLES / 2**30:.0f} GiB are read.",
                hint="A few thousand elements identify a function.",
            )
        with np.load(path, allow_pickle=False) as archive:
            return {name: _usable(path, name, archive[name]) for name in archive.files if name in ("x", "y")} | {
                name: np.empty(0) for name in archive.files if name not in ("x", "y")
            }
    except DAMAGE as error:
        raise InputError(
            f"{path} is not a .npz file that can be read: {error}",
            hint="Write it with numpy.savez(file, x=x, y=y); object arrays are not read.",
        ) from error


def _usable(path: Path, name: str, array: Array | bytes) -> Array:
    if isinstance(array, bytes):  # what numpy.load gives for an entry that is no array
        raise InputError(
            f"'{name}' in {path} is not an array.", hint="Write the file with numpy.savez(file, x=x, y=y)."
        )
    if array.dtype.kind == "V":
        raise InputError(
            f"'{name}' in {path} has dtype {array.dtype}, as NumPy saves bfloat16.",
            hint="Save bfloat16 tensors as .safetensors.",
        )
    if array.dtype.newbyteorder("=").name not in FLOAT_DTYPES:
        raise InputError(
            f"'{name}' in {path} has dtype {array.dtype.name}.", hint=f"Save it as one of {', '.join(FLOAT_DTYPES)}."
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _read_safetensors(path: Path) -> dict[str, Array]:
    if path.stat().st_size > LARGEST_SAMPLES:
        raise InputError(
            f"{path} holds more than {LARGEST_SAMPLES / 2**30:.0f} GiB.",
            hint="A few thousand elements identify a function.",
        )
    try:
        entries = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (OSError, ValueError, OverflowError, MemoryError, safetensors.SafetensorError) as error:
        raise InputError(
            f"{path} is not a .safetensors file that can be read: {error}",
            hint="Write it with safetensors' save_file({'x': x, 'y': y}, file).",
        ) from error
    tensors = {}
    for name, entry in entries:
        dtype = SAFETENSORS_DTYPES.get(entry["dtype"])
        if dtype is None:
            if name in ("x", "y"):
                raise InputError(
                    f"'{name}' in {path} has dtype {entry['dtype']}.",
                    hint=f"Save it as one of {', '.join(SAFETENSORS_DTYPES)}.",
                )
            continue
        tensors[name] = np.frombuffer(entry["data"], dtype=float_dtype(dtype)).reshape(entry["shape"])
    return tensors
