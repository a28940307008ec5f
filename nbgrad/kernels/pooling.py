"""Pooling in one, two and three dimensions.

The families. Max pooling finds the place of each maximum; reading places (``_pool_gather``) and adding to places
(``_pool_scatter``) are each other's adjoint. Average and sum pooling are linear, and have an adjoint. A p-norm is a
root of a sum. Shapes are (n, channels, spatial ...), as for :mod:`.convolution`.
"""

from __future__ import annotations

import numpy as np

from ..backends import threads
from ..core.shapes import Shape, size
from ..errors import AttrError, DTypeError, ShapeError
from ..ir.expr import eq, select, var
from ..operators.elementwise import derived
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from . import convolution_device as on_device
from . import convolution_kernels as raw
from . import scalar as vm
from .convolution import channels_first, per_dimension, three
from .shape import moveaxis
from .unary import abs_

__all__ = ["Pooling"]


def _by_planes(kernel, x, out, planes: int, sizes: tuple[int, ...]) -> None:
    """``kernel(x, out, planes, *sizes)``, cut between planes."""

    def call(start: int, stop: int) -> None:
        some = threads.row_slices((x, out), (x.size // planes, out.size // planes), start, stop)
        kernel(*some, stop - start, *sizes)

    threads.parallel_ranges(call, planes, 2 * max(x.size, out.size) // planes)


def _pool_sizes(x: Shape, y: Shape, attrs: dict) -> tuple[int, ...]:
    steps = (*three(attrs["kernel"], 1), *three(y[2:], 1), *three(attrs["stride"], 1), *three(attrs["pad"], 0))
    return (x[0] * x[1], *three(x[2:], 1), *steps)


@structured("_max_pool", method=False, visible=1)
def _max_pool(data, outs=REQUIRED, kernel=REQUIRED, stride=REQUIRED, pad=REQUIRED):
    """Maxima over windows, and where they are (int64 positions in data; -1 for a window outside)."""
    shape = (*data._shape[:2], *outs)
    return Spec([shape, shape], [data._kind.dtype, "int64"], kernel=kernel, stride=stride, pad=pad)


@_max_pool.run
def _(data, outs, **attrs):
    y, index = outs
    if y.size:
        planes, *sizes = _pool_sizes(data._shape, y._shape, attrs)

        def call(start: int, stop: int) -> None:
            raw.max_pool(data._buf, y._buf, index._buf, start, stop, *sizes)

        threads.parallel_ranges(call, planes, 4 * data.size // planes)


@_max_pool.device
def _(operands, results, **attrs):
    (x, _), (y, _) = operands[0], results[0]
    return on_device.max_pool(size(y), _pool_sizes(x, y, attrs))


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
    def call(start: int, stop: int) -> None:
        raw.gather(data._buf, index._buf[start:stop], out._buf[start:stop], stop - start)

    threads.parallel_ranges(call, out.size, 2)


@_pool_scatter.run
def _(data, index, out, *, shape):
    raw.scatter_add(data._buf, index._buf, out._buf, data.size)


@_pool_gather.device
def _(operands, results):
    return on_device.gather(size(results[0][0]))


@_pool_scatter.device
def _(operands, results, *, shape):
    given, planes = operands[0][0], size(shape[:2])
    return on_device.scatter_add(planes, size(given[2:]), size(shape[2:]))


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
        planes, *sizes = _pool_sizes(data._shape, out._shape, attrs)
        _by_planes(raw.avg_pool, data._buf, out._buf, planes, (*sizes, int(count_pad), int(total)))


@_avg_pool_adjoint.run
def _(head, out, *, count_pad, total, **attrs):
    if out.size:
        planes, *sizes = _pool_sizes(out._shape, head._shape, attrs)
        _by_planes(raw.avg_pool_adjoint, head._buf, out._buf, planes, (*sizes, int(count_pad), int(total)))


@_avg_pool.device
def _(operands, results, *, count_pad, total, **attrs):
    (x, _), (y, _) = operands[0], results[0]
    return on_device.avg_pool(size(y), (*_pool_sizes(x, y, attrs), int(count_pad), int(total)))


@_avg_pool_adjoint.device
def _(operands, results, *, count_pad, total, **attrs):
    (y, _), (x, _) = operands[0], results[0]
    return on_device.avg_pool_adjoint(size(x), (*_pool_sizes(x, y, attrs), int(count_pad), int(total)))


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


def _numpy_pooling(x, kernel=(), pool_type="max", global_pool=False, pooling_convention="valid", stride=1, pad=0,
                   p_value=2, count_include_pad=True, layout=""):  # fmt: skip
    x = np.moveaxis(x, -1, 1) if layout.endswith("C") else x
    spatial = np.array(x.shape[2:])
    kernel = np.array(spatial if global_pool else kernel)
    if pooling_convention == "same":
        outs = -(-spatial // stride)
    else:
        outs = (spatial + 2 * pad - kernel + (stride - 1) * (pooling_convention == "full")) // stride + 1
    y = np.empty((*x.shape[:2], *outs))
    for at in np.ndindex(*outs):
        begin = np.array(at) * stride - pad
        end = np.minimum(begin + kernel, spatial + pad)
        inside = tuple(slice(max(b, 0), min(e, n)) for b, e, n in zip(begin, end, spatial, strict=True))
        window, over = x[:, :, *inside], tuple(range(2, x.ndim))
        if pool_type == "max":
            y[:, :, *at] = window.max(over)
        elif pool_type == "lp":
            y[:, :, *at] = (np.abs(window) ** p_value).sum(over) ** (1 / p_value)
        else:
            count = np.prod(end - begin) if count_include_pad else np.prod(window.shape[2:])
            y[:, :, *at] = window.sum(over) / (count if pool_type == "avg" else 1)
    return np.moveaxis(y, 1, -1) if layout.endswith("C") else y


@composite("Pooling", aliases=("Pooling_v1",), samples=sample_table(
    _numpy_pooling,
    [(2, 1, 4), {"kernel": (2,)}],
    [(1, 1, 5), {"kernel": (2,), "stride": 2, "pad": 1, "pool_type": "avg", "pooling_convention": "full"}],
    [(1, 1, 4), {"kernel": (3,), "pad": 1, "pool_type": "avg", "count_include_pad": False}],
    [(1, 1, 3, 3), {"kernel": (2, 2), "stride": 2, "pooling_convention": "full"}],
    [(1, 1, 3, 3), {"kernel": (2, 2), "stride": 2, "pooling_convention": "same", "pool_type": "sum"}],
    [Input((1, 2, 2, 2), 0.5, 2), {"global_pool": True, "pool_type": "lp", "p_value": 3}],
    [(1, 2, 2, 2), {"kernel": (2, 1), "layout": "NHWC"}],
    [(1, 1, 2, 2, 3), {"kernel": (2, 1, 2), "pool_type": "avg"}],
    [(0, 1, 3), {"kernel": (2,)}],
    ulp=8, ints=False,
))  # fmt: skip
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

    Notes
    -----
    Gradient: to the first greatest element of the window; g/count, g, or g*sign(x)*(abs(x)/y)^(p - 1) to each
    element.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.arange(6).reshape((1, 1, 6))
    >>> nd.Pooling(x, kernel=(2,), stride=(2,)).tolist()
    [[[1.0, 3.0, 5.0]]]
    """
    op = "Pooling"
    data, last = channels_first(as_array(data, op), layout, op)
    if not data._kind.dtype.is_float:
        raise DTypeError(f"{op}: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    if pool_type not in ("max", "avg", "sum", "lp"):
        raise AttrError(f"{op}: pool_type must be 'max', 'avg', 'sum' or 'lp', got {pool_type!r}")
    if pooling_convention not in _CONVENTIONS:
        raise AttrError(
            f"{op}: pooling_convention must be one of {', '.join(_CONVENTIONS)}, got {pooling_convention!r}"
        )
    spatial = data.shape[2:]
    if 0 in spatial:
        raise ShapeError(f"{op}: data of shape {data.shape} has an empty spatial dimension")
    ndim = len(spatial)
    if global_pool:
        kernel, stride, pad, outs = spatial, (1,) * ndim, (0,) * ndim, (1,) * ndim
    else:
        if kernel in (None, ()):
            raise AttrError(f"{op}: kernel must be given unless global_pool is set")
        kernel, stride = (per_dimension(v, ndim, 1, 1, op, w) for v, w in ((kernel, "kernel"), (stride, "stride")))
        pad = per_dimension(pad, ndim, 0, 0, op, "pad")
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
