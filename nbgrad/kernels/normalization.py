"""Normalization: batch, layer, instance and group, and to unit length.

The maths. With mean μ and (population) variance σ² over m elements, and h = (x - μ)/√(σ² + eps)::

    y = γ h + β
    β's cotangent: Σ g      γ's: Σ g h
    x's: (k - mean(k) - h mean(k h))/√(σ² + eps), k = γ g; plus what reaches x through μ and σ² where they are used

BatchNorm takes the statistics per channel, over an array seen as (outer, channels, inner), and keeps running ones;
LayerNorm takes them over the last axis of (rows, n), and InstanceNorm and GroupNorm are made of it. μ and σ² are
results, too. The rules are written with operators; where nothing records, one fused kernel gives all cotangents.
"""

from __future__ import annotations

import numpy as np

from ..arrays.launch import cast_into
from ..arrays.ndarray import NDArray, wrap
from ..arrays.sharing import note_write
from ..autodiff import tracing
from ..autodiff.state import state
from ..backends import threads
from ..core.registry import operators
from ..core.shapes import axis as resolve_axis
from ..core.shapes import size
from ..errors import AttrError, DTypeError, ShapeError
from ..ir.expr import var
from ..operators.cast import cast
from ..operators.elementwise import Elementwise
from ..operators.entry import as_array
from ..operators.structured import REQUIRED, Spec, composite, structured
from . import normalization_kernels as raw
from .creation import ones, zeros
from .normalization_rules import by_operators, expanded, statistics_kind
from .normalization_samples import BATCH_NORM, GROUP_NORM, INSTANCE_NORM, L2, LAYER_NORM, MODES
from .reduce import split, sum_
from .shape import reshape, swapaxes
from .unary import rsqrt, sqrt, square

__all__ = ["BatchNorm", "LayerNorm"]


def _fused(launch, g: NDArray, arrays: list[NDArray], learned: NDArray, wanted: bool) -> list[NDArray]:
    """Cotangents of data and the two learned arrays from one raw kernel; float16 passes through float32."""
    kind = statistics_kind(g)
    g, *arrays = [x if x._kind is kind else cast(x, kind) for x in (g, *arrays)]
    shapes = (g._shape if wanted else (0,), learned._shape, learned._shape)
    outs = [wrap(kind.empty(size(s), kind.storage), s, kind) for s in shapes]
    launch(*[x._buf for x in (g, *arrays, *outs)], int(wanted))
    return outs


# Batch normalization.


def _per_channel(x: NDArray, ndim: int, axis: int) -> NDArray:
    return reshape(x, tuple(x.size if k == axis else 1 for k in range(ndim)))


@structured("_batch_norm", method=False)
def _batch_norm(data, gamma, beta, axis=REQUIRED, eps=1e-3):
    """Normalized data, and mean and variance of each channel."""
    kind = statistics_kind(data)
    channels = (data._shape[axis],)
    return Spec([data._shape, channels, channels], [data._kind.dtype, kind.dtype, kind.dtype], axis=axis, eps=eps)


@_batch_norm.run
def _(data, gamma, beta, outs, *, axis, eps):
    outer, channels, inner = split(data._shape, axis)
    buffers = [x._buf for x in (data, gamma, beta, *outs)]
    if inner == 1:
        raw.batch_norm_rows(*buffers, np.empty(2 * channels), outer, channels, eps)
    else:

        def call(start: int, stop: int) -> None:
            raw.batch_norm_runs(*buffers, outer, channels, inner, eps, start, stop)

        threads.parallel_ranges(call, channels, 3 * outer * inner)


@_batch_norm.expand
def _(data, gamma, beta, *, axis, eps):
    over = tuple(k for k in range(data.ndim) if k != axis)
    return expanded(data, gamma, beta, eps, over, lambda v: _per_channel(v, data.ndim, axis))


@_batch_norm.pullback
def _(g, data, gamma, y1, y2, axis, eps, wanted):
    outer, channels, inner = split(data._shape, axis)
    if not (state.recording or data._kind.gpu or _uses_statistics(g)):

        def launch(*buffers_and_flag):
            *buffers, flag = buffers_and_flag
            if inner == 1:
                raw.batch_norm_back_rows(*buffers, np.empty(2 * channels), outer, channels, eps, flag)
            else:

                def call(start: int, stop: int) -> None:
                    raw.batch_norm_back_runs(*buffers, outer, channels, inner, eps, flag, start, stop)

                threads.parallel_ranges(call, channels, 3 * outer * inner)

        return _fused(launch, g[0], [data, gamma, y1, y2], gamma, wanted[0])
    return by_operators(g, data, gamma, y1, y2, (axis,), eps, lambda v: _per_channel(v, data.ndim, axis), True)


def _uses_statistics(g: list) -> bool:
    """Whether mean or variance have cotangents (zeros stand for none)."""
    return any(h._buf.any() for h in g[1:])


