"""``autograd.Function``: functions with user-defined forward and backward."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, wrap, zeros
from ..arrays.sharing import memory_owners, register_owner, snapshot
from ..autodiff import tape, tracing
from ..autodiff.differentiability import limit_order
from ..autodiff.observers import notify_observer, observers
from ..autodiff.state import recording, state
from ..compiler import opaque
from ..core import dtypes
from ..core.context import CPU0
from ..core.conventions import MXNET
from ..errors import DTypeError, NBGradError, TraceError
from ..operators.cast import cast
from .function_rules import FunctionRule, checked_gradients, guard_gradients

__all__ = ["Function"]


class Function:
    """A function with a derivative of your own.

    Subclass it and define ``forward(self, *inputs)`` and ``backward(self, *output_grads)``. `forward` gets the
    arguments of the call: NDArrays, and anything else as a constant. `backward` gets one gradient per result of
    `forward` and returns one per NDArray input (a single one need not be in a tuple); None means zero, and NumPy
    arrays are accepted. Both run without recording, and may use NumPy. An instance is called once. Arrays saved by
    :meth:`save_for_backward`, arrays in attributes, and all inputs if nothing was saved, must not be changed before
    `backward` runs: that is an InPlaceError.

    If `backward` uses nd operators, the function can be differentiated to any order: with ``create_graph=True``
    its operations are recorded. It must then read only inputs or results of `forward` (saved by
    :meth:`save_for_backward`); other arrays computed inside `forward` count as constants.
    Values computed by NumPy are constants to the tape: where `backward` reads arrays of NumPy that `forward` left on
    the instance, or takes values out of arrays (``asnumpy``), a derivative of the gradient is an error. With the class
    attribute ``max_order = 1``, ``create_graph=True`` is one already; ``max_order = 2`` or more says that what NumPy
    computes is constant indeed.

    In a function that ``nbgrad.jit`` compiles, `forward` and `backward` are fused into the loops if they use nd
    operators only. If not, they run at every call of the program, each time on a copy of the instance; the gradient
    can then be differentiated only if `backward` uses nd operators and `forward` leaves nothing but arrays for it.
    Shapes and dtypes of the results must be known in advance: unless :meth:`infer` returns them, tracing calls
    `forward` on sample values.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> class Sigmoid(autograd.Function):
    ...     def forward(self, x):
    ...         y = 1 / (1 + nd.exp(-x))
    ...         self.save_for_backward(y)
    ...         return y
    ...
    ...     def backward(self, dy):
    ...         (y,) = self.saved_tensors
    ...         return dy * y * (1 - y)
    >>> x = nd.array([0.0])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = Sigmoid()(x)
    >>> y.backward()
    >>> x.grad.asscalar()
    np.float32(0.25)
    """

    # Class attributes, so that a subclass need not call super().__init__().
    max_order: int | None = None
    #: With an `infer`, for what is in the library: which of the operands and results forward saves, and nothing else.
    _saves: tuple[int, ...] | None = None
    _used = False
    _saved: tuple = ()
    _node = None  # this call's node, while backward runs
    _hides = False  # whether forward left arrays of floats on the instance that are not on the tape, or NumPy's

    def save_for_backward(self, *args: NDArray | None) -> None:
        """Save arrays for `backward`, which reads them from :attr:`saved_tensors`."""
        self._saved = args

    @property
    def saved_tensors(self) -> tuple:
        """The arrays saved by :meth:`save_for_backward`."""
        return tuple([s.handle(self._node) if isinstance(s, _Saved) else s for s in self._saved])

    def forward(self, *inputs):
        """Compute the result: an NDArray, or a tuple or list of them."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, *inputs)")

    def backward(self, *output_grads):
        """Compute the gradients of the inputs from those of the results."""
        raise NotImplementedError(f"{type(self).__name__} must define backward(self, *output_grads)")

    def infer(self, *inputs):
        """Return shapes and dtypes of the results of `forward`, from inputs with shapes and dtypes but no values.

        Per result, an input of the same shape and dtype, or ``(shape, dtype)``; a tuple or list of these if `forward`
        returns one. If this method is not overridden it returns None, and `forward` is called on sample values.
        """

    def __call__(self, *inputs):
        """Run `forward` and record the call.

        Raises
        ------
        AssertionError
            On a second call of one instance.
        """
        if self._used:
            raise AssertionError("Each Function instance can only be called once. Please create another instance.")
        self._used = True
        graph = tracing.current.graph
        if graph is None or not any(isinstance(x, NDArray) for x in inputs):
            return self._called(inputs)
        inputs = tuple([tracing.capture_outside([x])[0] if isinstance(x, NDArray) else x for x in inputs])
        before = dict(vars(self))
        try:
            with graph.attempt():
                return self._called(inputs)
        except TraceError:  # it needs values
            vars(self).clear()
            vars(self).update(before)
        return OpaqueCall(self, inputs).called()

    def _called(self, inputs: tuple):
        recording, state.recording = state.recording, False
        before = self._held(kinds=(NDArray, np.ndarray, np.floating))
        given = [x for x in inputs if isinstance(x, NDArray)]
        # The caller may write into what it passes, which redefines arrays of NumPy's conventions.
        inputs = tuple([snapshot(x) if isinstance(x, NDArray) and recording and _redefinable(x) else x for x in inputs])
        try:
            returned = self.forward(*inputs)
        finally:
            state.recording = recording
        arrays, outputs = [x for x in inputs if isinstance(x, NDArray)], self._results(returned)
        known = {id(x) for x in (*before, *given, *arrays, *outputs)}
        self._hides = any(id(x) not in known and x._node is None and x._kind.dtype.is_float for x in self._held())
        if self.max_order is None and not self._hides:
            left = self._held(kinds=(np.ndarray, np.floating))
            self._hides = any(
                id(x) not in known and x.dtype.kind == "f" and all(x is not v for v in inputs) for x in left
            )
        if recording and any(x._node is not None for x in arrays):
            self._record(arrays, given, outputs)
        if outputs and outputs[0]._kind.traced:
            self._try_backward(outputs)
        if observers:
            notify_observer(type(self).__name__, arrays, outputs)
        return returned

    def _results(self, given) -> list[NDArray]:
        outputs = list(given) if isinstance(given, tuple | list) else [given]
        for k, out in enumerate(outputs):
            if not isinstance(out, NDArray):
                raise DTypeError(f"{type(self).__name__}.forward: result {k} must be an NDArray, got {out!r}")
        return outputs

    def _try_backward(self, outputs: list[NDArray]) -> None:
        """Raise a TraceError if backward needs values; other errors are left for the reverse sweep."""
        graph = tracing.current.graph
        assert graph is not None
        recording, state.recording = state.recording, False
        try:
            with graph.attempt(keep=False):
                copy.copy(self).backward(*[zeros(y._shape, y._kind) for y in outputs])
        except TraceError:
            raise
        except Exception:
            pass
        finally:
            state.recording = recording

    def _record(self, arrays: list[NDArray], given: list[NDArray], outputs: list[NDArray]) -> None:
        """Record the call; `arrays` is what `forward` got of the arrays that were `given`."""
        for k, out in enumerate(outputs):
            if out._node is not None or any(out is x for x in (*arrays, *given)):
                raise NBGradError(
                    f"{type(self).__name__}.forward: result {k} is an array that is already in a computational graph; "
                    "return a copy of it"
                )
        parents = tuple(map(tape.parent, arrays))
        avals = tuple([(x._shape, x._kind) for x in arrays])
        rule = FunctionRule(type(self).__name__, {id(x): x._cell for x in self._held(saved=False)})
        if self.max_order is not None:
            limit_order(rule, self.max_order)
        attrs = (self, avals)
        saved = tape.save(self._reads(arrays))
        if len(outputs) == 1:
            node = tape.node(rule, parents, saved, attrs, outputs[0]._shape, outputs[0]._kind)
            outputs[0]._node = node
        else:
            shapes, kinds = tuple(o._shape for o in outputs), tuple(o._kind for o in outputs)
            node = tape.node(rule, parents, saved, attrs, shapes, kinds)  # type: ignore[arg-type]
            for k, out in enumerate(outputs):
                out._node = tape.select(node, k)
        # Saved arrays are stored without their nodes, which are restored while backward runs: a result must not
        # refer to the node that refers to this function, and an operand may have been marked again by then.
        self._saved = tuple([_save_handle(x, arrays, given, outputs) for x in self._saved])

    def _reads(self, inputs: list[NDArray]) -> list[NDArray]:
        """The arrays that `backward` may read: those that the instance holds, and all inputs if it saved none."""
        arrays = [*self._held(), *(() if self._saved else inputs)]
        return list({id(x._cell): x for x in reversed(arrays)}.values())

    def _held(self, saved: bool = True, kinds: Any = NDArray) -> list[Any]:
        """The saved arrays and those in attributes, also inside lists, tuples and dicts; or these alone."""
        arrays: list[Any] = []
        attributes = [value for name, value in vars(self).items() if name != "_saved"]
        worklist: list = [self._saved, attributes] if saved else [attributes]
        seen: set[int] = set()
        while worklist:
            value = worklist.pop()
            if isinstance(value, kinds):
                arrays.append(value)
            elif isinstance(value, dict | list | tuple | set | frozenset) and id(value) not in seen:
                seen.add(id(value))
                worklist += value.values() if isinstance(value, dict) else value
        return arrays


