"""What the functions here are built of: polynomials, exact sums and products, the bits of a number.

Everything works in the precision of its arguments, float32 or float64. Multiplications and additions may be fused
by the compiler; the exact ones here stay exact if they are.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..backends.numba.compile import by_precision, inline, intrinsic

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


@intrinsic
def fma(typing, a, b, c):
    """``a*b + c`` of three numbers of one type, rounded once."""

    def build(context, builder, signature, args):
        return builder.fma(*args)

    return a(a, a, a), build


def libdevice(builder, name: str, args):
    """A call of the function that CUDA's library of scalar functions has under this name."""
    number = args[0].type
    symbol = f"__nv_{name}{'f' if isinstance(number, ir.FloatType) else ''}"
    kind = ir.FunctionType(number, [number] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), args)


def rounded(name: str, builder, args):
    """LLVM's function of this name, which CUDA's compiler does not know."""
    if "nvptx" in builder.module.triple:
        return libdevice(builder, name, args)
    return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [args[0].type]), args)


@intrinsic
def rint(typing, x):
    """The nearest integer, halves to the even one; the sign of a zero is kept."""
    return x(x), lambda context, builder, signature, args: rounded("rint", builder, args)


@intrinsic
def floor(typing, x):
    """The nearest integer that is not more."""
    return x(x), lambda context, builder, signature, args: rounded("floor", builder, args)


@intrinsic
def ceil(typing, x):
    """The nearest integer that is not less."""
    return x(x), lambda context, builder, signature, args: rounded("ceil", builder, args)


@intrinsic
def trunc(typing, x):
    """The nearest integer on the side of zero."""
    return x(x), lambda context, builder, signature, args: rounded("trunc", builder, args)


@intrinsic
def pick(typing, x, single, double):
    """`single` if `x` is a float32, else `double`; decided when compiled."""
    place = 1 if x == types.float32 else 2

    def build(context, builder, signature, args):
        return args[place]

    return (single if place == 1 else double)(x, single, double), build


def _coefficients(context, builder, signature, packed):
    given, number = signature.args[1].dtype, signature.args[0]
    count = packed.type.count
    return [context.cast(builder, builder.extract_value(packed, k), given, number) for k in range(count)]


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


@intrinsic
def horner(typing, x, coefficients):
    """``coefficients[0] + coefficients[1]*x + ...``, all in the type of `x`.

    The last step is Horner's, and so is rounding; those before it are :func:`estrin`'s.
    """

    def build(context, builder, signature, args):
        x, packed = args
        first, *terms = _coefficients(context, builder, signature, packed)
        return _fused(builder, _side_by_side(builder, x, terms), x, first) if terms else first

    return x(x, coefficients), build


@intrinsic
def estrin(typing, x, coefficients):
    """The same in the fewest steps one after the other, rounded twice."""

    def build(context, builder, signature, args):
        x, packed = args
        return _side_by_side(builder, x, _coefficients(context, builder, signature, packed))

    return x(x, coefficients), build


@intrinsic
def bits(typing, x):
    """The bits of a float64 as int64, of a float32 as int32."""

    def build(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return _INTEGER[x](x), build


@intrinsic
def from_bits(typing, i):
    """The float64 that has the bits of an int64, the float32 of an int32."""

    def build(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return _FLOAT[i](i), build


@intrinsic
def copy_sign(typing, x, y):
    """`x` with the sign of `y`."""

    def build(context, builder, signature, args):
        kind = args[0].type
        function = builder.module.declare_intrinsic("llvm.copysign", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, args)

    return x(x, x), build


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
