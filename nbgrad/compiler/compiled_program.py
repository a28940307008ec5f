"""A traced program, compiled: kernels, opaque calls between them, and the memory for all."""

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
from ..backends.threads import parallel_ranges
from ..core.context import CPU0
from ..core.dtypes import DType
from ..core.shapes import size
from ..ir.expr import var
from ..ir.graph import Graph, ShapedValue, Value
from .buffer_placement import EXACT_LENGTH
from .kernel_source import Source
from .lowering import lower_to_statements
from .memory_plan import SharedBuffers
from .parallel_chunks import choose_chunks, combine_chunks
from .runtime_helpers import used_helpers
from .schedule import Loop, Program, schedule_statements
from .source import generate_source
from .statements import Statement

__all__ = ["Buffers", "Call", "Compiled", "allocation_code", "distinct_outputs", "numpy_name"]

#: Programs with more statements than this are compiled as many kernels.
_LONG = 50
#: The same for the step of a loop, which seldom repeats itself, and whose values kernels would pass on in memory.
_LONG_STEP = 200
#: Arrays to allocate: their dtypes and lengths.
Buffers = dict[str, tuple[DType, int]]


@dataclass(frozen=True)
class Call:
    """A call of a kernel. With a `count`, it runs on ranges of that many chunks, each of which needs `scratch`."""

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
        The inputs of each call.
    results : list of Seen
        The outputs of each call.
    is_nested : bool
        It is the step of a loop, or part of one: on one thread, and in one kernel with it if :attr:`is_kernel`.

    Attributes
    ----------
    program : Program
    sources : list of Source
    code : list of str
        All generated code, including that of loops and branches.
    buffers : dict
        Name of an array that is allocated at each call -> (dtype, number of elements).
    calls : list of Call or str
        Calls of kernels; code for opaque steps.
    opaque : dict
        Number of an opaque call -> its runner, the names of its operands, and those of its results (None if nothing
        reads them).
    globals : dict
        Global names of that code, except the kernels: these are compiled when a :meth:`function` is built.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        arguments: Sequence[Value],
        results: Sequence[ShapedValue],
        is_nested: bool = False,
    ) -> None:
        self.name = name
        self.is_nested = is_nested
        self.arguments = list(arguments)
        self.outputs = distinct_outputs(graph, results)
        lowered, full = lower_to_statements(graph, self.outputs, read_tables=True)
        #: A long program is many kernels; equal steps (of an unrolled loop) share one.
        self.splits_kernels = len(lowered) > (_LONG_STEP if is_nested else _LONG)
        self.program: Program = schedule_statements(lowered, full, one_kernel=not self.splits_kernels)
        self._entries: dict[tuple, str] = {}
        #: Loops that run on several threads. A kernel called by another one is serial.
        self.chunks = (
            {} if is_nested else {item: c for item in self.program.body if (c := choose_chunks(item, self.program))}
        )
        self.parts = _split_program(self.program, self.splits_kernels, self.chunks)
        self.names: dict[Value, str] = {v: f"a{k}" for k, v in enumerate(self.arguments)}
        self.names |= {v: f"out{k}" for k, v in enumerate(self.outputs)}
        self.sources: list[Source] = []
        self.code: list[str] = []
        self.results = [(v.shape, _kind(v.dtype)) for v in self.outputs]
        self.globals: dict = {"small": np.empty}
        self._makers: dict[str, Callable] = {}
        self.buffers: Buffers = {self.names[v]: (v.dtype, size(v.shape)) for v in self.outputs}
        self.calls: list[Call | str] = []
        self.opaque: dict[int, tuple[Any, list[str], list[str | None]]] = {}
        self._slots = SharedBuffers("t")
        crossing = _values_across_parts(self.program, self.parts, self.names, self.chunks)
        for k, part in enumerate(self.parts):
            for value, last, exact in crossing.get(k, []):
                self.names[value] = self._slots.allocate_for(value.dtype, size(value.shape), k, last, exact)
            if isinstance(part, Statement):
                self._opaque(part)
            else:
                self._kernel(part, k)
        self.buffers |= self._slots.arrays

    @cached_property
    def allocations_by_name(self) -> dict[str, str]:
        """Name of an array that is written -> code that allocates it."""
        return {name: self.empty_code(dtype, n) for name, (dtype, n) in self.buffers.items()}

    def empty_code(self, dtype: DType, n: int) -> str:
        """Code that allocates `n` elements; its names are among the global ones."""
        kind, storage, empty = _kind(dtype), f"d_{dtype.name}", f"e_{dtype.name}"
        self.globals[storage] = kind.storage
        if n < LARGE:
            return f"small({n}, {storage})"
        self.globals[empty] = kind.empty
        return f"{empty}({n}, {storage})"

    def _kernel(self, part: list, number: int) -> None:
        chunks = self.chunks.get(part[0])
        source = generate_source(self.name, part, self.program, self.names, chunks, self.is_nested)
        dtypes = {name: v.dtype for v, name in self.names.items()}
        partial = [] if chunks is None else chunks.partial
        sums = [(s.value.dtype, size(s.value.shape) * chunks.count) for s in partial] if chunks else []
        scratch = list(source.scratch.values())
        kinds = [dtypes[name].storage for name in source.arrays] + [dtype.storage for dtype, _ in [*sums, *scratch]]
        entry = self._entry(source, [*kinds, *([] if chunks is None else [int, int])])
        names = [self._slots.allocate_for(dtype, n, number, number) for dtype, n in sums]
        if chunks is None:
            names += [self._slots.allocate_for(dtype, n, number, number) for dtype, n in scratch]
            self.calls.append(Call(entry, [*source.arrays, *names]))
            return
        self.calls.append(Call(entry, [*source.arrays, *names], scratch, chunks.count, chunks.weight))
        if partial:
            last = Source()
            last.text, outs = combine_chunks(self.name, chunks, self.program, self.names)
            last.helpers = used_helpers(last.text)
            kinds = [s.value.dtype.storage for s in partial]
            self.calls.append(Call(self._entry(last, [*kinds, *kinds]), [*outs, *names]))

    def _entry(self, source: Source, kinds: list) -> str:
        """The name of the kernel; equal kernels share one."""
        if self.splits_kernels:
            source.text = _renumbered(source.text)
        entry = self._entries.get((source.text, *kinds))
        if entry is None:
            entry = self._entries[(source.text, *kinds)] = f"kernel{len(self.sources)}"
            self.sources.append(source)
            self.code.append(source.text)
            made = generate(self.name, source.text, source.helpers, apart=True)
            self._makers[entry] = partial(made.bind, *kinds)
        return entry

    def function(self, name: str, text: str, names: dict) -> Callable:
        """A Python function from its source, with the kernels and `names` as globals."""
        for entry, make in list(self._makers.items()):  # another thread may be at the same kernels
            self.globals[entry] = make()
            self._makers.pop(entry, None)
        return python(name, text, {**self.globals, **names})

    @cached_property
    def steps(self) -> list[str]:
        """Code for the calls of kernels and of opaque steps."""
        return [call if isinstance(call, str) else self._step(call) for call in self.calls]

    def _step(self, call: Call) -> str:
        if not call.count:
            return f"{call.entry}({', '.join(call.arguments)})"
        self.globals["each"] = parallel_ranges
        own = [self.empty_code(*shape) for shape in call.scratch]
        inside = ", ".join([*call.arguments, *own, "start", "stop"])
        return f"each(lambda start, stop: {call.entry}({inside}), {call.count}, {call.weight})"

    def _opaque(self, s: Statement) -> None:
        """An opaque step: the operator's own kernels."""
        traced, results = s.value.attrs
        number = len(self.calls)
        parts = {v.attrs: v for v in self.names if v.op == "part" and v.inputs[0].value is s.value}
        runner = traced.concrete(parts, is_nested=self.is_nested)
        operands = []
        for k, (x, (shape, kind)) in enumerate(zip(s.value.inputs, runner.avals, strict=True)):
            self.globals[f"i{number}_{k}"] = (shape, kind)
            operands.append(f"wrap({self.names[x.value]}, *i{number}_{k})")
        outputs = []
        for k, (shape, dtype) in enumerate(results):
            kind = _kind(dtype)
            if k not in parts:  # nothing reads it
                if runner.partial:
                    outputs.append("None")
                    continue
                self.buffers[f"r{number}_{k}"] = (dtype, size(shape))
            self.globals[f"o{number}_{k}"] = (shape, kind)
            outputs.append(f"wrap({self.names[parts[k]] if k in parts else f'r{number}_{k}'}, *o{number}_{k})")
        self.globals[f"run{number}"] = runner.run
        self.code += runner.code
        self.globals["wrap"] = wrap
        spare = [None if runner.partial else f"r{number}_{k}" for k in range(len(results))]
        results = [self.names[parts[k]] if k in parts else spare[k] for k in range(len(results))]
        self.opaque[number] = runner, [self.names[x.value] for x in s.value.inputs], results
        outs = outputs[0] if runner.single else f"[{', '.join(outputs)}]"
        self.calls.append(f"run{number}({', '.join([*operands, outs])})")

    @property
    def scratch(self) -> Buffers:
        """The buffers that are no results."""
        return {name: buffer for name, buffer in self.buffers.items() if not name.startswith("out")}

    @property
    def is_kernel(self) -> bool:
        """Whether all steps can be part of one kernel: they are kernels, and loops and branches of such."""
        return all(runner.inside is not None for runner, _, _ in self.opaque.values())

    def inside(self) -> tuple[list[str], dict[str, Any]]:
        """The steps as lines of a kernel, and their global names. The arrays of inner loops become `buffers`, too."""
        names: dict[str, Any] = {
            f"kernel{k}": nested(self.name, source.text, source.helpers) for k, source in enumerate(self.sources)
        }
        lines: list[str] = []
        for number, call in enumerate(self.calls):
            if isinstance(call, Call):
                lines.append(self._step(call))
                continue
            runner, operands, results = self.opaque[number]
            emitted, used, buffers = runner.inside(operands, results, f"step{number}")
            lines += emitted
            names |= used
            self.buffers |= buffers
        return lines, names

    @property
    def nopython(self) -> bool:
        """Whether all steps can be part of a nopython function: none runs from Python."""
        return all(runner.native is not None for runner, _, _ in self.opaque.values())

    def native(self) -> tuple[list[str], dict[str, Any]]:
        """The steps as lines of a nopython function, and their global names."""
        names: dict[str, Any] = {"np": np}
        for k, source in enumerate(self.sources):
            names[f"kernel{k}"] = generate(self.name, source.text, source.helpers, apart=True).as_function()
        lines: list[str] = []
        for number, call in enumerate(self.calls):
            if isinstance(call, Call):
                own = [f"s{number}_{k}" for k in range(len(call.scratch))]
                lines += [allocation_code(name, *shape) for name, shape in zip(own, call.scratch, strict=True)]
                own += ["0", str(call.count)] * bool(call.count)
                lines.append(f"{call.entry}({', '.join([*call.arguments, *own])})")
                continue
            runner, operands, results = self.opaque[number]
            emitted, used = runner.native(operands, results, f"step{number}")
            lines += emitted
            names |= used
        return lines, names

    def caller(self, loads: Sequence[str], gives: str, names: dict) -> Callable:
        """The Python function that runs the whole program, unrolled for the shortest way to the kernels.

        Parameters
        ----------
        loads : sequence of str
            Code for the buffer of each argument, in terms of `leaves`, the argument of the function.
        gives : str
            Code for the result, in terms of ``out0``, ``out1``, ...
        names : dict
            Other global names of the code.
        """
        lines = [f"a{k} = {code}" for k, code in enumerate(loads)]
        lines += [f"{name} = {code}" for name, code in self.allocations_by_name.items()] + [
            *self.steps,
            f"return {gives}",
        ]
        text = "def call(leaves):\n" + "\n".join(f"    {line}" for line in lines)
        return self.function(self.name, text, names)


