"""One run of a jaxpr taken apart into operator calls, told one by one as they are made.

Calls of functions are followed inside, loops are unrolled and of a branch the taken side is followed, so that what
comes out is one flat list: steps that can be run again, alone and in any precision.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity.adapter import Sink
from parity.graph import Site
from parity_adapters.jax import kinds
from parity_adapters.jax.arrays import NATIVE, cast, is_key, to_numpy
from parity_adapters.jax.constants import address
from parity_adapters.jax.interpreter import apply, called, inlined, is_drop, is_literal, live
from parity_adapters.jax.places import Place, joined, place_of, stack

MOST_UNROLLED: Final = 4096
"""Sites into which one loop may be unrolled; a longer one is a single site."""

_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "clamp": ("min", "x", "max"),
    "select_n": ("condition", "otherwise", "then"),
    "pad": ("x", "value"),
    "pow": ("x", "exponent"),
}
"""What numbers in a formula are called, by their place among the primitive's inputs; ``other`` where not listed."""

_SUFFIX: Final = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class Step:
    """A site and how to run it again.

    Attributes:
        site: What the core is told.
        equation: The primitive with its parameters.
        reads: Tensor names in the primitive's order, which the site's may differ from.
    """

    site: Site
    equation: Any
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor of the run; ``value`` is an array of NumPy or JAX."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Number:
    """A number that stands in a formula: it gets its name from the site that reads it."""

    value: Any


Operand = Tensor | Number


