"""The program of one signature: traced, compiled and called; and its node on the tape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.launch import Kind, copy, kind_of
from ..arrays.ndarray import NDArray, from_value, wrap, zeros
from ..arrays.sharing import note_write, on_memory
from ..autodiff import tape
from ..autodiff.constants import constant
from ..autodiff.state import state
from ..autodiff.tracing import (
    WEAK,
    RetraceObserver,
    capture_outside,
    captured,
    is_weak,
    traced,
    traced_value,
    tracing_into,
)
from ..core import dtypes
from ..core.context import CPU0, Context, gpu
from ..core.conventions import Conventions
from ..core.shapes import size
from ..core.single_element import Single
from ..errors import ContextError, InPlaceError, TraceError
from ..functional.call import conventions_of
from ..functional.pytrees import flatten
from ..ir.graph import Graph, current
from ..kernels import random
from ..kernels.shape import reshape
from .compiled_program import Compiled
from .device.program import DeviceProgram
from .retracing import check_same

if TYPE_CHECKING:
    from .jitted import Jitted

__all__ = ["Program", "Static", "is_array"]


class Static:
    """An argument whose value is part of the signature."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = (value.__class__, value)


def is_array(leaf: Any) -> bool:
    """Whether a leaf of the arguments becomes a traced array."""
    return isinstance(leaf, NDArray | np.ndarray | np.generic | float)


