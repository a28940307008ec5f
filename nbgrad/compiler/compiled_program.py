"""A traced program as something to run: kernels, what is opaque between them, and the memory for it all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..arrays.launch import Kind, kind_of
from ..arrays.ndarray import wrap
from ..backends.buffer_pool import LARGE
from ..backends.numba.compile import generate, nested, python
from ..backends.threads import each
from ..core.context import CPU0
from ..core.dtypes import DType
from ..core.shapes import size
from ..ir.expr import var
from ..ir.graph import Graph, Seen, Value
from .buffer_placement import WHOLE
from .memory_plan import Slots
from .parallel_chunks import chunked, together
from .runtime_helpers import needed
from .schedule import Loop, Program, arranged
from .source import Source, written
from .statements import Statement, statements

__all__ = ["Call", "Compiled", "allocated", "numpy_name", "outputs"]

#: Statements of a program that is compiled in pieces.
_LONG = 50


@dataclass(frozen=True)
class Call:
    """A call of a kernel. If there is a `count`, of ranges of so many chunks, each of which needs `scratch`."""

    entry: str
    arguments: list[str]
    scratch: list[tuple[DType, int]] = field(default_factory=list)
    count: int = 0
    weight: int = 0


class Compiled:
    """The program that computes `results` from `arguments`.

    Parameters
    ----------
    name : str
    graph : Graph
    arguments : list of Value
        What is given with a call.
    results : list of Seen
        What comes out.
    inside : bool
        A kernel will call it, if it is a kernel and nothing else.

    Attributes
    ----------
    program : Program
    pure : bool
        It is one kernel.
    sources : list of Source
    texts : list of str
        All generated code, that of loops and branches included.
    buffers : dict
        Name of an array that is allocated at each call -> (dtype, number of elements).
    calls : list of Call or str
        Of kernels; code for what is opaque.
    opaque : dict
        Number of a call that is opaque -> what runs it, the names of its operands, and those of its results (None if
        nobody reads them).
    globals : dict
        What that code uses, but for the kernels: they are compiled when a :meth:`function` of the code is made.
    """

    def __init__(
        self, name: str, graph: Graph, arguments: Sequence[Value], results: Sequence[Seen], inside: bool = False
    ) -> None:
        self.name = name
        self.inside = inside
        self.arguments = list(arguments)
        self.outputs = outputs(graph, results)
        made, full = statements(graph, self.outputs)
        self.program: Program = arranged(made, full)
        #: A long program is many kernels, of which those of equal steps (of a loop that was written out) are one.
        self.pieces = len(made) > _LONG
        self._entries: dict[tuple, str] = {}
        #: Loops that threads share. A kernel that others call is for one.
        self.chunks = {} if inside else {item: c for item in self.program.body if (c := chunked(item, self.program))}
        self.parts = _parts(self.program, self.pieces, self.chunks)
        self.pure = len(self.parts) == 1 and isinstance(self.parts[0], list)
        self.names: dict[Value, str] = {v: f"a{k}" for k, v in enumerate(self.arguments)}
        self.names |= {v: f"out{k}" for k, v in enumerate(self.outputs)}
        self.sources: list[Source] = []
        self.texts: list[str] = []
        self.results = [(v.shape, _kind(v.dtype)) for v in self.outputs]
        self.globals: dict = {"small": np.empty}
        self._makers: dict[str, Callable] = {}
        self.buffers = {self.names[v]: (v.dtype, size(v.shape)) for v in self.outputs}
        self.calls: list[Call | str] = []
        self.opaque: dict[int, tuple[Any, list[str], list[str | None]]] = {}
        self._slots = Slots("t")
        crossing = _crossing(self.program, self.parts, self.names, self.chunks)
        for k, part in enumerate(self.parts):
            for value, last, exact in crossing.get(k, []):
                self.names[value] = self._slots.take(value.dtype, size(value.shape), k, last, exact)
            if isinstance(part, Statement):
                self._opaque(part)
            else:
                self._kernel(part, k)
        self.buffers |= self._slots.arrays

    @cached_property
    def space(self) -> dict[str, str]:
        """Name of an array that is written -> code that allocates it."""
        return {name: self._empty(_kind(dtype), n) for name, (dtype, n) in self.buffers.items()}

    def _empty(self, kind: Kind, n: int) -> str:
        dtype = f"d_{kind.dtype.name}"
        self.globals[dtype] = kind.storage
        if n < LARGE:
            return f"small({n}, {dtype})"
        empty = f"e_{kind.dtype.name}"
        self.globals[empty] = kind.empty
        return f"{empty}({n}, {dtype})"

    def _kernel(self, part: list, number: int) -> None:
        chunks = self.chunks.get(part[0])
        source = written(self.name, part, self.program, self.names, chunks, self.inside)
        dtypes = {name: v.dtype for v, name in self.names.items()}
        partial = [] if chunks is None else chunks.partial
        sums = [(s.value.dtype, size(s.value.shape) * chunks.count) for s in partial] if chunks else []
        scratch = list(source.scratch.values())
        kinds = [dtypes[name].storage for name in source.arrays] + [dtype.storage for dtype, _ in [*sums, *scratch]]
        entry = self._entry(source, [*kinds, *([] if chunks is None else [int, int])])
        names = [self._slots.take(dtype, n, number, number) for dtype, n in sums]
        if chunks is None:
            names += [self._slots.take(dtype, n, number, number) for dtype, n in scratch]
            self.calls.append(Call(entry, [*source.arrays, *names]))
            return
        self.calls.append(Call(entry, [*source.arrays, *names], scratch, chunks.count, chunks.weight))
        if partial:
            last = Source()
            last.text, outs = together(self.name, chunks, self.program, self.names)
            last.helpers = needed(last.text)
            kinds = [s.value.dtype.storage for s in partial]
            self.calls.append(Call(self._entry(last, [*kinds, *kinds]), [*outs, *names]))

    def _entry(self, source: Source, kinds: list) -> str:
        """The name of the kernel; equal ones are one."""
        if self.pieces:
            source.text = _renamed(source.text)
        entry = self._entries.get((source.text, *kinds))
        if entry is None:
            entry = self._entries[(source.text, *kinds)] = f"kernel{len(self.sources)}"
            self.sources.append(source)
            self.texts.append(source.text)
            if self.inside and self.pure:
                self.globals[entry] = nested(self.name, source.text, source.helpers)
            else:
                made = generate(self.name, source.text, source.helpers, apart=True)
                self._makers[entry] = partial(made.bind, *kinds)
        return entry

    def function(self, name: str, text: str, names: dict) -> Callable:
        """A Python function from its source, which uses the kernels and `names`."""
        while self._makers:
            entry, make = self._makers.popitem()
            self.globals[entry] = make()
        return python(name, text, {**self.globals, **names})

    @cached_property
    def steps(self) -> list[str]:
        """Code for the calls of kernels and of what is opaque."""
        return [call if isinstance(call, str) else self._step(call) for call in self.calls]

    def _step(self, call: Call) -> str:
        if not call.count:
            return f"{call.entry}({', '.join(call.arguments)})"
        self.globals["each"] = each
        own = [self._empty(_kind(dtype), n) for dtype, n in call.scratch]
        inside = ", ".join([*call.arguments, *own, "start", "stop"])
        return f"each(lambda start, stop: {call.entry}({inside}), {call.count}, {call.weight})"

    def _opaque(self, s: Statement) -> None:
        """An operator's own kernels."""
        traced, results = s.value.attrs
        number = len(self.calls)
        parts = {v.attrs: v for v in self.names if v.op == "part" and v.inputs[0].value is s.value}
        plan = traced.concrete(parts)
        given = []
        for k, (x, (shape, kind)) in enumerate(zip(s.value.inputs, plan.avals, strict=True)):
            self.globals[f"i{number}_{k}"] = (shape, kind)
            given.append(f"wrap({self.names[x.value]}, *i{number}_{k})")
        made = []
        for k, (shape, dtype) in enumerate(results):
            kind = _kind(dtype)
            if k not in parts:  # nobody reads it
                if plan.partial:
                    made.append("None")
                    continue
                self.buffers[f"r{number}_{k}"] = (dtype, size(shape))
            self.globals[f"o{number}_{k}"] = (shape, kind)
            made.append(f"wrap({self.names[parts[k]] if k in parts else f'r{number}_{k}'}, *o{number}_{k})")
        self.globals[f"run{number}"] = plan.run
        self.texts += plan.texts
        self.globals["wrap"] = wrap
        spare = [None if plan.partial else f"r{number}_{k}" for k in range(len(results))]
        results = [self.names[parts[k]] if k in parts else spare[k] for k in range(len(results))]
        self.opaque[number] = plan, [self.names[x.value] for x in s.value.inputs], results
        outs = made[0] if plan.single else f"[{', '.join(made)}]"
        self.calls.append(f"run{number}({', '.join([*given, outs])})")

    @property
    def nopython(self) -> bool:
        """Whether the steps can be part of a nopython function: none runs from Python."""
        return all(runner.native is not None for runner, _, _ in self.opaque.values())

    def native(self) -> tuple[list[str], dict[str, Any]]:
        """The steps as lines of a nopython function, and what else these use."""
        names: dict[str, Any] = {"np": np}
        for k, source in enumerate(self.sources):
            names[f"kernel{k}"] = generate(self.name, source.text, source.helpers, apart=True).within()
        lines: list[str] = []
        for number, call in enumerate(self.calls):
            if isinstance(call, Call):
                own = [f"s{number}_{k}" for k in range(len(call.scratch))]
                lines += [allocated(name, *given) for name, given in zip(own, call.scratch, strict=True)]
                own += ["0", str(call.count)] * bool(call.count)
                lines.append(f"{call.entry}({', '.join([*call.arguments, *own])})")
                continue
            runner, operands, results = self.opaque[number]
            found, used = runner.native(operands, results, f"step{number}")
            lines += found
            names |= used
        return lines, names

    def caller(self, loads: Sequence[str], gives: str, names: dict) -> Callable:
        """The Python function that does it all, written out, for the shortest way to the kernels.

        Parameters
        ----------
        loads : sequence of str
            Code for the buffer of each argument, in terms of `leaves`, which is what the function gets.
        gives : str
            Code for what it returns, in terms of ``out0``, ``out1``, ...
        names : dict
            What else the code uses.
        """
        lines = [f"a{k} = {code}" for k, code in enumerate(loads)]
        lines += [f"{name} = {code}" for name, code in self.space.items()] + [*self.steps, f"return {gives}"]
        text = "def call(leaves):\n" + "\n".join(f"    {line}" for line in lines)
        return self.function(self.name, text, names)


