"""Casts that Numba lacks or leaves undefined: float16 bits, and float to integer."""

from __future__ import annotations

import numpy as np

from .compile import inline
from .intrinsics import intrinsic, llvm, types

__all__ = ["float_to_half", "float_to_int32", "float_to_int64", "float_to_uint64", "half_to_float"]


@intrinsic(lambda bits: types.float32(types.uint16))
def half_to_float(emit, bits):
    """The float32 value of a float16 given by its 16 bits."""
    return emit.builder.fpext(emit.builder.bitcast(bits, llvm.HalfType()), llvm.FloatType())


@intrinsic(lambda value: types.uint16(types.float32))
def float_to_half(emit, value):
    """The 16 bits of the float16 nearest to a float32 (ties to even)."""
    return emit.builder.bitcast(emit.builder.fptrunc(value, llvm.HalfType()), llvm.IntType(16))


_LIMIT64 = 2.0**63
_LIMIT32 = 2.0**31
_MIN64 = -(2**63)
_MIN32 = -(2**31)


@inline
def float_to_int64(x):
    """Truncate; NaN and values out of range give the most negative integer, as x86 processors and NumPy do."""
    fits = (x > -_LIMIT64) & (x < _LIMIT64)
    return np.int64(x if fits else type(x)(0)) if fits else np.int64(_MIN64)


@inline
def float_to_int32(x):
    """Truncate to 32 bits; NaN and values out of range give the most negative integer."""
    fits = (x > -_LIMIT32 - 1) & (x < _LIMIT32)
    return np.int64(x if fits else type(x)(0)) if fits else np.int64(_MIN32)


@inline
def float_to_uint64(x):
    """Truncate; negative numbers wrap around, and NaN and what is out of range gives 2**63, as in NumPy on x86."""
    high = (x >= _LIMIT64) & (x < 2 * _LIMIT64)
    low = np.uint64(float_to_int64(x))
    return np.uint64(float_to_int64(x - type(x)(_LIMIT64))) + np.uint64(2**63) if high else low
