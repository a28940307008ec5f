"""Structured control flow: ``foreach``, ``while_loop`` and ``cond`` of ``nd.contrib``.

The public functions check and flatten their arguments; ``_run_scan`` and ``_run_while`` run the steps on flat lists of
arrays. Steps are recorded like anything else, so gradients of every order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, from_value, wrap
from ..autodiff import tracing
from ..autodiff.state import state
from ..core.shapes import size
from ..errors import AttrError, DTypeError, ShapeError
from ..functional import pytrees
from ..functional.checkpoint import checkpoint as checkpointed
from ..kernels.join import concat, pieces, stack, unstacked
from ..kernels.shape import reshape
from .branches import branch
from .loop_steps import loop

__all__ = ["cond", "foreach", "while_loop"]

Arrays = list[NDArray]


def foreach(body: Callable, data, init_states, *, checkpoint: int | None = None) -> tuple[Any, Any]:
    """Run `body` on the rows of the data one after the other, and stack its outputs.

    Parameters
    ----------
    body : callable
        ``body(row, states)`` returns ``(outputs, new_states)``. `row` has the structure of `data`, `states`
        and `new_states` that of `init_states`.
    data : NDArray, or nested lists of them
        Rows are taken along axis 0, whose length all arrays share. Dicts, tuples and dataclasses work, too.
    init_states : NDArray, or nested lists of them
        May be empty. A state keeps its shape and dtype.
    checkpoint : int, optional
        An interval k: store the states after every k steps only, and recompute the steps between in backward. For n
        steps, n / k states and the intermediate values of k steps are in memory, instead of those of all steps; see
        :func:`autograd.checkpoint`.

    Returns
    -------
    outputs : NDArray, or nested lists of them
        The outputs of all steps, stacked along a new axis 0, in the structure that `body` returns; lists for tuples.
    states : NDArray, or nested lists of them
        After the last step.

    Raises
    ------
    DTypeError
        If something is not an NDArray, or a structure differs from what it was before.
    ShapeError
        If data has no rows or the lengths of its arrays differ; if a state or an output changes its shape or dtype.
    AttrError
        If `checkpoint` is not a positive integer.

    Examples
    --------
    >>> from nbgrad import nd
    >>> def body(x, total):
    ...     return total + x, total + x
    >>> sums, last = nd.contrib.foreach(body, nd.array([[1, 2], [3, 4], [5, 6]]), nd.zeros(2))
    >>> sums.tolist(), last.tolist()
    ([[1.0, 2.0], [4.0, 6.0], [9.0, 12.0]], [9.0, 12.0])
    """
    _functions("foreach", body=body)
    every = _checkpoint_interval("foreach", checkpoint)
    rows, states = _Form(data, "foreach: data"), _Form(init_states, "foreach: state")
    outputs = _Outputs("foreach: output")

    def step(row: Arrays, before: Arrays) -> tuple[Arrays, Arrays]:
        outs, after = _pair("foreach: body", body(rows.build(row), states.build(before)), "new_states")
        return outputs.flat(outs), states.flat(after)

    arrays = rows.flat(data)
    _row_count(arrays)
    scan = _run_scan if tracing.current.graph is None else _trace_scan
    stacked, last = scan(step, arrays, states.flat(init_states), every)
    return outputs.build(stacked), states.build(last)


def while_loop(
    cond: Callable, func: Callable, loop_vars, max_iterations=None, *, checkpoint: int | None = None
) -> tuple[Any, Any]:
    """Run `func` as long as `cond` holds, at most `max_iterations` times, and stack its outputs.

    Parameters
    ----------
    cond : callable
        ``cond(*loop_vars)`` returns a scalar: an NDArray of size 1, or a Python or NumPy number.
    func : callable
        ``func(*loop_vars)`` returns ``(outputs, new_loop_vars)``. Outputs may be None.
    loop_vars : NDArray, or list of NDArrays or nested lists of them
        A loop variable keeps its shape and dtype.
    max_iterations : int
    checkpoint : int, optional
        As for :func:`foreach`.

    Returns
    -------
    outputs : NDArray, or nested lists of them
        The outputs of all steps, stacked along a new axis 0 of length `max_iterations`: the rows of steps that did
        not run are zero. An empty list if there was no step.
    loop_vars : NDArray, or list
        After the last step.

    Raises
    ------
    DTypeError
        If something is not an NDArray, or a structure differs from what it was before.
    ShapeError
        If a loop variable or an output changes its shape or dtype, or the condition is not a scalar.
    AttrError
        If `max_iterations` (or `checkpoint`) is not a positive integer, or there are no loop variables.

    Examples
    --------
    >>> from nbgrad import nd
    >>> def func(i, total):
    ...     return total, [i + 1, total + i]
    >>> i, total = nd.array([1]), nd.array([0])
    >>> sums, (i, total) = nd.contrib.while_loop(lambda i, total: i <= 3, func, [i, total], max_iterations=5)
    >>> sums.reshape(-1).tolist(), i.item(), total.item()
    ([0.0, 1.0, 3.0, 0.0, 0.0], 4.0, 6.0)
    """
    _functions("while_loop", cond=cond, func=func)
    limit = _iterations(max_iterations)
    every = _checkpoint_interval("while_loop", checkpoint)
    single = isinstance(loop_vars, NDArray)
    variables = _listed(loop_vars)
    if not isinstance(variables, list):
        raise DTypeError(f"while_loop: loop_vars must be an NDArray or a list, got {_described_briefly(loop_vars)}")
    if not variables:
        raise AttrError("while_loop: loop_vars should contain at least one element")
    form, outputs = _Form(variables, "while_loop: loop variable"), _Outputs("while_loop: output")

    def test(now: Arrays) -> bool:
        return _truth("while_loop: what cond returns", cond(*form.build(now)))

    def more(now: Arrays) -> NDArray:
        return _traced_scalar("while_loop: what cond returns", cond(*form.build(now)))

    def step(before: Arrays) -> tuple[Arrays, Arrays]:
        outs, after = _pair("while_loop: func", func(*form.build(before)), "new_loop_vars")
        return outputs.flat([] if outs is None else outs), form.flat(_listed(after))

    now = form.flat(variables)
    if tracing.current.graph is None:
        stacked, last = _run_while(test, step, now, limit, every)
    else:
        stacked, last = _trace_while(more, step, now, limit, every)
    final = form.build(last)
    return outputs.build(stacked), final[0] if single else final


def cond(pred, then_func: Callable, else_func: Callable) -> Any:
    """The result of `then_func` if `pred` is true, else that of `else_func`.

    Parameters
    ----------
    pred : NDArray of size 1, or a Python or NumPy bool or number
    then_func, else_func : callable
        Without arguments. One of them is called.

    Returns
    -------
    object

    Raises
    ------
    DTypeError
        If `pred` is not a number, or the others are not functions.
    ShapeError
        If the size of `pred` is not 1.

    Examples
    --------
    >>> from nbgrad import nd
    >>> a, b = nd.array([1]), nd.array([2])
    >>> nd.contrib.cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: (a - 5) * (b - 5)).item()
    42.0
    """
    _functions("cond", then_func=then_func, else_func=else_func)
    if tracing.current.graph is not None and isinstance(pred, NDArray):
        return _trace_cond(_traced_scalar("cond: pred", pred), then_func, else_func)
    return then_func() if _truth("cond: pred", pred) else else_func()


# The steps, on flat lists of arrays.


def _run_scan(step: Callable, data: Arrays, states: Arrays, every: int | None) -> tuple[Arrays, Arrays]:
    """Run ``step(row, states)`` for all rows, `every` of them per checkpoint; return outputs and last states."""

    def foreach_steps(data: Arrays, states: Arrays) -> tuple[Arrays, Arrays]:
        outs = []
        for row in zip(*[_rows(x) for x in data], strict=True):
            out, states = step(row, states)
            outs.append(out)
        return _stacked(outs), states

    if every is None:
        return foreach_steps(data, states)
    n = len(data[0])
    sizes = [min(every, n - start) for start in range(0, n, every)]
    blocks, run = [], checkpointed(foreach_steps)
    for block in zip(*[_blocks(x, sizes) for x in data], strict=True):
        out, states = run(list(block), states)
        blocks.append(out)
    return _joined(blocks), states


def _trace_scan(step: Callable, data: Arrays, states: Arrays, every: int | None) -> tuple[Arrays, Arrays]:
    """`_run_scan` as a loop of a compiled program.

    Its derivative recomputes each step from the states before it: under a checkpoint, a step is a loop of its own.
    """

    def one(row: Arrays, states: Arrays) -> tuple[Arrays, Arrays]:
        return step([x if x._shape else reshape(x, x._kind.conventions.scalar) for x in row], states)

    n = data[0]._shape[0]
    if every is None or every >= n:
        return loop("foreach", one, states, data, n)
    whole = n // every * every
    blocks = [reshape(x[:whole], (n // every, every, *x._shape[1:])) for x in data]
    outs, states = loop("foreach_blocks", lambda b, s: loop("foreach", one, s, b, every), states, blocks, n // every)
    outs = [reshape(y, (whole, *y._shape[2:])) for y in outs]
    if whole < n:
        more, states = loop("foreach", one, states, [x[whole:] for x in data], n - whole)
        outs = [concat(a, b, dim=0) for a, b in zip(outs, more, strict=True)]
    return outs, states


def _run_while(test: Callable, step: Callable, states: Arrays, limit: int, every: int | None) -> tuple[Arrays, Arrays]:
    """Run ``step(states)`` while ``test(states)``, at most `limit` times; return zero-padded outputs, and states."""

    def while_steps(states: Arrays, limit: int) -> tuple[Arrays, Arrays, int]:
        outs: list[Arrays] = []
        while len(outs) < limit and test(states):
            out, states = step(states)
            outs.append(out)
        return _stacked(outs), states, len(outs)

    run = while_steps if every is None else checkpointed(while_steps)
    blocks, left, more = [], limit, True
    while left and more:
        wanted = left if every is None else min(every, left)
        out, states, done = run(states, wanted)
        more = done == wanted
        left -= done
        if done:
            blocks.append(out)
    if blocks and left:
        blocks.append([_zeros_like_rows(y, left) for y in blocks[0]])
    return _joined(blocks), states


def _trace_while(more: Callable, step: Callable, states: Arrays, limit: int, every: int | None) -> tuple:
    """`_run_while` as a loop of a compiled program, which counts its steps when it runs."""

    def one(row: Arrays, states: Arrays) -> tuple[Arrays, Arrays]:
        return step(states)

    if every is None or every >= limit:
        return loop("while_loop", one, states, [], limit, more=more)

    def block(row: Arrays, states: Arrays) -> tuple[Arrays, Arrays]:
        return loop("while_loop", one, states, [], every, more=more)

    count, rest = divmod(limit, every)
    outs, states = loop("while_blocks", block, states, [], count, more=more)
    outs = [reshape(y, (count * every, *y._shape[2:])) for y in outs]
    if rest:
        others, states = loop("while_loop", one, states, [], rest, more=more)
        outs = [concat(a, b, dim=0) for a, b in zip(outs, others, strict=True)]
    return outs, states


def _trace_cond(pred: NDArray, then_func: Callable, else_func: Callable) -> Any:
    """A branch that a compiled program takes when it runs."""
    message = (
        "cond: result{path} is {now} from else_func and {before} from then_func; in a compiled function both must give "
        "arrays of the same shape and dtype"
    )
    outputs = _Outputs("cond: result", message)
    functions = (lambda: outputs.flat(then_func()), lambda: outputs.flat(else_func()))
    return outputs.build(branch("cond", pred, functions))


# Rows are views of an array. If the array is recorded, one operator takes them all: the gradient of each single row
# would have the size of the whole array.


def _recorded(x: NDArray) -> bool:
    return state.recording and x._node is not None


def _rows(x: NDArray) -> Iterable[NDArray]:
    return unstacked(x) if _recorded(x) else x


def _blocks(x: NDArray, sizes: Sequence[int]) -> Iterable[NDArray]:
    if _recorded(x):
        return pieces(x, sizes=tuple(sizes))
    ends = np.cumsum(sizes).tolist()
    return [x[end - n : end] for n, end in zip(sizes, ends, strict=True)]


def _stacked(outs: list[Arrays]) -> Arrays:
    return [stack(*column, axis=0) for column in zip(*outs, strict=True)]


def _joined(blocks: list[Arrays]) -> Arrays:
    return blocks[0] if len(blocks) == 1 else [concat(*column, dim=0) for column in zip(*blocks, strict=True)]


def _zeros_like_rows(y: NDArray, n: int) -> NDArray:
    shape = (n, *y._shape[1:])
    return wrap(y._kind.zeros(size(shape)), shape, y._kind)


# Arguments and results, and error messages about them.


class _Aval:
    """A leaf of a structure: the shape and kind of an array, without its memory and history."""

    __slots__ = ("kind", "shape")

    def __init__(self, x: NDArray) -> None:
        self.shape = x._shape
        self.kind = x._kind

    def __repr__(self) -> str:
        return f"{self.kind.dtype} of shape {self.shape}"


_CHANGED = (
    "{what}{path} is {now} after a step and {before} before; it must keep shape and dtype: see where the step changes "
    "them, or begin with others"
)


class _Form:
    """A structure of arrays, with the shape and kind of each leaf; `what` names it in error messages."""

    def __init__(self, tree: Any, what: str, text: str = _CHANGED) -> None:
        self.text = text
        leaves: list = []
        pytrees.flatten(tree, leaves)
        for k, x in enumerate(leaves):
            if not isinstance(x, NDArray):
                raise DTypeError(_no_array(f"{what}{pytrees.leaf_path(tree, k)}", x))
        self.what = what
        self.avals = pytrees.map_leaves(tree, _Aval)
        self._build: Callable[[Iterator], Any] = pytrees.flatten(self.avals, [])

    def build(self, leaves: Iterable[NDArray]) -> Any:
        """The same structure with other arrays."""
        return self._build(iter(leaves))

    def flat(self, tree: Any) -> Arrays:
        """The arrays of a structure, checked to have this form."""
        arrays = []
        for aval, x, path in pytrees.flatten_like(self.avals, tree, self.what):
            if not isinstance(x, NDArray):
                raise DTypeError(_no_array(self.what + path, x))
            if tracing.current.graph is not None:
                (x,) = tracing.capture_outside([x])
            if x._shape != aval.shape or not _same(x._kind, aval.kind):
                raise ShapeError(self.text.format(what=self.what, path=path, now=_Aval(x), before=aval))
            arrays.append(x)
        return arrays


def _same(kind: Kind, other: Kind) -> bool:
    """Whether two kinds have one dtype and device; traced arrays are on no device."""
    return kind.dtype is other.dtype and (kind.traced or kind.ctx == other.ctx)


class _Outputs:
    """The outputs of steps: the first step determines their structure."""

    def __init__(self, what: str, text: str = _CHANGED) -> None:
        self.what = what
        self.text = text
        self.form: _Form | None = None

    def flat(self, tree: Any) -> Arrays:
        tree = _with_lists(tree)
        if self.form is None:
            self.form = _Form(tree, self.what, self.text)
        return self.form.flat(tree)

    def build(self, stacked: Arrays) -> Any:
        return [] if self.form is None else self.form.build(stacked)


def _with_lists(tree: Any) -> Any:
    return [_with_lists(v) for v in tree] if type(tree) in (list, tuple) else tree


def _listed(loop_vars: Any) -> Any:
    if isinstance(loop_vars, NDArray):
        return [loop_vars]
    return list(loop_vars) if isinstance(loop_vars, tuple) else loop_vars


def _pair(what: str, result: Any, second: str) -> Sequence:
    if not isinstance(result, list | tuple) or len(result) != 2:
        raise DTypeError(f"{what} must return (outputs, {second}), got {_described_briefly(result)}")
    return result


def _functions(op: str, **given: Any) -> None:
    for name, function in given.items():
        if not callable(function):
            raise DTypeError(f"{op}: {name} must be a function, got {_described_briefly(function)}")


def _row_count(arrays: Arrays) -> None:
    lengths = [x._shape[0] if x._shape else None for x in arrays]
    if None in lengths:
        raise ShapeError("foreach: data has an array of shape (), which has no rows; reshape it to (1,)")
    if len(set(lengths)) != 1:
        said = f"arrays of {', '.join(map(str, lengths))} rows" if lengths else "no array"
        raise ShapeError(f"foreach: data has {said}; at least one is needed, and all with the same number of rows")
    if lengths[0] == 0:
        raise ShapeError("foreach: data has no rows, so what the body would give is unknown; at least one is needed")


def _checkpoint_interval(op: str, interval: int | None) -> int | None:
    if interval is None:
        return None
    if not isinstance(interval, int | np.integer) or interval < 1:
        raise AttrError(f"{op}: checkpoint must be a positive number of steps, or None, got {interval!r}")
    return int(interval)


def _iterations(limit: Any) -> int:
    if limit is None:
        raise AttrError("while_loop: max_iterations should be specified")
    value: Any = limit.item() if isinstance(limit, NDArray) and limit.size == 1 else limit
    if not isinstance(value, int | float | np.number) or not 1 <= value < np.inf or value != int(value):
        raise AttrError(f"while_loop: max_iterations must be a positive integer, got {limit!r}")
    return int(value)


def _truth(what: str, value: Any) -> bool:
    return bool(_single(what, value))


def _traced_scalar(what: str, value: Any) -> NDArray:
    """The scalar as a traced array."""
    value = _single(what, value)
    return tracing.capture_outside(
        [value if isinstance(value, NDArray) else from_value(np.asarray(value, np.float64))]
    )[0]


def _single(what: str, value: Any) -> Any:
    if not isinstance(value, NDArray | np.ndarray | np.generic | bool | int | float):
        raise DTypeError(f"{what} must be one number or bool, got {_described_briefly(value)}")
    shape = getattr(value, "shape", ())
    if size(shape) != 1:
        raise ShapeError(f"{what} must be one number or bool, got an array of shape {shape}; reduce it first")
    return value


def _no_array(what: str, value: Any) -> str:
    return f"{what} must be an NDArray, got {_described_briefly(value)}; nd.array makes one of numbers and NumPy arrays"


def _described_briefly(value: Any) -> str:
    """A short description of any value."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return f"a {kind} of {len(value)}"
    return f"an {kind} of shape {value.shape}" if isinstance(value, NDArray | np.ndarray) else f"{value!r} ({kind})"
