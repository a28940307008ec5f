"""Convolution in one, two and three dimensions.

The family. Convolution, its data-gradient and its weight-gradient are each bilinear, and the derivatives of any of
the three are the other two; Deconvolution is the data-gradient by its other name.

Shapes are (n, channels, spatial ...), weights (filters, channels/groups, taps ...); the kernels
(:mod:`.convolution_kernels`) have three spatial dimensions, so shorter ones get leading 1s.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ..arrays.ndarray import NDArray
from ..backends import threads
from ..core.shapes import Shape, as_shape, size
from ..errors import AttrError, ShapeError
from ..operators.samples import sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from . import convolution_kernels as raw
from .convolution_device import convolve
from .dense import operands
from .shape import moveaxis, reshape

__all__ = ["Convolution", "Deconvolution", "convolution", "weight_grad"]

_workspaces = threading.local()


def _workspace(n: int, dtype: np.dtype) -> np.ndarray:
    """Scratch memory of this thread, kept from call to call: fresh memory costs more than the arithmetic."""
    kept = _workspaces.__dict__
    found = kept.get(dtype.char)
    if found is None or found.size < n:
        found = kept[dtype.char] = np.empty(n, dtype)
    return found


def three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    return (fill,) * (3 - len(values)) + tuple(values)


def _run(kernel, first: NDArray, second: NDArray, out: NDArray, x: Shape, w: Shape, y: Shape, attrs: dict) -> None:
    """Launch one of the three convolutions; `x`, `w`, `y` are the shapes of data, weight and result."""
    if 0 in x + w + y:
        out._buf.fill(0)
        return
    sizes = (x[0], x[1], *three(x[2:], 1), w[0], *three(w[2:], 1), *three(y[2:], 1))
    steps = (*three(attrs["stride"], 1), *three(attrs["dilate"], 1), *three(attrs["pad"], 0))
    sizes = (*sizes, *steps, attrs["groups"])
    if out._kind.gpu:
        convolve(kernel.name, first._buf, second._buf, out._buf, out._kind, x[0], sizes[1:])
        return
    _on_threads(kernel, [first._buf, second._buf, out._buf], x[0], size(y[2:]) * size(w), sizes[1:])


#: How many parts of a batch have gradients of the weights of their own, that are added at the end.
_PARTS = 8


def _on_threads(kernel, buffers: list, samples: int, work: int, sizes: tuple[int, ...]) -> None:
    """Cut between samples, at multiples of a block of them. A gradient of the weights is a sum over samples: its parts
    depend on sizes alone, and so does the result. `work`: multiplications per sample."""
    first, second, out = buffers
    block = raw.samples_in_block(samples, *sizes)
    weight = work // 8 + 1  # that many at once

    def run(some: list, n: int) -> None:
        kernel(*some, _workspace(raw.workspace_size(n, *sizes), out.dtype), n, *sizes)

    def ranges(start: int, stop: int) -> None:
        strides = first.size // samples, 0, out.size // samples
        run(threads.row_slices(buffers, strides, start, stop), stop - start)

    if kernel is not raw.conv_weight_grad:
        threads.parallel_ranges(ranges, samples, weight, block)
        return
    length = block * -(-samples // (_PARTS * block))
    parts = -(-samples // length)
    if parts == 1 or samples * weight < 2 * threads.GRAIN or samples * work < 64 * parts * out.size:
        run(buffers, samples)
        return
    sums = np.empty((parts, out.size), out.dtype)

    def some_parts(start: int, stop: int) -> None:
        for k in range(start, stop):
            begin, end = k * length, min(samples, (k + 1) * length)
            some = threads.row_slices((first, second), (first.size // samples, second.size // samples), begin, end)
            run([*some, sums[k]], end - begin)

    threads.parallel_ranges(some_parts, parts, length * weight)
    np.sum(sums, axis=0, out=out)


def outputs(shape: Shape, taps: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Shape:
    """Spatial shape of a convolution's result."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in zip(shape, taps, stride, dilate, pad, strict=True)
    )


@structured("_convolution", method=False, anywhere=True)
def convolution(data, weight, stride=REQUIRED, dilate=REQUIRED, pad=REQUIRED, groups=1):
    """Convolution; arguments already checked."""
    outs = outputs(data._shape[2:], weight._shape[2:], stride, dilate, pad)
    shape = (data._shape[0], weight._shape[0], *outs)
    return Spec(shape, data._kind.dtype, stride=stride, dilate=dilate, pad=pad, groups=groups)


