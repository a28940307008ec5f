"""A choice between two functions as a step of a program: both are traced, and one of them runs.

Its derivative is a choice between their pullbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray
from ..autodiff import tape
from ..autodiff.tracing import captured, lifted, update
from ..backends.numba.compile import nopython
from ..core.context import CPU0, Context
from ..ir.graph import Value
from ..kernels.random import PART
from .compiled_program import Compiled, allocated
from .device.iteration import DeviceBranch
from .subprograms import Arrays, Traced, added, aval, carried, parts_of, pulled, settled, variable, zeros

__all__ = ["branch"]

Function = Callable[[], Arrays]


def branch(name: str, condition: NDArray, functions: tuple[Function, Function]) -> Arrays:
    """What the first function gives if the condition, one number, is not zero, else what the second gives.

    Both give as many arrays, of the same shapes and dtypes.
    """
    again = settled(functions[0]), settled(functions[1])
    sides = [Traced(lambda _, function=f: function(), []) for f in functions]
    written = list({id(x): x for side in sides for x in side.updated}.values())
    if written:
        outs = branch(name, condition, (_carrying(functions[0], written), _carrying(functions[1], written)))
        for array, new in zip(written, outs[-len(written) :], strict=True):
            update(array, new)
        return outs[: -len(written)]
    operands = lifted([condition])
    for side in sides:
        operands += [*([parts_of(side.drawn, 1)[0]] if side.drawn else []), *lifted(side.captured)]
    whole = _Branch(name, again, sides)
    return added(whole, operands, lambda _: _Rule(whole, operands))


def _carrying(function: Function, written: Arrays) -> Function:
    """The same, and what is then in the arrays that one of the functions writes into."""

    def carrying() -> Arrays:
        return carried(function, written, lifted(written))

    return carrying


class _Branch:
    """A choice, as a step of a program. `results`: shapes and dtypes."""

    def __init__(self, name: str, functions: tuple[Function, Function], sides: list[Traced]) -> None:
        self.name = name
        self.functions = functions
        self.sides = sides
        self.results = sides[0].avals

    @property
    def foreign(self) -> bool:
        """Whether users' code runs in it."""
        return any(side.foreign for side in self.sides)

    def concrete(self, read: Collection[int], ctx: Context = CPU0) -> _Runner | DeviceBranch:
        return DeviceBranch(self.name, self.sides, ctx) if ctx.device_type == "gpu" else _Runner(self)


class _Runner:
    """A choice to run.

    Attributes
    ----------
    run : callable
        ``run(condition, *operands, results)``.
    """

    partial = False
    single = False

    def __init__(self, whole: _Branch) -> None:
        self.name = whole.name
        self.texts: list[str] = []
        self.calls: list[Callable[[], Callable]] = []  # make what is called; a side never taken is never compiled
        self.sides: list[Compiled] = []
        arguments: list[Value] = []
        for side, which in zip(whole.sides, ("then", "else"), strict=True):
            compiled = Compiled(f"{whole.name}_{which}", side.graph, side.arguments, side.results)
            lines = [f"a{k} = operands[{len(arguments) + 1 + k}]._buf" for k in range(len(side.arguments))]
            lines += [f"out{k} = results[{k}]._buf" for k in range(len(side.results))]
            lines += [f"{k} = {code}" for k, code in compiled.space.items() if not k.startswith("out")]
            text = "\n    ".join(["def call(operands, results):", *lines, *compiled.steps])
            self.texts += compiled.texts
            self.sides.append(compiled)
            self.calls.append(cache(partial(compiled.function, compiled.name, text, {})))
            arguments += side.arguments
        self.foreign = any(runner.foreign for side in self.sides for runner, _, _ in side.opaque.values())
        self.avals = [((), None), *((v.shape, kind_of(v.dtype, CPU0)) for v in arguments)]

    def run(self, *arrays) -> None:
        *operands, results = arrays
        self.calls[0 if operands[0]._buf[0] else 1]()(operands, results)

    @property
    def native(self) -> Callable | None:
        """What makes it lines of a nopython function, if both sides can be; see :class:`.opaque.Opaque`."""
        if not all(side.nopython for side in self.sides):
            return None

        def native(operands: list[str], results: list[str], prefix: str) -> tuple[list[str], dict[str, Any]]:
            lines, names = [], {}
            condition, *rest = operands
            for side, head in zip(self.sides, (f"if {condition}[0]:", "else:"), strict=True):
                inside, used = side.native()
                arguments = {f"a{k}": v.dtype for k, v in enumerate(side.arguments)}
                arguments |= {f"out{k}": v.dtype for k, v in enumerate(side.outputs)}
                made = [allocated(k, *v) for k, v in side.buffers.items() if k not in arguments]
                text = "\n    ".join([f"def {side.name}({', '.join(arguments)}):", *made, *inside, "return"])
                kinds: list = [(1, dtype.storage) for dtype in arguments.values()]
                call = f"{prefix}_{side.name}"
                names[call] = nopython(side.name, text + "\n", used, kinds)
                taken, rest = rest[: len(side.arguments)], rest[len(side.arguments) :]
                lines += [head, f"    {call}({', '.join([*taken, *results])})"]
            return lines, names

        return native


class _Rule(tape.Rule):
    """The tape's rule for a choice."""

    def __init__(self, whole: _Branch, operands: Arrays) -> None:
        self.whole = whole
        self.name = whole.name
        self.operands = operands

    def grads(self, node, g, useful):
        operands = self.operands
        wanted = [
            k
            for k, (p, x) in enumerate(zip(node.parents, operands, strict=True))
            if k and tape.wanted(p, useful) and x._kind.dtype.is_float
        ]
        present = [k for k, h in enumerate(g) if h is not None]
        functions = []
        first = 1
        for side, function in zip(self.whole.sides, self.whole.functions, strict=True):
            functions.append(self._pullback(side, function, first, wanted, {k: g[k] for k in present}))
            first += len(side.arguments)
        found: list[NDArray | None] = [None] * len(operands)
        for k, h in zip(wanted, branch(f"{self.name}_back", operands[0], (functions[0], functions[1])), strict=True):
            found[k] = h
        return found

    def _pullback(self, side: Traced, function: Function, first: int, wanted: list[int], g: dict) -> Function:
        """The cotangents of the wanted operands through one side, whose operands begin at `first`."""

        def call() -> Arrays:
            stay = [variable(captured(x)) for x in self.operands[first : first + len(side.arguments)]]
            drawn = [(PART, stay[0])] if side.drawn else []
            own = list(zip(side.captured, stay[len(drawn) :], strict=True))
            found = pulled(function, stay, [*own, *drawn], {k: captured(h) for k, h in g.items()})
            given = []
            for k in wanted:
                h = found.get(id(stay[k - first])) if first <= k < first + len(stay) else None
                given.append(zeros(*aval(self.operands[k])) if h is None else h)
            return given

        return call