class Program:
    """A function specialized for one signature.

    Parameters
    ----------
    jitted : Jitted
    build : callable or int
        Builds (args, kwargs) from an iterator over leaves; or the number of arguments, each a leaf.
    leaves : list
        The leaves of the first call.

    Attributes
    ----------
    ctx : Context
        Where it runs: the CPU, or the GPU that the arrays are on.
    compiled : Compiled or DeviceProgram
    captured : list of NDArray
        Arrays from outside that it reads.
    saved_counts : list of int
        The last results are those of steps that must not run again for derivatives: how many each has.
    """

    def __init__(self, jitted: Jitted, build: Callable | int, leaves: list) -> None:
        self.jitted = jitted
        self.build = build
        self.training = state.training
        self.static = [None if is_array(leaf) else leaf for leaf in leaves]
        self.arrays = [k for k, leaf in enumerate(leaves) if is_array(leaf)]
        self.leaf_types = [leaves[k].__class__ for k in self.arrays]
        self.takes_ndarrays = any(issubclass(t, NDArray) for t in self.leaf_types)
        self.conventions = conventions_of(leaves)
        self.avals = [_aval(leaves[k], self.conventions) for k in self.arrays]
        #: Per array, whether its elements are stored as in a raw buffer: byte order is part of the signature.
        self.is_raw_layout = [
            leaf_type is np.ndarray and leaves[k].dtype.isnative and leaves[k].dtype == kind.storage
            for k, leaf_type, (_, kind) in zip(self.arrays, self.leaf_types, self.avals, strict=True)
        ]
        place = _common_device(jitted.name, [x for x in leaves if isinstance(x, NDArray)])
        graph, arguments, results = self._traced(CPU0 if place is None else place)
        if place is None:  # it runs on the device of the captured arrays
            place = next((x._kind.ctx for x in self.captured if x._kind.gpu), None)
            if place is not None:
                graph, arguments, results = self._traced(place)
        self.ctx = CPU0 if place is None else place
        self._check_devices()
        self.results = [(y._shape, y._kind.on(self.ctx)) for y in results]
        self._parts = graph, arguments, [traced_value(y) for y in results]
        self.compiled = self._compiled(self.ctx)
        self.call = self._caller()

    def _compiled(self, ctx: Context) -> Compiled | DeviceProgram:
        """The program for a device of this type."""
        if ctx.device_type == "gpu":
            return DeviceProgram(self.jitted.name, *self._parts, ctx)
        return Compiled(self.jitted.name, *self._parts)

    def code(self, device: str | None) -> Sequence[str]:
        """The generated code, for ``"cpu"``, ``"gpu"``, or None: where it runs."""
        own = device in (None, "gpu" if self.ctx.device_type == "gpu" else "cpu")
        return (self.compiled if own else self._compiled(gpu(0) if device == "gpu" else CPU0)).code

    def _traced(self, device: Context) -> tuple[Graph, list, list[NDArray]]:
        """Trace the function for arrays on this device: the graph, its arguments and results."""
        graph = Graph()
        with tracing_into(graph, numbers=not self.takes_ndarrays):
            inside = [
                traced(graph.argument(shape, kind.dtype), shape, kind.dtype, kind.conventions)
                for shape, kind in self.avals
            ]
            for x, kind in zip(inside, self.leaf_types, strict=True):
                if kind is float:
                    x._label = WEAK
            arguments = [traced_value(x).value for x in inside]
            with device, RetraceObserver():
                self.result = self.call_original(inside)
            outputs: list = []
            self.rebuild = flatten(self.result, outputs)
            outputs = [captured(y) if isinstance(y, NDArray) and not y._kind.traced else y for y in outputs]
        self.updated = self._update_targets(graph, inside)
        self.captured = self._captured_arrays(graph)
        self.drawn = graph.drawn if any(x is random.PART for x in self.captured) else 0
        self.computed = [isinstance(y, NDArray) for y in outputs]
        self.constants = [None if computed else y for computed, y in zip(self.computed, outputs, strict=True)]
        results = [y for y in outputs if isinstance(y, NDArray)]
        self.count = len(results)
        self.numbers = [is_weak(y) for y in results]
        results += [new for _, new in graph.updates]
        self.saved_counts = [len(group) for group in graph.saved_results]
        results += [x for group in graph.saved_results for x in group]
        return graph, [*arguments, *(traced_value(x).value for _, x in graph.captured)], results

    def _captured_arrays(self, graph: Graph) -> list:
        """The captured arrays; for those converted from NumPy arrays outside, views of their memory where possible."""
        self.copied: list[tuple[NDArray, np.ndarray]] = []
        self.foreign: list[np.ndarray] = []
        captured = [x for x, _ in graph.captured]
        for k, x in enumerate(captured):
            _, source = graph.sources.get(id(x._buf), (None, None))
            values = None if source is None else source.found()
            if values is None:
                continue
            self.foreign.append(values)
            flags = values.flags
            if flags.c_contiguous and flags.aligned and values.dtype is x._kind.dtype.np and not x._kind.gpu:
                captured[k] = on_memory(values, x._kind)
            else:
                self.copied.append((x, values))
        graph.sources = {}
        return captured

    def _copy(self) -> None:
        """Update the copies of NumPy arrays from outside whose memory a program cannot read directly."""
        for x, values in self.copied:
            buffer: Any = x._buf
            with np.errstate(invalid="ignore", over="ignore"):
                buffer.view(x._kind.dtype.np)[:] = values.reshape(-1)
            x._cell[0] += 1

    def _check_devices(self) -> None:
        """Check that all captured arrays are on the device of the arguments."""
        for x in self.captured:
            if x is not random.PART and x._kind.ctx != self.ctx and (x._kind.gpu or self.ctx.device_type == "gpu"):
                raise ContextError(
                    f"{self.jitted.name}: the function is called for {self.ctx} and reads an array of shape "
                    f"{x._shape} on {x._kind.ctx}; move one of them with as_in_context"
                )

    def _update_targets(self, graph: Graph, inside: list[NDArray]) -> list:
        """What every call updates: captured arrays, or indices of leaves."""
        targets: list = []
        for target, _ in graph.updates:
            k = next((k for k, x in zip(self.arrays, inside, strict=True) if x is target), None)
            leaf_type = None if k is None else self.leaf_types[self.arrays.index(k)]
            if target._kind.traced and not (leaf_type and issubclass(leaf_type, NDArray)):
                raise TraceError(
                    f"{self.jitted.name}: an operator writes into an array (BatchNorm into its running statistics) "
                    "that is neither an NDArray from outside nor an argument given as one; give an NDArray"
                )
            targets.append(target if k is None else k)
        return targets

    def _update(self, outs: Sequence, leaves: Sequence) -> None:
        """Write the updates of a call, besides its results."""
        for target, new in zip(self.updated, outs[self.count :]):
            x = leaves[target] if isinstance(target, int) else target
            copy(new, x._buf)
            note_write(x)

    def call_original(self, inside: Sequence[NDArray]) -> Any:
        """Call the original function on these arrays."""
        leaves = list(self.static)
        for k, x in zip(self.arrays, inside, strict=True):
            leaves[k] = x
        args, kwargs = (leaves, {}) if isinstance(self.build, int) else self.build(iter(leaves))
        args = [a.value if isinstance(a, Static) else a for a in args]
        return self.jitted.function(*args, **{k: v.value if isinstance(v, Static) else v for k, v in kwargs.items()})

    # Calling.

    def __call__(self, leaves: list) -> Any:
        if self.copied:
            self._copy()
        if state.recording:
            arrays = [x if isinstance(x := leaves[k], NDArray) else self._to_program_device(x) for k in self.arrays]
            if any(x._node is not None for x in (*arrays, *self.captured)):
                arrays += [self._random_part() if x is random.PART else x for x in self.captured]
                return self._recorded(arrays, leaves)
        return self.call(leaves)

    def _random_part(self) -> NDArray:
        """A fresh part of the random stream, for one call."""
        return random.part(self.drawn, self.ctx)

    def _to_program_device(self, leaf: Any) -> NDArray:
        """A number or a NumPy array as an array on the program's device."""
        return from_value(np.asarray(leaf), ctx=self.ctx, conventions=self.conventions)

    def _caller(self) -> Callable:
        on_gpu = self.ctx.device_type == "gpu"
        names: dict[str, Any] = {"wrap": wrap, "flat": _flat, "part": self._random_part, "rebuild": self.rebuild}
        names |= {"moved": self._to_program_device, "np": np, "Single": Single}
        loads = []
        for k, kind, plain, (shape, _) in zip(
            self.arrays, self.leaf_types, self.is_raw_layout, self.avals, strict=True
        ):
            x = f"leaves[{k}]"
            loads.append(f"{x}._buf" if issubclass(kind, NDArray) else f"moved({x})._buf" if on_gpu else f"flat({x})")
            if plain and not on_gpu:  # takes a tenth of the time
                loads[-1] = f"{x}{'' if len(shape) == 1 else '.ravel()'} if {x}.flags.carray else flat({x})"
        for k, x in enumerate(self.captured):
            names[f"captured{k}"] = x
            loads.append("part()._buf" if x is random.PART else f"captured{k}._buf")
        returned = []
        for k, (shape, kind) in enumerate(self.results[: self.count]):
            names[f"shape{k}"], names[f"kind{k}"] = shape, kind
            returned.append(self._result_code(k, shape, kind))
        source = iter(returned)
        names |= {f"constant{k}": y for k, y in enumerate(self.constants)}
        leaves = [next(source) if computed else f"constant{k}" for k, computed in enumerate(self.computed)]
        code = _code(self.result, iter(leaves), names) or f"rebuild(iter(({''.join(f'{x}, ' for x in leaves)})))"
        if self.updated:
            names["update"] = self._update
            code = f"update([{', '.join(f'out{k}' for k in range(len(self.results)))}], leaves) or {code}"
        return self.compiled.caller(loads, code, names)

    def _result_code(self, k: int, shape: tuple[int, ...], kind: Kind) -> str:
        """Code for a result as the user gets it: an NDArray if one was passed, else a NumPy array or a number."""
        if self.takes_ndarrays or not self.leaf_types:
            return f"wrap(out{k}, shape{k}, kind{k})"
        out = f"np.array(out{k})" if kind.gpu else f"out{k}"
        out = f"{out}.view(kind{k}.dtype.np)" if kind.dtype.name == "float16" else out
        if not shape:
            return f"{out}.item()" if self.numbers[k] or all(g is float for g in self.leaf_types) else f"{out}[0]"
        out = out if len(shape) == 1 else f"{out}.reshape(shape{k})"
        return f"{out}.view(Single)" if size(shape) == 1 else out

    # On the tape.

    @cached_property
    def _call_on_buffers(self) -> Callable:
        """The program on raw buffers; returns a list of them."""
        count = len(self.arrays) + len(self.captured)
        outs = "".join(f"out{k}, " for k in range(len(self.results)))
        return self.compiled.caller([f"leaves[{k}]" for k in range(count)], f"[{outs}]", {})

    def _recorded(self, arrays: list[NDArray], leaves: list) -> Any:
        written = [leaves[target] if isinstance(target, int) else target for target in self.updated]
        arrays = [x.detach().copy() if any(x is w for w in written) else x for x in arrays]  # before the update
        bufs = self._call_on_buffers([x._buf for x in arrays])
        every = [wrap(buf, shape, kind) for buf, (shape, kind) in zip(bufs, self.results, strict=True)]
        outs = every[: self.count]
        self._update(bufs, leaves)
        arrays = [*arrays, *every[self.count + len(self.updated) :]]
        parents = tuple(map(tape.parent, arrays))
        rule = _Rule(self, [(x._shape, x._kind) for x in arrays])
        saved = tape.save(arrays)
        if len(outs) == 1:
            outs[0]._node = tape.node(rule, parents, saved, None, outs[0]._shape, outs[0]._kind)
        elif outs:
            shapes, kinds = zip(*self.results[: self.count], strict=True)
            node = tape.node(rule, parents, saved, None, shapes, kinds)  # type: ignore[arg-type]
            for k, y in enumerate(outs):
                if y._kind.dtype.is_float:
                    y._node = tape.select(node, k)
        source = iter(outs)
        leaves = [next(source) if computed else y for computed, y in zip(self.computed, self.constants, strict=True)]
        return self.rebuild(iter(leaves))

    @cached_property
    def compiled_pullback(self) -> Jitted:
        """The compiled pullback, of arguments, captured arrays, saved results and the results' cotangents."""
        count = len(self.arrays) + len(self.captured)
        first = count + sum(self.saved_counts)

        def pulled(*given: NDArray):
            graph = current.graph
            assert graph is not None
            for x in given[count:]:  # saved results may be infinite, and cotangents zero by choice
                value = traced_value(x).value
                value.finite, value.has_structural_zeros = False, True
            inside = [_as_leaf(x) for x in given[:count]]
            before, updates = graph.captured, len(graph.updates)
            graph.captured = [*before, *zip(self.captured, inside[len(self.arrays) :], strict=True)]
            self._check_same(graph, inside)
            kept, graph.replayed_results = graph.replayed_results, self._saved_by_step(given[count:first])
            floor = tape.next_seq()
            outputs: list = []
            recording, state.recording = state.recording, True
            try:
                flatten(self.call_original(inside[: len(self.arrays)]), outputs)
                state.recording, graph.replayed_results = recording, kept
                heads = [y for y in outputs if isinstance(y, NDArray)]
                seeds = [(y._node, g) for y, g in zip(heads, given[first:], strict=True) if y._node is not None]
                targets = {x._node: 0 for x in inside if x._node is not None}
                # Checkpointed segments are recomputed here, on the same captured arrays.
                cotangents = tape.sweep_recorded(seeds, True, targets, floor) if seeds else {}
            finally:
                state.recording, graph.replayed_results = recording, kept
                del graph.updates[updates:]
                own = {id(x) for x in inside}
                graph.captured = [pair for pair in graph.captured if id(pair[1]) not in own]
            outputs = [None if x._node is None else cotangents.get(x._node) for x in inside]
            return outputs + [None] * (first - count)

        pulled.__name__ = f"{self.jitted.name}_pullback"
        return self.jitted.__class__(pulled)

    def _check_same(self, graph: Graph, inside: list[NDArray]) -> None:
        """Refuse derivatives if the function now reads other constants than when its value was compiled."""
        _, arguments, results = self._parts
        count, arguments_now = len(self.arrays), [traced_value(x).value for x in inside]
        if graph.outer is not None or any(v.op != "argument" for v in arguments_now):
            return  # inside another program, which is traced as a whole
        outputs: list = []
        recording, state.recording = state.recording, False
        saved, graph.replayed_results = graph.replayed_results, None
        try:
            with graph.attempt(keep=False):
                flatten(self.call_original(inside[:count]), outputs)
                new = [traced_value(y if y._kind.traced else captured(y)) for y in outputs if isinstance(y, NDArray)]
                read = {traced_value(x).value: outside for outside, x in graph.captured}
                old = dict(zip(arguments[count:], self.captured, strict=True))
                known = dict(zip(arguments, arguments_now[:count]))
                check_same(self.jitted.name, "compiled", _ADVICE, results[: self.count], new, known, (old, read))
        finally:
            state.recording, graph.replayed_results = recording, saved

    def _saved_by_step(self, arrays: Sequence[NDArray]) -> Iterator[list[NDArray]]:
        """The saved results, step by step."""
        source = iter(capture_outside(arrays))
        return iter([[next(source) for _ in range(n)] for n in self.saved_counts])


