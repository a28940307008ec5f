"""Observers: hooks by which a scope sees every result, as :mod:`nbgrad.autodiff.anomaly` does.

Outside such scopes operators only test whether :data:`observers` is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arrays.ndarray import NDArray
from .state import state

__all__ = ["notify_observer", "observe_call", "observers"]

#: One entry per open scope of any thread. The observer itself is ``state.observer`` of the thread.
observers: list = []


def notify_observer(
    name: str,
    operands: Sequence,
    results: Sequence[NDArray],
    again: Callable[[Sequence[NDArray]], Sequence] | None = None,
) -> None:
    """Report the operands and results of operator `name` to this thread's observer, if there is one.

    `again` applies the operator to other operands.
    """
    observer = state.observer
    if observer is not None:
        observer.computed(name, operands, results, again)


def observe_call(name: str, function: Callable, args: tuple, kwargs: dict):
    """Run ``function(*args, **kwargs)`` and report it as one operator: its intermediate values may be infinite."""
    observer = state.observer
    if observer is None:
        return function(*args, **kwargs)
    with observer.one_step():
        result = function(*args, **kwargs)
    results = result if isinstance(result, list | tuple) else [result]
    observer.computed(name, (*args, *kwargs.values()), [y for y in results if isinstance(y, NDArray)], None)
    return result
