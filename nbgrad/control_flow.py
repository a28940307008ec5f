"""Loops and branches as functions: Python runs them, and the tape records what ran."""

from __future__ import annotations

from collections.abc import Callable

from .errors import AttrError, ShapeError
from .ndarray import NDArray, full
from .registry import operators

__all__ = ["cond", "foreach", "while_loop"]


def _listed(value) -> list:
    return [value] if isinstance(value, NDArray) else list(value)


def _stacked(steps: list, length: int):
    """The outputs of all steps along a new first axis, filled up with zeros to `length`: an array, or a list."""
    if not steps:
        return []
    columns = []
    for parts in zip(*map(_listed, steps), strict=True):
        column = operators["stack"].call(*parts, axis=0)
        if len(parts) < length:
            rest = full((length - len(parts), *column.shape[1:]), 0, column.dtype, column.ctx)
            column = operators["concat"].call(column, rest, dim=0)
        columns.append(column)
    return columns[0] if isinstance(steps[0], NDArray) else columns


def foreach(body: Callable, data, init_states, name: str | None = None):
    """Call a function with each slice of the data along axis 0, and the states that the call before returned.

    Parameters
    ----------
    body : callable
        ``outputs, states = body(slice, states)``: the slice is an array where `data` is one, else a list; the states
        are like `init_states`.
    data : NDArray or list of NDArray
        Of one length.
    init_states : NDArray or list of NDArray

    Returns
    -------
    outputs : NDArray or list of NDArray
        What `body` returned, stacked along a new axis 0.
    states : NDArray or list of NDArray
        Those of the last call.

    Raises
    ------
    ShapeError
        If the arrays are not of one length.

    Examples
    --------
    >>> from nbgrad import nd
    >>> sums, last = nd.contrib.foreach(lambda x, s: (x + s, x + s), nd.array([1, 2, 3]), nd.zeros(1))
    >>> sums.reshape(-1).tolist(), last.tolist()
    ([1.0, 3.0, 6.0], [6.0])
    """
    arrays = _listed(data)
    lengths = {len(x) for x in arrays}
    if len(lengths) != 1:
        raise ShapeError(f"foreach: data must be arrays of one length, got lengths {sorted(lengths)}")
    states, outputs = init_states, []
    for k in range(lengths.pop()):
        output, states = body(data[k] if isinstance(data, NDArray) else [x[k] for x in arrays], states)
        outputs.append(output)
    return _stacked(outputs, len(outputs)), states


def while_loop(cond: Callable, func: Callable, loop_vars, max_iterations: int | None = None, name: str | None = None):
    """Call a function with the loop variables that it returned, while a condition of them holds.

    Parameters
    ----------
    cond : callable
        ``cond(*loop_vars)``: an array with one element, or a number.
    func : callable
        ``outputs, loop_vars = func(*loop_vars)``.
    loop_vars : NDArray or list of NDArray
    max_iterations : int
        Required: after so many calls it ends.

    Returns
    -------
    outputs : NDArray or list of NDArray
        What `func` returned, stacked along a new axis 0 of length `max_iterations`, with zeros at the end; ``[]`` if
        it was not called.
    loop_vars : NDArray or list of NDArray

    Raises
    ------
    AttrError
        If `max_iterations` is not given, or negative.

    Examples
    --------
    >>> from nbgrad import nd
    >>> powers, (last,) = nd.contrib.while_loop(
    ...     lambda x: x < 50, lambda x: (x, [x * 3]), [nd.array([1])], max_iterations=5
    ... )
    >>> powers.reshape(-1).tolist(), last.tolist()
    ([1.0, 3.0, 9.0, 27.0, 0.0], [81.0])
    """
    if max_iterations is None or max_iterations < 0:
        raise AttrError(f"while_loop: max_iterations, at least 0, must be given; got {max_iterations}")
    single = isinstance(loop_vars, NDArray)
    variables = _listed(loop_vars)
    outputs: list = []
    while len(outputs) < max_iterations and bool(cond(*variables)):
        output, new = func(*variables)
        variables = _listed(new)
        outputs.append(output)
    return _stacked(outputs, max_iterations), variables[0] if single else variables


def cond(pred, then_func: Callable, else_func: Callable, name: str | None = None):
    """``then_func()`` if a condition holds, else ``else_func()``.

    Parameters
    ----------
    pred : NDArray
        With one element.
    then_func, else_func : callable

    Returns
    -------
    NDArray or list of NDArray
        What the function called returns.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.array([3])
    >>> nd.contrib.cond(x > 2, lambda: x * 10, lambda: x).tolist()
    [30.0]
    """
    return then_func() if bool(pred) else else_func()