_ADVICE = "pass what changes as an argument, or as an NDArray that is written in place, or call nbgrad.jit again"


def _common_device(name: str, args: Sequence[NDArray]) -> Context | None:
    """The device of the arguments; None if none of them is an NDArray."""
    for x in args:
        if x._kind.ctx != args[0]._kind.ctx and (x._kind.gpu or args[0]._kind.gpu):
            raise ContextError(
                f"{name}: arguments are on different devices, {args[0]._kind.ctx} and {x._kind.ctx}; move them to one "
                "with as_in_context"
            )
    return (args[0]._kind.ctx if args[0]._kind.gpu else CPU0) if args else None


def _as_leaf(x: NDArray) -> NDArray:
    """`x` as a leaf of its own on the tape."""
    if not x._kind.dtype.is_float:
        return x
    return reshape(x, x._shape) if state.recording and x._node is not None else constant(x, ())


def _code(tree: Any, leaves, names: dict) -> str | None:
    """Code that builds a tree of tuples, lists and dicts; None for others."""
    if type(tree) in (tuple, list, dict):
        parts = []
        for key, value in tree.items() if type(tree) is dict else enumerate(tree):
            part = _code(value, leaves, names)
            if part is None:
                return None
            if type(tree) is dict:
                names[f"key{len(names)}"] = key
                part = f"key{len(names) - 1}: {part}"
            parts.append(f"{part}, ")
        inside = "".join(parts)
        return f"({inside})" if type(tree) is tuple else f"[{inside}]" if type(tree) is list else f"{{{inside}}}"
    leaves_of_tree: list = []
    flatten(tree, leaves_of_tree)
    return next(leaves) if len(leaves_of_tree) == 1 and leaves_of_tree[0] is tree else None


