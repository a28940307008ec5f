"""A traced program on a GPU: its kernels, launched one after the other, and opaque steps between them.

A call is generated as a Python function, as :class:`..compiled_program.Compiled` does for the CPU. Everything is queued
on the device's stream, in order, so memory is returned to the pool as soon as no later step reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ...arrays.launch import kind_of
from ...arrays.ndarray import wrap
from ...backends.cuda.kernels import device_kernel
from ...backends.cuda.product import product
from ...backends.cuda.replay import Replay
from ...backends.numba.compile import python
from ...core import config
from ...core.context import CPU0, Context
from ...core.dtypes import DType
from ...core.shapes import size
from ...ir.graph import Graph, ShapedValue, Value
from ..compiled_program import distinct_outputs
from ..lowering import lower_to_statements
from ..statements import Statement
from .epilogues import fuse_epilogues, generate_epilogue
from .groups import Group, group_statements
from .kernels import generate_kernels
from .linear import product_sizes
from .source import Kernel

__all__ = ["DeviceProgram", "on_host_copies"]


class DeviceProgram:
    """The program that computes `results` from `arguments` on a GPU.

    Parameters
    ----------
    name : str
    graph : Graph
    arguments : sequence of Value
    results : sequence of Seen
    ctx : Context
        The device.
    sizes_are_constant : bool
        Sizes are constants in the kernels; else one source serves many shapes.

    Attributes
    ----------
    groups : list of Group
        The statements, grouped by kernel.
    kernels : list of Kernel
    code : list of str
        All generated code.
    steps : list of str
        Code for a call, once the results are allocated.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        arguments: Sequence[Value],
        results: Sequence[ShapedValue],
        ctx: Context,
        sizes_are_constant: bool = True,
    ) -> None:
        self.name = name
        self.ctx = ctx
        self.arguments = list(arguments)
        self.outputs = distinct_outputs(graph, results)
        lowered, full = lower_to_statements(graph, self.outputs)
        self.sizes_are_constant = sizes_are_constant
        groups = group_statements(lowered, full, self.outputs)
        self.groups = fuse_epilogues(groups, self.outputs, ctx.device_id) if sizes_are_constant else groups
        self.names: dict[Value, str] = {v: f"a{k}" for k, v in enumerate(self.arguments)}
        self.names |= {v: f"out{k}" for k, v in enumerate(self.outputs)}
        self.kernels: list[Kernel] = []
        self.code: list[str] = []
        self.globals: dict[str, Any] = {}
        self._makers: dict[str, Callable[[], Callable]] = {}  # compiled when the program first runs
        self._steps: list[tuple[list[str], set[str]]] = []  # code, and the arrays it reads
        for g in self.groups:
            self._step(g)
        self.steps = self._code_with_releases()
        opaque = [s.value.attrs[0] for s in lowered if s.how == "opaque"]
        #: Whether calls may become CUDA graphs: they run no user code, and have more than one step.
        self.replayed = (
            config.GRAPHS and sizes_are_constant and len(self._steps) > 1 and not any(x.foreign for x in opaque)
        )

    def __call__(self, arguments: Sequence[Any], results: Sequence[Any]) -> None:
        """Run it on the buffers of the arguments, into those of the results."""
        self._run_on_buffers(arguments, results)

    @cached_property
    def replay(self) -> Replay:
        """The program, replayed as CUDA graphs where possible."""
        return Replay(self.ctx.device_id, self._run_on_buffers)

    @cached_property
    def _run_on_buffers(self) -> Callable:
        lines = [f"{self.names[v]} = given[{k}]" for k, v in enumerate(self.arguments)]
        lines += [f"out{k} = made[{k}]" for k in range(len(self.outputs))]
        return self._function("given, made", [*lines, *self.steps], {})

    def caller(self, loads: Sequence[str], gives: str, names: dict) -> Callable:
        """The Python function that runs the whole program; see :meth:`.Compiled.caller`."""
        lines = [f"a{k} = {code}" for k, code in enumerate(loads)]
        lines += [self._empty(f"out{k}", v) for k, v in enumerate(self.outputs)]
        steps = self.steps
        if self.replayed:
            names = {**names, "replay": self.replay}
            operands = "".join(f"a{k}, " for k in range(len(self.arguments)))
            destinations = "".join(f"out{k}, " for k in range(len(self.outputs)))
            steps = [f"replay(({operands}), ({destinations}))"]
        return self._function("leaves", [*lines, *steps, f"return {gives}"], names)

    def _function(self, arguments: str, lines: list[str], names: dict) -> Callable:
        for name, make in self._makers.items():
            if name not in self.globals:
                self.globals[name] = make()
        source = "\n    ".join([f"def call({arguments}):", *(lines or ["pass"])])
        return python(self.name, source, {**self.globals, **names})

    def _empty(self, name: str, value: Value) -> str:
        """Code that allocates the array of a value."""
        return self._memory(name, value.dtype, size(value.shape))

    def _memory(self, name: str, dtype: DType, n: int) -> str:
        kind = kind_of(dtype, self.ctx)
        self.globals[f"e_{dtype.name}"], self.globals[f"d_{dtype.name}"] = kind.empty, kind.storage
        return f"{name} = e_{dtype.name}({n}, d_{dtype.name})"

    def _code_with_releases(self) -> list[str]:
        """The steps' code, with temporaries deleted after the last step that reads them."""
        live = set(self.names.values()) - {name for name in self.names.values() if name[0] == "t"}
        lines_of_steps: list[str] = []
        for lines, read in reversed(self._steps):
            dead = sorted(read - live)
            live |= read
            lines_of_steps = [*lines, *([f"del {', '.join(dead)}"] if dead else []), *lines_of_steps]
        return lines_of_steps

    def _array_for(self, value: Value) -> tuple[str, list[str]]:
        """The name of the array for a value that a step computes, and code that allocates it if needed."""
        known = self.names.get(value)
        if known is not None:
            return known, []
        name = self.names[value] = f"t{len(self.names)}"
        return name, [self._empty(name, value)]

    # Steps.

    def _step(self, g: Group) -> None:
        if g.how == "opaque":
            self._opaque(next(iter(g.members.values())).s)
        elif g.how == "product":
            self._product(next(iter(g.members.values())).s)
        elif g.product is not None:
            self._epilogue(g, g.product)
        else:
            self._kernels(g)

    def _kernels(self, g: Group) -> None:
        """A group's kernels; the second reads the partial results that the first stores in scratch memory."""
        lines: list[str] = []
        for value in sorted(g.stored, key=lambda v: v.number):
            lines += self._array_for(value)[1]
        read: set[str] = set()
        parts: dict[int, tuple[str, DType]] = {}
        for kernel in generate_kernels(g, self.sizes_are_constant):
            lines += [f"{self.names[v]}.fill(0)" for v in kernel.cleared]
            for k, (dtype, n) in enumerate(kernel.parts):
                parts[k] = f"p{len(self._steps)}_{k}", dtype
                lines.append(self._memory(parts[k][0], dtype, n))
            operands = [parts[v] if isinstance(v, int) else (self.names[v], v.dtype) for v in kernel.arrays]
            read |= {self.names[v] for v in kernel.arrays if not isinstance(v, int)}
            if kernel.points or kernel.rows:
                lines.append(self._launch(kernel, operands))
        if parts:
            lines.append(f"del {', '.join(name for name, _ in parts.values())}")
        self._steps.append((lines, read))

    def _launch(self, kernel: Kernel, arrays: Sequence[tuple[str, DType]]) -> str:
        """Code that launches a kernel."""
        name = f"kernel{len(self.kernels)}"
        self.kernels.append(kernel)
        self.code.append(kernel.source)
        kinds = [d.storage for _, d in arrays] + [int] * len(kernel.integers)

        def make() -> Callable:
            head = kernel.source[4 : kernel.source.index("(")]
            launch = device_kernel(head, kernel.source, kernel.helpers).launch(*kinds)
            number, points, rows, threads = self.ctx.device_id, kernel.points, kernel.rows, kernel.threads
            integers = kernel.integers
            return lambda *given: launch(number, points, [*[x.array for x in given], *integers], rows, threads)

        self._makers[name] = make
        return f"{name}({', '.join([array for array, _ in arrays])})"

    def _product(self, s: Statement) -> None:
        out, lines = self._array_for(s.value)
        self._multiplied(s, out, lines, "", set())

    def _epilogue(self, g: Group, s: Statement) -> None:
        """A product with its epilogue."""
        lines: list[str] = []
        for value in sorted(g.stored, key=lambda v: v.number):
            lines += self._array_for(value)[1]
        epilogue, arrays = generate_epilogue(g)
        name = f"epilogue{len(self._steps)}"
        self.globals[name] = epilogue
        self.code.append(epilogue.source)
        first, *more = [self.names[v] for v in arrays]
        self._multiplied(
            s, first, lines, f", epilogue={name}, more=({''.join(f'{x}, ' for x in more)})", {first, *more}
        )

    def _multiplied(self, s: Statement, out: str, lines: list[str], other: str, read: set[str]) -> None:
        a, b = s.value.inputs
        transpose_a, transpose_b = s.value.attrs
        stacks, each = product_sizes(s.value)
        left, right = self.names[a.value], self.names[b.value]
        self.globals["product"] = product
        sizes = f"{stacks}, {each}, ({transpose_a}, {transpose_b})"
        lines.append(f"product({left}, {right}, {out}, {sizes}{other})")
        self._steps.append((lines, {left, right} | read))

    def _opaque(self, s: Statement) -> None:
        """An operator's own kernels, or the CPU's program between copies."""
        whole, results = s.value.attrs
        read: dict[int, Value] = {v.attrs: v for v in self._parts_of(s)}
        runner = whole.concrete(read, self.ctx)
        lines: list[str] = []
        destinations, spare = [], []
        for k, (shape, dtype) in enumerate(results):
            if k in read:
                name, more = self._array_for(read[k])
                lines += more
            elif runner.partial:
                name = "None"
            else:  # it is written, and nothing reads it
                name = f"r{len(self._steps)}_{k}"
                lines.append(self._empty(name, Value("part", (), k, shape, dtype, 0)))
                spare.append(name)
            destinations.append(name)
        self.code += runner.code
        operands = [self.names[x.value] for x in s.value.inputs]
        name = f"run{len(self._steps)}"
        self._makers[name] = lambda: _runner(runner, results, self.ctx)
        lines.append(f"{name}([{', '.join(operands)}], [{', '.join(destinations)}])")
        if spare:
            lines.append(f"del {', '.join(spare)}")
        self._steps.append((lines, set(operands)))

    def _parts_of(self, s: Statement) -> list[Value]:
        """The results of an opaque step that something reads."""
        every = [a.value for g in self.groups for s in g.statements() for a in s.reads] + self.outputs
        return list(dict.fromkeys(v for v in every if v.op == "part" and v.inputs[0].value is s.value))