@structured("_ones_for", method=False, differentiable=False, anywhere=True)
def _ones_for(data):
    """Ones in data's shape, whose gradient with respect to `data` is zero: gamma, where it is fixed."""
    return Spec(data._shape, data._kind.dtype)


@_ones_for.run
def _(data, out):
    out._buf.fill(1)


def _check_channels(op: str, n: int, **arrays: NDArray) -> None:
    for name, x in arrays.items():
        if as_array(x, op, name).shape != (n,):
            raise ShapeError(f"{op}: {name} must have shape ({n},), as data has channels; got {x.shape}")


def _check_float(op: str, data: NDArray) -> NDArray:
    if not as_array(data, op)._kind.dtype.is_float:
        raise DTypeError(f"{op}: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    return data


_affine = Elementwise("_normalize", (var("x0") - var("x1")) * var("x2") + var("x3"), 4)


@composite("BatchNorm", aliases=("BatchNorm_v1",), samples=BATCH_NORM)
def BatchNorm(
    data,
    gamma,
    beta,
    moving_mean,
    moving_var,
    eps=1e-3,
    momentum=0.9,
    fix_gamma=True,
    use_global_stats=False,
    output_mean_var=False,
    axis=1,
    cudnn_off=False,
    min_calib_range=None,
    max_calib_range=None,
):
    """Batch normalization: ``gamma*(data - mean)/sqrt(var + eps) + beta`` per channel.

    While training (``autograd.record()`` or ``train_mode()``), mean and population variance are the batch's, and the
    running ones move, once per call: ``moving = momentum*moving + (1 - momentum)*batch``. Otherwise, or with
    `use_global_stats`, they are the running ones.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype.
    gamma, beta, moving_mean, moving_var : NDArray
        One element per channel. The moving ones are changed in place and get no gradient.
    eps : float
        Added to the variance.
    momentum : float
    fix_gamma : bool
        Treat gamma as ones, with zero gradient. Gamma itself is not changed.
    use_global_stats : bool
    output_mean_var : bool
        Return ``[result, mean, 1/sqrt(var + eps)]`` of the batch.
    axis : int
        The channels' axis.
    cudnn_off, min_calib_range, max_calib_range
        Accepted for MXNet's sake.

    Returns
    -------
    NDArray, or list of three

    Raises
    ------
    ShapeError, DTypeError
        If the arrays do not have one element per channel, or data is not floating.

    Notes
    -----
    Gradients: with h = (data - mean)/sqrt(var + eps) and means over the batch,
    ``(k - mean(k) - h*mean(k*h))/sqrt(var + eps)``, k = gamma*g, for `data` (``k/sqrt(var + eps)`` with running
    statistics); ``sum(g*h)`` for `gamma`, and ``sum(g)`` for `beta`.

    References
    ----------
    Ioffe and Szegedy 2015, Batch normalization: accelerating deep network training.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> mean, var = nd.zeros(1), nd.ones(1)
    >>> with autograd.train_mode():
    ...     y = nd.BatchNorm(nd.array([[1], [3]]), nd.ones(1), nd.zeros(1), mean, var, eps=0)
    >>> y.tolist(), mean.tolist(), (mean.size, var.tolist())
    ([[-1.0], [1.0]], [0.20000000298023224], (1, [1.0]))
    """
    data = _check_float("BatchNorm", data)
    k = resolve_axis(axis, data.ndim, "BatchNorm")
    _check_channels("BatchNorm", data.shape[k], gamma=gamma, beta=beta, moving_mean=moving_mean, moving_var=moving_var)
    kind = statistics_kind(data)
    if fix_gamma:
        gamma = _ones_for(gamma)
    gamma, beta = (x if x._kind is kind else cast(x, kind) for x in (gamma, beta))
    eps = float(eps)
    if state.training and not use_global_stats:
        if data.size == 0:
            raise ShapeError(f"BatchNorm: no elements to take the mean of in shape {data.shape}")
        y, mean, variance = _batch_norm(data, gamma, beta, axis=k, eps=eps)
        for moving, batch in () if state.recomputing else ((moving_mean, mean), (moving_var, variance)):
            traced = tracing.current.graph is not None
            if traced or moving._kind.gpu:
                new = moving.detach() * momentum + batch.detach() * (1 - momentum)
                if traced:
                    tracing.update(moving, cast(new, moving._kind.on(new._kind.ctx)))
                    continue
                cast_into(new._buf, new._kind, moving._buf, moving._kind)
            else:
                values = moving._view()
                values[...] = momentum * values + (1 - momentum) * batch._view()
            note_write(moving)
        return [y, mean, rsqrt(variance + eps)] if output_mean_var else y
    mean, rstd = cast(moving_mean.detach(), kind), rsqrt(cast(moving_var.detach(), kind) + eps)
    scale = rstd * gamma
    wide = data if data._kind is kind else cast(data, kind)
    y = _affine.apply((wide, *[_per_channel(v, data.ndim, k) for v in (mean, scale, beta)]))
    y = y if y._kind is data._kind else cast(y, data._kind)
    return [y, mean, rstd] if output_mean_var else y


# Layer normalization, and its relatives.


@structured("_layer_norm", method=False)
def _layer_norm_op(data, gamma, beta, eps=1e-5):
    """Data normalized along its last axis, and mean and variance of each row."""
    kind = statistics_kind(data)
    rows = data._shape[:-1]
    return Spec([data._shape, rows, rows], [data._kind.dtype, kind.dtype, kind.dtype], eps=eps)


@_layer_norm_op.run
def _(data, gamma, beta, outs, *, eps):
    rows, n, _ = split(data._shape, data.ndim - 1)
    buffers = [x._buf for x in (data, gamma, beta, *outs)]

    def call(start: int, stop: int) -> None:
        raw.layer_norm(*threads.row_slices(buffers, (n, 0, 0, n, 1, 1), start, stop), stop - start, n, eps)

    threads.parallel_ranges(call, rows, 2 * n)


@_layer_norm_op.expand
def _(data, gamma, beta, *, eps):
    return expanded(data, gamma, beta, eps, (data.ndim - 1,), lambda v: v)


@_layer_norm_op.pullback
def _(g, data, gamma, y1, y2, eps, wanted):
    rows, n, _ = split(data._shape, data.ndim - 1)
    if not (state.recording or data._kind.gpu or _uses_statistics(g)):

        def launch(*buffers_and_flag):
            *buffers, flag = buffers_and_flag
            raw.layer_norm_back(buffers, rows, n, eps, flag)

        return _fused(launch, g[0], [data, gamma, y1, y2], gamma, wanted[0])
    last = (data.ndim - 1,)
    return by_operators(g, data, gamma, y1, y2, last, eps, lambda v: reshape(v, v.shape + (1,)), False)


def _normalized_rows(data: NDArray, gamma: NDArray, beta: NDArray, eps: float) -> list[NDArray]:
    kind = statistics_kind(data)
    gamma, beta = (x if x._kind is kind else cast(x, kind) for x in (gamma, beta))
    return _layer_norm_op(data, gamma, beta, eps=float(eps))


@composite("LayerNorm", samples=LAYER_NORM)
def LayerNorm(data, gamma, beta, axis=-1, eps=1e-5, output_mean_var=False):
    """``gamma*(data - mean)/sqrt(var + eps) + beta``, mean and population variance along one axis.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype.
    gamma, beta : NDArray
        One element per element of that axis.
    axis : int
    eps : float
    output_mean_var : bool
        Return ``[result, mean, sqrt(var + eps)]``, the axis kept with length 1.

    Returns
    -------
    NDArray, or list of three

    Raises
    ------
    ShapeError, DTypeError
        If gamma or beta do not fit the axis, or data is not floating.

    Notes
    -----
    Gradients as for ``BatchNorm``, with means along the axis.

    References
    ----------
    Ba, Kiros and Hinton 2016, Layer normalization.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.LayerNorm(nd.array([[1, 3]]), nd.ones(2), nd.zeros(2), eps=0).tolist()
    [[-1.0, 1.0]]
    """
    data = _check_float("LayerNorm", data)
    k = resolve_axis(axis, data.ndim, "LayerNorm")
    n = data.shape[k]
    _check_channels("LayerNorm", n, gamma=gamma, beta=beta)
    if n == 0:
        raise ShapeError(f"LayerNorm: axis {k} of shape {data.shape} is empty")
    last = data.ndim - 1
    rows = data if k == last else swapaxes(data, k, last)
    y, mean, variance = _normalized_rows(rows, gamma, beta, eps)
    y = y if k == last else swapaxes(y, k, last)
    if not output_mean_var:
        return y
    spread = [reshape(v, v.shape + (1,)) for v in (mean, sqrt(variance + float(eps)))]
    return [y, *(v if k == last else swapaxes(v, k, last) for v in spread)]


def _over_groups(data: NDArray, groups: int, eps: float) -> list[NDArray]:
    """Data (n, c, ...) normalized over each of `groups` blocks of channels, and their means and variances."""
    rows = reshape(data, (data.shape[0] * groups, size(data.shape[1:]) // groups))
    n, dtype = rows.shape[1], statistics_kind(data).dtype.type
    y, mean, variance = _normalized_rows(rows, ones((n,), dtype=dtype), zeros((n,), dtype=dtype), eps)
    return [reshape(y, data.shape), mean, variance]


def _scaled(y: NDArray, gamma: NDArray, beta: NDArray) -> NDArray:
    gamma, beta = (_per_channel(x if x._kind is y._kind else cast(x, y._kind), y.ndim, 1) for x in (gamma, beta))
    return y * gamma + beta


@composite(
    "InstanceNorm",
    samples=INSTANCE_NORM,
    gradient="as for ``BatchNorm``, with means over the axes after the second",
)
def InstanceNorm(data, gamma, beta, eps=1e-3):
    """Every channel of every sample normalized by itself, then ``gamma*h + beta`` per channel.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, ...), of a floating dtype.
    gamma, beta : NDArray
        Shape (c,).
    eps : float

    Returns
    -------
    NDArray
        Shape and dtype of `data`: ``gamma*(data - mean)/sqrt(var + eps) + beta``, mean and population variance over
        all axes but the first two.

    References
    ----------
    Ulyanov, Vedaldi and Lempitsky 2016, Instance normalization: the missing ingredient for fast stylization.

    Raises
    ------
    ShapeError, DTypeError
        If data has fewer than three axes or no elements, or is not floating, or gamma or beta do not fit.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.InstanceNorm(nd.array([[[1, 3], [5, 5]]]), nd.ones(2), nd.zeros(2), eps=1e-9).tolist()
    [[[-1.0, 1.0], [0.0, 0.0]]]
    """
    data = _check_float("InstanceNorm", data)
    if data.ndim < 3 or data.size == 0:
        raise ShapeError(f"InstanceNorm: data (n, c, ...) with elements is needed, got shape {data.shape}")
    _check_channels("InstanceNorm", data.shape[1], gamma=gamma, beta=beta)
    return _scaled(_over_groups(data, data.shape[1], eps)[0], gamma, beta)


@composite("GroupNorm", samples=GROUP_NORM, gradient="as for ``BatchNorm``, with means over each group")
def GroupNorm(data, gamma, beta, num_groups=1, eps=1e-5, output_mean_var=False):
    """Every one of `num_groups` blocks of channels of every sample normalized by itself, then scaled and shifted.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, ...), of a floating dtype.
    gamma, beta : NDArray
        One element per group, as in MXNet, or per channel.
    num_groups : int
        A divisor of c.
    eps : float
    output_mean_var : bool
        Return ``[result, mean, sqrt(var + eps)]``, of shape (n, num_groups).

    Returns
    -------
    NDArray, or list of three
        The first with shape and dtype of `data`.

    References
    ----------
    Wu and He 2018, Group normalization.

    Raises
    ------
    ShapeError, AttrError, DTypeError
        As for ``InstanceNorm``, and if the channels cannot be grouped so.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.GroupNorm(nd.array([[[1], [3], [5], [7]]]), nd.ones(2), nd.zeros(2), num_groups=2, eps=1e-9).tolist()
    [[[-1.0], [1.0], [-1.0], [1.0]]]
    """
    data = _check_float("GroupNorm", data)
    if data.ndim < 3 or data.size == 0:
        raise ShapeError(f"GroupNorm: data (n, c, ...) with elements is needed, got shape {data.shape}")
    n, c = data.shape[:2]
    if num_groups < 1 or c % num_groups:
        raise AttrError(f"GroupNorm: num_groups must divide the {c} channels, got {num_groups}")
    for name, x in (("gamma", gamma), ("beta", beta)):
        if as_array(x, "GroupNorm", name).shape not in ((c,), (num_groups,)):
            raise ShapeError(f"GroupNorm: {name} must have shape ({num_groups},) or ({c},), got {x.shape}")
    y, mean, variance = _over_groups(data, num_groups, eps)
    repeat = operators["repeat"].call
    gamma, beta = (x if x.size == c else repeat(x, repeats=c // num_groups) for x in (gamma, beta))
    y = _scaled(y, gamma, beta)
    if not output_mean_var:
        return y
    return [y, reshape(mean, (n, num_groups)), reshape(sqrt(variance + float(eps)), (n, num_groups))]


@composite(samples=L2, gradient="``(g - y*sum(g*y))/n``, n being what data is divided by")
def L2Normalization(data, eps=1e-10, mode="instance"):
    """``data/sqrt(sum(data^2) + eps)``.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, ...).
    eps : float
    mode : {'instance', 'channel', 'spatial'}
        Sum over all axes but the first, over the second, over all but the first two.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    AttrError
        For another mode.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.L2Normalization(nd.array([[0, 2], [3, 0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    data = _check_float("L2Normalization", data)
    if mode not in MODES or data.ndim < (3 if mode == "spatial" else 2):
        raise AttrError(
            f"L2Normalization: mode must be one of {', '.join(MODES)} for data (n, c, ...), "
            f"got {mode!r} for shape {data.shape}"
        )
    axes = tuple(MODES[mode](data.ndim))
    return data * rsqrt(sum_(square(data), axis=axes, keepdims=True) + float(eps))