def allocated(name: str, dtype: DType, n: int) -> str:
    """Code that makes a flat array in a nopython function."""
    return f"{name} = np.empty({n}, {numpy_name(dtype)})"


def numpy_name(dtype: DType) -> str:
    """Its dtype, in code."""
    return "np.bool_" if dtype.name == "bool" else f"np.{dtype.storage.name}"


def _parts(program: Program, pieces: bool, alone: Container) -> list[list | Statement]:
    """The program, cut where something opaque runs, or between all loops at the top; at loops that are to be `alone`.

    What is read in another part becomes an array of its own.
    """
    parts: list[list | Statement] = []
    for item in program.body:
        if isinstance(item, Statement) and item.how == "opaque":
            parts.append(item)
        elif parts and isinstance(parts[-1], list) and not (pieces or item in alone or parts[-1][0] in alone):
            parts[-1].append(item)
        else:
            parts.append([item])
    home: dict[Value, int] = {}
    for k, part in enumerate(parts):
        for s in _statements(part):
            home[s.value] = k
            for access in s.reads:
                if home.get(access.value, k) != k:
                    program.full.add(access.value)
    return parts


def _crossing(
    program: Program, parts: list[list | Statement], named: Container[Value], shared: Container
) -> dict[int, list]:
    """Of each part, what it makes for others to read: the value, its last reader, and whether its length counts.

    Of a loop that threads share, every array: they have it together.
    """
    home: dict[Value, int] = {}
    last: dict[Value, int] = {}
    whole: set[Value] = set()
    kept: set[Value] = set()
    for k, part in enumerate(parts):
        for s in _statements(part):
            home[s.value] = k
            for access in s.reads:
                last[access.value] = k
                if s.how == "opaque":
                    whole.add(access.value)
                    if s.value.attrs[0].foreign:  # users' code may keep what it gets
                        kept.add(access.value)
    found: dict[int, list] = {}
    for value in sorted(program.full, key=lambda v: v.number):
        maker = value.inputs[0].value if value.op == "part" else value
        if maker not in home or value in named:
            continue
        k = home[maker]
        part = parts[k]
        if isinstance(part, list) and last.get(value, k) == k and part[0] not in shared:
            continue
        exact = value.op == "part" or value in whole or program.makers[value].how in WHOLE
        end = len(parts) if value in kept or _foreign(value) else last.get(value, k)
        found.setdefault(k, []).append((value, end, exact))
    return found


