"""Sine, cosine and tangent of huge angles, one at a time, as LLVM code for :mod:`.rare`.

The angle is m*2^e with a whole m of 53 bits. In ``m*2^e * 2/pi`` those bits of 2/pi that give multiples of 4 turn the
angle by whole turns and are left out; 192 of the others give the quadrant and 137 bits of the rest, of which no
float64 loses more than 62 by being close to a multiple of pi/2 (Payne and Hanek 1983). The C library, which can be
thousands of units off there, sees only what is left.
"""

from __future__ import annotations

from ..backends.numba.intrinsics import call_llvm_intrinsic, llvm
from .coefficients import HALF_PI, TWO_OVER_PI

__all__ = ["huge_angle"]

DOUBLE = llvm.DoubleType()
BYTE, WORD, WINDOW, LOADED = (llvm.IntType(bits) for bits in (8, 64, 192, 256))
FRACTION = 64 * (len(TWO_OVER_PI) - 2)  # bits of 2/pi behind the point; two words before it are zero


def huge_angle(builder, name, x):
    """The function called `name` of a float64 beyond 2^17."""
    i = builder.and_(builder.bitcast(x, WORD), WORD((1 << 63) - 1))
    exponent = builder.lshr(i, WORD(52))
    m = builder.or_(builder.and_(i, WORD((1 << 52) - 1)), WORD(1 << 52))
    # m*w/2^190 is the angle in quadrants but for whole turns.
    product = builder.mul(builder.zext(m, WINDOW), _window(builder, builder.sub(WORD(FRACTION - 190 + 1075), exponent)))
    quadrant = builder.lshr(builder.add(product, WINDOW(1 << 189)), WINDOW(190))
    high, low = _fraction(builder, builder.shl(product, WINDOW(2)))
    first, second = DOUBLE(HALF_PI[0]), DOUBLE(HALF_PI[1])
    r = builder.fmul(high, first)
    rest = builder.fma(low, first, builder.fmul(high, second))
    rest = builder.fadd(builder.fma(high, first, builder.fneg(r)), rest)
    return builder.fadd(_of_quadrant(builder, name, builder.trunc(quadrant, WORD), r, rest, x), builder.fsub(x, x))


def _window(builder, start):
    """192 bits of 2/pi from the bit `start` upwards."""
    module, name = builder.module, "nbgrad_two_over_pi"
    if name not in module.globals:
        table = llvm.GlobalVariable(module, llvm.ArrayType(WORD, len(TWO_OVER_PI)), name)
        table.linkage, table.global_constant = "internal", True
        table.initializer = table.value_type([WORD(word) for word in TWO_OVER_PI])
    first = builder.bitcast(module.globals[name], BYTE.as_pointer())
    place = builder.gep(first, [builder.lshr(start, WORD(3))])
    loaded = builder.load(builder.bitcast(place, LOADED.as_pointer()), align=1)
    return builder.trunc(builder.lshr(loaded, builder.zext(builder.and_(start, WORD(7)), LOADED)), WINDOW)


def _fraction(builder, f):
    """f/2^192 of a signed number, in two parts: three pieces that a float64 holds exactly, added up."""
    pieces = [
        builder.sitofp(builder.trunc(builder.ashr(f, WINDOW(150)), WORD), DOUBLE),
        *(
            builder.uitofp(builder.and_(builder.trunc(builder.lshr(f, WINDOW(k)), WORD), WORD((1 << 43) - 1)), DOUBLE)
            for k in (107, 64)
        ),
    ]
    scaled = [builder.fmul(p, DOUBLE(2.0**k)) for p, k in zip(pieces, (-42, -85, -128), strict=True)]
    high, low = _fast_two_sum(builder, *scaled[:2])
    return _fast_two_sum(builder, high, builder.fadd(low, scaled[2]))


def _fast_two_sum(builder, a, b):
    s = builder.fadd(a, b)
    return s, builder.fsub(b, builder.fsub(s, a))


def _of_quadrant(builder, name, quadrant, r, rest, x):
    def call(function, *args):
        return call_llvm_intrinsic(builder, function, args)

    def bit(number, place):
        return builder.trunc(builder.lshr(number, WORD(place)), llvm.IntType(1))

    def negated(condition, y):
        return builder.select(condition, builder.fneg(y), y)

    odd, negative = bit(quadrant, 0), builder.fcmp_ordered("<", x, DOUBLE(0.0))
    if name == "tan":
        t = call("tan", r)
        slope = builder.fadd(DOUBLE(1.0), builder.fmul(t, t))
        t, less = _fast_two_sum(builder, t, builder.fmul(rest, slope))
        inverse = builder.fdiv(DOUBLE(-1.0), t)
        inverse = builder.fma(builder.fmul(inverse, inverse), less, inverse)
        return negated(negative, builder.select(odd, inverse, t))
    s, c = call("sin", r), call("cos", r)
    sin = builder.fadd(s, builder.fmul(rest, c))
    cos = builder.fsub(c, builder.fmul(rest, s))
    if name == "cos":
        return negated(bit(builder.add(quadrant, WORD(1)), 1), builder.select(odd, sin, cos))
    return negated(builder.xor(negative, bit(quadrant, 1)), builder.select(odd, cos, sin))