@dataclass(slots=True)
class Recorder:
    """Walks a jaxpr on given numbers.

    Attributes:
        sink: Is told of each site.
        named: Name of an array that the model closes over by its `constants.address`.
        steps: By site name, in order.
        weights: What the model has of its own by tensor name, arrays of NumPy or JAX.
        dtypes: By tensor name, weights included.
        read: Names of the tensors that a site read.
        branches: By place and number of branches, which of them the inputs took.
    """

    sink: Sink
    named: Mapping[tuple[int, int], str]
    steps: dict[str, Step] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[str, Any] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    branches: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    _constants: dict[tuple[Any, ...], Operand] = field(default_factory=dict)
    _taken: set[tuple[str, str]] = field(default_factory=set)

    def free(self, name: str, space: str = "tensor") -> str:
        """``name``, with a number behind it where that is taken in its ``space`` of names."""
        free = next(one for one in chain((name,), (f"{name}_{n}" for n in count(1))) if (space, one) not in self._taken)
        self._taken.add((space, free))
        return free

    def weight(self, name: str, value: Any) -> Tensor:
        """Makes ``value`` a weight called ``name``."""
        self.weights[name] = value
        return self.tensor(name, value)

    def tensor(self, name: str, value: Any) -> Tensor:
        """Makes ``value`` a tensor called ``name``."""
        self.dtypes[name] = value.dtype
        self._taken.add(("tensor", name))
        return Tensor(name, value)

    def lifted(self, operand: Operand, name: str) -> Tensor:
        """``operand``, made a weight called ``name`` where it is a number."""
        return self.weight(name, operand.value) if isinstance(operand, Number) else operand

    def run(self, closed: core.ClosedJaxpr, inputs: Sequence[Operand], outer: Place) -> list[Operand]:
        """Runs ``closed``, which stands in the place ``outer``, and tells of its sites; returns its outputs."""
        jaxpr, consts = closed.jaxpr, [self._constant(value) for value in closed.consts]
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))
        equations = live(jaxpr)

        def read(atom: Any) -> Operand:
            return Number(np.asarray(atom.val, atom.aval.dtype)) if is_literal(atom) else known[atom]

        for equation, dead in zip(equations, _last_read(equations, jaxpr.outvars), strict=True):
            place = place_of(equation, outer)
            made = self._equation(equation, [read(atom) for atom in equation.invars], place)
            known.update(zip(equation.outvars, made, strict=True))
            for atom in dead:
                known.pop(atom, None)
        return [read(atom) for atom in jaxpr.outvars]

    def _constant(self, value: Any) -> Operand:
        if is_key(value.dtype):
            return self.weight(self._unnamed(), value)
        value = np.asarray(value)
        found = address(value)
        view = (*found, value.shape, value.strides, value.dtype)  # an array and its transpose lie in the same place
        if view not in self._constants:
            name = self.named.get(found, "") or (self._unnamed() if value.shape else "")
            self._constants[view] = self.weight(self.free(name), value) if name else Number(value)
        return self._constants[view]

    def _unnamed(self) -> str:
        return next(one for one in (f"const_{number}" for number in count()) if one not in self.weights)

    def _equation(self, equation: Any, operands: list[Operand], place: Place) -> Sequence[Operand]:
        body = inlined(equation)
        if body is not None:
            return self.run(body, operands, self._inside(place, called(equation, body)))
        follow = {"cond": self._cond, "scan": self._scan, "while": self._while}.get(equation.primitive.name)
        made = follow(equation, operands, place) if follow else _folded(equation, operands)
        return self._site(equation, operands, place) if made is None else made

    def _inside(self, place: Place, name: str) -> Place:
        """One call of the function ``name``; the scope of a second one in the same scope gets a number."""
        last = place.scope.rpartition(".")[2]
        if not name or name in (place.strip, _SUFFIX.sub("", last)):
            return place.within(place.scope, place.strip or last)
        return place.within(self.free(joined(place.scope, name), "scope"))

    def _site(self, equation: Any, operands: Sequence[Operand], place: Place) -> list[Operand]:
        op = equation.primitive.name
        name = self.free(joined(place.scope, op))
        roles = _ROLES.get(op, ())
        read = [
            self._read(operand, f"{name}.{roles[number] if number < len(roles) else 'other'}")
            for number, operand in enumerate(operands)
        ]
        avals = [atom.aval for atom in equation.invars]
        made = [atom.aval for atom in equation.outvars]
        fixed = [tensor.name in self.weights for tensor in read]
        meaning = kinds.meaning(kinds.Seen(op, equation.params, avals, made, fixed))
        if op == "integer_pow" and meaning.kind == "pow":
            read.append(self.weight(f"{name}.exponent", np.asarray(equation.params["y"], avals[0].dtype)))
        names = ["" if is_drop(atom) else f"{name}:{number}" for number, atom in enumerate(equation.outvars)]
        reads = tuple(tensor.name for tensor in read)
        site = Site(
            name=name,
            op=op,
            kind=meaning.kind,
            scope=place.scope,
            inputs=tuple(reads[number] for number in meaning.order) or reads,
            outputs=tuple(names),
            attributes=meaning.attributes,
            source=place.source,
            labels=place.labels,
        )
        self.steps[name] = Step(site, equation, reads)
        self.read.update(reads)
        values = apply(equation, [cast(tensor.value, tensor.value.dtype) for tensor in read], NATIVE)
        tensors = [self.tensor(name, value) for name, value in zip(names, values, strict=True)]
        self.sink(site, {tensor.name: to_numpy(tensor.value) for tensor in tensors if tensor.name})
        return list(tensors)

    def _read(self, operand: Operand, name: str) -> Tensor:
        return operand if isinstance(operand, Tensor) else self.lifted(operand, self.free(name))

    def _cond(self, equation: Any, operands: Sequence[Operand], place: Place) -> Sequence[Operand]:
        branches = equation.params["branches"]
        taken = min(max(int(to_numpy(operands[0].value)), 0), len(branches) - 1)
        where = place.source or place.scope or "the top of the model"
        self.branches.setdefault((where, len(branches)), set()).add(taken)
        return self.run(branches[taken], operands[1:], place)

    def _scan(self, equation: Any, operands: Sequence[Operand], place: Place) -> Sequence[Operand] | None:
        params, body = equation.params, equation.params["jaxpr"]
        length, fixed, carried = params["length"], params["num_consts"], params["num_carry"]
        if not 0 < length * _size(body.jaxpr) <= MOST_UNROLLED:
            return None
        loop = self._loop(place, body)
        consts, carry, stacked = operands[:fixed], operands[fixed : fixed + carried], operands[fixed + carried :]
        rows: dict[int, Sequence[Operand]] = {}
        for number in reversed(range(length)) if params["reverse"] else range(length):
            inner = loop.within(joined(loop.scope, str(number)), loop.strip)
            parts = [self._part(operand, number, inner) for operand in stacked]
            made = self.run(body, [*consts, *carry, *parts], inner)
            carry, rows[number] = made[:carried], made[carried:]
        columns = zip(*(rows[number] for number in range(length)), strict=True)
        whole = [
            column[0] if is_drop(atom) else self._composed(_stack, column, loop)
            for atom, column in zip(equation.outvars[carried:], columns, strict=True)
        ]
        return [*carry, *whole]

    def _loop(self, place: Place, body: core.ClosedJaxpr) -> Place:
        """The place of a loop: the scope of all that is in ``body``, and for a second loop in there one of its own."""
        heads = _heads(body.jaxpr)
        name = heads.pop() if len(heads) == 1 else ""
        scope = joined(place.scope, "" if name == place.strip else name)
        return place.within(scope if self.free(scope, "loop") == scope else self.free(scope or "loop", "scope"), name)

    def _part(self, operand: Operand, number: int, place: Place) -> Operand:
        """Element ``number`` along the first axis: of a weight a weight of its own, else the outcome of a site."""
        if isinstance(operand, Tensor) and operand.name in self.weights and not is_key(operand.value.dtype):
            return self.weight(f"{operand.name}[{number}]", np.asarray(operand.value)[number])
        return self._composed(_element, [operand, Number(np.asarray(number, np.uint32))], place)

    def _composed(self, function: Callable[..., Any], operands: Sequence[Operand], place: Place) -> Operand:
        """The outcome of ``function``, told as the sites that it consists of."""
        closed = jax.make_jaxpr(function)(*(operand.value for operand in operands))
        (made,) = self.run(closed, operands, place)
        return made

    def _while(self, equation: Any, operands: Sequence[Operand], place: Place) -> Sequence[Operand] | None:
        params = equation.params
        first, second = params["cond_nconsts"], params["body_nconsts"]
        carry, consts = operands[first + second :], operands[first : first + second]
        trips = _trips(equation, [operand.value for operand in operands])
        if trips * _size(params["body_jaxpr"].jaxpr) > MOST_UNROLLED:
            return None
        loop = self._loop(place, params["body_jaxpr"])
        for number in range(trips):
            carry = self.run(
                params["body_jaxpr"], [*consts, *carry], loop.within(joined(loop.scope, str(number)), loop.strip)
            )
        return carry


