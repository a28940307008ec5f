"""Checkpoints: a function whose intermediate results are not kept, but computed again when backward needs them.

The call runs as it is and is recorded as usual; what is kept of that record is where it ends, the arrays outside that
it was computed from, in one node. The derivative rule of that node runs the function again, under the same training
flag and with the same random numbers, and sweeps back over the new record down to those ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..arrays.ndarray import NDArray, alias, joined, shared, wrap
from ..autodiff import tape
from ..autodiff.state import state
from ..core.pickling import Transformed
from ..core.shapes import size
from ..errors import DTypeError, NBGradError
from ..kernels.random import logged, redrawn

__all__ = ["checkpoint", "ends_of"]


def checkpoint(function: Callable) -> Callable:
    """`function`, computed again in backward instead of keeping what it computes on the way.

    Of n operations in `function`, backward's memory of n intermediate results becomes that of its arguments; its
    time, that of one more forward. Checkpoints may be nested. Outside :func:`record`, the call is a plain call.

    Parameters
    ----------
    function : callable
        Takes any arguments and gives an NDArray, or a tuple, list or dict of them and of anything else. It must give
        the same again: draw random numbers from nbgrad alone, and change nothing that it reads. It may use arrays
        that it does not get as arguments; gradients flow to them, too.

    Returns
    -------
    callable
        Like `function`, also as a decorator. Random numbers drawn inside are the same in both runs, without any
        effect on numbers drawn elsewhere. BatchNorm's running statistics move in the first run alone. Gradients of
        every order are right; from the second order on, the intermediate results of one run are kept while the
        recorded gradient is.

    Raises
    ------
    DTypeError
        If `function` cannot be called.
    InPlaceError
        In backward, if an array that the function's recorded operations read was changed since.
    NBGradError
        In backward, if the second run gave results of other shapes or dtypes, read other arrays, or drew other
        random numbers. Whatever the function raises in the second run is raised as it is.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> def block(x):
    ...     return nd.tanh(nd.sin(x) * x)
    >>> x = nd.array([0.5, 1.0])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = autograd.checkpoint(block)(x)
    >>> y.backward()
    >>> kept = x.grad.copy()
    >>> with autograd.record():
    ...     y = block(x)
    >>> y.backward()
    >>> (x.grad == kept).tolist()
    [1.0, 1.0]
    """
    if not callable(function):
        raise DTypeError(f"checkpoint: a function is needed, got {function!r}; write checkpoint(f)(x), not f(x)")
    rule = _Checkpoint(f"checkpoint({getattr(function, '__name__', type(function).__name__)})")

    def checkpointed(*args, **kwargs):
        if not state.recording:
            return function(*args, **kwargs)
        run = _Run(rule.name, function, args, kwargs)
        floor = tape.next_seq()
        with logged() as run.draws:
            result = function(*args, **kwargs)
        return _record(rule, run, result, floor)

    return Transformed(checkpointed, checkpoint, function)


class _Run:
    """One call: enough to do it again. Attributes: the parts of the random stream it drew, and its recorded results
    (their places among all, shapes, kinds)."""

    def __init__(self, name: str, function: Callable, args: tuple, kwargs: dict) -> None:
        self.name = name
        self.function = function
        self.given = _mapped((args, kwargs), _Kept)
        self.training = state.training
        self.draws: list = []
        self.places: list[int] = []
        self.avals: list[tuple] = []

    def again(self) -> list[NDArray]:
        """The recorded results, recorded anew."""
        args, kwargs = _mapped(self.given, _Kept.array, _Kept)
        flags = state.recording, state.training, state.recomputing
        state.recording, state.training, state.recomputing = True, self.training, True
        try:
            with redrawn(self.draws):
                arrays = _arrays(self.function(*args, **kwargs))
        finally:
            state.recording, state.training, state.recomputing = flags
        found = [arrays[k] for k in self.places] if len(arrays) > self.places[-1] else []
        if [(y._shape, y._kind) for y in found] != self.avals:
            first = ", ".join(f"{kind} of shape {shape}" for shape, kind in self.avals)
            second = ", ".join(f"{y._kind} of shape {y._shape}" for y in arrays)
            raise NBGradError(
                f"{self.name}: the second run gave {second or 'no array'} where the first gave {first}; the function "
                "must do the same each time it is called with the same arguments"
            )
        return found


class _Kept:
    """An argument: its memory and its place on the tape, whatever becomes of the array."""

    __slots__ = ("cell", "parts")

    def __init__(self, x: NDArray) -> None:
        shared(x)
        self.parts = (x._buf, x._shape, x._kind, x._node)
        self.cell = x._cell

    def array(self) -> NDArray:
        return joined(wrap(*self.parts), self.cell)


def _mapped(value, change: Callable, kind: type = NDArray):
    """`value` with everything of class `kind` in it changed; looks into tuples, lists and dicts."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)([_mapped(v, change, kind) for v in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_mapped(v, change, kind) for v in value])
    if type(value) is dict:
        return {key: _mapped(v, change, kind) for key, v in value.items()}
    return value


