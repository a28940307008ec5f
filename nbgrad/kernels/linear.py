"""Matrix products.

The family. ``_matmul`` multiplies matrices, (m, k) by (k, n), or stacks of them, (b, m, k) by (b, k, n), either one
stored transposed: no transposed copy is ever made. It is bilinear, and its derivatives are products with other flags:

    C = A B:   dA = G B^T,   dB = A^T G.

``dot``, ``batch_dot`` and ``FullyConnected`` are shapes around it. The products run in the BLAS that SciPy
brings (through Numba's binding).
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_value, set_storage_type
from ..backends import threads
from ..backends.cuda.product import product
from ..backends.numba.compile import kernel
from ..core.dtypes import promote
from ..core.shapes import broadcast_shape, size
from ..errors import ShapeError
from ..operators.cast import unify
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import Spec, composite, structured
from .binary import multiply
from .broadcasting import broadcast_to
from .narrow_products import narrow, narrow_columns, narrow_transposed, narrow_transposed_columns, routine_number
from .shape import expand_dims, reshape

__all__ = ["batch_dot", "dot", "matmul"]


@kernel(runtime=True)
def _product(a, b, c, batch, m, k, n, transpose_a, transpose_b):
    routine = routine_number(transpose_a, transpose_b, m, k, n)
    for i in range(batch):
        x = a[i * m * k : (i + 1) * m * k]
        y = b[i * k * n : (i + 1) * k * n]
        z = c[i * m * n : (i + 1) * m * n]
        if routine == 1:
            narrow(x, y, z, m, k, n, 0, 0, 0)
        elif routine == 2:
            narrow_columns(x, y, z, m, k, n, 0, 0, 0)
        elif routine > 2:
            z[:] = 0
            if routine == 3:
                narrow_transposed(x, y, z, m, k, n, 0, 0, 0)
            else:
                narrow_transposed_columns(x, y, z, m, k, n, 0, 0, 0)
        elif transpose_a == 0:
            if transpose_b == 0:
                np.dot(x.reshape((m, k)), y.reshape((k, n)), z.reshape((m, n)))
            else:
                np.dot(x.reshape((m, k)), y.reshape((n, k)).T, z.reshape((m, n)))
        elif transpose_b == 0:
            np.dot(x.reshape((k, m)).T, y.reshape((k, n)), z.reshape((m, n)))
        else:
            np.dot(x.reshape((k, m)).T, y.reshape((n, k)).T, z.reshape((m, n)))


@kernel
def _product_integers(a, b, c, batch, m, k, n, transpose_a, transpose_b):
    for i in range(batch):
        for r in range(m):
            for s in range(n):
                total = np.int64(0)
                for j in range(k):
                    x = a[i * m * k + (j * m + r if transpose_a else r * k + j)]
                    y = b[i * k * n + (s * k + j if transpose_b else j * n + s)]
                    total += np.int64(x) * np.int64(y)
                c[i * m * n + r * n + s] = total


@structured(
    "_matmul",
    method=False,
    half=True,
    samples=sample_table(
        lambda a, b, transpose_a=False, transpose_b=False: (
            (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)
        ),
        [(2, 2, 3), (2, 3, 2)],
        [(1, 3, 2), (1, 3, 2), {"transpose_a": True}],
        [(1, 2, 3), (1, 2, 3), {"transpose_b": True}],
        [(2, 3, 2), (2, 1, 3), {"transpose_a": True, "transpose_b": True}],
        [(1, 2, 0), (1, 0, 2)],
        [(2, 3), (3, 2)],
        [(3, 2), (2, 3), {"transpose_a": True, "transpose_b": True}],
        ulp=4,
    ),
)
def matmul(lhs, rhs, transpose_a=False, transpose_b=False):
    """Products of matrices, (m, k) and (k, n), or of stacks of them, (b, m, k) and (b, k, n); `transpose_a` and
    `transpose_b`: with the last two axes exchanged. Shapes are already checked."""
    *stack, m, k = lhs._shape
    *_, r, n = rhs._shape
    shape = (*stack, k if transpose_a else m, r if transpose_b else n)
    return Spec(shape, promote(lhs._kind.dtype, rhs._kind.dtype), transpose_a=transpose_a, transpose_b=transpose_b)


def _sizes(left, shape, transpose_a) -> tuple[int, int, int, int]:
    """(b, m, k, n) of a product of this shape."""
    *stack, m, n = shape
    return size(stack), m, left[-2] if transpose_a else left[-1], n


#: Multiplications of a product that BLAS gives to several threads, or might.
_LARGE_PRODUCT = 1 << 18


def _multiply(entry, buffers: tuple, batch: int, m: int, k: int, n: int, *flags: int) -> None:
    """A stack of small products is cut between them; large ones are left to the threads of BLAS."""
    if batch == 1 or m * k * n > _LARGE_PRODUCT:
        entry(*buffers, batch, m, k, n, *flags)
        return

    def call(start: int, stop: int) -> None:
        entry(*threads.row_slices(buffers, (m * k, k * n, m * n), start, stop), stop - start, m, k, n, *flags)

    threads.parallel_ranges(call, batch, m * k * n // 8 + 1)


@matmul.bind
def _(operands, results, *, transpose_a, transpose_b):
    (left, kind), (_, other) = operands
    ((shape, out_kind),) = results
    b, m, k, n = _sizes(left, shape, transpose_a)
    if b * m * n == 0 or k == 0:
        return lambda lhs, rhs, out: out._buf.fill(0)
    kernel_ = _product if out_kind.dtype.is_float else _product_integers
    entry = kernel_.bind(kind.storage, other.storage, out_kind.storage, *[int] * 6)
    sizes = (b, m, k, n, int(transpose_a), int(transpose_b))
    return lambda lhs, rhs, out: _multiply(entry, (lhs._buf, rhs._buf, out._buf), *sizes)


@matmul.lower
def _(graph, a, b, *, transpose_a, transpose_b):
    if a.value.dtype is not b.value.dtype or a.value.dtype.name not in ("float32", "float64"):
        return None
    *stack, m, k = a.shape
    *_, r, n = b.shape
    shape = (*stack, k if transpose_a else m, r if transpose_b else n)
    return graph.product(a, b, transpose_a, transpose_b, shape, a.value.dtype)


@matmul.device
def _(operands, results, *, transpose_a, transpose_b):
    (left, kind), (_, other) = operands
    ((shape, out_kind),) = results
    if not (kind is other is out_kind) or kind.dtype.name != "float16":
        return None  # as in a graph
    b, m, k, n = _sizes(left, shape, transpose_a)
    transposed = bool(transpose_a), bool(transpose_b)
    return lambda lhs, rhs, out: product(lhs._buf, rhs._buf, out._buf, b, (m, k, n), transposed)


def _left(g, rhs, transpose_a, transpose_b):
    if transpose_a:
        return matmul(rhs, g, transpose_a=transpose_b, transpose_b=True)
    return matmul(g, rhs, transpose_b=not transpose_b)


def _right(g, lhs, transpose_a, transpose_b):
    if transpose_b:
        return matmul(g, lhs, transpose_a=True, transpose_b=transpose_a)
    return matmul(lhs, g, transpose_a=not transpose_a)


matmul.vjp(lhs=_left, rhs=_right)


@matmul.raw
def _(operands, results, *, transpose_a, transpose_b):
    (left, kind), (right, other) = operands
    ((shape, out_kind),) = results
    if not (kind is other is out_kind) or kind.dtype.name == "float16" or not kind.dtype.is_float or 0 in shape:
        return None
    b, m, k, n = _sizes(left, shape, transpose_a)
    if k == 0:
        return None
    entry = _product.bind(kind.storage, kind.storage, kind.storage, *[int] * 6)

    def pull(first, second, target, *sizes):
        count = size(target)

        def run(g, old, other):
            out = kind.empty(count, kind.storage)
            _multiply(entry, (*((g, other) if first else (other, g)), out), *sizes)
            if old is None:
                return out
            kind.accumulate(out, old)
            return old

        return run

    ta, tb = int(transpose_a), int(transpose_b)
    return (
        pull(False, True, left, b, k, n, m, tb, 1) if ta else pull(True, False, left, b, m, n, k, 0, 1 - tb),
        pull(True, False, right, b, n, m, k, 1, ta) if tb else pull(False, True, right, b, k, m, n, 1 - ta, 0),
    )


def _same_dtype(lhs: NDArray, rhs: NDArray, op: str) -> list[NDArray]:
    return unify([as_array(lhs, op, "lhs"), as_array(rhs, op, "rhs")], op)


@composite(
    method=True,
    samples=sample_table(
        lambda a, b, transpose_a=False, transpose_b=False: np.atleast_1d(
            np.tensordot(np.moveaxis(a, 0, -1) if transpose_a else a, np.moveaxis(b, -1, 0) if transpose_b else b, 1)
        ),
        [(2, 3), (3, 2)],
        [(3, 2), (3, 2), {"transpose_a": True}],
        [(2, 3), (2, 3), {"transpose_b": True}],
        [(3, 2), (2, 3), {"transpose_a": True, "transpose_b": True}],
        [(3,), (3,)],
        [(2, 3), (3,)],
        [(3,), (3, 2)],
        [(2, 1, 3), (3, 1, 2)],
        [(3, 1, 2), (2, 1, 3), {"transpose_a": True, "transpose_b": True}],
        [(2, 0), (0, 3)],
        [(0, 2), (2, 3)],
        ulp=4,
    )
    + sample_table(np.multiply, [(), ()], [(2,), ()], ulp=1),
    gradient="products of g with the other operand, transposed",
)
def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype="default"):
    """Product over the last axis of `lhs` and the first of `rhs`.

    For matrices the matrix product, for vectors the inner product (shape (1,)).

    Parameters
    ----------
    lhs, rhs : NDArray
        Shapes (..., k) and (k, ...).
    transpose_a, transpose_b : bool
        Take the first axis of `lhs`, the last axis of `rhs` instead.
    forward_stype : str
        A label for the result; see ``tostype``.

    Returns
    -------
    NDArray
        The remaining axes of `lhs`, then those of `rhs`.

    Raises
    ------
    ShapeError
        If the lengths multiplied over differ.
    """
    lhs, rhs = _same_dtype(lhs, rhs, "dot")
    result = _dot(lhs, rhs, transpose_a, transpose_b)
    return result if forward_stype in (None, "default") else set_storage_type(result, forward_stype)


def _dot(lhs: NDArray, rhs: NDArray, transpose_a, transpose_b) -> NDArray:
    if lhs.ndim == 0 or rhs.ndim == 0:
        return multiply(lhs, rhs)
    ta, tb = bool(transpose_a) and lhs.ndim > 1, bool(transpose_b) and rhs.ndim > 1
    inner_a = lhs.shape[0] if ta else lhs.shape[-1]
    inner_b = rhs.shape[-1] if tb else rhs.shape[0]
    if inner_a != inner_b:
        raise ShapeError(_explain("dot", lhs.shape, rhs.shape, inner_a, inner_b, ta, tb))
    if lhs.ndim == 2 == rhs.ndim:
        return matmul(lhs, rhs, transpose_a=ta, transpose_b=tb)
    rest_a = lhs.shape[1:] if ta else lhs.shape[:-1]
    rest_b = rhs.shape[:-1] if tb else rhs.shape[1:]
    m, n, k = size(rest_a), size(rest_b), inner_a
    a = _matrix(lhs, (k, m) if ta else (m, k))
    b = _matrix(rhs, (n, k) if tb else (k, n))
    return _matrix(matmul(a, b, transpose_a=ta, transpose_b=tb), rest_a + rest_b or a._kind.conventions.scalar)


def _matrix(x: NDArray, shape: tuple[int, ...]) -> NDArray:
    return x if x._shape == shape else reshape(x, shape)


def _explain(op: str, a, b, inner_a: int, inner_b: int, ta: bool, tb: bool) -> str:
    text = f"{op}: inner sizes differ: lhs {a} gives {inner_a}, rhs {b} gives {inner_b}"
    if len(a) > 1 and (a[-1] if ta else a[-2 if op == "batch_dot" else 0]) == inner_b:
        return f"{text}; transpose_a={not ta} would make them match"
    if len(b) > 1 and (b[-2 if op == "batch_dot" else 0] if tb else b[-1]) == inner_a:
        return f"{text}; transpose_b={not tb} would make them match"
    return text


@composite(
    method=True,
    samples=sample_table(
        lambda a, b, transpose_a=False, transpose_b=False: (
            (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)
        ),
        [(2, 2, 3), (2, 3, 1)],
        [(2, 3, 2), (2, 1, 3), {"transpose_a": True, "transpose_b": True}],
        [(1, 2, 2, 2), (1, 2, 2, 2), {"transpose_b": True}],
        [(0, 2, 3), (0, 3, 2)],
        ulp=4,
    ),
)
def batch_dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype="default"):
    """Matrix products of two stacks: shapes (b, m, k) and (b, k, n) give (b, m, n).

    Parameters
    ----------
    lhs, rhs : NDArray
        Three axes (or more: all but the last two count as the stack).
    transpose_a, transpose_b : bool
        The matrices are stored transposed.
    forward_stype : str
        A label for the result; see ``tostype``.

    Returns
    -------
    NDArray
        Shape (b, m, n).

    Notes
    -----
    Gradient: ``g rhs^T`` for `lhs` and ``lhs^T g`` for `rhs`.
    """
    lhs, rhs = _same_dtype(lhs, rhs, "batch_dot")
    if lhs.ndim < 3 or lhs.ndim != rhs.ndim or lhs.shape[:-2] != rhs.shape[:-2]:
        raise ShapeError(
            f"batch_dot: stacks of matrices of equal length are needed, got shapes {lhs.shape} and {rhs.shape}"
        )
    ta, tb = bool(transpose_a), bool(transpose_b)
    inner_a, inner_b = lhs.shape[-2 if ta else -1], rhs.shape[-1 if tb else -2]
    if inner_a != inner_b:
        raise ShapeError(_explain("batch_dot", lhs.shape, rhs.shape, inner_a, inner_b, ta, tb))
    stack = lhs.shape[:-2]
    out = matmul(
        reshape(lhs, (size(stack), *lhs.shape[-2:])),
        reshape(rhs, (size(stack), *rhs.shape[-2:])),
        transpose_a=ta,
        transpose_b=tb,
    )
    result = reshape(out, stack + out.shape[1:])
    return result if forward_stype in (None, "default") else set_storage_type(result, forward_stype)


def matmul_operator(self: NDArray, other) -> NDArray:
    """``self @ other``, as NumPy's ``matmul``: stacks of matrices broadcast."""
    other = other if isinstance(other, NDArray) else from_value(other, like=self._kind)
    lhs, rhs = _same_dtype(self, other, "matmul")
    if lhs.ndim == 0 or rhs.ndim == 0:
        raise ShapeError("matmul: operands need at least one axis; use * for scalars")
    if lhs.ndim <= 2 and rhs.ndim <= 2:
        return dot(lhs, rhs)
    a = expand_dims(lhs, axis=0) if lhs.ndim == 1 else lhs
    b = expand_dims(rhs, axis=1) if rhs.ndim == 1 else rhs
    stack = broadcast_shape([a.shape[:-2], b.shape[:-2]], "matmul")
    out = batch_dot(broadcast_to(a, shape=stack + a.shape[-2:]), broadcast_to(b, shape=stack + b.shape[-2:]))
    shape = stack + (() if lhs.ndim == 1 else a.shape[-2:-1]) + (() if rhs.ndim == 1 else b.shape[-1:])
    return reshape(out, shape)


def matmul_reflected(self: NDArray, other) -> NDArray:
    """``other @ self``."""
    return matmul_operator(from_value(other, like=self._kind), self)


@composite(samples=sample_table(np.outer, [(2,), (3,)], [(2, 2), (1,)], [(), (2,)], [(0,), (2,)], ulp=1))
def outer(a, b):
    """All products of an element of `a` and one of `b`: shape (a.size, b.size).

    Notes
    -----
    Gradient: ``g b`` for `a` and ``a g`` for `b`.
    """
    a, b = as_array(a, "outer", "a"), as_array(b, "outer", "b")
    return multiply(reshape(a, (a.size, 1)), reshape(b, (1, b.size)))
