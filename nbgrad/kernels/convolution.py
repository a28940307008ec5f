"""Convolution and pooling in one, two and three dimensions.

The families. Convolution, its data-gradient and its weight-gradient are each bilinear, and the derivatives of any of
the three are the other two; Deconvolution is the data-gradient by its other name. Max pooling finds the place of
each maximum; reading places (``_pool_gather``) and adding to places (``_pool_scatter``) are each other's adjoint.
Average and sum pooling are linear and have one.

Shapes are (n, channels, spatial ...), weights (filters, channels/groups, taps ...); the kernels
(:mod:`.convolution_kernels`) have three spatial dimensions, so shorter ones get leading 1s.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ..cast import unify
from ..elementwise import derived
from ..entry import as_array
from ..errors import AttrError, DTypeError, ShapeError
from ..expr import eq, select, var
from ..ndarray import NDArray
from ..shapes import Shape, as_shape
from ..structured import REQUIRED, Spec, composite, structured
from . import convolution_kernels as raw
from . import scalar as vm
from .shape import moveaxis, reshape
from .unary import abs_

__all__ = ["Convolution", "Deconvolution", "Pooling"]

_workspaces = threading.local()


def _workspace(n: int, dtype: np.dtype) -> np.ndarray:
    """Scratch memory of this thread, kept from call to call: fresh memory costs more than the arithmetic."""
    kept = _workspaces.__dict__
    found = kept.get(dtype.char)
    if found is None or found.size < n:
        found = kept[dtype.char] = np.empty(n, dtype)
    return found


def _three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    return (fill,) * (3 - len(values)) + tuple(values)


def _run(kernel, first: NDArray, second: NDArray, out: NDArray, x: Shape, w: Shape, y: Shape, attrs: dict) -> None:
    """Launch one of the three convolutions; `x`, `w`, `y` are the shapes of data, weight and result."""
    if 0 in x + w + y:
        out._buf.fill(0)
        return
    sizes = (x[0], x[1], *_three(x[2:], 1), w[0], *_three(w[2:], 1), *_three(y[2:], 1))
    steps = (*_three(attrs["stride"], 1), *_three(attrs["dilate"], 1), *_three(attrs["pad"], 0))
    sizes = (*sizes, *steps, attrs["groups"])
    work = _workspace(raw.workspace_size(*sizes), out._buf.dtype)
    kernel(first._buf, second._buf, out._buf, work, *sizes)


def _outputs(shape: Shape, taps: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Shape:
    """Spatial shape of a convolution's result."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in zip(shape, taps, stride, dilate, pad, strict=True)
    )


@structured("_convolution", method=False)
def _convolution(data, weight, stride=REQUIRED, dilate=REQUIRED, pad=REQUIRED, groups=1):
    """Convolution; arguments already checked."""
    outs = _outputs(data._shape[2:], weight._shape[2:], stride, dilate, pad)
    shape = (data._shape[0], weight._shape[0], *outs)
    return Spec(shape, data._kind.dtype, stride=stride, dilate=dilate, pad=pad, groups=groups)


@structured("_convolution_data", method=False)
def _data_grad(head, weight, size=REQUIRED, stride=REQUIRED, dilate=REQUIRED, pad=REQUIRED, groups=1):
    """The adjoint in data, of spatial shape `size`; `head` has the shape of the convolution's result."""
    shape = (head._shape[0], weight._shape[1] * groups, *size)
    return Spec(shape, head._kind.dtype, size=size, stride=stride, dilate=dilate, pad=pad, groups=groups)


