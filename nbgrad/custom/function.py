"""Custom differentiable functions."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Sequence

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, joined, shared, wrap
from ..autodiff import tape, tracing
from ..autodiff.differentiability import end_at
from ..autodiff.observers import observed, observers
from ..autodiff.state import recording, state
from ..compiler import opaque
from ..core import dtypes
from ..core.context import CPU0
from ..errors import DTypeError, NBGradError, TraceError
from ..operators.cast import cast
from .function_rules import Call, gradients, guarded, zeros

__all__ = ["Function"]


class Function:
    """A function with a derivative of your own.

    Subclass it and define ``forward(self, *inputs)`` and ``backward(self, *output_grads)``. `forward` gets what
    the instance is called with: NDArrays, and anything else as a constant. `backward` gets one gradient per
    result of `forward` and returns one per NDArray input (a single one need not be in a tuple); None means zero,
    and NumPy arrays are accepted. Both run without recording, NumPy may be used inside. An instance is called once.
    What :meth:`save_for_backward` got, arrays in attributes, and all inputs if it got nothing, must not be changed
    before `backward` runs: that is an InPlaceError.

    If `backward` uses nd operators, the function can be differentiated to any order: with ``create_graph=True``
    its operations are recorded. What it reads must then be inputs or results of `forward` (kept with
    :meth:`save_for_backward`); another array computed inside `forward` counts as a constant.
    If it does not, say so with the class attribute ``max_order = 1``: what NumPy computed is a constant to the tape,
    and ``create_graph=True`` is then an error instead of a second derivative of zero.

    In a function that ``nbgrad.jit`` compiles, `forward` and `backward` become part of the loops if they use nd
    operators alone. If not, they run at every call of the program, each time on a copy of the instance; then the
    gradient can be differentiated only if `backward` uses nd operators and `forward` leaves arrays alone for it.
    What comes out must be known beforehand: `forward` is tried on sample numbers when the function is traced, unless
    :meth:`infer` says it.

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
    _used = False
    _saved: tuple = ()
    _node = None  # this call's node, while backward runs
    _hides = False  # whether the instance holds arrays of floats that forward made, of which the tape knows nothing

    def save_for_backward(self, *args: NDArray) -> None:
        """Keep arrays for `backward`, which finds them in :attr:`saved_tensors`."""
        self._saved = args

    @property
    def saved_tensors(self) -> tuple:
        """The arrays given to :meth:`save_for_backward`."""
        return tuple([s.handle(self._node) if isinstance(s, _Saved) else s for s in self._saved])

    def forward(self, *inputs):
        """Compute the result: an NDArray, or a tuple or list of them."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, *inputs)")

    def backward(self, *output_grads):
        """Compute the gradients of the inputs from those of the results."""
        raise NotImplementedError(f"{type(self).__name__} must define backward(self, *output_grads)")

    def infer(self, *inputs):
        """Say what `forward` gives for such inputs, of which only shapes and dtypes are known.

        Per result, an input that it is like, or ``(shape, dtype)``; a tuple or list of these if `forward` gives one.
        None, what this method returns if it is not overridden: `forward` is tried on sample numbers.
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
        inputs = tuple([tracing.lifted([x])[0] if isinstance(x, NDArray) else x for x in inputs])
        before = dict(vars(self))
        try:
            with graph.attempt():
                return self._called(inputs)
        except TraceError:  # it asks for numbers
            vars(self).clear()
            vars(self).update(before)
        return Opaque(self, inputs).called()

    def _called(self, inputs: tuple):
        recording, state.recording = state.recording, False
        before = self._held()
        try:
            given = self.forward(*inputs)
        finally:
            state.recording = recording
        arrays, outputs = [x for x in inputs if isinstance(x, NDArray)], self._results(given)
        known = {id(x) for x in (*before, *arrays, *outputs)}
        self._hides = any(id(x) not in known and x._node is None and x._kind.dtype.is_float for x in self._held())
        if recording and any(x._node is not None for x in arrays):
            self._record(arrays, outputs)
        if outputs and outputs[0]._kind.traced:
            self._try_backward(outputs)
        if observers:
            observed(type(self).__name__, arrays, outputs)
        return given

    def _results(self, given) -> list[NDArray]:
        outputs = list(given) if isinstance(given, tuple | list) else [given]
        for k, out in enumerate(outputs):
            if not isinstance(out, NDArray):
                raise DTypeError(f"{type(self).__name__}.forward: result {k} must be an NDArray, got {out!r}")
        return outputs

    def _try_backward(self, outputs: list[NDArray]) -> None:
        """A TraceError if backward asks for numbers; whatever else is wrong with it is for those who need it."""
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

    def _record(self, arrays: list[NDArray], outputs: list[NDArray]) -> None:
        for k, out in enumerate(outputs):
            if out._node is not None or any(out is x for x in arrays):
                raise NBGradError(
                    f"{type(self).__name__}.forward: result {k} is an array that is already in a computational graph; "
                    "return a copy of it"
                )
        parents = tuple(map(tape.parent, arrays))
        avals = tuple([(x._shape, x._kind) for x in arrays])
        rule = Call(type(self).__name__)
        if self.max_order is not None:
            end_at(rule, self.max_order)
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
        # Saved arrays are kept as memory, and get their places on the tape back while backward runs: a result
        # must not hold the node that holds this function, and an operand may have been marked anew by then.
        self._saved = tuple([_keep(x, arrays, outputs) for x in self._saved])

    def _reads(self, inputs: list[NDArray]) -> list[NDArray]:
        """What `backward` may read: what was saved and what the instance holds; all inputs, if it saved nothing."""
        found = [*self._held(), *(() if self._saved else inputs)]
        return list({id(x._cell): x for x in reversed(found)}.values())

    def _held(self) -> list[NDArray]:
        """The arrays that were saved, or are in attributes, also in lists, tuples and dicts."""
        found: list[NDArray] = []
        stack: list = [self._saved, vars(self)]
        seen: set[int] = set()
        while stack:
            value = stack.pop()
            if isinstance(value, NDArray):
                found.append(value)
            elif isinstance(value, dict | list | tuple | set | frozenset) and id(value) not in seen:
                seen.add(id(value))
                stack += value.values() if isinstance(value, dict) else value
        return found