def allocation_code(name: str, dtype: DType, n: int) -> str:
    """Code that allocates a flat array in a nopython function."""
    return f"{name} = np.empty({n}, {numpy_name(dtype)})"


def numpy_name(dtype: DType) -> str:
    """The NumPy dtype, as code."""
    return "np.bool_" if dtype.name == "bool" else f"np.{dtype.storage.name}"


def _split_program(program: Program, pieces: bool, separate: Container) -> list[list | Statement]:
    """Split the program where something opaque runs, at loops in `separate`, or between all top-level loops.

    What another part reads becomes an array of its own.
    """
    parts: list[list | Statement] = []
    for item in program.body:
        if isinstance(item, Statement) and item.how == "opaque":
            parts.append(item)
        elif parts and isinstance(parts[-1], list) and not (pieces or item in separate or parts[-1][0] in separate):
            parts[-1].append(item)
        else:
            parts.append([item])
    home: dict[Value, int] = {}
    for k, part in enumerate(parts):
        for s in _statements(part):
            home[s.value] = k
            for access in s.reads:
                if home.get(access.value, k) != k:
                    program.materialized_values.add(access.value)
    return parts


def _values_across_parts(
    program: Program, parts: list[list | Statement], external: Container[Value], shared: Container
) -> dict[int, list]:
    """The values of each part that others read: the value, its last reader, and whether its length must be exact.

    For a loop that runs on several threads, every array: the threads share it.
    """
    home: dict[Value, int] = {}
    last: dict[Value, int] = {}
    whole: set[Value] = set()
    retained: set[Value] = set()
    for k, part in enumerate(parts):
        for s in _statements(part):
            home[s.value] = k
            for access in s.reads:
                last[access.value] = k
                if s.how == "opaque":
                    whole.add(access.value)
                    if s.value.attrs[0].foreign:  # user code may keep a reference
                        retained.add(access.value)
    crossing: dict[int, list] = {}
    for value in sorted(program.materialized_values, key=lambda v: v.number):
        source = value.inputs[0].value if value.op == "part" else value
        if source not in home or value in external:
            continue
        k = home[source]
        part = parts[k]
        if isinstance(part, list) and last.get(value, k) == k and part[0] not in shared:
            continue
        exact = value.op == "part" or value in whole or program.makers[value].how in EXACT_LENGTH
        end = len(parts) if value in retained or _from_user_code(value) else last.get(value, k)
        crossing.setdefault(k, []).append((value, end, exact))
    return crossing


