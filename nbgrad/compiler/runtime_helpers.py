"""Runtime helpers: intrinsics that generated programs use besides the scalar functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.numba import casts
from ..backends.numba.casts import __all__ as _conversions
from ..backends.numba.compile import inline
from ..backends.numba.intrinsics import intrinsic, llvm, types
from ..backends.numba.raw_arrays import local
from ..kernels import narrow_products
from ..kernels.extreme import greater, smaller

__all__ = ["assign", "section", "used_helpers"]


def _are_floats(a, b):
    return a(a, b) if isinstance(a, types.Float) and a == b else None


@intrinsic(_are_floats)
def add(emit, a, b):
    """``a + b``. Additions of one sum may be reordered, so that LLVM can vectorize it; no other addition may."""
    return emit.builder.fadd(a, b, flags=("reassoc", "nsz", "contract"))


def _are_matrices(a, b, c, *others):
    *words, transpose_a, transpose_b = others
    fits = isinstance(a, types.Array) and a == b == c and a.dtype in (types.float32, types.float64)
    if not fits or not all(isinstance(x, types.IntegerLiteral) for x in (transpose_a, transpose_b)):
        return None
    return types.void(a, b, c, *[types.int64 for _ in words], transpose_a, transpose_b)


@intrinsic(_are_matrices, literal=True)
def gemm(emit, a, b, c, m, k, n, a_start, b_start, c_start, transpose_a, transpose_b):
    """A product of matrices in parts of flat arrays, by what np.dot calls: that compiles much faster."""
    array, builder = emit.types[0], emit.builder
    ta, tb = (x.literal_value for x in emit.types[-2:])

    def data(values, start):
        return builder.bitcast(builder.gep(emit.array(array, values).data, [start]), _POINTER)

    def number(value):
        return builder.bitcast(emit.stored(emit.constant(array.dtype, value)), _POINTER)

    def letter(name):
        return _BYTE(ord(name))

    left, right, result = data(a, a_start), data(b, b_start), data(c, c_start)
    how = letter("d" if array.dtype == types.float64 else "s"), letter("t" if tb else "n"), letter("t" if ta else "n")
    # BLAS is column-major: compute the transposed product.
    operands = [right, k if tb else n, left, m if ta else k]
    emit.external("numba_xxgemm", llvm.IntType(32), *how, n, m, k, number(1.0), *operands, number(0.0), result, n)


_BYTE = llvm.IntType(8)
_POINTER = _BYTE.as_pointer()


def _is_section(array, start, n):
    return array(array, types.intp, types.intp) if isinstance(array, types.Array) else None


@intrinsic(_is_section, python=lambda array, start, n: array[start : start + n])
def section(emit, array, start, n):
    """``array[start : start + n]`` of an argument, which owns the memory: that compiles much faster than a slice."""
    return emit.array_on(emit.result, emit.builder.gep(emit.array(emit.result, array).data, [start]), n)


@inline
def assign(target, source):
    """``target[:] = source``, which takes memory from Numba's runtime in case the two overlap."""
    for k in range(target.size):
        target[k] = source[k]


#: Name in generated source -> object.
_HELPERS: dict[str, Any] = {
    "add": add,
    "greater": greater,
    "smaller": smaller,
    "gemm": gemm,
    "local": local,
    **{name: getattr(narrow_products, name) for name in narrow_products.ROUTINES if name != "gemm"},
    "u": np.uint64,
    "np": np,
    **{name: getattr(casts, name) for name in _conversions},
}


def used_helpers(source: str) -> dict[str, Any]:
    """The helpers that a source uses."""
    return {k: v for k, v in _HELPERS.items() if f"{k}(" in source or f"{k}." in source}
