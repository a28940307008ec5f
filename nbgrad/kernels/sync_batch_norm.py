"""``contrib.SyncBatchNorm``: batch normalization whose statistics are shared between devices, here one device's."""

from __future__ import annotations

from ..autodiff.state import state
from ..core.dtypes import float32
from ..operators.entry import as_array
from ..operators.structured import composite
from .normalization import BatchNorm
from .normalization_samples import SYNC_BATCH_NORM
from .statistics import moments

__all__ = ["SyncBatchNorm"]


@composite("SyncBatchNorm", method=False, samples=SYNC_BATCH_NORM, gradient="as for ``BatchNorm``")
def SyncBatchNorm(
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
    ndev=1,
    key="",
):
    """``BatchNorm`` along axis 1 in the spelling for several devices.

    Parameters
    ----------
    data, gamma, beta, moving_mean, moving_var, eps, momentum, fix_gamma, use_global_stats
        As for ``BatchNorm``.
    output_mean_var : bool
        Return ``[result, mean, variance]``: the variance itself, where ``BatchNorm`` has ``1/sqrt(var + eps)``.
    ndev, key
        Accepted for MXNet's sake: the statistics are those of the one array given.

    Returns
    -------
    NDArray, or list of three

    Raises
    ------
    ShapeError, DTypeError
        As ``BatchNorm``.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x, one, zero = nd.array([[1], [3]]), nd.ones(1), nd.zeros(1)
    >>> with autograd.train_mode():
    ...     y = nd.contrib.SyncBatchNorm(x, one, zero, zero.copy(), one.copy(), key="a", output_mean_var=True)
    >>> [v.tolist() for v in y[1:]]
    [[2.0], [1.0]]
    """
    data = as_array(data, "SyncBatchNorm")
    arrays = (data, gamma, beta, moving_mean, moving_var)
    y = BatchNorm(*arrays, eps=eps, momentum=momentum, fix_gamma=fix_gamma, use_global_stats=use_global_stats)
    if not output_mean_var:
        return y
    if not state.training or use_global_stats:
        return [y, moving_mean.detach(), moving_var.detach()]
    wide = data.astype(float32.type) if data._kind.dtype.name == "float16" else data
    return [y, *moments(wide, axes=tuple(k for k in range(data.ndim) if k != 1))]
