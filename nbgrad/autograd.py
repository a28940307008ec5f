"""Recording scopes, gradients, and custom functions: MXNet's ``autograd`` package, to any order.

Examples
--------
>>> from nbgrad import autograd, nd
>>> x = nd.array([1, 2, 3, 4])
>>> x.attach_grad()
>>> with autograd.record():
...     y = x * x + 1
>>> y.backward()
>>> x.grad
<BLANKLINE>
[2. 4. 6. 8.]
<NDArray 4 @cpu(0)>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from . import symbol
from .arrays.launch import fill
from .arrays.ndarray import NDArray, from_value, set_storage_type, wrap
from .arrays.sharing import alias
from .autodiff import tape, tracing
from .autodiff.anomaly import AnomalyError, detect_anomaly
from .autodiff.constants import constant
from .autodiff.scopes import (
    is_recording,
    is_training,
    pause,
    predict_mode,
    record,
    set_recording,
    set_training,
    train_mode,
)
from .autodiff.state import put_training, state, training
from .autodiff.tape import Leaf
from .custom.function import Function
from .errors import DTypeError, NBGradError, ShapeError
from .functional.checkpoint import checkpoint
from .operators.cast import cast

__all__ = [
    "AnomalyError",
    "Function",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


_REQUESTS = ("write", "add", "null")


def _list(arrays, what: str, function: str) -> list:
    items = [arrays] if isinstance(arrays, NDArray) else arrays
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        raise DTypeError(f"{function}: {what} must be an NDArray or an iterable of them, got {arrays!r}")
    items = list(items)
    for item in items:
        if not isinstance(item, NDArray):
            raise DTypeError(f"{function}: {what} must be an NDArray or an iterable of them, got {item!r} in it")
    return items


def mark_variables(variables, gradients, grad_reqs: str | Sequence[str] = "write") -> None:
    """Mark arrays as variables to compute gradients for, and set their gradient buffers.

    Parameters
    ----------
    variables : NDArray or iterable of NDArray
    gradients : NDArray or iterable of NDArray
        One buffer per variable, with its shape and dtype.
    grad_reqs : {'write', 'add', 'null'} or sequence of them
        What ``backward`` does with a buffer: overwrite it, add to it, leave it.

    Raises
    ------
    ShapeError, DTypeError
        If numbers, shapes or dtypes of variables and gradients differ. Then nothing is marked.
    KeyError
        For another request.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x, g = nd.array([1.0, 2.0, 3.0], dtype="float64"), nd.zeros(3, dtype="float64")
    >>> autograd.mark_variables(x, g)
    >>> with autograd.record():
    ...     y = x * x + 1
    >>> autograd.backward(y)
    >>> g
    <BLANKLINE>
    [2. 4. 6.]
    <NDArray 3 @cpu(0)>
    """
    tracing.check_write("mark_variables")
    variables = _list(variables, "variables", "mark_variables")
    gradients = _list(gradients, "gradients", "mark_variables")
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(variables) == len(gradients) == len(requests):
        raise ShapeError(
            f"mark_variables: {len(variables)} variable(s), {len(gradients)} gradient(s) and {len(requests)} "
            "grad_reqs given; their numbers must be the same"
        )
    for k, (x, g, request) in enumerate(zip(variables, gradients, requests, strict=True)):
        _check_request(request, "mark_variables")
        _require_floats(x, request, "mark_variables")
        if x._shape != g._shape or x._kind is not g._kind:
            error = DTypeError if x._shape == g._shape else ShapeError
            raise error(
                f"mark_variables: variable {k} has shape {x._shape} and is {x._kind}, its gradient buffer has shape "
                f"{g._shape} and is {g._kind}; they must be the same"
            )
    _check_no_overlap(variables, gradients)
    for x, g, request in zip(variables, gradients, requests, strict=True):
        x._node = Leaf(g, request, x._cell)


def _check_no_overlap(variables: list[NDArray], gradients: list[NDArray]) -> None:
    """Raise for gradient buffers that overlap a variable or another buffer."""
    known: dict[int, list[tuple[str, NDArray]]] = {}  # by version cell, of which there is one per memory
    for k, x in enumerate(variables):
        known.setdefault(id(x._cell), []).append((f"variable {k}", x))
    for k, g in enumerate(gradients):
        same_memory = known.setdefault(id(g._cell), [])
        for what, other in same_memory:
            if g._buf is other._buf or np.may_share_memory(g._view(), other._view()):
                raise NBGradError(
                    f"mark_variables: gradient buffer {k} and {what} have memory in common, "
                    "and backward would write both; give each a buffer of its own"
                )
        same_memory.append((f"gradient buffer {k}", g))


def _check_request(request, function: str) -> None:
    if request not in _REQUESTS:
        raise KeyError(f"{function}: unknown grad_req {request!r}; use 'write', 'add' or 'null'")


def _require_floats(x: NDArray, request: str, function: str) -> None:
    if request != "null" and not x._kind.dtype.is_float:
        raise DTypeError(
            f"{function}: an array of {x._kind.dtype.name} would have a gradient of that dtype, cut to whole numbers; "
            "use x.astype('float32') or 'float64' first"
        )


def attach_grad(self: NDArray, grad_req: str = "write", stype: str | None = None) -> None:
    """Mark this array as a variable, with a new gradient buffer of zeros in ``.grad``.

    A recorded array becomes a variable without history: gradients are not propagated to the arrays that it was
    computed from.

    Parameters
    ----------
    grad_req : {'write', 'add', 'null'}
        What ``backward`` does with ``.grad``: overwrite it, add to it, leave it.
    stype : str, optional
        A label for ``.grad``, that of the array by default; see ``tostype``.

    Raises
    ------
    KeyError
        For another request.
    DTypeError
        For an array of integers or bools, unless the request is 'null'.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.ones(2)
    >>> x.attach_grad()
    >>> x.grad
    <BLANKLINE>
    [0. 0.]
    <NDArray 2 @cpu(0)>
    """
    tracing.check_write("attach_grad")
    _check_request(grad_req, "attach_grad")
    _require_floats(self, grad_req, "attach_grad")
    grad = wrap(self._kind.empty(self._buf.size, self._kind.storage), self._shape, self._kind)
    fill(set_storage_type(grad, stype or self.stype)._buf, self._kind.dtype, 0)
    self._node = Leaf(grad, grad_req, self._cell, replaceable=True)


def get_grad(self: NDArray) -> NDArray | None:
    """The gradient buffer of a marked variable, else None. ``backward`` writes into it: it is always the same array."""
    leaf = self._node
    return leaf.grad if type(leaf) is Leaf else None


def set_grad(self: NDArray, value) -> None:
    """What ``x.grad += y`` ends with; of a single number of ``nbgrad.np`` `value` is another array, and is copied."""
    grad = get_grad(self)
    if value is grad and grad is not None:
        return
    if grad is None or grad._shape or not isinstance(value, type(grad)) or value._shape:
        raise AttributeError(
            "x.grad = y: the gradient buffer is always the same array, which x.attach_grad() gives; write "
            "x.grad[:] = y, or autograd.mark_variables([x], [y])"
        )
    grad[...] = value


def detach(self: NDArray) -> NDArray:
    """The same memory as an array without gradient and history.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.ones(2)
    >>> x.attach_grad()
    >>> x.detach().grad is None
    True
    """
    return set_storage_type(alias(self, self._buf, self._shape), self.stype)


def get_fresh(self: NDArray) -> bool:
    leaf = self._node
    return type(leaf) is Leaf and leaf.fresh


def set_fresh(self: NDArray, fresh: bool) -> None:
    leaf = self._node
    if type(leaf) is not Leaf:
        raise NBGradError("_fresh_grad can be set on a marked variable only")
    leaf.fresh = bool(fresh)


def _check_recorded(head: NDArray) -> None:
    node = head._node
    if node is None or (type(node) is not Leaf and node.parents is None):
        tracing.check_write("autograd.grad of what is not recorded")
        if node is not None:
            raise NBGradError(tape.USED.format(op=node.op.name))
        raise NBGradError(tape.NOT_MARKED if head._cell[0] < 0 else tape.NOT_RECORDED)


def _heads(heads, head_grads, function: str) -> tuple[list[NDArray], list]:
    one = isinstance(heads, NDArray)
    heads = _list(heads, "heads", function)
    if head_grads is None:
        grads: list = [None] * len(heads)
    elif one:
        grads = [head_grads] if not isinstance(head_grads, list | tuple) else list(head_grads)
    else:
        grads = [head_grads] if isinstance(head_grads, NDArray | np.ndarray) else list(head_grads)
    if len(heads) != len(grads):
        raise AssertionError("heads and head_grads must be lists of the same length")
    for k, (head, g) in enumerate(zip(heads, grads, strict=True)):
        _check_recorded(head)
        if g is None:
            continue
        if not isinstance(g, NDArray):
            if not isinstance(g, np.ndarray):
                raise DTypeError(f"{function}: head gradient {k} must be an NDArray, a NumPy array or None, got {g!r}")
            g = grads[k] = from_value(g, like=head._kind, dtype=head.dtype)
        if g._shape != head._shape:
            raise ShapeError(
                f"{function}: head gradient {k} has shape {g._shape}, its head has shape {head._shape}; "
                "they must be the same"
            )
    return heads, grads


def backward(heads, head_grads=None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of `heads` with respect to the marked variables, into their buffers.

    Parameters
    ----------
    heads : NDArray or iterable of NDArray
        Recorded results. Their gradients are summed; a head that is not scalar counts as its sum.
    head_grads : NDArray, or sequence of NDArray or None, optional
        The initial cotangent of each head, in the head's shape; default (and None): ones.
    retain_graph : bool
        Retain the recorded history for another backward.
    train_mode : bool
        Training mode while gradients are computed.

    Raises
    ------
    NBGradError
        If a head was not recorded, its history was freed, or it depends on no marked variable.
    ShapeError
        If a head gradient has another shape than its head.
    InPlaceError
        If a recorded value that the gradient needs has been changed in place. After an error, all gradient
        buffers are unchanged.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.array([1.0, 2.0])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = x * x
    >>> autograd.backward(y, nd.array([10.0, 100.0]))
    >>> x.grad
    <BLANKLINE>
    [ 20. 400.]
    <NDArray 2 @cpu(0)>
    """
    tracing.check_write("backward")
    heads, grads = _heads(heads, head_grads, "backward")
    if not heads:
        raise NBGradError(tape.NO_INPUTS)
    _sweep([(h._node, tape.head_raw(h, g)) for h, g in zip(heads, grads, strict=True)], retain_graph, train_mode)


