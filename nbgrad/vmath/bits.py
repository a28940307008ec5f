"""What the functions here are built of: polynomials, exact sums and products, the bits of a number.

Everything works in the precision of its arguments, float32 or float64. Multiplications and additions may be fused
by the compiler; the exact ones here stay exact if they are.
"""

from __future__ import annotations

import numpy as np

from ..backends.numba.compile import by_precision, inline
from ..backends.numba.intrinsics import call_external, call_llvm_intrinsic, intrinsic, llvm, on_gpu, types

__all__ = [
    "SQRT_HALF",
    "SQRT_HALF_F",
    "bits",
    "ceil",
    "copy_sign",
    "estrin",
    "fast_two_sum",
    "floor",
    "fma",
    "from_bits",
    "horner",
    "libdevice",
    "pair_product",
    "pair_quotient",
    "pair_sum",
    "pick",
    "rint",
    "rounded",
    "split",
    "trunc",
    "two_prod",
    "two_sum",
]

_INTEGER = {types.float32: types.int32, types.float64: types.int64}
_FLOAT = {integer: number for number, integer in _INTEGER.items()}


@intrinsic()
def fma(emit, a, b, c):
    """``a*b + c`` of three numbers of one type, rounded once."""
    return emit.builder.fma(a, b, c)


def libdevice(builder, name: str, args):
    """A call of the function that CUDA's library of scalar functions has under this name."""
    number = args[0].type
    return call_external(builder, f"__nv_{name}{'f' if isinstance(number, llvm.FloatType) else ''}", number, args)


def rounded(name: str, builder, args):
    """LLVM's function of this name, which CUDA's compiler does not know."""
    return (libdevice if on_gpu(builder) else call_llvm_intrinsic)(builder, name, args)


@intrinsic()
def rint(emit, x):
    """The nearest integer, halves to the even one; the sign of a zero is kept."""
    return rounded("rint", emit.builder, [x])


@intrinsic()
def floor(emit, x):
    """The nearest integer that is not more."""
    return rounded("floor", emit.builder, [x])


@intrinsic()
def ceil(emit, x):
    """The nearest integer that is not less."""
    return rounded("ceil", emit.builder, [x])


@intrinsic()
def trunc(emit, x):
    """The nearest integer on the side of zero."""
    return rounded("trunc", emit.builder, [x])


@intrinsic(lambda x, single, double: single if x == types.float32 else double)
def pick(emit, x, single, double):
    """`single` if `x` is a float32, else `double`; decided when compiled."""
    return single if emit.types[0] == types.float32 else double


def _coefficients(emit, packed):
    number, given = emit.types[0], emit.types[1].dtype
    return [emit.cast(value, given, number) for value in emit.unpack(packed, packed.type.count)]


def _fused(builder, a, b, c):
    return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))


def _side_by_side(builder, x, terms):
    """Pairs of terms, pairs of pairs and so on (Estrin 1960): a chain of as many steps as there are terms keeps the
    processor waiting."""
    power = x
    while len(terms) > 1:
        pairs = [_fused(builder, b, power, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) // 2 * 2 :]
        power = builder.fmul(power, power)
    return terms[0]


@intrinsic(lambda x, coefficients: x)
def horner(emit, x, coefficients):
    """``coefficients[0] + coefficients[1]*x + ...``, all in the type of `x`.

    The last step is Horner's, and so is rounding; those before it are :func:`estrin`'s.
    """
    first, *terms = _coefficients(emit, coefficients)
    return _fused(emit.builder, _side_by_side(emit.builder, x, terms), x, first) if terms else first


@intrinsic(lambda x, coefficients: x)
def estrin(emit, x, coefficients):
    """The same in the fewest steps one after the other, rounded twice."""
    return _side_by_side(emit.builder, x, _coefficients(emit, coefficients))


@intrinsic(lambda x: _INTEGER[x])
def bits(emit, x):
    """The bits of a float64 as int64, of a float32 as int32."""
    return emit.builder.bitcast(x, emit.value_type(emit.result))


@intrinsic(lambda i: _FLOAT[i])
def from_bits(emit, i):
    """The float64 that has the bits of an int64, the float32 of an int32."""
    return emit.builder.bitcast(i, emit.value_type(emit.result))


@intrinsic()
def copy_sign(emit, x, y):
    """`x` with the sign of `y`."""
    return emit.llvm_intrinsic("copysign", x, y)


@inline
def two_sum(a, b):
    """``a + b`` and what rounding it took away, exactly."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inline
def fast_two_sum(a, b):
    """:func:`two_sum` for |a| >= |b|, or a = 0."""
    s = a + b
    return s, b - (s - a)


@inline
def two_prod(a, b):
    """``a * b`` and what rounding it took away, exactly (unless that underflows)."""
    p = a * b
    return p, fma(a, b, -p)


@inline
def pair_product(a, a_low, b, b_low):
    """``(a + a_low)*(b + b_low)`` in two parts, to about twice the precision."""
    p = a * b
    return p, fma(a, b, -p) + (a * b_low + a_low * b)


@inline
def pair_quotient(a, a_low, b, b_low):
    """``(a + a_low)/(b + b_low)`` in two parts, to about twice the precision."""
    r = type(b)(1.0) / b
    q = a * r
    return q, (fma(-q, b, a) + (a_low - q * b_low)) * r


@inline
def pair_sum(a, a_low, b, b_low):
    """``a + a_low + b + b_low`` in two parts; just the greater ones where they are huge or infinite."""
    total, rest = two_sum(a, b)
    return total, rest + (a_low + b_low) if abs(total) < 1e290 else type(a)(0.0)


# The bits of sqrt(1/2): numbers from there to twice that get exponent 0.
SQRT_HALF = np.int64(0x3FE6A09E667F3BCD)
SQRT_HALF_F = np.int32(0x3F3504F3)


def _split64(x):
    tiny = x < 2.2250738585072014e-308
    i = bits(x * 18014398509481984.0 if tiny else x) - SQRT_HALF
    n = np.float64(i >> 52)
    return n - 54.0 if tiny else n, from_bits((i & 0xFFFFFFFFFFFFF) + SQRT_HALF)


def _split32(x):
    tiny = x < np.float32(1.1754943508222875e-38)
    i = np.int32(bits(x * np.float32(33554432.0) if tiny else x) - SQRT_HALF_F)
    n = np.float32(np.int32(i >> np.int32(23)))
    m = from_bits(np.int32(np.int32(i & np.int32(0x7FFFFF)) + SQRT_HALF_F))
    return n - np.float32(25.0) if tiny else n, m


#: ``n, m = split(x)``: x = 2^n * m with m between sqrt(1/2) and sqrt(2), for finite x > 0, subnormal ones too; n is a
#: float. For other x both are finite and mean nothing.
split = by_precision(_split32, _split64)
