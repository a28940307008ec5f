"""A traced program as something to run: kernels, what is opaque between them, and the memory for it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..codegen.compile import generate
from ..codegen.graph import Graph, Seen, Value
from ..codegen.launch import Kind, kind_of
from ..context import CPU0
from ..dtypes import DType
from ..expr import var
from ..ndarray import wrap
from ..shapes import size
from .nests import Loop, Program, arranged
from .source import Source, written
from .statements import Statement, statements

__all__ = ["Compiled"]


class Compiled:
    """The program that computes `results` from `arguments`.

    Parameters
    ----------
    name : str
    graph : Graph
    arguments : list of Value
        In the order in which :meth:`run` gets their buffers.
    results : list of Seen
        What :meth:`run` gives a buffer for.

    Attributes
    ----------
    program : Program
    sources : list of Source
    """

    def __init__(self, name: str, graph: Graph, arguments: Sequence[Value], results: Sequence[Seen]) -> None:
        self.name = name
        self.arguments = list(arguments)
        self.outputs = _outputs(graph, results)
        made, full = statements(graph, self.outputs)
        self.program: Program = arranged(made, full)
        parts = _parts(self.program)
        self.names: dict[Value, str] = {v: f"a{k}" for k, v in enumerate(self.arguments)}
        self.names |= {v: f"out{k}" for k, v in enumerate(self.outputs)}
        self.temporaries: list[Value] = []
        for value in sorted(full, key=lambda v: v.number):
            if value not in self.names:
                self.names[value] = f"t{len(self.temporaries)}"
                self.temporaries.append(value)
        self.sources: list[Source] = []
        self.results = [(v.shape, _kind(v.dtype), size(v.shape)) for v in self.outputs]
        self._temporary = [(_kind(v.dtype), size(v.shape)) for v in self.temporaries]
        self._steps: list[Callable] = []
        for part in parts:
            if isinstance(part, Statement):
                self._steps.append(_launch(self, part))
            else:
                self._kernel(part)

    def _kernel(self, part: list) -> None:
        source = written(self.name, part, self.program, self.names)
        self.sources.append(source)
        kernel = generate(self.name, source.text, source.helpers, runtime=source.runtime, apart=True)
        dtypes = {name: v.dtype for v, name in self.names.items()}
        scratch = [source.scratch[name] for name in sorted(source.scratch)]
        kinds = [dtypes[name].storage for name in source.arrays] + [dtype.storage for dtype, _ in scratch]
        entry = kernel.bind(*kinds)
        places = [self._place(name) for name in source.arrays]
        blocks = [(_kind(dtype), n) for dtype, n in scratch]

        def step(arrays: list) -> None:
            entry(*[arrays[k] for k in places], *[kind.empty(n, kind.storage) for kind, n in blocks])

        self._steps.append(step)

    def _place(self, name: str) -> int:
        """Where an array is among arguments, results and temporaries."""
        number = int(name.lstrip("aout"))
        if name.startswith("a"):
            return number
        return len(self.arguments) + (number if name.startswith("o") else len(self.outputs) + number)

    def place(self, value: Value) -> int:
        return self._place(self.names[value])

    def run(self, buffers: Sequence) -> list:
        """The results' buffers, from those of the arguments."""
        outs = [kind.empty(n, kind.storage) for _, kind, n in self.results]
        arrays = [*buffers, *outs]
        if self._temporary:
            arrays += [kind.empty(n, kind.storage) for kind, n in self._temporary]
        for step in self._steps:
            step(arrays)
        return outs


def _parts(program: Program) -> list[list | Statement]:
    """The program, cut where something opaque runs. What is read in another part becomes an array of its own."""
    parts: list[list | Statement] = []
    for item in program.body:
        if isinstance(item, Statement) and item.how == "opaque":
            parts.append(item)
        elif parts and isinstance(parts[-1], list):
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


def _statements(part) -> list[Statement]:
    if isinstance(part, Statement):
        return [part]
    return [s for item in part for s in (item.statements() if isinstance(item, Loop) else [item])]


def _kind(dtype: DType) -> Kind:
    return kind_of(dtype, CPU0)


def _outputs(graph: Graph, results: Sequence[Seen]) -> list[Value]:
    """A value of its own for each result."""
    found: list[Value] = []
    for seen in results:
        value = seen.value
        if value.op not in ("map", "reduce", "product") or value in found:
            value = graph.add(
                "map", (Seen(value, value.shape),), (var("x0"), value.dtype), value.shape, value.dtype, unique=True
            )
        found.append(value)
    return found


def _launch(compiled: Compiled, s: Statement) -> Callable:
    """An opaque step: the operator's own kernels."""
    traced, results = s.value.attrs
    plan = traced.concrete()
    inputs = [(compiled.place(x.value), shape, kind) for x, (shape, kind) in zip(s.value.inputs, plan.avals, strict=True)]
    parts = {v.attrs: v for v in compiled.names if v.op == "part" and v.inputs[0].value is s.value}
    outs = [
        (compiled.place(parts[k]) if k in parts else -1, shape, _kind(dtype)) for k, (shape, dtype) in enumerate(results)
    ]

    def step(arrays: list) -> None:
        given = [wrap(arrays[k], shape, kind) for k, shape, kind in inputs]
        made = [
            wrap(kind.empty(size(shape), kind.storage) if k < 0 else arrays[k], shape, kind) for k, shape, kind in outs
        ]
        plan.run(*given, made[0] if plan.single else made)

    return step
