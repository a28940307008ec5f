"""Recurrent layers on devices: step by step, a matrix product and elementwise operators each."""

from __future__ import annotations

from ..arrays.ndarray import NDArray, wrap
from .binary import multiply
from .linear import matmul
from .slices import slice_axis
from .unary import relu, sigmoid, tanh

__all__ = ["gru", "lstm", "vanilla"]


def _steps(x: NDArray) -> list[NDArray]:
    """The (n, m) parts of an array (T, n, m), in its memory."""
    n, m = x._shape[1:]
    return [wrap(x._buf[t * n * m : (t + 1) * n * m], (n, m), x._kind) for t in range(x._shape[0])]


def _gates(a: NDArray, count: int) -> list[NDArray]:
    n = a._shape[-1] // count
    return [slice_axis(a, axis=-1, begin=k * n, end=(k + 1) * n) for k in range(count)]


def _plain(*arrays: NDArray) -> list[NDArray]:
    return [x.detach() for x in arrays]


def vanilla(data: NDArray, weight: NDArray, first: NDArray, out: NDArray, *, relu: bool) -> None:
    """h = f(x + h w^T)."""
    data, weight, h = _plain(data, weight, first)
    for x, y in zip(_steps(data), _steps(out), strict=True):
        h = _ACTIVATION[relu](x + matmul(h, weight, transpose_b=True))
        y._buf[:] = h._buf


_ACTIVATION = {False: tanh, True: relu}


def lstm(data: NDArray, weight: NDArray, first: NDArray, cell: NDArray, outs: list[NDArray]) -> None:
    """Gates in the order i, f, u, o; c = f c + i u, h = o tanh(c)."""
    data, weight, h, c = _plain(data, weight, first, cell)
    for x, y, z in zip(_steps(data), *map(_steps, outs), strict=True):
        i, f, u, o = _gates(x + matmul(h, weight, transpose_b=True), 4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(u)
        h = sigmoid(o) * tanh(c)
        y._buf[:] = h._buf
        z._buf[:] = c._buf


def gru(data: NDArray, weight: NDArray, bias: NDArray, first: NDArray, out: NDArray) -> None:
    """Gates in the order r, z, u; u = tanh(a + r (s + b)), h = (1 - z) u + z h."""
    data, weight, bias, h = _plain(data, weight, bias, first)
    for x, y in zip(_steps(data), _steps(out), strict=True):
        (ar, az, au), (sr, sz, su) = _gates(x, 3), _gates(matmul(h, weight, transpose_b=True), 3)
        z = sigmoid(az + sz)
        u = tanh(au + multiply(sigmoid(ar + sr), su + bias))
        h = u + z * (h - u)
        y._buf[:] = h._buf