def _runner(runner: Any, results: Sequence[tuple], ctx: Context) -> Callable:
    """The function that runs an opaque step on the buffers of its operands and results (None if unread)."""

    def call(arrays: list, outs: list) -> None:
        runner.run(*arrays, outs[0] if runner.single else outs)

    if not any(kind is not None and kind.gpu for _, kind in runner.avals):
        return on_host_copies(call, runner.avals, [(shape, kind_of(dtype, CPU0)) for shape, dtype in results])
    kinds = [(shape, kind_of(dtype, ctx)) for shape, dtype in results]

    def run(operands: list, destinations: list) -> None:
        outs = [None if y is None else wrap(y, *aval) for y, aval in zip(destinations, kinds, strict=True)]
        call([wrap(x, *aval) for x, aval in zip(operands, runner.avals, strict=True)], outs)

    return run


def on_host_copies(call: Callable[[list, list], None], operands: Sequence[tuple], results: Sequence[tuple]) -> Callable:
    """Wrap what runs only on the CPU for buffers on a GPU.

    Parameters
    ----------
    call : callable
        ``call(operands, results)``: arrays, of which the latter are written; None for those that nothing reads.
    operands, results : sequence of (shape, kind)
        On the CPU.
    """

    def run(buffers: list, destinations: list) -> None:
        arrays = [wrap(x.download(), *aval) for x, aval in zip(buffers, operands, strict=True)]
        outs = [
            None if y is None else wrap(kind.empty(size(shape), kind.storage), shape, kind)
            for y, (shape, kind) in zip(destinations, results, strict=True)
        ]
        call(arrays, outs)
        for y, out in zip(destinations, outs, strict=True):
            if out is not None:
                y[:] = out._buf

    return run
