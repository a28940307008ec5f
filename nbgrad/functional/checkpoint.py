"""Checkpointing (rematerialization): intermediate results of a function are recomputed in backward, not stored.

The call runs and is recorded as usual; of that recording only its ends are saved, in one node: the outside arrays that
it was computed from. The derivative rule of that node recomputes the function, under the same training flag and with
the same random numbers, and runs a reverse sweep over the new recording down to those ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..arrays.ndarray import NDArray, wrap
from ..arrays.sharing import alias, has_moved, memory_owners, register_owner
from ..autodiff import tape
from ..autodiff.state import state
from ..core.pickling import Transformed
from ..core.shapes import size
from ..errors import DTypeError, InPlaceError, NBGradError
from ..kernels.random import logged, redrawn
from .closures import frozen_closure

__all__ = ["checkpoint", "recording_inputs"]


def checkpoint(function: Callable) -> Callable:
    """`function`, recomputed in backward instead of storing its intermediate results.

    Instead of the intermediate results only the arguments are stored, and backward takes the time of one more forward.
    Checkpoints may be nested. Outside :func:`record`, the call is a plain call.

    Parameters
    ----------
    function : callable
        Takes any arguments and returns an NDArray, or a tuple, list or dict of them and of anything else. It must be
        repeatable: draw random numbers from nbgrad only, and change nothing that it reads. Variables that it captures
        keep the values that they have at the call; globals, attributes of objects and items of lists must not change
        until backward. It may use arrays that are not arguments; gradients flow to them, too.

    Returns
    -------
    callable
        Like `function`, also as a decorator. Both runs draw the same random numbers, without any effect on numbers
        drawn elsewhere. BatchNorm's running statistics change in the first run only. Gradients of every order are
        exact; from the second order on, the intermediate results of one run live as long as the recorded gradient.

    Raises
    ------
    DTypeError
        If `function` cannot be called.
    InPlaceError
        In backward, if an array that the function's recorded operations read has been changed since.
    NBGradError
        In backward, if the second run returned results of other shapes or dtypes, read other arrays, or drew other
        random numbers. Errors of the function in the second run are passed on.

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
    """The data to repeat a call.

    `draws` are the random numbers it drew; `places` and `avals` are indices, shapes and kinds of recorded results;
    `found_cells` are the version cells of arrays that the function found by itself."""

    def __init__(self, name: str, function: Callable, args: tuple, kwargs: dict) -> None:
        self.name = name
        self.captured: list[NDArray] = []
        self.function = frozen_closure(function, contents=False, held=self.captured)
        self.given = _mapped((args, kwargs), _SavedArgument)
        self.training = state.training
        self.draws: list = []
        self.found_cells: list[list] = []
        self.places: list[int] = []
        self.avals: list[tuple] = []

    def again(self) -> list[NDArray]:
        """Run the function again; returns the results that the first run recorded."""
        args, kwargs = _mapped(self.given, _SavedArgument.array, _SavedArgument)
        flags = state.recording, state.training, state.recomputing
        state.recording, state.training, state.recomputing = True, self.training, True
        try:
            with redrawn(self.draws):
                arrays = _arrays(self.function(*args, **kwargs))
        finally:
            state.recording, state.training, state.recomputing = flags
        results = [arrays[k] for k in self.places] if len(arrays) > self.places[-1] else []
        if [(y._shape, y._kind) for y in results] != self.avals:
            first = ", ".join(f"{kind} of shape {shape}" for shape, kind in self.avals)
            second = ", ".join(f"{y._kind} of shape {y._shape}" for y in arrays)
            raise NBGradError(
                f"{self.name}: the second run gave {second or 'no array'} where the first gave {first}; the function "
                "must do the same each time it is called with the same arguments"
            )
        return results


class _SavedArgument:
    """An argument as it was at the call: its memory and its node."""

    __slots__ = ("cell", "parts")

    def __init__(self, x: NDArray) -> None:
        memory_owners(x)
        self.parts = (x._buf, x._shape, x._kind, x._node)
        self.cell = x._cell

    def array(self) -> NDArray:
        return register_owner(wrap(*self.parts), self.cell)


def _mapped(value, change: Callable, kind: type = NDArray):
    """`value` with `change` applied to all objects of class `kind` in nested tuples, lists and dicts."""
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
    arrays: list[NDArray] = []
    _mapped(value, arrays.append)
    return arrays


def recording_inputs(heads: Iterable, floor: int) -> tuple[dict, dict]:
    """The inputs of the recording of `heads` since sequence number `floor`.

    Returns
    -------
    ends : dict
        Nodes and leaves outside of it (the keys).
    versions : dict
        id -> (cell, version) of the memory that its operations read.
    """
    worklist = list(heads)
    seen = set(worklist)
    ends: dict = {}
    versions: dict = {}
    while worklist:
        item = worklist.pop()
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
                worklist.append(p)
    return ends, versions


def _record(rule: _Checkpoint, run: _Run, result, floor: int):
    """`result` with its recorded arrays as results of one node, in place of their history."""
    outs: dict[int, NDArray] = {}
    for k, x in enumerate(_arrays(result)):
        if x._node is not None and id(x) not in outs:
            outs[id(x)] = x
            run.places.append(k)
            run.avals.append((x._shape, x._kind))
    if not outs:
        return result
    ends, versions = recording_inputs([x._node for x in outs.values()], floor)
    # An outside array that is passed through keeps its own node; the result is another array on its memory.
    new = {i: alias(x, x._buf, x._shape) if x._node in ends else x for i, x in outs.items()}
    known = [*run.captured, *outs.values(), *_arrays(_mapped(run.given, _SavedArgument.array, _SavedArgument))]
    cells = {id(x._cell) for x in known}
    run.found_cells = [cell for cell, _ in versions.values() if id(cell) not in cells and not has_moved(cell)]
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
        if any(map(has_moved, node.attrs.found_cells)):
            raise InPlaceError(tape.CHANGED.format(op=self.name))
        floor = tape.next_seq()
        outs = node.attrs.again()
        heads = [(y._node, h) for y, h in zip(outs, gs, strict=True) if h is not None and y._node is not None]
        del outs
        ends, _ = recording_inputs([head for head, _ in heads], floor)
        if not ends.keys() <= set(node.parents):
            raise NBGradError(
                f"{self.name}: the second run read marked or recorded arrays that the first did not; arrays that the "
                "function finds by itself must be neither replaced nor marked anew between forward and backward"
            )
        targets = {p: k for k, p in enumerate(node.parents, 1) if p in ends and tape.cotangent_wanted(p, useful)}
        if state.recording:
            cotangents = tape.sweep_recorded(heads, True, targets, floor)
        else:
            seeds = [(head, h._buf.copy()) for head, h in heads]  # a sweep consumes them
            del heads
            raw, borrowed = tape.sweep_raw(seeds, False, targets, floor)
            cotangents = {p: wrap(buf.copy() if p in borrowed else buf, p.shape, p.kind) for p, buf in raw.items()}
        return [self._cotangent(p, cotangents) if tape.cotangent_wanted(p, useful) else None for p in node.parents]

    @staticmethod
    def _cotangent(p, cotangents: dict) -> NDArray:
        h = cotangents.get(p)
        if h is not None:
            return h
        return wrap(p.kind.zeros(size(p.shape)), p.shape, p.kind)