def _redefinable(x: NDArray) -> bool:
    return x._kind.conventions is not MXNET and not x._kind.traced


def _save_handle(x, operands: list[NDArray], given: list[NDArray], results: list[NDArray]):
    if not isinstance(x, NDArray):
        return x
    operand = next((k for k, pair in enumerate(zip(operands, given, strict=True)) if any(a is x for a in pair)), None)
    return _Saved(x, operand, next((k for k, out in enumerate(results) if out is x), None))


class _Saved:
    """An array saved by save_for_backward: its memory, and which operand or result of the call it is."""

    def __init__(self, x: NDArray, operand: int | None, result: int | None) -> None:
        memory_owners(x)
        self.parts = (x._buf, x._shape, x._kind)
        self.cell = x._cell
        self.operand = operand
        self.result = result

    def handle(self, node) -> NDArray:
        """The array, with its tape node while backward runs on the call's `node`, else without."""
        tape_node = None
        if node is not None and self.result is not None:
            tape_node = tape.select(node, self.result) if isinstance(node.kind, tuple) else node
        elif node is not None and self.operand is not None and type(node.parents[self.operand]) is not list:
            tape_node = node.parents[self.operand]
        return register_owner(wrap(*self.parts, tape_node), self.cell)


class OpaqueCall(tape.Rule):
    """A call that runs as an opaque step of a compiled program, and the tape's rule for it.

    The instance that ran forward is looked up by the buffer of an extra result of that step, its *token*. If forward
    leaves nothing but arrays on the instance, they are results of the step, too, and backward is traced if possible.
    """

    def __init__(self, function: Function, inputs: tuple) -> None:
        self.function = function
        self.name = type(function).__name__
        self.inputs = inputs
        self.places = [k for k, x in enumerate(inputs) if isinstance(x, NDArray)]
        self.arrays = [inputs[k] for k in self.places]
        fields = vars(function).items()
        self.fields = {name: x for name, x in fields if isinstance(x, NDArray) and x._kind.traced}
        #: The arrays that forward leaves on the instance: key there, and index in `memory`.
        self.left_arrays: list[tuple[tuple, int]] | None = None
        #: Buffers, shapes and kinds of the step's operands and results.
        self.memory: list[tuple] = []
        self.token: NDArray

    def called(self):
        """Append the step to the traced program and record it; returns the results."""
        operands = [*self.arrays, *tracing.capture_outside(list(self.fields.values()))]
        inferred = self.function.infer(*self.inputs)
        more: list[opaque.Aval] = []
        if inferred is None:
            samples = [opaque.sample(x) for x in operands]
            instance, inferred = opaque.run_on_samples(self.name, lambda: self._made(samples))
            self.left_arrays, more = self._left(instance, [*samples, *instance._results(inferred)])
        elif self.function._saves is not None:
            self.left_arrays = [(("_saved", k), index) for k, index in enumerate(self.function._saves)]
        several, avals = opaque.declared_results(self.name, inferred, operands)
        if self.left_arrays is not None and not self._traceable(operands, [*avals, *more], len(avals)):
            self.left_arrays, more = None, []
        specs = [*avals, *more, opaque.Aval((), dtypes.int64, MXNET)]
        *results, self.token = opaque.saved_opaque_step(self.name, self._forward, operands, specs)
        self.memory = [(x._buf, x._shape, x._kind) for x in (*operands, *results)]
        del results[len(avals) :]
        if state.recording and any(x._node is not None for x in self.arrays):
            parents = tuple(map(tape.parent, self.arrays))
            if several is None:
                (y,) = results
                y._node = tape.node(self, parents, (), None, y._shape, y._kind)
            else:
                shapes, kinds = tuple(y._shape for y in results), tuple(y._kind for y in results)
                node = tape.node(self, parents, (), None, shapes, kinds)  # type: ignore[arg-type]
                for k, y in enumerate(results):
                    y._node = tape.select(node, k)
        return results[0] if several is None else several(results)

    def _made(self, operands: Sequence[NDArray]) -> tuple:
        """An instance that ran forward on these arrays, and the result of forward."""
        instance = self._fresh()
        inputs = list(self.inputs)
        for k, x in zip(self.places, operands):
            inputs[k] = x
        vars(instance).update(zip(self.fields, operands[len(self.places) :], strict=True))
        returned = instance.forward(*inputs)
        if any(x._cell[0] for x in operands):
            raise TraceError(f"{self.name}.forward writes into its input, which a traced function cannot do; copy it")
        return instance, returned

    def _fresh(self) -> Function:
        """A copy of the instance as it was before forward ran."""
        instance = copy.copy(self.function)
        vars(instance).update({k: copy.copy(v) for k, v in vars(instance).items() if type(v) in (list, dict, set)})
        return instance

    def _left(self, instance: Function, known: Sequence[NDArray]) -> tuple[list | None, list]:
        """See `left_arrays`; and (shape, dtype) of arrays that are neither operand nor result. None if not all are
        arrays."""
        indices = {id(x): k for k, x in enumerate(known)}
        entries: list[tuple[tuple, int]] = []
        extra: list[opaque.Aval] = []
        before = vars(self.function)
        for name, value in vars(instance).items():
            if name in before and (before[name] is value or (name in self.fields and id(value) in indices)):
                continue
            for key, x in _arrays_of(name, value):
                if not isinstance(x, NDArray):
                    return None, []
                if id(x) not in indices:
                    indices[id(x)] = len(indices)
                    extra.append(opaque.aval_of(x))
                entries.append((key, indices[id(x)]))
        return entries, extra

    def _restored(self, arrays: Sequence[NDArray]) -> Function:
        """An instance on which forward left these arrays."""
        instance = self._fresh()
        saved = []
        for key, k in self.left_arrays or ():
            if len(key) > 1:
                saved.append(arrays[k])
            else:
                setattr(instance, key[0], arrays[k])
        instance._saved = tuple(saved)
        return instance

    def _traceable(self, operands: list[NDArray], avals: list[opaque.Aval], count: int) -> bool:
        """Whether backward can be traced if forward leaves arrays like `avals`; the first `count` are results.

        One that calls its own Function again can, if the rest of it can.
        """
        graph, kind = tracing.current.graph, type(self.function)
        assert graph is not None
        if kind in graph.attempted:
            return True
        recording, state.recording = state.recording, False
        graph.attempted.append(kind)
        try:
            with graph.attempt(keep=False):
                empty = [zeros(a.shape, kind_of(a.dtype, graph.ctx, a.conventions)) for a in avals]
                self._restored([*operands, *empty]).backward(*empty[:count])
        except Exception:
            return False
        finally:
            state.recording = recording
            graph.attempted.pop()
        return True

    def _forward(self, operands: list[NDArray], results: list[NDArray]) -> None:
        instance, returned = self._made(operands)
        *outs, token = results
        arrays = instance._results(returned)
        if self.left_arrays is not None:
            more = {k: _at(instance, key) for key, k in self.left_arrays if k >= len(operands) + len(arrays)}
            arrays += [more[k] for k in sorted(more)]
        opaque.store_results(f"{self.name}.forward", arrays, outs)
        key = id(token._buf)
        _instances[key] = instance, weakref.ref(token._buf, functools.partial(_instances.pop, key))

    def grads(self, node, g, useful):
        gs = g if isinstance(g, list) else [g]
        several = isinstance(node.kind, tuple)
        shapes, kinds = (node.shape, node.kind) if several else ([node.shape], [node.kind])
        gs = [zeros(*aval) if h is None else h for h, *aval in zip(gs, shapes, kinds, strict=True)]
        if self.left_arrays is not None:
            tape_nodes = [None if type(p) is list else p for p in node.parents] + [None] * len(self.fields)
            tape_nodes += [tape.select(node, k) for k in range(len(kinds))] if several else [node]
            tape_nodes += [None] * (len(self.memory) - len(tape_nodes))
            memory = zip(self.memory, tape_nodes, strict=True)
            instance = self._restored([wrap(buf, shape, kind, tape_node) for (buf, shape, kind), tape_node in memory])
            checked = checked_gradients(self.name, instance.backward(*gs), [(x._shape, x._kind) for x in self.arrays])
            input_grads = [
                h if tape.cotangent_wanted(p, useful) else None for h, p in zip(checked, node.parents, strict=True)
            ]
            if self.function.max_order == 1:
                return opaque.without_derivatives(self.name, input_grads, node, gs)
            made_inside = self.memory[len(self.arrays) + len(self.fields) + len(kinds) :]
            hides = any(kind.dtype.is_float for *_, kind in made_inside)
            return guard_gradients(self.name, input_grads, node.parents) if hides and recording() else input_grads
        wanted = [k for k, p in enumerate(node.parents) if tape.cotangent_wanted(p, useful)]
        avals = [(x._shape, x._kind.on(CPU0)) for x in self.arrays]

        def backward(operands: list[NDArray], results: list[NDArray]) -> None:
            token, *checked = operands
            instance, _ = _instances[id(token._buf)]
            input_grads = checked_gradients(self.name, instance.backward(*[cast(h, h._kind) for h in checked]), avals)
            opaque.store_results(f"{self.name}.backward", [input_grads[k] for k in wanted], results)

        specs = [opaque.aval_of(self.arrays[k]) for k in wanted]
        computed = iter(
            opaque.opaque_step(f"{self.name}_backward", backward, tracing.capture_outside([self.token, *gs]), specs)
        )
        input_grads = [next(computed) if k in wanted else None for k in range(len(node.parents))]
        return opaque.without_derivatives(self.name, input_grads, node, gs)


def _arrays_of(name: str, value) -> list[tuple[tuple, object]]:
    """Keys and values of the saved arrays, or of another attribute; internal flags are skipped."""
    if name == "_saved":
        return [((name, k), x) for k, x in enumerate(value)]
    return [] if name == "_used" else [((name,), value)]


def _at(instance: Function, key: tuple) -> NDArray:
    return instance._saved[key[1]] if len(key) > 1 else getattr(instance, key[0])


#: The instances that ran forward in programs, by the id of their token's buffer, while that lives.
_instances: dict[int, tuple] = {}
