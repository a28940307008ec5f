"""Anomaly detection: report the operator that produced the first non-finite value."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..arrays.ndarray import NDArray
from ..errors import DTypeError, NBGradError
from . import tape
from .observers import observers
from .state import state

__all__ = ["AnomalyError", "Statistics", "detect_anomaly"]

_PACKAGE = str(Path(__file__).resolve().parents[1])


class Statistics(NamedTuple):
    """Statistics of an array. Minimum, maximum and mean are those of its finite elements, None if there is none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nan: int
    inf: int
    min: float | None
    max: float | None
    mean: float | None

    def __str__(self) -> str:
        summary = f"{self.name}: shape {self.shape}, {self.dtype}: {self.nan} nan, {self.inf} inf"
        if self.min is None:
            return summary
        return f"{summary}; the finite ones from {self.min:.6g} to {self.max:.6g}, mean {self.mean:.6g}"


class AnomalyError(NBGradError):
    """A non-finite value computed from finite ones; raised inside :func:`detect_anomaly`.

    Attributes
    ----------
    op : str
        The operator that computed it; for a derivative, the operator that is differentiated.
    phase : str
        ``'forward'``, ``'backward'``, ``'second order'``, ``'order 3'`` and so on.
    file, line, function
        Where the user's program called (and so recorded) the operator; None if that was outside the scope.
    output : Statistics
        Of the value.
    inputs : tuple of Statistics
        Of its operands; for a derivative, of the cotangent and of the values saved for it.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> try:
    ...     with autograd.detect_anomaly():
    ...         y = nd.log(nd.array([0.0, 1.0]))
    ... except autograd.AnomalyError as err:
    ...     print(err.op, err.phase, err.output.inf, err.inputs[0].min)
    log forward 1 0.0
    """

    def __init__(
        self, op: str, phase: str, place: tuple | None, output: Statistics, inputs: Sequence[Statistics]
    ) -> None:
        self.op = op
        self.phase = phase
        self.file, self.line, self.function = place or (None, None, None)
        self.output = output
        self.inputs = tuple(inputs)
        what = op if phase == "forward" else f"the derivative of {op}"
        where = f'File "{self.file}", line {self.line}, in {self.function}' if place else "outside detect_anomaly"
        lines = [f"{what} gave the first value that is not finite ({phase})", f"{op} was called here: {where}"]
        super().__init__("\n  ".join([*lines, str(output), *map(str, inputs)]))

    def __reduce__(self):
        place = None if self.file is None else (self.file, self.line, self.function)
        return type(self), (self.op, self.phase, place, self.output, self.inputs)


def detect_anomaly(enabled: bool = True) -> _Scope:
    """A scope (or decorator) in which the first non-finite value raises an error that says where it came from.

    Every operator called in the scope, and every derivative computed in it, is checked: where an infinity or a NaN
    results from finite operands (in a derivative, from a finite cotangent), :class:`AnomalyError` is raised. Data that
    are not finite from the start raise nothing. A composite operator counts as one.

    Have both the recording and the backward in the scope: source lines recorded outside are not known. The scope
    belongs to this thread and may be nested. It reads every array once more, so it is for debugging; outside of it
    nothing is slower.

    Parameters
    ----------
    enabled : bool
        False turns the checks off, inside another such scope.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.array([0.0, 4.0])
    >>> x.attach_grad()
    >>> with autograd.detect_anomaly():
    ...     with autograd.record():
    ...         y = nd.sqrt(x)
    ...     try:
    ...         y.backward()
    ...     except autograd.AnomalyError as err:
    ...         print(err.op, err.phase, err.output.inf, err.line)
    sqrt backward 1 3
    """
    if not isinstance(enabled, bool | np.bool_):
        raise DTypeError(f"detect_anomaly: enabled must be a bool, got {enabled!r}")
    return _Scope(bool(enabled))


#: The stack of observers to restore, one per scope that is open, as a linked list: (observer, the rest).
_entered: ContextVar[tuple | None] = ContextVar("nbgrad_observers", default=None)


class _Scope:
    """Install an observer in this thread, and restore the previous one on exit. May be nested."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        _entered.set((state.observer, _entered.get()))
        if self._enabled:
            observers.append(self)
            state.observer = state.observer or _Observer()
        else:
            state.observer = None

    def __exit__(self, *exc: object) -> None:
        if self._enabled:
            observers.pop()  # entries are only counted, so it does not matter whose this is
        state.observer, before = _entered.get() or (None, None)
        _entered.set(before)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def scoped(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return scoped


class _Note(NamedTuple):
    """Where a node was recorded, and its order: how many derivatives it is away from the user's code."""

    place: tuple
    order: int


