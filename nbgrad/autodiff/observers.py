"""Where a scope that wants to see every result hooks in, as :mod:`nbgrad.autodiff.anomaly` does.

Operators ask whether :data:`observers` is empty and go on; nothing else is paid for outside such scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arrays.ndarray import NDArray
from .state import state

__all__ = ["observed", "observed_call", "observers"]

#: One entry per scope that some thread is inside of. The observer itself is the thread's, ``state.observer``.
observers: list = []


def observed(
    name: str,
    operands: Sequence,
    results: Sequence[NDArray],
    again: Callable[[Sequence[NDArray]], Sequence] | None = None,
) -> None:
    """Show this thread's observer, if there is one, what operator `name` made of its operands.

    `again` does the same to other operands.
    """
    observer = state.observer
    if observer is not None:
        observer.computed(name, operands, results, again)


def observed_call(name: str, function: Callable, args: tuple, kwargs: dict):
    """``function(*args, **kwargs)``, shown as one operation: what it is composed of may be infinite on the way."""
    observer = state.observer
    if observer is None:
        return function(*args, **kwargs)
    with observer.one_step():
        result = function(*args, **kwargs)
    results = result if isinstance(result, list | tuple) else [result]
    observer.computed(name, (*args, *kwargs.values()), [y for y in results if isinstance(y, NDArray)], None)
    return result