@structured("_convolution_weight", method=False)
def _weight_grad(data, head, taps=REQUIRED, stride=REQUIRED, dilate=REQUIRED, pad=REQUIRED, groups=1):
    """The adjoint in weight, of spatial shape `taps`."""
    shape = (head._shape[1], data._shape[1] // groups, *taps)
    return Spec(shape, data._kind.dtype, taps=taps, stride=stride, dilate=dilate, pad=pad, groups=groups)


@_convolution.run
def _(data, weight, out, **attrs):
    _run(raw.conv_forward, data, weight, out, data._shape, weight._shape, out._shape, attrs)


@_data_grad.run
def _(head, weight, out, **attrs):
    _run(raw.conv_data_grad, head, weight, out, out._shape, weight._shape, head._shape, attrs)


@_weight_grad.run
def _(data, head, out, **attrs):
    _run(raw.conv_weight_grad, data, head, out, data._shape, out._shape, head._shape, attrs)


_convolution.vjp(
    data=lambda g, weight, data_shape, stride, dilate, pad, groups: _data_grad(
        g, weight, size=data_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
    weight=lambda g, data, weight_shape, stride, dilate, pad, groups: _weight_grad(
        data, g, taps=weight_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
)
_data_grad.vjp(
    head=lambda g, weight, stride, dilate, pad, groups: _convolution(
        g, weight, stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
    weight=lambda g, head, weight_shape, stride, dilate, pad, groups: _weight_grad(
        g, head, taps=weight_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
)
_weight_grad.vjp(
    data=lambda g, head, data_shape, stride, dilate, pad, groups: _data_grad(
        head, g, size=data_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
    head=lambda g, data, stride, dilate, pad, groups: _convolution(
        data, g, stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
)


# Arguments.


def _per_dimension(given, ndim: int, default: int, least: int, op: str, what: str) -> Shape:
    """An attribute with one integer per spatial dimension; one for all of them, or none, are accepted."""
    values = (default,) * ndim if given is None or given == () else as_shape(given, f"{op}: {what}")
    if len(values) == 1 and hasattr(given, "__index__"):
        values *= ndim
    if len(values) != ndim or min(values, default=least) < least:
        raise AttrError(f"{op}: {what} needs {ndim} integer(s) >= {least}, one per spatial dimension; got {given!r}")
    return values


_LAYOUTS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def _channels_first(data: NDArray, layout: str | None, op: str) -> tuple[NDArray, bool]:
    """Data as (n, channels, spatial ...), and whether the channels came last."""
    if data.ndim not in _LAYOUTS:
        raise ShapeError(f"{op}: data with 1 to 3 spatial dimensions, (n, channels, ...), is needed, got {data.shape}")
    if layout not in (None, "None", *_LAYOUTS[data.ndim]):
        raise AttrError(f"{op}: layout must be one of {', '.join(_LAYOUTS[data.ndim])} for {data.ndim} axes, got {layout!r}")
    last = layout == _LAYOUTS[data.ndim][1]
    return (moveaxis(data, -1, 1) if last else data), last


def _operands(op: str, data, weight, bias, no_bias: bool) -> list[NDArray]:
    given = {"data": data, "weight": weight} | ({} if no_bias else {"bias": bias})
    arrays = unify([as_array(x, op, name) for name, x in given.items()], op, ints=False)
    if not no_bias and (arrays[2].ndim != 1):
        raise ShapeError(f"{op}: bias must have shape (num_filter,), got {bias.shape}")
    return arrays


def _with_bias(y: NDArray, bias: list[NDArray], op: str) -> NDArray:
    if not bias:
        return y
    if bias[0].size != y.shape[1]:
        raise ShapeError(f"{op}: bias must have shape ({y.shape[1]},), one element per filter, got {bias[0].shape}")
    return y + reshape(bias[0], (bias[0].size,) + (1,) * (y.ndim - 2))  # type: ignore[operator]


def _check_taps(op: str, weight: NDArray, kernel, ndim: int) -> Shape:
    taps = weight.shape[2:]
    if kernel not in (None, ()) and _per_dimension(kernel, ndim, 1, 1, op, "kernel") != taps:
        raise ShapeError(f"{op}: weight of shape {weight.shape} has taps {taps}, kernel says {kernel}")
    return taps


@composite("Convolution", aliases=("Convolution_v1",))
def Convolution(
    data,
    weight,
    bias=None,
    kernel=(),
    stride=(),
    dilate=(),
    pad=(),
    num_filter=None,
    num_group=1,
    workspace=1024,
    no_bias=False,
    cudnn_tune=None,
    cudnn_off=False,
    layout=None,
):
    """Convolution (cross-correlation, as networks have it) in one to three dimensions.

    ``y[n, f, i] = bias[f] + sum over c, k of weight[f, c, k] * data[n, c, i*stride + k*dilate - pad]``, data being 0
    outside; i and k are positions in all spatial dimensions, c runs over the channels of f's group.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, spatial ...).
    weight : NDArray
        Shape (num_filter, c/num_group, *kernel).
    bias : NDArray, optional
        Shape (num_filter,); needed unless `no_bias`.
    kernel : tuple of int
        One number per spatial dimension; default what `weight` has.
    stride, dilate, pad : tuple of int
        Default 1, 1 and 0.
    num_filter : int
        Default what `weight` has.
    num_group : int
        Channels and filters are split into so many groups, which do not mix.
    no_bias : bool
    layout : str, optional
        ``'NCW'``, ``'NCHW'``, ``'NCDHW'``, or with the channels last (of weight, too): ``'NWC'``, ``'NHWC'``, ``'NDHWC'``.
    workspace, cudnn_tune, cudnn_off
        Accepted for MXNet's sake.

    Returns
    -------
    NDArray
        Shape (n, num_filter, ...), each spatial length ``(in + 2*pad - dilate*(kernel - 1) - 1)//stride + 1``.

    Raises
    ------
    ShapeError, AttrError
        If shapes and attributes do not agree, or a result would have no elements.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.arange(5).reshape((1, 1, 5))
    >>> nd.Convolution(x, nd.ones((1, 1, 3)), no_bias=True, kernel=(3,), num_filter=1).tolist()
    [[[3.0, 6.0, 9.0]]]
    """
    op = "Convolution"
    no_bias = bool(no_bias)
    data, weight, *rest = _operands(op, data, weight, bias, no_bias)
    data, last = _channels_first(data, layout, op)
    if weight.ndim != data.ndim:
        raise ShapeError(f"{op}: weight must have as many axes as data, {data.ndim}, got shape {weight.shape}")
    weight = moveaxis(weight, -1, 1) if last else weight
    ndim = data.ndim - 2
    taps = _check_taps(op, weight, kernel, ndim)
    stride, dilate = (_per_dimension(v, ndim, 1, 1, op, w) for v, w in ((stride, "stride"), (dilate, "dilate")))
    pad = _per_dimension(pad, ndim, 0, 0, op, "pad")
    filters = weight.shape[0]
    if num_filter is not None and num_filter != filters:
        raise ShapeError(f"{op}: weight of shape {weight.shape} has {filters} filters, num_filter says {num_filter}")
    if num_group < 1 or filters % num_group or data.shape[1] != weight.shape[1] * num_group:
        raise ShapeError(
            f"{op}: weight must have shape (num_filter, {data.shape[1]}/num_group, *kernel), num_filter a multiple of "
            f"num_group, for data of shape {data.shape} and num_group {num_group}; got {weight.shape}"
        )
    outs = _outputs(data.shape[2:], taps, stride, dilate, pad)
    if min(outs) < 1 or 0 in taps:
        raise ShapeError(f"{op}: kernel {taps} with dilate {dilate} exceeds data {data.shape} with pad {pad}")
    y = _convolution(data, weight, stride=stride, dilate=dilate, pad=pad, groups=int(num_group))
    y = _with_bias(y, rest, op)
    return moveaxis(y, 1, -1) if last else y


@composite("Deconvolution")
def Deconvolution(
    data,
    weight,
    bias=None,
    kernel=(),
    stride=(),
    dilate=(),
    pad=(),
    adj=(),
    target_shape=(),
    num_filter=None,
    num_group=1,
    workspace=512,
    no_bias=True,
    cudnn_tune=None,
    cudnn_off=False,
    layout=None,
):
    """Transposed convolution: the adjoint of ``Convolution`` with the same weight, stride, dilate and pad.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, spatial ...).
    weight : NDArray
        Shape (c, num_filter/num_group, *kernel).
    bias : NDArray, optional
        Shape (num_filter,); needed with ``no_bias=False``.
    adj : tuple of int
        Lengths added at the end of the result, each less than the stride.
    target_shape : tuple of int
        Spatial shape of the result; replaces `pad` and `adj`.
    kernel, stride, dilate, pad, num_filter, num_group, layout
        As for ``Convolution``.

    Returns
    -------
    NDArray
        Shape (n, num_filter, ...), each spatial length ``stride*(in - 1) + dilate*(kernel - 1) + 1 - 2*pad + adj``.

    Raises
    ------
    ShapeError, AttrError
        If shapes and attributes do not agree.
    """
    op = "Deconvolution"
    data, weight, *rest = _operands(op, data, weight, bias, bool(no_bias))
    data, last = _channels_first(data, layout, op)
    if weight.ndim != data.ndim:
        raise ShapeError(f"{op}: weight must have as many axes as data, {data.ndim}, got shape {weight.shape}")
    weight = moveaxis(weight, -1, 1) if last else weight
    ndim = data.ndim - 2
    taps = _check_taps(op, weight, kernel, ndim)
    stride, dilate = (_per_dimension(v, ndim, 1, 1, op, w) for v, w in ((stride, "stride"), (dilate, "dilate")))
    pad, adj = (_per_dimension(v, ndim, 0, 0, op, w) for v, w in ((pad, "pad"), (adj, "adj")))
    if num_group < 1 or data.shape[1] != weight.shape[0] or data.shape[1] % num_group:
        raise ShapeError(
            f"{op}: weight must have shape ({data.shape[1]}, num_filter/num_group, *kernel), num_group a divisor of "
            f"{data.shape[1]}, for data of shape {data.shape}; got {weight.shape} and num_group {num_group}"
        )
    if num_filter is not None and num_filter != weight.shape[1] * num_group:
        raise ShapeError(f"{op}: weight of shape {weight.shape} and num_group {num_group} do not give {num_filter} filters")
    if any(a >= s for a, s in zip(adj, stride, strict=True)):
        raise AttrError(f"{op}: adj {adj} must be less than stride {stride}")
    full = tuple(s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(data.shape[2:], taps, stride, dilate, strict=True))
    if target_shape not in (None, ()) and any(as_shape(target_shape)):
        target = _per_dimension(target_shape, ndim, 0, 1, op, "target_shape")
        excess = [f - t for f, t in zip(full, target, strict=True)]
        pad = tuple(max(0, (e + 1) // 2) for e in excess)
        adj = tuple(2 * p - e for p, e in zip(pad, excess, strict=True))
        if any(a >= s for a, s in zip(adj, stride, strict=True)):
            raise AttrError(f"{op}: target_shape {target} is too large for data {data.shape} and stride {stride}")
    out = tuple(f - 2 * p + a for f, p, a in zip(full, pad, adj, strict=True))
    if min(out) < 1:
        raise ShapeError(f"{op}: pad {pad} leaves nothing of a result of {full}")
    y = _data_grad(data, weight, size=out, stride=stride, dilate=dilate, pad=pad, groups=int(num_group))
    y = _with_bias(y, rest, op)
    return moveaxis(y, 1, -1) if last else y


# Pooling.


def _pool_sizes(x: Shape, y: Shape, attrs: dict) -> tuple[int, ...]:
    steps = (*_three(attrs["kernel"], 1), *_three(y[2:], 1), *_three(attrs["stride"], 1), *_three(attrs["pad"], 0))
    return (x[0] * x[1], *_three(x[2:], 1), *steps)


@structured("_max_pool", method=False, visible=1)
def _max_pool(data, outs=REQUIRED, kernel=REQUIRED, stride=REQUIRED, pad=REQUIRED):
    """Maxima over windows, and where they are (int64 positions in data; -1 for a window outside)."""
    shape = (*data._shape[:2], *outs)
    return Spec([shape, shape], [data._kind.dtype, "int64"], kernel=kernel, stride=stride, pad=pad)


@_max_pool.run
def _(data, outs, **attrs):
    y, index = outs
    if y.size:
        raw.max_pool(data._buf, y._buf, index._buf, *_pool_sizes(data._shape, y._shape, attrs))


@structured("_pool_gather", method=False)
def _pool_gather(data, index):
    """``data`` at flat positions; 0 where they are negative."""
    return Spec(index._shape, data._kind.dtype)


@structured("_pool_scatter", method=False)
def _pool_scatter(data, index, shape=REQUIRED):
    """Zeros of `shape` with the elements of `data` added at flat positions, negative ones left out."""
    return Spec(shape, data._kind.dtype, shape=shape)


@_pool_gather.run
def _(data, index, out):
    raw.gather(data._buf, index._buf, out._buf, out.size)


@_pool_scatter.run
def _(data, index, out, *, shape):
    raw.scatter_add(data._buf, index._buf, out._buf, data.size)


_max_pool.vjp(data=lambda g, y1, data_shape: _pool_scatter(g[0], y1, shape=data_shape))
_pool_scatter.vjp(data=lambda g, index: _pool_gather(g, index))
_pool_gather.vjp(data=lambda g, index, data_shape: _pool_scatter(g, index, shape=data_shape))


@structured("_avg_pool", method=False)
def _avg_pool(data, outs=REQUIRED, kernel=REQUIRED, stride=REQUIRED, pad=REQUIRED, count_pad=True, total=False):
    """Averages (`total`: sums) over windows."""
    shape = (*data._shape[:2], *outs)
    return Spec(shape, data._kind.dtype, kernel=kernel, stride=stride, pad=pad, count_pad=count_pad, total=total)


@structured("_avg_pool_adjoint", method=False)
def _avg_pool_adjoint(head, size=REQUIRED, kernel=REQUIRED, stride=REQUIRED, pad=REQUIRED, count_pad=True, total=False):
    """The adjoint, of spatial shape `size`."""
    shape = (*head._shape[:2], *size)
    return Spec(shape, head._kind.dtype, kernel=kernel, stride=stride, pad=pad, count_pad=count_pad, total=total)


@_avg_pool.run
def _(data, out, *, count_pad, total, **attrs):
    if out.size:
        sizes = _pool_sizes(data._shape, out._shape, attrs)
        raw.avg_pool(data._buf, out._buf, *sizes, int(count_pad), int(total))


@_avg_pool_adjoint.run
def _(head, out, *, count_pad, total, **attrs):
    if out.size:
        sizes = _pool_sizes(out._shape, head._shape, attrs)
        raw.avg_pool_adjoint(head._buf, out._buf, *sizes, int(count_pad), int(total))


_avg_pool.vjp(
    data=lambda g, data_shape, kernel, stride, pad, count_pad, total: _avg_pool_adjoint(
        g, size=data_shape[2:], kernel=kernel, stride=stride, pad=pad, count_pad=count_pad, total=total
    )
)
_avg_pool_adjoint.vjp(
    head=lambda g, head_shape, kernel, stride, pad, count_pad, total: _avg_pool(
        g, outs=head_shape[2:], kernel=kernel, stride=stride, pad=pad, count_pad=count_pad, total=total
    )
)

#: x^(1/p) of a sum of p-th powers, with gradient 0 where it is 0.
_root = derived("root_or_zero", select(eq(var("x0"), 0), 0, vm.power(var("x0"), var("s0"))), 1, 1, False)

_CONVENTIONS = ("valid", "full", "same")


def _pool_outputs(shape: Shape, kernel: Shape, stride: Shape, pad: Shape, convention: str) -> Shape:
    if convention == "same":
        return tuple(-(-n // s) for n, s in zip(shape, stride, strict=True))
    up = 1 if convention == "full" else 0
    return tuple((n + 2 * p - k + up * (s - 1)) // s + 1 for n, k, s, p in zip(shape, kernel, stride, pad, strict=True))


@composite("Pooling", aliases=("Pooling_v1",))
def Pooling(
    data,
    kernel=(),
    pool_type="max",
    global_pool=False,
    cudnn_off=False,
    pooling_convention="valid",
    stride=(),
    pad=(),
    p_value=2,
    count_include_pad=True,
    layout=None,
):
    """Maximum, average, sum or p-norm over windows, in one to three dimensions.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, spatial ...), of a floating dtype.
    kernel : tuple of int
        Lengths of the window; not needed with `global_pool`.
    pool_type : {'max', 'avg', 'sum', 'lp'}
        The gradient of a maximum goes to the first of equal elements.
    global_pool : bool
        One window over everything; `kernel`, `stride` and `pad` do not count.
    pooling_convention : {'valid', 'full', 'same'}
        Windows that fit, ``(in + 2*pad - kernel)//stride + 1``; also a last one that does not fit wholly (rounded up);
        one for every stride, ``ceil(in/stride)``, without pad.
    stride, pad : tuple of int
        Default 1 and 0; pad must be less than kernel.
    p_value : int
        The p of ``'lp'``: (sum of abs(x)^p)^(1/p).
    count_include_pad : bool
        Whether an average's divisor counts the pad.
    layout : str, optional
        As for ``Convolution``.
    cudnn_off
        Accepted for MXNet's sake.

    Returns
    -------
    NDArray
        Shape (n, c, ...). A maximum over a window with no element is -inf.

    Raises
    ------
    AttrError, ShapeError, DTypeError

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.arange(6).reshape((1, 1, 6))
    >>> nd.Pooling(x, kernel=(2,), stride=(2,)).tolist()
    [[[1.0, 3.0, 5.0]]]
    """
    op = "Pooling"
    data, last = _channels_first(as_array(data, op), layout, op)
    if not data._kind.dtype.is_float:
        raise DTypeError(f"{op}: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    if pool_type not in ("max", "avg", "sum", "lp"):
        raise AttrError(f"{op}: pool_type must be 'max', 'avg', 'sum' or 'lp', got {pool_type!r}")
    if pooling_convention not in _CONVENTIONS:
        raise AttrError(f"{op}: pooling_convention must be one of {', '.join(_CONVENTIONS)}, got {pooling_convention!r}")
    spatial = data.shape[2:]
    if 0 in spatial:
        raise ShapeError(f"{op}: data of shape {data.shape} has an empty spatial dimension")
    ndim = len(spatial)
    if global_pool:
        kernel, stride, pad, outs = spatial, (1,) * ndim, (0,) * ndim, (1,) * ndim
    else:
        if kernel in (None, ()):
            raise AttrError(f"{op}: kernel must be given unless global_pool is set")
        kernel, stride = (_per_dimension(v, ndim, 1, 1, op, w) for v, w in ((kernel, "kernel"), (stride, "stride")))
        pad = _per_dimension(pad, ndim, 0, 0, op, "pad")
        if pooling_convention == "same" and any(pad):
            raise AttrError(f"{op}: the 'same' convention takes no pad, got {pad}")
        if any(p >= k for p, k in zip(pad, kernel, strict=True)):
            raise AttrError(f"{op}: pad {pad} must be less than kernel {kernel}")
        if pooling_convention != "same" and any(k > n + 2 * p for n, k, p in zip(spatial, kernel, pad, strict=True)):
            raise ShapeError(f"{op}: kernel {kernel} exceeds data of shape {data.shape} with pad {pad}")
        outs = _pool_outputs(spatial, kernel, stride, pad, pooling_convention)
    attrs = {"outs": outs, "kernel": kernel, "stride": stride, "pad": pad}
    if pool_type == "max":
        y = _max_pool(data, **attrs)
    elif pool_type == "lp":
        if not p_value > 0:
            raise AttrError(f"{op}: p_value must be positive, got {p_value!r}")
        y = _root.apply1(_avg_pool(abs_(data) ** p_value, total=True, **attrs), (1.0 / p_value,))
    else:
        y = _avg_pool(data, count_pad=bool(count_include_pad), total=pool_type == "sum", **attrs)
    return moveaxis(y, 1, -1) if last else y
