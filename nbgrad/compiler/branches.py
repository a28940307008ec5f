"""Branches: a choice between two functions as a step of a program. Both are traced, and one of them runs.

The derivative of a branch is a branch between the pullbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from typing import Any

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray
from ..autodiff import tape
from ..autodiff.tracing import capture_outside, captured, update
from ..backends.numba.compile import nested, nopython
from ..core.context import CPU0, Context
from ..core.dtypes import DType, bool_
from ..functional.closures import frozen_closure
from ..ir.graph import Value
from ..kernels.random import PART
from .compiled_program import Buffers, Compiled, allocation_code
from .device.iteration import DeviceBranch
from .subprograms import (
    Arrays,
    TracedSubprogram,
    add_step,
    as_tape_leaf,
    aval_of,
    random_parts,
    trace_pullback,
    with_updates,
    zeros,
)

__all__ = ["branch"]

Function = Callable[[], Arrays]


def branch(name: str, condition: NDArray, functions: tuple[Function, Function]) -> Arrays:
    """The result of the first function if the scalar `condition` is not zero, else that of the second.

    Both return equally many arrays, of the same shapes and dtypes.
    """
    frozen = frozen_closure(functions[0]), frozen_closure(functions[1])
    sides = [TracedSubprogram(lambda _, function=f: function(), []) for f in functions]
    written = list({id(x): x for side in sides for x in side.updated}.values())
    if written:
        outs = branch(name, condition, (_carrying(functions[0], written), _carrying(functions[1], written)))
        for array, new in zip(written, outs[-len(written) :], strict=True):
            update(array, new)
        return outs[: -len(written)]
    operands = capture_outside([condition])
    for side in sides:
        operands += [*([random_parts(side.drawn, 1)[0]] if side.drawn else []), *capture_outside(side.captured)]
    whole = _Branch(name, frozen, sides)
    return add_step(whole, operands, lambda _: _Rule(whole, operands))


def _carrying(function: Function, written: Arrays) -> Function:
    """`function`, which also returns the new contents of the arrays that either function writes into."""

    def carrying() -> Arrays:
        return with_updates(function, written, capture_outside(written))

    return carrying


class _Branch:
    """A branch, as a step of a program."""

    form = ()

    def __init__(self, name: str, functions: tuple[Function, Function], sides: list[TracedSubprogram]) -> None:
        self.name = name
        self.functions = functions
        self.subprograms = sides
        self.results = sides[0].avals

    @property
    def foreign(self) -> bool:
        """Whether it runs user code."""
        return any(side.foreign for side in self.subprograms)

    def concrete(self, read: Collection[int], ctx: Context = CPU0, is_nested: bool = False) -> _Runner | DeviceBranch:
        return DeviceBranch(self.name, self.subprograms, ctx) if ctx.device_type == "gpu" else _Runner(self, is_nested)


class _Runner:
    """A compiled branch.

    Attributes
    ----------
    run : callable
        ``run(condition, *operands, results)``.
    """

    partial = False
    single = False

    def __init__(self, whole: _Branch, is_nested: bool) -> None:
        self.name = whole.name
        self.code: list[str] = []
        self.calls: list[Callable[[], Callable]] = []  # compiled lazily: a side never taken is never compiled
        self.sides: list[Compiled] = []
        arguments: list[Value] = []
        for side, which in zip(whole.subprograms, ("then", "else"), strict=True):
            compiled = Compiled(f"{whole.name}_{which}", side.graph, side.arguments, side.results, is_nested)
            lines = [f"a{k} = operands[{len(arguments) + 1 + k}]._buf" for k in range(len(side.arguments))]
            lines += [f"out{k} = results[{k}]._buf" for k in range(len(side.results))]
            lines += [f"{k} = {compiled.allocations_by_name[k]}" for k in compiled.scratch]
            source = "\n    ".join(["def call(operands, results):", *lines, *compiled.steps])
            self.code += compiled.code
            self.sides.append(compiled)
            self.calls.append(cache(partial(compiled.function, compiled.name, source, {})))
            arguments += side.arguments
        self.foreign = any(runner.foreign for side in self.sides for runner, _, _ in side.opaque.values())
        self.avals = [((), kind_of(bool_, CPU0)), *((v.shape, kind_of(v.dtype, CPU0)) for v in arguments)]

    def run(self, *arrays) -> None:
        *operands, results = arrays
        self.calls[0 if operands[0]._buf[0] else 1]()(operands, results)

    @property
    def inside(self) -> Callable | None:
        """Emits lines of a kernel, if both sides can be part of one; see :meth:`.Compiled.inside`."""
        return self._inside if all(side.is_kernel for side in self.sides) else None

    def _inside(
        self, operands: list[str], results: list[str], prefix: str
    ) -> tuple[list[str], dict[str, Any], Buffers]:
        buffers: Buffers = {}

        def function(side: Compiled) -> tuple[Callable, list[str]]:
            steps, names = side.inside()
            own = {f"{prefix}_{side.name}_{name}": buffer for name, buffer in side.scratch.items()}
            buffers.update(own)
            source = _function(side, [*_arrays(side), *side.scratch], steps)
            return nested(side.name, source, names), list(own)

        return *self._choice(operands, results, prefix, function), buffers

    @property
    def native(self) -> Callable | None:
        """Emits lines of a nopython function, if both sides can be part of one; see :class:`.opaque.Opaque`."""
        return self._native if all(side.nopython for side in self.sides) else None

    def _native(self, operands: list[str], results: list[str], prefix: str) -> tuple[list[str], dict[str, Any]]:
        def function(side: Compiled) -> tuple[Callable, list[str]]:
            steps, names = side.native()
            allocations = [allocation_code(name, *buffer) for name, buffer in side.scratch.items()]
            arrays = _arrays(side)
            kinds: list = [(1, dtype.storage) for dtype in arrays.values()]
            return nopython(side.name, _function(side, arrays, [*allocations, *steps]), names, kinds), []

        return self._choice(operands, results, prefix, function)

    def _choice(
        self,
        operands: list[str],
        results: list[str],
        prefix: str,
        function: Callable[[Compiled], tuple[Callable, list[str]]],
    ) -> tuple[list[str], dict[str, Any]]:
        """Lines that call one of the functions of the sides, and their names; `function` gives the function of a side
        and its further arguments."""
        lines, names = [], {}
        condition, *rest = operands
        for side, head in zip(self.sides, (f"if {condition}[0]:", "else:"), strict=True):
            call = f"{prefix}_{side.name}"
            names[call], more = function(side)
            own, rest = rest[: len(side.arguments)], rest[len(side.arguments) :]
            lines += [head, f"    {call}({', '.join([*own, *results, *more])})"]
        return lines, names


def _arrays(side: Compiled) -> dict[str, DType]:
    """The operands and results of a side, by their names in its code."""
    operands = {f"a{k}": v.dtype for k, v in enumerate(side.arguments)}
    return operands | {f"out{k}": v.dtype for k, v in enumerate(side.outputs)}


def _function(side: Compiled, parameters: Iterable[str], lines: list[str]) -> str:
    return "\n    ".join([f"def {side.name}({', '.join(parameters)}):", *lines, "return"]) + "\n"


class _Rule(tape.Rule):
    """The tape's rule for a branch."""

    def __init__(self, whole: _Branch, operands: Arrays) -> None:
        self.whole = whole
        self.name = whole.name
        self.operands = operands

    def grads(self, node, g, useful):
        operands = self.operands
        wanted = [
            k
            for k, (p, x) in enumerate(zip(node.parents, operands, strict=True))
            if k and tape.cotangent_wanted(p, useful) and x._kind.dtype.is_float
        ]
        present = [k for k, h in enumerate(g) if h is not None]
        functions = []
        first = 1
        for side, function in zip(self.whole.subprograms, self.whole.functions, strict=True):
            functions.append(self._pullback(side, function, first, wanted, {k: g[k] for k in present}))
            first += len(side.arguments)
        cotangents: list[NDArray | None] = [None] * len(operands)
        for k, h in zip(wanted, branch(f"{self.name}_back", operands[0], (functions[0], functions[1])), strict=True):
            cotangents[k] = h
        return cotangents

    def _pullback(self, side: TracedSubprogram, function: Function, first: int, wanted: list[int], g: dict) -> Function:
        """The cotangents of the wanted operands through one side, whose operands start at `first`."""

        def call() -> Arrays:
            constants = [as_tape_leaf(captured(x)) for x in self.operands[first : first + len(side.arguments)]]
            drawn = [(PART, constants[0])] if side.drawn else []
            own = list(zip(side.captured, constants[len(drawn) :], strict=True))
            heads = {k: captured(h) for k, h in g.items()}
            found = trace_pullback(self.name, side, frozen_closure(function), constants, [*own, *drawn], heads)
            cotangents = []
            for k in wanted:
                h = found.get(id(constants[k - first])) if first <= k < first + len(constants) else None
                cotangents.append(zeros(aval_of(self.operands[k])) if h is None else h)
            return cotangents

        return call