def _from_user_code(value: Value) -> bool:
    """Whether user code computed it."""
    return value.op == "part" and value.inputs[0].value.attrs[0].foreign


def _renumbered(text: str) -> str:
    """The source with the numbers in its names counted from 0, so that equal steps have equal sources."""
    renamed: dict[str, str] = {}
    counts: Counter = Counter()

    def name(match: re.Match) -> str:
        whole, letters = match.group(0), match.group(1)
        if whole not in renamed:
            kind = "p" if letters in ("a", "out", "t") else letters
            renamed[whole] = f"{kind}{counts[kind]}"
            counts[kind] += 1
        return renamed[whole]

    return _NUMBERED.sub(name, text)


#: Names of arrays, variables and loops, before the numbers of unrolled iterations that follow them, as in r7_0_1.
_NUMBERED = re.compile(r"\b(a|out|t|s|q|x|r|w|i|o|b|e|j|low|high)(\d+)(?=\b|(?:_\d+)+\b)")


def _statements(part) -> list[Statement]:
    if isinstance(part, Statement):
        return [part]
    return [s for item in part for s in (item.statements() if isinstance(item, Loop) else [item])]


def _kind(dtype: DType) -> Kind:
    return kind_of(dtype, CPU0)


def distinct_outputs(graph: Graph, results: Sequence[ShapedValue]) -> list[Value]:
    """A distinct value for each result."""
    values: list[Value] = []
    for seen in results:
        value = seen.value
        if value.op not in ("map", "reduce", "product", "part") or value in values:
            value = graph.add(
                "map",
                (ShapedValue(value, value.shape),),
                (var("x0"), value.dtype),
                value.shape,
                value.dtype,
                unique=True,
            )
        values.append(value)
    return values