def _last_read(equations: Sequence[Any], outputs: Sequence[Any]) -> list[list[Any]]:
    """For each equation the variables that nobody needs after it."""
    needed = {atom for atom in outputs if not is_literal(atom)}
    dead = []
    for equation in reversed(equations):
        atoms = {atom for atom in (*equation.outvars, *equation.invars) if not is_literal(atom)}
        dead.append(list(atoms - needed))
        needed |= atoms
    return dead[::-1]


def _heads(jaxpr: core.Jaxpr) -> set[str]:
    """The outermost name scopes in ``jaxpr``; that of an equation in none is empty."""
    heads = set[str]()
    for equation in jaxpr.eqns:
        parts, body = stack(equation), inlined(equation)
        heads |= {parts[0]} if parts else {""} if body is None else _heads(body.jaxpr)
    return heads


def _folded(equation: Any, operands: Sequence[Operand]) -> list[Operand] | None:
    """A number in another type, where it is the same number: JAX casts those of a formula before it uses them."""
    if equation.primitive.name != "convert_element_type" or not isinstance(operands[0], Number):
        return None
    value = operands[0].value
    made = value.astype(equation.outvars[0].aval.dtype)
    return [Number(made)] if made.astype(value.dtype).tobytes() == value.tobytes() else None


def _size(jaxpr: core.Jaxpr) -> int:
    """Sites that a run of ``jaxpr`` has, a ``while`` within it counted as run once."""
    return sum(_sites(equation) for equation in jaxpr.eqns)


def _sites(equation: Any) -> int:
    body, params = inlined(equation), equation.params
    if body is not None:
        return _size(body.jaxpr)
    match equation.primitive.name:
        case "scan":
            return int(params["length"]) * _size(params["jaxpr"].jaxpr)
        case "while":
            return _size(params["body_jaxpr"].jaxpr)
        case "cond":
            return max(_size(branch.jaxpr) for branch in params["branches"])
    return 1


def _trips(equation: Any, operands: Sequence[Any]) -> int:
    """How often a ``while`` runs its body on these operands."""
    params = equation.params
    first, second = params["cond_nconsts"], params["body_nconsts"]
    condition, body = core.jaxpr_as_fun(params["cond_jaxpr"]), core.jaxpr_as_fun(params["body_jaxpr"])
    fixed, consts, carry = operands[:first], operands[first : first + second], operands[first + second :]
    _, trips = jax.lax.while_loop(
        lambda state: condition(*fixed, *state[0])[0],
        lambda state: (tuple(body(*consts, *state[0])), state[1] + 1),
        (tuple(map(jnp.asarray, carry)), jnp.zeros((), jnp.int32)),
    )
    return int(trips)


def _element(x: Any, number: Any) -> Any:
    zero = jnp.zeros((), number.dtype)
    row = jax.lax.dynamic_slice(x, (number, *[zero] * (x.ndim - 1)), (1, *x.shape[1:]))
    return jax.lax.squeeze(row, (0,))


def _stack(*rows: Any) -> Any:
    return jnp.stack(rows)