def _foreign(value: Value) -> bool:
    """Whether users' code made it."""
    return value.op == "part" and value.inputs[0].value.attrs[0].foreign


def _renamed(text: str) -> str:
    """Source with the numbers in its names counted from 0, so that equal steps have equal sources."""
    known: dict[str, str] = {}
    counts: Counter = Counter()

    def name(match: re.Match) -> str:
        whole, letters = match.group(0), match.group(1)
        if whole not in known:
            kind = "p" if letters in ("a", "out", "t") else letters
            known[whole] = f"{kind}{counts[kind]}"
            counts[kind] += 1
        return known[whole]

    return re.sub(r"\b(a|out|t|s|q|x|r|w|i|o|b|e|j|low|high)(\d+)\b", name, text)


def _statements(part) -> list[Statement]:
    if isinstance(part, Statement):
        return [part]
    return [s for item in part for s in (item.statements() if isinstance(item, Loop) else [item])]


def _kind(dtype: DType) -> Kind:
    return kind_of(dtype, CPU0)


def outputs(graph: Graph, results: Sequence[Seen]) -> list[Value]:
    """A value of its own for each result."""
    found: list[Value] = []
    for seen in results:
        value = seen.value
        if value.op not in ("map", "reduce", "product", "part") or value in found:
            value = graph.add(
                "map", (Seen(value, value.shape),), (var("x0"), value.dtype), value.shape, value.dtype, unique=True
            )
        found.append(value)
    return found
