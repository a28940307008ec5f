"""Dropout: multiplication by a random mask."""

from __future__ import annotations

import numpy as np

from ..autodiff.state import state
from ..core.dtypes import as_dtype
from ..core.shapes import distinct_axes
from ..errors import AttrError, DTypeError
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import composite
from . import philox
from .binary import multiply
from .random import draw
from .unary import identity

__all__ = ["Dropout"]


def _numpy_dropout(x, p=0.5, mode="training", axes=()):
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    return x * draw(philox.bernoulli, shape, as_dtype(x.dtype), None, p, 1 / (1 - p)).asnumpy()


@composite("Dropout", samples=sample_table(
    _numpy_dropout,
    [(2, 4)], [(2, 3), {"p": 0.25, "axes": (1,)}], [(0, 2)],
    ints=False, training=True, random=True,
) + sample_table(
    _numpy_dropout, [(3, 2), {"p": 0.25, "mode": "always"}], ints=False, random=True,
) + sample_table(np.array, [(2, 2), {}], [()], ints=False))  # fmt: skip
def Dropout(data, p=0.5, mode="training", axes=(), cudnn_off=False):
    """While training, each element is 0 with probability `p`, else multiplied by ``1/(1 - p)``; otherwise a copy.

    The gradient has the same mask.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype.
    p : float
        In [0, 1].
    mode : {'training', 'always'}
        Whether to drop only while training, or always.
    axes : int or tuple of int
        Elements along these axes share their fate.
    cudnn_off
        Accepted for MXNet's sake.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    AttrError
        If `p` or `mode` is none of these.
    DTypeError
        If data is not floating.

    References
    ----------
    Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov 2014, Dropout: a simple way to prevent overfitting.

    Examples
    --------
    >>> import nbgrad as nb
    >>> from nbgrad import nd
    >>> nb.random.seed(1)
    >>> sorted(set(nd.Dropout(nd.ones(100), p=0.75, mode="always").tolist())), nd.Dropout(nd.ones(2)).tolist()
    ([0.0, 4.0], [1.0, 1.0])
    """
    data = as_array(data, "Dropout")
    if not data._kind.dtype.is_float:
        raise DTypeError(f"Dropout: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    if not 0 <= p <= 1:
        raise AttrError(f"Dropout: p must be in [0, 1], got {p!r}")
    if mode not in ("training", "always"):
        raise AttrError(f"Dropout: mode must be 'training' or 'always', got {mode!r}")
    shared = distinct_axes(axes, data.ndim, "Dropout")
    if p == 0 or not (state.training or mode == "always"):
        return identity(data)
    shape = tuple(1 if k in shared else n for k, n in enumerate(data.shape))
    keep = 1 / (1 - p) if p < 1 else 0.0
    kind = data._kind
    mask = draw(philox.bernoulli, shape, kind.dtype, kind.ctx, float(p), keep, conventions=kind.conventions)
    return multiply(data, mask)
