"""Operand checks of internal operators, for graphs that are read from text.

Operators whose names begin with an underscore do not check their arguments: they are called by others, which do. Text
may contain any arguments, so each of these operators has a check here, or cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.context import Context
from ..core.dtypes import DType, float32, float64, int64
from ..core.shapes import Shape, size
from ..errors import AttrError, DTypeError, ShapeError
from ..kernels.convolution import outputs

if TYPE_CHECKING:
    from .steps import Aval

__all__ = ["OPERAND_CHECKS", "check", "check_attrs", "check_values"]

#: Arrays with more bytes or more axes than this are refused.
MAX_BYTES, MAX_AXES = 1 << 47, 32


def _require_fit(holds: object, what: str) -> None:
    if not holds:
        raise ShapeError(f"the shapes and attributes do not fit: {what}")


# Attributes, by name.


def is_int(value, least: int = -(1 << 62)) -> bool:
    return type(value) is int and least <= value < 1 << 62


def _lengths(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is tuple and all(is_int(n, least) for n in value)


def _number(value) -> bool:
    return type(value) in (int, float) and (type(value) is float or is_int(value))


def _flag(value) -> bool:
    return type(value) is bool


def _count(value) -> bool:
    return is_int(value, 0)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("axis", "n", "depth", "count", "shift", "blank"), (_count, "an integer of at least 0")),
    "groups": (lambda value: is_int(value, 1), "an integer of at least 1"),
    **dict.fromkeys(
        ("outs", "pad", "size", "taps", "shape", "sizes", "before", "after", "begin"),
        (_lengths(0), "a tuple of integers of at least 0"),
    ),
    **dict.fromkeys(("kernel", "stride", "dilate"), (_lengths(1), "a tuple of integers of at least 1")),
    "step": (lambda value: _lengths(-(1 << 62))(value) and 0 not in value, "a tuple of integers other than 0"),
    **dict.fromkeys(
        ("eps", "value", "rcond", "margin", "factor", "on", "off", "grad_scale"), (_number, "a number")
    ),
    **dict.fromkeys(
        ("back", "ascending", "strict", "transpose", "transpose_a", "transpose_b", "lower", "right", "relu", "linear",
         "total", "count_pad", "out_grad"), (_flag, "True or False")
    ),
    "op": (lambda value: type(value) is str, "a word"),
    "dtype": (lambda value: isinstance(value, DType), "a dtype"),
}  # fmt: skip

_PLAIN = (bool, int, float, str, type(None), tuple, list, DType, Context)


def _plain(value) -> bool:
    """Whether a value could be an attribute of an operator: no functions, and no unbounded integers."""
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, _PLAIN) and (not isinstance(value, int) or abs(value) < 1 << 62)


def check_attrs(name: str, attrs: dict) -> None:
    """Raise for attributes of types that operator `name` does not expect."""
    for key, value in attrs.items():
        if name in OPERAND_CHECKS:
            fits, what = _KINDS.get(key, (None, ""))
            if fits is None or not fits(value):
                raise AttrError(f"attribute {key} must be {what or 'absent'}, got {value!r}")
        elif not _plain(value):
            raise AttrError(f"attribute {key} must be a number, a word, a dtype or a tuple of these, got {value!r}")


# Operands.


def _axis(a: Aval, axis: int) -> int:
    _require_fit(axis < len(a.shape), f"axis {axis} of shape {a.shape}")
    return a.shape[axis]


def _is(a: Aval, *shape: int) -> None:
    _require_fit(a.shape == shape, f"shape {shape} is needed, not {a.shape}")


def _of_rank(a: Aval, *ranks: int) -> Shape:
    _require_fit(len(a.shape) in ranks, f"{' or '.join(map(str, ranks))} axes are needed, not shape {a.shape}")
    return a.shape


def _positions(*arrays: Aval) -> None:
    for a in arrays:
        if a.dtype is not int64:
            raise DTypeError(f"positions must be int64, not {a.dtype}")


def _alike(*arrays: Aval) -> None:
    for a in arrays[1:]:
        if a.dtype is not arrays[0].dtype:
            raise DTypeError(f"one dtype is needed, not {arrays[0].dtype} and {a.dtype}")


def _same(*arrays: Aval) -> None:
    for a in arrays[1:]:
        _is(a, *arrays[0].shape)


def _along(data, index, axis):
    _positions(index)
    _of_rank(index, len(data.shape))
    _axis(data, axis)
    _require_fit(data.shape[:axis] == index.shape[:axis] and data.shape[axis + 1 :] == index.shape[axis + 1 :],
          f"positions of shape {index.shape} along axis {axis} of {data.shape}")  # fmt: skip


def _along_add(data, index, axis, n):
    _positions(index)
    _same(data, index)
    _axis(data, axis)


def _take(data, index, axis):
    _positions(index)
    _axis(data, axis)


def _take_add(data, index, axis, n):
    _positions(index)
    lengths = data.shape[axis : axis + len(index.shape)]
    _require_fit(lengths == index.shape, f"positions of shape {index.shape} at axis {axis} of {data.shape}")


def _windows(large: Shape, small: Shape, kernel, stride, pad) -> None:
    """Windows begin inside of the data or in its padding."""
    d = len(large)
    _require_fit(1 <= d <= 3 and len(small) == len(kernel) == len(stride) == len(pad) == d, "one length per axis")
    for n, m, k, s, p in zip(large, small, kernel, stride, pad, strict=True):
        _require_fit(
            m == 0 or ((m - 1) * s - p <= n and p < MAX_BYTES), f"{m} windows of {k}, {s} apart, over {n} elements"
        )


def _pool(data, outs, kernel, stride, pad, **_):
    _of_rank(data, 3, 4, 5)
    _windows(data.shape[2:], outs, kernel, stride, pad)


def _pool_adjoint(head, size, kernel, stride, pad, **_):
    _of_rank(head, 3, 4, 5)
    _windows(size, head.shape[2:], kernel, stride, pad)


def _batch_norm(data, gamma, beta, axis, eps=0.0):
    n = _axis(data, axis)
    _is(gamma, n)
    _is(beta, n)


def _layer_norm(data, gamma, beta, eps=0.0):
    _require_fit(data.shape, "at least one axis")
    _is(gamma, data.shape[-1])
    _is(beta, data.shape[-1])


def _convolved(data: Shape, weight: Shape, head: Shape | None, stride, dilate, pad, groups) -> None:
    d = len(data) - 2
    _require_fit(1 <= d <= 3 and len(weight) == d + 2, f"filters of shape {weight} over {data}")
    _require_fit(len(stride) == len(dilate) == len(pad) == d, "one length per axis")
    _require_fit(data[1] == weight[1] * groups and weight[0] % groups == 0, f"{groups} groups of {weight} over {data}")
    _require_fit(min(weight[2:]) > 0, f"filters of shape {weight}")
    expected = (data[0], weight[0], *outputs(data[2:], weight[2:], stride, dilate, pad))
    _require_fit(
        min(expected) >= 0 and head in (None, expected),
        f"a convolution of {data} with {weight} gives {expected}, not {head}",
    )


def _convolution(data, weight, stride, dilate, pad, groups=1):
    _alike(data, weight)
    _convolved(data.shape, weight.shape, None, stride, dilate, pad, groups)


def _convolution_data(head, weight, size, stride, dilate, pad, groups=1):
    _alike(head, weight)
    _of_rank(weight, 3, 4, 5)
    data = (*head.shape[:1], weight.shape[1] * groups, *size)
    _convolved(data, weight.shape, head.shape, stride, dilate, pad, groups)


def _convolution_weight(data, head, taps, stride, dilate, pad, groups=1):
    _alike(data, head)
    _of_rank(data, 3, 4, 5)
    _of_rank(head, len(data.shape))
    weight = (head.shape[1], data.shape[1] // groups, *taps)
    _convolved(data.shape, weight, head.shape, stride, dilate, pad, groups)


def _ctc(data, label, lengths, label_lengths, blank):
    _positions(label, lengths, label_lengths)
    _, n, k = _of_rank(data, 3)
    _require_fit(len(label.shape) == 2 and label.shape[0] == n, f"labels of shape {label.shape} for {n} sequences")
    _is(lengths, n)
    _is(label_lengths, n)
    _require_fit(blank < k, f"blank {blank} of {k} classes")


def _ctc_gradient(g, data, label, lengths, label_lengths, blank):
    _alike(g, data)
    _ctc(data, label, lengths, label_lengths, blank)
    _is(g, data.shape[1])


def _has_axis(data, axis, **_):
    _axis(data, axis)


def _recurrence(b, a, axis, back=False):
    _alike(b, a)
    _same(b, a)
    _axis(b, axis)


def _feedback(u, a, back=False):
    _alike(u, a)
    _of_rank(a, 1)
    _require_fit(len(u.shape) > 0, "a filter needs an axis")


def _softmax_grad(head, y, axis):
    _recurrence(head, y, axis)


def _dense(data, weight, bias):
    _alike(data, weight, bias)
    _, k = _of_rank(data, 2)
    m, _ = _of_rank(weight, 2)
    _is(weight, m, k)
    _is(bias, m)


def _sliced(large: Shape, small: Shape, begin, step) -> None:
    _require_fit(len(large) == len(small) == len(begin) == len(step), f"one begin and step per axis of {large}")
    if 0 not in small:
        for n, m, b, s in zip(large, small, begin, step, strict=True):
            _require_fit(b < n and 0 <= b + s * (m - 1) < n, f"{m} elements from {b} on, {s} apart, of {n}")


def _slice(data, begin, step, shape):
    _sliced(data.shape, shape, begin, step)


def _embed(data, begin, step, shape):
    _sliced(shape, data.shape, begin, step)


def _layer(gates: int):
    def checked(data, weight, first, *rest):
        _alike(data, weight, first, *rest)
        n, m = _of_rank(first, 2)
        steps, *_ = _of_rank(data, 3)
        _is(data, steps, n, gates * m)
        _is(weight, gates * m, m)
        return n, m

    return checked


def _gru(data, weight, bias, first):
    _, m = _layer(3)(data, weight, first, bias)
    _is(bias, m)


def _lstm(data, weight, first, cell):
    n, m = _layer(4)(data, weight, first, cell)
    _is(cell, n, m)


def _rnn(data, weight, first, relu=False):
    _layer(1)(data, weight, first)


def _equal(*arrays, **_):
    _alike(*arrays)
    _same(*arrays)


def _softmax_output(data, target, factor, out_grad=False):
    n, _, m = _of_rank(data, 3)
    _same(data, target)
    _of_rank(factor, 3)
    _require_fit(
        all(f in (1, k) for f, k in zip(factor.shape, (n, 1, m), strict=True)), f"factors of shape {factor.shape}"
    )


def _make_loss(data, factor):
    _require_fit(size(factor.shape) == 1, f"one factor, not shape {factor.shape}")


def _matmul(lhs, rhs, transpose_a=False, transpose_b=False):
    *stack, m, k = _of_rank(lhs, 2, 3)
    *others, r, n = _of_rank(rhs, len(lhs.shape))
    _require_fit(stack == others and (m if transpose_a else k) == (n if transpose_b else r),
          f"a product of {lhs.shape} and {rhs.shape}")  # fmt: skip


def _matrices(a: Aval) -> Shape:
    if a.dtype not in (float32, float64):
        raise DTypeError(f"matrices must be float32 or float64, not {a.dtype}")
    return _of_rank(a, 3)


def _square(a, **rest):
    b, n, _ = _matrices(a)
    _is(a, b, n, n)


def _wide(a, op):
    _, m, n = _matrices(a)
    _require_fit(m <= n, f"at most as many rows as columns, not shape {a.shape}")


def _any_matrix(a, **rest):
    _, m, n = _matrices(a)
    _require_fit(m > 0 and n > 0, f"matrices that are not empty, not shape {a.shape}")


def _solve(a, b, **_):
    _alike(a, b)
    _square(a)
    _of_rank(b, 3)
    _require_fit(b.shape[:2] == a.shape[:2], f"right sides of shape {b.shape} for {a.shape}")


def _chosen(u, chances):
    n, _ = _of_rank(u, 2)
    _require_fit(
        len(chances.shape) == 2 and chances.shape[0] == n and chances.shape[1], f"chances of shape {chances.shape}"
    )
    _require_fit(u.dtype is float64 and chances.dtype is float64, "float64")


def _order(data, axis, ascending, count):
    _require_fit(count <= _axis(data, axis), f"{count} places along axis {axis} of {data.shape}")


def _pad(data, before, after, value=0.0):
    _require_fit(len(before) == len(after) == len(data.shape), f"one width per axis of {data.shape}")


def _pieces(data, sizes, axis=0):
    _require_fit(sizes and sum(sizes) == _axis(data, axis), f"pieces of {sizes} along axis {axis} of {data.shape}")


def _places_in(a, v, right):
    _alike(a, v)
    _of_rank(a, 1)


def _gather(data, index):
    _positions(index)


def _scatter(data, index, shape):
    _positions(index)
    _same(data, index)


def _last_axis(data):
    _require_fit(data.shape, "at least one axis")


def _roll(data, shift, axis):
    _require_fit(shift < max(_axis(data, axis), 1), f"a shift by {shift} along axis {axis} of {data.shape}")


def _any(*_, **__):
    """No further conditions."""


def _checked(index, n, op):
    if index.dtype.is_float:
        raise DTypeError(f"indices must be integers, not {index.dtype}")


#: By operator: a check of the operands' avals and the attributes. None: the operator takes functions, which cannot be
#: written as text.
OPERAND_CHECKS: dict[str, Callable | None] = {
    **dict.fromkeys(("_computed", "_demanded", "_drawn")),
    **dict.fromkeys(("_LinearRegressionOutput", "_LogisticRegressionOutput", "_MAERegressionOutput"), _equal),
    **dict.fromkeys(("_cumprod", "_cumsum", "_logcumsumexp", "_log_softmax", "_softmax"), _has_axis),
    **dict.fromkeys(("_matrix_cholesky", "_matrix_cofactors", "_matrix_det", "_matrix_eigen", "_matrix_expm",
                     "_matrix_inverse", "_matrix_slogdet"), _square),
    **dict.fromkeys(("_matrix_pinv", "_matrix_svd"), _any_matrix),
    **dict.fromkeys(("_matrix_solve", "_matrix_triangular_solve"), _solve),
    **dict.fromkeys(("_log_softmax_grad", "_softmax_grad"), _softmax_grad),
    **dict.fromkeys(("_broadcast_to", "_one_hot", "_ones_for"), _any),
    **dict.fromkeys(("_avg_pool", "_max_pool"), _pool),
    **dict.fromkeys(("_matrix_quotient", "_svm_output"), _equal),
    "_along": _along,
    "_along_add": _along_add,
    "_avg_pool_adjoint": _pool_adjoint,
    "_batch_norm": _batch_norm,
    "_checked_index": _checked,
    "_chosen": _chosen,
    "_convolution": _convolution,
    "_convolution_data": _convolution_data,
    "_convolution_weight": _convolution_weight,
    "_ctc": _ctc,
    "_ctc_gradient": _ctc_gradient,
    "_dense": _dense,
    "_embed": _embed,
    "_feedback": _feedback,
    "_gru_sequence": _gru,
    "_layer_norm": _layer_norm,
    "_lstm_sequence": _lstm,
    "_make_loss": _make_loss,
    "_matmul": _matmul,
    "_matrix_lq": _wide,
    "_order": _order,
    "_pad_constant": _pad,
    "_pieces": _pieces,
    "_places_in": _places_in,
    "_pool_gather": _gather,
    "_pool_scatter": _scatter,
    "_prod_others_last": _last_axis,
    "_recurrence": _recurrence,
    "_rnn_sequence": _rnn,
    "_roll": _roll,
    "_slice": _slice,
    "_softmax_output": _softmax_output,
    "_take": _take,
    "_take_add": _take_add,
}  # fmt: skip


def check(name: str, operands: Sequence[Aval], attrs: dict) -> None:
    """Raise for invalid operands of an operator that does not check them itself."""
    if name in OPERAND_CHECKS:
        demand = OPERAND_CHECKS[name]
        assert demand is not None
        demand(*operands, **attrs)


# Values, which are only known when a graph runs.


def _below(values: np.ndarray, limit: int, what: str, least: int = 0) -> None:
    if values.size and not (values.min() >= least and values.max() < limit):
        raise AttrError(f"{what} must be from {least} to {limit - 1}, got {values.min()} to {values.max()}")


def check_values(name: str, arrays: Sequence, attrs: dict) -> None:
    """Raise for indices that are out of range: kernels do not check them."""
    if name in ("_along", "_take"):
        _below(arrays[1]._view(), arrays[0]._shape[attrs["axis"]], f"{name}: index")
    elif name in ("_along_add", "_take_add"):
        _below(arrays[1]._view(), attrs["n"], f"{name}: index")
    elif name == "_pool_gather":
        _below(arrays[1]._view(), arrays[0].size, f"{name}: positions", -1)
    elif name == "_pool_scatter":
        _below(arrays[1]._view(), size(attrs["shape"]), f"{name}: positions", -1)
    elif name in ("_ctc", "_ctc_gradient"):
        data, label, lengths, label_lengths = arrays[-4:]
        ends = label_lengths._view()
        _below(lengths._view(), data._shape[0] + 1, f"{name}: lengths", 1)
        _below(ends, label._shape[1] + 1, f"{name}: lengths of labels")
        _below(label._view()[np.arange(label._shape[1]) < ends[:, None]], data._shape[2], f"{name}: labels")
