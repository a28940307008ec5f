"""Class numbers as vectors."""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_host_values
from ..backends.cuda.kernels import cuda, device
from ..core.dtypes import DType, as_dtype
from ..core.shapes import size
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from . import traced_index
from .indexing import integers

__all__ = ["one_hot"]


def _at(values) -> Input:
    return Input(values=values, dtype="float32")  # as MXNet's indices are


@composite(
    method=True,
    samples=sample_table(
        lambda i, depth, on_value=1.0, off_value=0.0: np.where(
            i.astype(int)[..., None] == np.arange(depth), on_value, off_value
        ),
        [_at([1, 0, 5]), {"depth": 3}],
        [_at([[1], [0]]), {"depth": 2, "on_value": 3.0, "off_value": -1.0}],
        [_at(1), {"depth": 2}],
        result="float32",
    ),
    differentiable=False,
)
def one_hot(indices, depth, on_value=1.0, off_value=0.0, dtype="float32"):
    """A new last axis of length `depth` with `on_value` at the index and `off_value` elsewhere.

    An index out of range gives `off_value` throughout. Gradient: 0.

    Returns
    -------
    NDArray
        Shape ``indices.shape + (depth,)``, of `dtype`.
    """
    indices = as_array(indices, "one_hot", "indices")
    values, target = integers(indices, "one_hot", indices), as_dtype(dtype)
    if isinstance(values, NDArray) and values._kind.traced:
        return traced_index.one_hot(values, int(depth), on_value, off_value, target)
    if isinstance(values, NDArray):
        return _one_hot(values, depth=int(depth), on=float(on_value), off=float(off_value), dtype=target)
    return from_host_values(_hot(values, int(depth), on_value, off_value, target), indices._kind.of(target))


def _hot(values: np.ndarray, depth: int, on, off, dtype: DType) -> np.ndarray:
    out = np.full((*values.shape, depth), off, dtype.np)
    inside = np.flatnonzero((values >= 0) & (values < depth))
    out.reshape(-1)[inside * depth + values.reshape(-1)[inside]] = on
    return out


@structured("_one_hot", method=False, differentiable=False)
def _one_hot(index, depth=REQUIRED, on=REQUIRED, off=REQUIRED, dtype=REQUIRED):
    """``one_hot`` of int64."""
    return Spec((*index._shape, depth), dtype, depth=depth, on=on, off=off)


@_one_hot.run
def _(index, out, *, depth, on, off):
    np.copyto(out._view(), _hot(index._view(), depth, on, off, out._kind.dtype))


@device
def _device_one_hot(index, out, depth, on, off):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = on if index[i // depth] == i % depth else off


@_one_hot.device
def _(operands, results, *, depth, on, off):
    return _device_one_hot.run(size(results[0][0]), depth, on, off)