def _aval(leaf: Any, conventions: Conventions) -> tuple[tuple[int, ...], Kind]:
    """The shape and kind of an argument."""
    if isinstance(leaf, NDArray):
        return leaf._shape, leaf._kind
    values = np.asarray(leaf)
    return values.shape, kind_of(dtypes.as_dtype(values.dtype), CPU0, conventions)


_STORAGE = {d.np: d.storage for d in dtypes.ALL}


def _flat(leaf: Any) -> np.ndarray:
    """The raw buffer of a number or a NumPy array."""
    values = np.require(leaf, requirements=("C", "A")).reshape(-1)
    storage = _STORAGE.get(values.dtype)
    if storage is None:  # e.g. another byte order
        dtype = dtypes.as_dtype(values.dtype)
        return values.astype(dtype.np).view(dtype.storage)
    return values if values.dtype is storage else values.view(storage)


class _Rule(tape.Rule):
    """The tape's rule for one call of a compiled function."""

    def __init__(self, program: Program, avals: list) -> None:
        self.program = program
        self.avals = avals
        self.name = f"jit({program.jitted.name})"
        self.foreign = [(values, values.copy()) for values in program.foreign]  # which have no version counter

    def grads(self, node, g, useful):
        if any(now.tobytes() != then.tobytes() for now, then in self.foreign):
            raise InPlaceError(
                f"{self.name}: a NumPy array from outside was changed between the call and backward, which reads it "
                "again; pass it as an argument, or change it after backward"
            )
        several = isinstance(g, list)
        results = zip(node.shape, node.kind, strict=True) if several else [(node.shape, node.kind)]
        gs = [zeros(shape, kind) if h is None else h for h, (shape, kind) in zip(g if several else [g], results)]
        arrays = []
        for k, (p, (shape, kind)) in enumerate(zip(node.parents, self.avals, strict=True)):
            x = wrap(node.saved[3 * k], shape, kind, None if type(p) is list else p)
            x._cell = node.saved[3 * k + 1]
            arrays.append(x)
        training, state.training = state.training, self.program.training
        try:
            cotangents = self.program.compiled_pullback(*arrays, *gs)
        finally:
            state.training = training
        return [
            (zeros(p.shape, p.kind) if h is None else h) if tape.cotangent_wanted(p, useful) else None
            for p, h in zip(node.parents, cotangents, strict=True)
        ]