@structured("_convolution_data", method=False, anywhere=True)
def data_grad(head, weight, size=REQUIRED, stride=REQUIRED, dilate=REQUIRED, pad=REQUIRED, groups=1):
    """The adjoint in data, of spatial shape `size`; `head` has the shape of the convolution's result."""
    shape = (head._shape[0], weight._shape[1] * groups, *size)
    return Spec(shape, head._kind.dtype, size=size, stride=stride, dilate=dilate, pad=pad, groups=groups)


@structured("_convolution_weight", method=False, anywhere=True)
def weight_grad(data, head, taps=REQUIRED, stride=REQUIRED, dilate=REQUIRED, pad=REQUIRED, groups=1):
    """The adjoint in weight, of spatial shape `taps`."""
    shape = (head._shape[1], data._shape[1] // groups, *taps)
    return Spec(shape, data._kind.dtype, taps=taps, stride=stride, dilate=dilate, pad=pad, groups=groups)


@convolution.run
def _(data, weight, out, **attrs):
    _run(raw.conv_forward, data, weight, out, data._shape, weight._shape, out._shape, attrs)


@data_grad.run
def _(head, weight, out, **attrs):
    _run(raw.conv_data_grad, head, weight, out, out._shape, weight._shape, head._shape, attrs)


@weight_grad.run
def _(data, head, out, **attrs):
    _run(raw.conv_weight_grad, data, head, out, data._shape, out._shape, head._shape, attrs)


convolution.vjp(
    data=lambda g, weight, data_shape, stride, dilate, pad, groups: data_grad(
        g, weight, size=data_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
    weight=lambda g, data, weight_shape, stride, dilate, pad, groups: weight_grad(
        data, g, taps=weight_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
)
data_grad.vjp(
    head=lambda g, weight, stride, dilate, pad, groups: convolution(
        g, weight, stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
    weight=lambda g, head, weight_shape, stride, dilate, pad, groups: weight_grad(
        g, head, taps=weight_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
)
weight_grad.vjp(
    data=lambda g, head, data_shape, stride, dilate, pad, groups: data_grad(
        head, g, size=data_shape[2:], stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
    head=lambda g, data, stride, dilate, pad, groups: convolution(
        data, g, stride=stride, dilate=dilate, pad=pad, groups=groups
    ),
)


# Arguments.


def per_dimension(given, ndim: int, default: int, least: int, op: str, what: str) -> Shape:
    """An attribute with one integer per spatial dimension; one for all of them, none, or `default` more often."""
    values = (default,) * ndim if given is None or given == () else as_shape(given, f"{op}: {what}")
    if len(values) == 1 and hasattr(given, "__index__"):
        values *= ndim
    if set(values[ndim:]) == {default}:
        values = values[:ndim]
    if len(values) != ndim or min(values, default=least) < least:
        raise AttrError(f"{op}: {what} needs {ndim} integer(s) >= {least}, one per spatial dimension; got {given!r}")
    return values


_LAYOUTS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def channels_first(data: NDArray, layout: str | None, op: str) -> tuple[NDArray, bool]:
    """Data as (n, channels, spatial ...), and whether the channels came last."""
    if data.ndim not in _LAYOUTS:
        raise ShapeError(f"{op}: data with 1 to 3 spatial dimensions, (n, channels, ...), is needed, got {data.shape}")
    if layout not in (None, "None", *_LAYOUTS[data.ndim]):
        raise AttrError(
            f"{op}: layout must be one of {', '.join(_LAYOUTS[data.ndim])} for {data.ndim} axes, got {layout!r}"
        )
    last = layout == _LAYOUTS[data.ndim][1]
    return (moveaxis(data, -1, 1) if last else data), last


def _operands(op: str, data, weight, bias, no_bias: bool) -> list[NDArray]:
    arrays = operands(op, data, weight, bias, no_bias)
    if not no_bias and (arrays[2].ndim != 1):
        raise ShapeError(f"{op}: bias must have shape (num_filter,), got {bias.shape}")
    return arrays


def _with_bias(y: NDArray, bias: list[NDArray], op: str) -> NDArray:
    if not bias:
        return y
    if bias[0].size != y.shape[1]:
        raise ShapeError(f"{op}: bias must have shape ({y.shape[1]},), one element per filter, got {bias[0].shape}")
    return y + reshape(bias[0], (bias[0].size,) + (1,) * (y.ndim - 2))


def _check_taps(op: str, weight: NDArray, kernel, ndim: int) -> Shape:
    taps = weight.shape[2:]
    if kernel not in (None, ()) and per_dimension(kernel, ndim, 1, 1, op, "kernel") != taps:
        raise ShapeError(f"{op}: weight of shape {weight.shape} has taps {taps}, kernel says {kernel}")
    return taps


def _numpy_convolution(x, w, bias=0.0, stride=1, dilate=1, pad=0, num_group=1, layout="", no_bias=False):
    last = layout.endswith("C")
    x, w = (np.moveaxis(a, -1, 1) if last else a for a in (x, w))
    x = np.pad(x, ((0, 0), (0, 0), *((pad, pad),) * (x.ndim - 2)))
    outs = [(n - dilate * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    group = np.arange(w.shape[0]) * num_group // w.shape[0]
    channels = group[:, None] * w.shape[1] + np.arange(w.shape[1])
    y = np.zeros((x.shape[0], w.shape[0], *outs))
    for tap in np.ndindex(w.shape[2:]):
        at = tuple(slice(k * dilate, k * dilate + stride * n, stride) for k, n in zip(tap, outs, strict=True))
        y += np.einsum("nfc...,fc->nf...", x[:, channels, *at], w[:, :, *tap])
    return np.moveaxis(y, 1, -1) + bias if last else y + np.reshape(bias, (-1,) + (1,) * len(outs))


def _numpy_deconvolution(x, w, bias=0.0, stride=1, dilate=1, pad=0, adj=0, num_group=1, layout="", no_bias=True):
    """The adjoint, by what a convolution does to the unit vectors of the result's space."""
    last = layout.endswith("C")
    x, w = (np.moveaxis(a, -1, 1) if last else a for a in (x, w))
    sizes = zip(x.shape[2:], w.shape[2:], strict=True)
    full = tuple(stride * (n - 1) + dilate * (k - 1) + 1 - 2 * pad + adj for n, k in sizes)
    shape = (w.shape[1] * num_group, *full)
    units = np.eye(np.prod(shape, dtype=int)).reshape(-1, *shape)
    rows = _numpy_convolution(units, w, 0.0, stride, dilate, pad, num_group)
    y = (x.reshape(len(x), rows[0].size) @ rows.reshape(len(units), -1).T).reshape(len(x), *shape)
    return np.moveaxis(y, 1, -1) + bias if last else y + np.reshape(bias, (-1,) + (1,) * len(full))


@composite("Convolution", aliases=("Convolution_v1",), samples=sample_table(
    _numpy_convolution,
    [(2, 1, 3), (1, 1, 2), (1,)],
    [(1, 2, 5), (2, 1, 2), {"stride": 2, "pad": 1, "num_group": 2, "no_bias": True}],
    [(1, 1, 3, 4), (2, 1, 2, 2), (2,), {"dilate": 2, "pad": 1}],
    [(1, 3, 2, 2), (1, 2, 1, 2), (1,), {"layout": "NHWC"}],
    [(1, 1, 2, 2, 3), (1, 1, 2, 1, 2), (1,)],
    [(0, 1, 3), (2, 1, 2), (2,)],
    ulp=8, ints=False,
))  # fmt: skip
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
        ``'NCW'``, ``'NCHW'``, ``'NCDHW'``; with the channels last, of weight too, ``'NWC'``, ``'NHWC'``, ``'NDHWC'``.
    workspace, cudnn_tune, cudnn_off
        Accepted for MXNet's sake.

    Notes
    -----
    Gradients: for `data` the ``Deconvolution`` of g with the same weight; for `weight` the
    sums over n and i of ``g[n, f, i] * data[n, c, i*stride + k*dilate - pad]``; for `bias` those of g.

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
    data, last = channels_first(data, layout, op)
    if weight.ndim != data.ndim:
        raise ShapeError(f"{op}: weight must have as many axes as data, {data.ndim}, got shape {weight.shape}")
    weight = moveaxis(weight, -1, 1) if last else weight
    ndim = data.ndim - 2
    taps = _check_taps(op, weight, kernel, ndim)
    stride, dilate = (per_dimension(v, ndim, 1, 1, op, w) for v, w in ((stride, "stride"), (dilate, "dilate")))
    pad = per_dimension(pad, ndim, 0, 0, op, "pad")
    filters = weight.shape[0]
    if num_filter is not None and num_filter != filters:
        raise ShapeError(f"{op}: weight of shape {weight.shape} has {filters} filters, num_filter says {num_filter}")
    if num_group < 1 or filters % num_group or data.shape[1] != weight.shape[1] * num_group:
        raise ShapeError(
            f"{op}: weight must have shape (num_filter, {data.shape[1]}/num_group, *kernel), num_filter a multiple of "
            f"num_group, for data of shape {data.shape} and num_group {num_group}; got {weight.shape}"
        )
    outs = outputs(data.shape[2:], taps, stride, dilate, pad)
    if min(outs) < 1 or 0 in taps:
        raise ShapeError(f"{op}: kernel {taps} with dilate {dilate} exceeds data {data.shape} with pad {pad}")
    y = convolution(data, weight, stride=stride, dilate=dilate, pad=pad, groups=int(num_group))
    y = _with_bias(y, rest, op)
    return moveaxis(y, 1, -1) if last else y


@composite("Deconvolution", samples=sample_table(
    _numpy_deconvolution,
    [(2, 1, 3), (1, 1, 2)],
    [(1, 2, 3), (2, 1, 3), (2,), {"stride": 2, "pad": 1, "adj": 1, "num_group": 2, "no_bias": False}],
    [(1, 1, 2, 2), (1, 2, 2, 2), {"dilate": 2, "pad": 1}],
    [(1, 2, 2, 1), (1, 1, 2, 2), (2,), {"layout": "NHWC", "no_bias": False}],
    [(1, 1, 2, 1, 2), (1, 1, 2, 1, 2)],
    [(0, 1, 3), (1, 1, 2)],
    ulp=8, ints=False,
))  # fmt: skip
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

    ``y[n, f, i*stride + k*dilate - pad]`` is the sum over c, i and k of ``data[n, c, i] * weight[c, f, k]``, plus
    ``bias[f]``.

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
    no_bias : bool
    workspace, cudnn_tune, cudnn_off
        Accepted for MXNet's sake.

    Notes
    -----
    Gradients: for `data` the ``Convolution`` of g with the same weight; for `weight` what
    ``Convolution`` has with data and g exchanged; for `bias` the sums of g.

    References
    ----------
    Zeiler, Krishnan, Taylor and Fergus 2010, Deconvolutional networks.

    Returns
    -------
    NDArray
        Shape (n, num_filter, ...), each spatial length ``stride*(in - 1) + dilate*(kernel - 1) + 1 - 2*pad + adj``.

    Raises
    ------
    ShapeError, AttrError
        If shapes and attributes do not agree.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.Deconvolution(nd.array([[[1, 2]]]), nd.ones((1, 1, 2)), kernel=(2,), stride=(2,)).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    op = "Deconvolution"
    data, weight, *rest = _operands(op, data, weight, bias, bool(no_bias))
    data, last = channels_first(data, layout, op)
    if weight.ndim != data.ndim:
        raise ShapeError(f"{op}: weight must have as many axes as data, {data.ndim}, got shape {weight.shape}")
    weight = moveaxis(weight, -1, 1) if last else weight
    ndim = data.ndim - 2
    taps = _check_taps(op, weight, kernel, ndim)
    stride, dilate = (per_dimension(v, ndim, 1, 1, op, w) for v, w in ((stride, "stride"), (dilate, "dilate")))
    pad, adj = (per_dimension(v, ndim, 0, 0, op, w) for v, w in ((pad, "pad"), (adj, "adj")))
    if num_group < 1 or data.shape[1] != weight.shape[0] or data.shape[1] % num_group:
        raise ShapeError(
            f"{op}: weight must have shape ({data.shape[1]}, num_filter/num_group, *kernel), num_group a divisor of "
            f"{data.shape[1]}, for data of shape {data.shape}; got {weight.shape} and num_group {num_group}"
        )
    if num_filter is not None and num_filter != weight.shape[1] * num_group:
        raise ShapeError(
            f"{op}: weight of shape {weight.shape} and num_group {num_group} do not give {num_filter} filters"
        )
    full = tuple(s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(data.shape[2:], taps, stride, dilate, strict=True))
    if target_shape not in (None, ()) and any(as_shape(target_shape)):
        target = per_dimension(target_shape, ndim, 0, 1, op, "target_shape")
        excess = [f - t for f, t in zip(full, target, strict=True)]
        pad = tuple(max(0, (e + 1) // 2) for e in excess)
        adj = tuple(2 * p - e for p, e in zip(pad, excess, strict=True))
        if any(a >= s for a, s in zip(adj, stride, strict=True)):
            raise AttrError(f"{op}: target_shape {target} is too large for data {data.shape} and stride {stride}")
    elif any(a >= s for a, s in zip(adj, stride, strict=True)):
        raise AttrError(f"{op}: adj {adj} must be less than stride {stride}")
    out = tuple(f - 2 * p + a for f, p, a in zip(full, pad, adj, strict=True))
    if min(out) < 1:
        raise ShapeError(f"{op}: pad {pad} leaves nothing of a result of {full}")
    y = data_grad(data, weight, size=out, stride=stride, dilate=dilate, pad=pad, groups=int(num_group))
    y = _with_bias(y, rest, op)
    return moveaxis(y, 1, -1) if last else y
