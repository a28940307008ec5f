"""A traced program as something to run: kernels, what is opaque between them, and the memory for it all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.compile import generate, nested, python
from ..codegen.graph import Graph, Seen, Value
from ..codegen.launch import Kind, kind_of
from ..codegen.memory import LARGE
from ..context import CPU0
from ..dtypes import DType
from ..expr import var
from ..ndarray import wrap
from ..shapes import size
from .nests import Loop, Program, arranged
from .source import Source, written
from .statements import Statement, statements

__all__ = ["Compiled", "allocated", "numpy_name", "outputs"]

#: Statements of a program that is compiled in pieces.
_LONG = 50


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
    space : dict
        Name of an array that is written -> code that allocates it.
    sizes : dict
        The same name -> its dtype and number of elements.
    steps : list of str
        Code for the calls of kernels and of what is opaque.
    opaque : dict
        Number of a step that is opaque -> what runs it, the names of its operands, and those of its results (None if
        nobody reads them).
    globals : dict
        What that code uses.
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
        parts = _parts(self.program, self.pieces)
        self.pure = len(parts) == 1 and isinstance(parts[0], list)
        self.names: dict[Value, str] = {v: f"a{k}" for k, v in enumerate(self.arguments)}
        self.names |= {v: f"out{k}" for k, v in enumerate(self.outputs)}
        self.temporaries: list[Value] = []
        for value in sorted(full, key=lambda v: v.number):
            if value not in self.names:
                self.names[value] = f"t{len(self.temporaries)}"
                self.temporaries.append(value)
        self.sources: list[Source] = []
        self.texts: list[str] = []
        self.results = [(v.shape, _kind(v.dtype)) for v in self.outputs]
        self.globals: dict = {"small": np.empty}
        self.space: dict[str, str] = {}
        self.sizes: dict[str, tuple[DType, int]] = {}
        self.steps: list[str] = []
        self.opaque: dict[int, tuple[Any, list[str], list[str | None]]] = {}
        for value in [*self.outputs, *self.temporaries]:
            self._allocate(self.names[value], _kind(value.dtype), size(value.shape))
        for part in parts:
            if isinstance(part, Statement):
                self._opaque(part)
            else:
                self._kernel(part)

    def _allocate(self, name: str, kind: Kind, n: int) -> None:
        self.sizes[name] = (kind.dtype, n)
        dtype = f"d_{kind.dtype.name}"
        self.globals[dtype] = kind.storage
        if n < LARGE:
            self.space[name] = f"small({n}, {dtype})"
        else:
            empty = f"e_{kind.dtype.name}"
            self.globals[empty] = kind.empty
            self.space[name] = f"{empty}({n}, {dtype})"

    def _kernel(self, part: list) -> None:
        source = written(self.name, part, self.program, self.names)
        dtypes = {name: v.dtype for v, name in self.names.items()}
        scratch = [(name, *source.scratch[name]) for name in sorted(source.scratch)]
        kinds = [dtypes[name].storage for name in source.arrays] + [dtype.storage for _, dtype, _ in scratch]
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
                self.globals[entry] = generate(self.name, source.text, source.helpers, apart=True).bind(*kinds)
        for name, dtype, n in scratch:
            self._allocate(name, _kind(dtype), n)
        self.steps.append(f"{entry}({', '.join([*source.arrays, *(name for name, _, _ in scratch)])})")

    def _opaque(self, s: Statement) -> None:
        """An operator's own kernels."""
        traced, results = s.value.attrs
        number = len(self.steps)
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
                self._allocate(f"r{number}_{k}", kind, size(shape))
            self.globals[f"o{number}_{k}"] = (shape, kind)
            made.append(f"wrap({self.names[parts[k]] if k in parts else f'r{number}_{k}'}, *o{number}_{k})")
        self.globals[f"run{number}"] = plan.run
        self.texts += plan.texts
        self.globals["wrap"] = wrap
        spare = [None if plan.partial else f"r{number}_{k}" for k in range(len(results))]
        results = [self.names[parts[k]] if k in parts else spare[k] for k in range(len(results))]
        self.opaque[number] = plan, [self.names[x.value] for x in s.value.inputs], results
        outs = made[0] if plan.single else f"[{', '.join(made)}]"
        self.steps.append(f"run{number}({', '.join([*given, outs])})")

    def native(self) -> tuple[list[str], dict[str, Any]] | None:
        """The steps as lines of a nopython function, and what else these use; None if one runs from Python."""
        names: dict[str, Any] = {"np": np}
        for k, source in enumerate(self.sources):
            names[f"kernel{k}"] = generate(self.name, source.text, source.helpers, apart=True).within()
        lines: list[str] = []
        for number, step in enumerate(self.steps):
            if number not in self.opaque:
                lines.append(step)
                continue
            runner, operands, results = self.opaque[number]
            if runner.native is None:
                return None
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
        return python(self.name, text, {**self.globals, **names})


def allocated(name: str, dtype: DType, n: int) -> str:
    """Code that makes a flat array in a nopython function."""
    return f"{name} = np.empty({n}, {numpy_name(dtype)})"


def numpy_name(dtype: DType) -> str:
    """Its dtype, in code."""
    return "np.bool_" if dtype.name == "bool" else f"np.{dtype.storage.name}"


def _parts(program: Program, pieces: bool) -> list[list | Statement]:
    """The program, cut where something opaque runs, or between all loops at the top.

    What is read in another part becomes an array of its own.
    """
    parts: list[list | Statement] = []
    for item in program.body:
        if isinstance(item, Statement) and item.how == "opaque":
            parts.append(item)
        elif parts and isinstance(parts[-1], list) and not pieces:
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

    return re.sub(r"\b(a|out|t|x|r|w|i|o|b|e|j|low|high)(\d+)\b", name, text)


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