def _arrays(value) -> list[NDArray]:
    found: list[NDArray] = []
    _mapped(value, found.append)
    return found


def ends_of(heads: Iterable, floor: int) -> tuple[dict, dict]:
    """What the record behind `heads` since number `floor` was computed from.

    Returns
    -------
    ends : dict
        Nodes and leaves outside it (the keys).
    versions : dict
        id -> (cell, version) of memory that its operations read.
    """
    stack = list(heads)
    seen = set(stack)
    ends: dict = {}
    versions: dict = {}
    while stack:
        item = stack.pop()
        if type(item) is tape.Leaf:
            ends[item] = None
            versions.setdefault(id(item.cell), (item.cell, item.cell[0]))
            continue
        if item.seq < floor:
            ends[item] = None
            continue
        if item.parents is None:
            raise NBGradError(tape.FREED.format(op=item.op.name))
        for cell, version in zip(item.saved[1::3], item.saved[2::3], strict=True):
            versions.setdefault(id(cell), (cell, version))
        for p in item.parents:
            if type(p) is list:
                versions.setdefault(id(p), (p, p[0]))
            elif p not in seen:
                seen.add(p)
                stack.append(p)
    return ends, versions


def _record(rule: _Checkpoint, run: _Run, result, floor: int):
    """`result` with its recorded arrays put on the tape as results of one node, in place of what led to them."""
    outs: dict[int, NDArray] = {}
    for k, x in enumerate(_arrays(result)):
        if x._node is not None and id(x) not in outs:
            outs[id(x)] = x
            run.places.append(k)
            run.avals.append((x._shape, x._kind))
    if not outs:
        return result
    ends, versions = ends_of([x._node for x in outs.values()], floor)
    # An array from outside that is passed through keeps its own place; what comes out is another one on its memory.
    new = {i: alias(x, x._buf, x._shape) if x._node in ends else x for i, x in outs.items()}
    saved = tuple([part for cell, version in versions.values() for part in (None, cell, version)])
    if len(new) == 1:
        ((shape, kind),) = run.avals
        for x in new.values():
            x._node = tape.node(rule, tuple(ends), saved, run, shape, kind)
    else:
        shapes, kinds = zip(*run.avals, strict=True)
        node = tape.node(rule, tuple(ends), saved, run, shapes, kinds)  # type: ignore[arg-type]
        for k, x in enumerate(new.values()):
            x._node = tape.select(node, k)
    return _mapped(result, lambda x: new.get(id(x), x))


class _Checkpoint(tape.Rule):
    """The tape's rule for calls of one checkpointed function."""

    def __init__(self, name: str) -> None:
        self.name = name

    def grads(self, node, g, useful):
        gs = g if isinstance(g, list) else [g]
        floor = tape.next_seq()
        outs = node.attrs.again()
        heads = [(y._node, h) for y, h in zip(outs, gs, strict=True) if h is not None and y._node is not None]
        del outs
        ends, _ = ends_of([head for head, _ in heads], floor)
        if not ends.keys() <= set(node.parents):
            raise NBGradError(
                f"{self.name}: the second run read marked or recorded arrays that the first did not; arrays that the "
                "function finds by itself must be neither replaced nor marked anew between forward and backward"
            )
        targets = {p: k for k, p in enumerate(node.parents, 1) if p in ends and tape.wanted(p, useful)}
        if state.recording:
            found = tape.sweep_recorded(heads, True, targets, floor)
        else:
            seeds = [(head, h._buf.copy()) for head, h in heads]  # a sweep uses them up
            del heads
            raw, borrowed = tape.sweep_raw(seeds, False, targets, floor)
            found = {p: wrap(buf.copy() if p in borrowed else buf, p.shape, p.kind) for p, buf in raw.items()}
        return [self._cotangent(p, found) if tape.wanted(p, useful) else None for p in node.parents]

    @staticmethod
    def _cotangent(p, found: dict) -> NDArray:
        h = found.get(p)
        if h is not None:
            return h
        return wrap(p.kind.zeros(size(p.shape)), p.shape, p.kind)