def _keep(x, operands: list[NDArray], results: list[NDArray]):
    if not isinstance(x, NDArray):
        return x
    operand = next((k for k, a in enumerate(operands) if a is x), None)
    return _Saved(x, operand, next((k for k, out in enumerate(results) if out is x), None))


class _Saved:
    """An array given to save_for_backward: its memory, and which operand or result of the call it is."""

    def __init__(self, x: NDArray, operand: int | None, result: int | None) -> None:
        shared(x)
        self.parts = (x._buf, x._shape, x._kind)
        self.cell = x._cell
        self.operand = operand
        self.result = result

    def handle(self, node) -> NDArray:
        """The array, at its place on the tape while backward runs on the call's `node`, else at none."""
        place = None
        if node is not None and self.result is not None:
            place = tape.select(node, self.result) if isinstance(node.kind, tuple) else node
        elif node is not None and self.operand is not None and type(node.parents[self.operand]) is not list:
            place = node.parents[self.operand]
        return joined(wrap(*self.parts, place), self.cell)


class Opaque(tape.Rule):
    """A call that is made each time a program runs, and the tape's rule for it.

    The instance that ran forward is found again by the buffer of one more result of that step, its *token*. If all that
    forward leaves on the instance is arrays, they are results of the step as well, and backward is traced if it can be.
    """

    def __init__(self, function: Function, inputs: tuple) -> None:
        self.function = function
        self.name = type(function).__name__
        self.inputs = inputs
        self.places = [k for k, x in enumerate(inputs) if isinstance(x, NDArray)]
        self.arrays = [inputs[k] for k in self.places]
        fields = vars(function).items()
        self.fields = {name: x for name, x in fields if isinstance(x, NDArray) and x._kind.traced}
        #: What forward leaves on the instance: its key there, and its number in `memory`.
        self.left: list[tuple[tuple, int]] | None = None
        #: The step's operands and results: buffers, shapes and kinds.
        self.memory: list[tuple] = []
        self.token: NDArray

    def called(self):
        """The results, in the program that is traced and on the tape."""
        operands = [*self.arrays, *tracing.lifted(list(self.fields.values()))]
        found = self.function.infer(*self.inputs)
        more: list[opaque.Aval] = []
        if found is None:
            samples = [opaque.sample(x) for x in operands]
            made, found = opaque.tried(self.name, lambda: self._made(samples))
            self.left, more = self._left(made, [*samples, *made._results(found)])
        several, avals = opaque.described(self.name, found)
        if self.left is not None and not self._traceable(operands, [*avals, *more], len(avals)):
            self.left, more = None, []
        specs = [*avals, *more, ((), dtypes.int64)]
        *results, self.token = opaque.lasting(self.name, self._forward, operands, specs)
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
        """An instance that ran forward on these arrays, and what that gave."""
        made = self._fresh()
        inputs = list(self.inputs)
        for k, x in zip(self.places, operands):
            inputs[k] = x
        vars(made).update(zip(self.fields, operands[len(self.places) :], strict=True))
        given = made.forward(*inputs)
        if any(x._cell[0] for x in operands):
            raise TraceError(f"{self.name}.forward writes into its input, which a traced function cannot do; copy it")
        return made, given

    def _fresh(self) -> Function:
        made = copy.copy(self.function)
        vars(made).update({k: copy.copy(v) for k, v in vars(made).items() if type(v) in (list, dict, set)})
        return made

    def _left(self, made: Function, known: Sequence[NDArray]) -> tuple[list | None, list]:
        """See `left`; and shapes and dtypes of what is neither operand nor result. None if not all are arrays."""
        places = {id(x): k for k, x in enumerate(known)}
        found: list[tuple[tuple, int]] = []
        extra: list[opaque.Aval] = []
        before = vars(self.function)
        for name, value in vars(made).items():
            if name in before and (before[name] is value or (name in self.fields and id(value) in places)):
                continue
            for key, x in _arrays_of(name, value):
                if not isinstance(x, NDArray):
                    return None, []
                if id(x) not in places:
                    places[id(x)] = len(places)
                    extra.append((x._shape, x._kind.dtype))
                found.append((key, places[id(x)]))
        return found, extra

    def _restored(self, arrays: Sequence[NDArray]) -> Function:
        """An instance on which these arrays are what forward left."""
        made = self._fresh()
        saved = []
        for key, k in self.left or ():
            if len(key) > 1:
                saved.append(arrays[k])
            else:
                setattr(made, key[0], arrays[k])
        made._saved = tuple(saved)
        return made

    def _traceable(self, operands: list[NDArray], avals: list[opaque.Aval], count: int) -> bool:
        """Whether backward can be traced, if forward gives such arrays, of which the first so many are its results."""
        graph = tracing.current.graph
        assert graph is not None
        recording, state.recording = state.recording, False
        try:
            with graph.attempt(keep=False):
                empty = [zeros(shape, kind_of(dtype, graph.ctx)) for shape, dtype in avals]
                self._restored([*operands, *empty]).backward(*empty[:count])
        except Exception:
            return False
        finally:
            state.recording = recording
        return True

    def _forward(self, operands: list[NDArray], results: list[NDArray]) -> None:
        made, given = self._made(operands)
        *outs, token = results
        found = made._results(given)
        if self.left is not None:
            more = {k: _at(made, key) for key, k in self.left if k >= len(operands) + len(found)}
            found += [more[k] for k in sorted(more)]
        opaque.store(f"{self.name}.forward", found, outs)
        key = id(token._buf)
        _instances[key] = made, weakref.ref(token._buf, functools.partial(_instances.pop, key))

    def grads(self, node, g, useful):
        gs = g if isinstance(g, list) else [g]
        several = isinstance(node.kind, tuple)
        shapes, kinds = (node.shape, node.kind) if several else ([node.shape], [node.kind])
        gs = [zeros(*aval) if h is None else h for h, *aval in zip(gs, shapes, kinds, strict=True)]
        if self.left is not None:
            places = [None if type(p) is list else p for p in node.parents] + [None] * len(self.fields)
            places += [tape.select(node, k) for k in range(len(kinds))] if several else [node]
            places += [None] * (len(self.memory) - len(places))
            memory = zip(self.memory, places, strict=True)
            made = self._restored([wrap(buf, shape, kind, place) for (buf, shape, kind), place in memory])
            given = gradients(self.name, made.backward(*gs), [(x._shape, x._kind) for x in self.arrays])
            found = [h if tape.wanted(p, useful) else None for h, p in zip(given, node.parents, strict=True)]
            if self.function.max_order == 1:
                return opaque.ended(self.name, found, node, gs)
            made_inside = self.memory[len(self.arrays) + len(self.fields) + len(kinds) :]
            hides = any(kind.dtype.is_float for *_, kind in made_inside)
            return guarded(self.name, found, node.parents) if hides and recording() else found
        wanted = [k for k, p in enumerate(node.parents) if tape.wanted(p, useful)]
        avals = [(x._shape, kind_of(x._kind.dtype, CPU0)) for x in self.arrays]

        def backward(operands: list[NDArray], results: list[NDArray]) -> None:
            token, *given = operands
            made, _ = _instances[id(token._buf)]
            found = gradients(self.name, made.backward(*[cast(h, h._kind) for h in given]), avals)
            opaque.store(f"{self.name}.backward", [found[k] for k in wanted], results)

        specs = [(avals[k][0], avals[k][1].dtype) for k in wanted]
        computed = iter(opaque.step(f"{self.name}_backward", backward, tracing.lifted([self.token, *gs]), specs))
        found = [next(computed) if k in wanted else None for k in range(len(node.parents))]
        return opaque.ended(self.name, found, node, gs)


def _arrays_of(name: str, value) -> list[tuple[tuple, object]]:
    """Keys and values of what was saved, or of another attribute; what says nothing about numbers is left out."""
    if name == "_saved":
        return [((name, k), x) for k, x in enumerate(value)]
    return [] if name == "_used" else [((name,), value)]


def _at(made: Function, key: tuple) -> NDArray:
    return made._saved[key[1]] if len(key) > 1 else getattr(made, key[0])


#: The instances that ran forward in programs, by the ids of their tokens' buffers, as long as these live.
_instances: dict[int, tuple] = {}