def _sweep(seeds: list, retain_graph: bool, train_mode: bool) -> None:
    previous, train_mode = training(), bool(train_mode)
    if previous is train_mode:
        tape.commit(*tape.sweep_raw(seeds, retain_graph))
        return
    try:
        put_training(train_mode)
        tape.commit(*tape.sweep_raw(seeds, retain_graph))
    finally:
        put_training(previous)


def backward_method(self: NDArray, out_grad=None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of this array with respect to the marked variables; see :func:`autograd.backward`.

    Parameters
    ----------
    out_grad : NDArray, optional
        The initial cotangent of this array; default: ones.
    retain_graph, train_mode : bool
    """
    if out_grad is None:
        tracing.check_write("backward")
        _check_recorded(self)
        _sweep([(self._node, tape.ones_raw(self._kind, self._buf.size))], retain_graph, train_mode)
    else:
        backward([self], [out_grad], retain_graph, train_mode)


def grad(
    heads,
    variables,
    head_grads=None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
):
    """The gradients of `heads` with respect to `variables`, as new arrays.

    Parameters
    ----------
    heads : NDArray or iterable of NDArray
    variables : NDArray or iterable of NDArray
        Marked variables, or recorded intermediate results.
    head_grads : NDArray, or sequence of NDArray or None, optional
        As for :func:`backward`. With `create_graph` the result can be differentiated with respect to these too.
    retain_graph : bool, optional
        Retain the recorded history; default: `create_graph`.
    create_graph : bool
        Record the computation of the gradients, so that they can be differentiated, to any order.
    train_mode : bool
        Training mode while gradients are computed.

    Returns
    -------
    NDArray or list of NDArray
        An array for a single NDArray, a list for an iterable.

    Raises
    ------
    NBGradError
        If a head was not recorded, or a variable is not marked or not reached from the heads.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.ones((1,))
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     z = nd.elemwise_add(nd.exp(x), x)
    >>> (dx,) = autograd.grad(z, [x], create_graph=True)
    >>> dx.backward()
    >>> dx.asscalar(), x.grad.asscalar()
    (np.float32(3.7182817), np.float32(2.7182817))
    """
    one = isinstance(variables, NDArray)
    variables = _list(variables, "variables", "grad")
    if not variables:
        raise AssertionError("variables cannot be an empty list.")
    heads, grads = _heads(heads, head_grads, "grad")
    targets: dict = {}
    for k, x in enumerate(variables, 1):
        if x._node is None:
            raise NBGradError(
                f"Cannot differentiate with respect to the {k}-th variable because it does not require gradient."
            )
        targets.setdefault(x._node, k)
    retain = create_graph if retain_graph is None else bool(retain_graph)
    flags = state.recording, state.training
    state.recording, state.training = bool(create_graph), bool(train_mode)
    try:
        if create_graph:
            recorded = [(h._node, _head_array(h, g)) for h, g in zip(heads, grads, strict=True)]
            cotangents = tape.sweep_recorded(recorded, retain, targets)
        else:
            seeds = [(h._node, tape.head_raw(h, g)) for h, g in zip(heads, grads, strict=True)]
            raw, _ = tape.sweep_raw(seeds, retain, targets)
            cotangents = {n: wrap(buf, n.shape, n.kind) for n, buf in raw.items()}
        results = []
        used: set[int] = set()
        for x in variables:
            g = cotangents[x._node]
            if id(g._buf) in used:  # a sweep may share memory; users get arrays of their own
                g = cast(g, g._kind)
            used.add(id(g._buf))
            results.append(constant(g, tuple(targets)) if create_graph and g._node is None else g)
    finally:
        state.recording, state.training = flags
    return results[0] if one else results


def _head_array(head: NDArray, g: NDArray | None) -> NDArray:
    if g is not None:
        return cast(g, head._kind)
    ones = wrap(head._kind.empty(head._buf.size, head._kind.storage), head._shape, head._kind)
    fill(ones._buf, head._kind.dtype, 1)
    return ones


def get_symbol(x: NDArray):
    """The recorded history of `x` as a :class:`~nbgrad.symbol.Symbol`.

    Raises
    ------
    NBGradError
        If `x` was not recorded, or its history was freed.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.ones(2)
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.exp(x)
    >>> len(autograd.get_symbol(y).list_arguments())
    1
    """
    return symbol.trace(x)