class _Observer:
    """Checks what a thread computes inside a scope. Operators and sweeps call it; see :mod:`.observers`."""

    def __init__(self) -> None:
        self.notes: WeakKeyDictionary[tape.Node, _Note] = WeakKeyDictionary()
        self.steps = 0  # depth of composite operators
        self.node: tape.Node | None = None  # the node whose derivative is being computed

    @contextlib.contextmanager
    def one_step(self) -> Iterator[None]:
        self.steps += 1
        try:
            yield
        finally:
            self.steps -= 1

    def computed(self, name: str, operands: Sequence, results: Sequence[NDArray], again=None) -> None:
        """Check the results of operator `name`, and note where it was called."""
        node = None if state.recomputing else self.node
        if node is None and not self.steps:
            arrays = [x for x in operands if isinstance(x, NDArray)]
            for y in results:
                if not _finite(y._buf, y._kind) and all(_finite(x._buf, x._kind) for x in arrays):
                    output = _statistics("result", y._buf, y._shape, y._kind)
                    inputs = [_statistics(f"operand {k}", x._buf, x._shape, x._kind) for k, x in enumerate(arrays)]
                    raise AnomalyError(name, "forward", _place(), output, inputs)
        new = [y._node for y in results if type(y._node) is tape.Node]
        if new:
            above = None if node is None else self.notes.get(node)
            note = _Note(_place(), 0) if above is None else _Note(above.place, above.order + 1)
            for item in new:
                self.notes.setdefault(item, note)
                if item.op is tape.SELECT:
                    self.notes.setdefault(item.parents[0], note)

    def pull_raw(self, node, g, cotangents, borrowed, useful) -> None:
        """Run ``node.op.pull_raw(...)`` and check its results."""
        borrowed.add(node)  # the input must stay intact: it is reported
        with self._pull(node, g, cotangents, lambda c, kind: c):
            node.op.pull_raw(node, g, cotangents, borrowed, useful)

    def pull_recorded(self, node, g, cotangents, useful) -> None:
        """Run ``node.op.pull_recorded(...)`` and check its results."""
        with self._pull(node, g, cotangents, lambda c, kind: c._buf):
            node.op.pull_recorded(node, g, cotangents, useful)

    @contextlib.contextmanager
    def _pull(self, node: tape.Node, g, cotangents: dict, raw: Callable) -> Iterator[None]:
        given = [(raw(c, kind), shape, kind) for c, shape, kind in _parts(node, g)]
        finite = all(_finite(buf, kind) for buf, _, kind in given)
        parents = [p for p in dict.fromkeys(p for p in node.parents if type(p) is not list) if finite]
        clean = [p for p in parents if self._bad(p, cotangents, raw) is None]
        outer, self.node = self.node, node
        again, state.recomputing = state.recomputing, False
        try:
            yield
        finally:
            self.node = outer
            state.recomputing = again
        for p in clean:
            bad = self._bad(p, cotangents, raw)
            if bad is not None:
                note = self.notes.get(node)
                order = 0 if note is None else note.order
                phase = ("backward", "second order")[order] if order < 2 else f"order {order + 1}"
                inputs = [_statistics("cotangent", *part) for part in given]
                inputs += [
                    _statistics(f"kept value {k}", buf, (buf.size,), None)
                    for k, buf in enumerate(node.saved[::3])
                    if buf is not None
                ]
                raise AnomalyError(
                    node.op.name, phase, None if note is None else note.place, _statistics("result", *bad), inputs
                )

    @staticmethod
    def _bad(p, cotangents: dict, raw: Callable) -> tuple | None:
        """The first non-finite cotangent of `p`, of one of its results; None if all are finite."""
        for c, shape, kind in _parts(p, cotangents.get(p)):
            if not _finite(raw(c, kind), kind):
                return raw(c, kind), shape, kind
        return None


def _parts(item, cotangent) -> Iterator[tuple]:
    """(cotangent, shape, kind) for each result of a node or leaf that has a cotangent."""
    several = isinstance(item.kind, tuple)
    parts = zip(cotangent or (), item.shape, item.kind) if several else [(cotangent, item.shape, item.kind)]
    return ((c, shape, kind) for c, shape, kind in parts if c is not None)


def _numbers(buf, kind) -> np.ndarray:
    """A raw buffer's values; float16 is stored as its bits."""
    values = np.asarray(buf)
    half = values.dtype == np.uint16 if kind is None else kind.dtype.name == "float16"
    return values.view(np.float16) if half else values


def _finite(buf, kind) -> bool:
    return not kind.dtype.is_float or bool(np.isfinite(_numbers(buf, kind)).all())


def _statistics(name: str, buf, shape: tuple, kind) -> Statistics:
    values = _numbers(buf, kind)
    dtype = str(values.dtype)
    if values.dtype.kind == "f":
        nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        values = values[np.isfinite(values)]
    else:
        nan = inf = 0
    if not values.size:
        return Statistics(name, shape, dtype, nan, inf, None, None, None)
    with np.errstate(over="ignore"):
        mean = float(values.mean(dtype=np.float64))
    return Statistics(name, shape, dtype, nan, inf, float(values.min()), float(values.max()), mean)


def _place() -> tuple:
    """The file, line and function that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
