"""Products of vectors, matrices and stacks of them."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from ..core.registry import operators
from ..errors import ShapeError
from ..kernels import linear
from .arrays import ndarray, stored
from .manipulation import axis_of, moveaxis, ravel, reshape, stack, together
from .reductions import sum
from .selection import diagonal
from .views import view

__all__ = ["cross", "dot", "einsum", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "trace", "vdot",
           "vecdot", "vecmat"]  # fmt: skip


def _scalar(x: ndarray) -> ndarray:
    """Operators of the registry give a single product the shape (1,)."""
    return reshape(x, ()) if x.shape == (1,) else x


def matmul(x1, x2, /, out=None) -> ndarray:
    """Matrix product; stacks of matrices broadcast, vectors are rows or columns."""
    a, b = together("matmul", (x1, x2))
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("matmul: operands need at least one axis; use * for scalars")
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise ShapeError(f"matmul: the last axis of {a.shape} and the first of the matrix {b.shape} differ in length")
    found: Any = linear.matmul_operator(a, b)
    return stored(_scalar(found) if a.ndim == b.ndim == 1 else found, out, "matmul")


def dot(a, b, out=None) -> ndarray:
    """Inner product of vectors, product of matrices; in general the sum over the last axis of `a` and the one before
    the last of `b`."""
    a, b = together("dot", (a, b))
    if a.ndim == 0 or b.ndim == 0:
        return stored(a * b, out, "dot")
    if a.ndim <= 2 and b.ndim <= 2:
        return matmul(a, b, out)
    return stored(tensordot(a, b, ((a.ndim - 1,), (max(b.ndim - 2, 0),))), out, "dot")


def vdot(a, b) -> ndarray:
    """Inner product of all elements."""
    return dot(ravel(a), ravel(b))


def inner(a, b) -> ndarray:
    """The sum of products over the last axes."""
    a, b = together("inner", (a, b))
    return a * b if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


def vecdot(x1, x2, /, *, axis=-1) -> ndarray:
    """The sum of products along an axis."""
    a, b = together("vecdot", (x1, x2))
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: the lengths along the axis differ: {a.shape[-1]} and {b.shape[-1]}")
    products = a * b
    return products.any(-1) if a.dtype == bool else sum(products, -1, a.dtype)


def matvec(x1, x2, /) -> ndarray:
    """Products of matrices and vectors, stacks of which broadcast."""
    a, b = together("matvec", (x1, x2))
    return matmul(a, b[..., None])[..., 0]


def vecmat(x1, x2, /) -> ndarray:
    """Products of vectors and matrices, stacks of which broadcast."""
    a, b = together("vecmat", (x1, x2))
    return matmul(a[..., None, :], b)[..., 0, :]


def outer(a, b, out=None) -> ndarray:
    """All products of an element of `a` and one of `b`, as a matrix."""
    a, b = together("outer", (a, b))
    return stored(reshape(a, (-1, 1)) * ravel(b), out, "outer")


def tensordot(a, b, axes=2) -> ndarray:
    """The sum of products over pairs of axes."""
    a, b = together("tensordot", (a, b))
    if isinstance(axes, int | np.integer):
        pairs = [*range(a.ndim - int(axes), a.ndim)], [*range(int(axes))]
    else:
        pairs = tuple([k] if isinstance(k, int | np.integer) else list(k) for k in axes)  # type: ignore[assignment]
    first, second = ([axis_of(k, x.ndim, "tensordot") for k in ks] for x, ks in zip((a, b), pairs, strict=True))
    if [a.shape[k] for k in first] != [b.shape[k] for k in second]:
        raise ShapeError(f"tensordot: the shapes {a.shape} and {b.shape} do not agree along the axes {axes}")
    rest_a = [k for k in range(a.ndim) if k not in first]
    rest_b = [k for k in range(b.ndim) if k not in second]
    n = int(np.prod([a.shape[k] for k in first], dtype=int))
    rows = int(np.prod([a.shape[k] for k in rest_a], dtype=int))
    columns = int(np.prod([b.shape[k] for k in rest_b], dtype=int))
    left = reshape(operators["transpose"].call(a, axes=(*rest_a, *first)) if a.ndim else a, (rows, n))
    right = reshape(operators["transpose"].call(b, axes=(*second, *rest_b)) if b.ndim else b, (n, columns))
    return reshape(matmul(left, right), tuple(a.shape[k] for k in rest_a) + tuple(b.shape[k] for k in rest_b))


def _from_lists(*given: Any) -> tuple[str, tuple]:
    """The subscripts as a string, and the operands, of ``a, [0, 1], b, [1, 2], [0, 2]``."""
    pairs = list(zip(given[::2], given[1::2], strict=False))
    if not pairs or not all(isinstance(labels, list | tuple) for _, labels in pairs):
        raise ShapeError("einsum: the subscripts must be a string, as 'ij,jk->ik', or lists of integers")

    def named(labels: Any) -> str:
        return "".join("..." if k is Ellipsis else ascii_letters[k] for k in labels)

    result = "->" + named(given[-1]) if len(given) % 2 else ""
    return ",".join(named(labels) for _, labels in pairs) + result, tuple([x for x, _ in pairs])


def einsum(subscripts, *operands, out=None, optimize=True) -> ndarray:
    """Einstein's sum: products over equal letters, summed over those that the result has not."""
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists(subscripts, *operands)
    arrays = together("einsum", operands)
    bools = arrays[0].dtype == bool  # sums of which are whether any is true
    found = operators["einsum"].call(
        subscripts, *[x.astype(np.int64) if bools else x for x in arrays], optimize=bool(optimize)
    )
    if len(arrays) == 1 and _only_permutes(subscripts):
        found = view(found, arrays[0], lambda x: np.einsum(subscripts, x))
    return stored(found != 0 if bools else found, out, "einsum")


def _only_permutes(subscripts: str) -> bool:
    """Whether the result for one array has all its letters, so that NumPy has a view of its elements."""
    given, arrow, wanted = subscripts.replace("...", "").replace(" ", "").partition("->")
    return set(given) <= set(wanted) if arrow else len(set(given)) == len(given)


def kron(a, b) -> ndarray:
    """Kronecker product: `b` times each element of `a`, as blocks."""
    a, b = together("kron", (a, b))
    ndim = max(a.ndim, b.ndim)
    x, y = reshape(a, (1,) * (ndim - a.ndim) + a.shape), reshape(b, (1,) * (ndim - b.ndim) + b.shape)
    blocks = reshape(x, tuple(n for m in x.shape for n in (m, 1))) * reshape(
        y, tuple(n for m in y.shape for n in (1, m))
    )
    return reshape(blocks, tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None) -> ndarray:
    """Cross product of vectors of three elements, or of two, whose third is 0."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = together("cross", (a, b))
    x, y = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if not {x.shape[-1], y.shape[-1]} <= {2, 3}:
        raise ShapeError(f"cross: vectors must have 2 or 3 elements, got {x.shape[-1]} and {y.shape[-1]}")
    u, v = ([z[..., k] for k in range(z.shape[-1])] for z in (x, y))
    third = u[0] * v[1] - u[1] * v[0]
    if len(u) == len(v) == 2:
        return third
    u, v = ([*z, z[0] * 0][:3] if len(z) == 2 else z for z in (u, v))
    return moveaxis(stack([u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], third], -1), -1, axisc)


def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None) -> ndarray:
    """The sum of a diagonal of each matrix in two axes."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)
