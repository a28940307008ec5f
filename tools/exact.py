"""Functions of mpmath numbers that polynomials of tools/coefficients.py are fitted to."""

import mpmath as mp

__all__ = ["digamma_quotient", "far_quantile", "inverse_erf", "inverse_slope", "scaled_tail", "stirling"]


def inverse_erf(w):
    """The y >= 0 with ``1 - erf(y)^2 = exp(-w)``, by Newton's method; ``erfinv(x)`` for ``w = -log(1 - x^2)``."""
    x = mp.sqrt(-mp.expm1(-w))
    small = x < mp.mpf(0.5)
    tail = mp.exp(-w) / (1 + x)  # 1 - x
    y = x if small else mp.sqrt(w)
    for _ in range(100):
        slope = 2 / mp.sqrt(mp.pi) * mp.exp(-y * y)
        step = (mp.erf(y) - x) / slope if small else -(mp.log(mp.erfc(y) / tail)) * mp.erfc(y) / slope
        y -= step
        if abs(step) <= abs(y) * mp.mpf(2) ** -130:
            return y
    raise ArithmeticError(f"Newton's method does not settle for {w}")


def inverse_slope(w):
    """How fast ``erfinv(x)/x`` grows with w, in the mean from 0."""
    return (inverse_erf(w) / mp.sqrt(-mp.expm1(-w)) - mp.sqrt(mp.pi) / 2) / w


def far_quantile(v):
    """How far below v, relatively, ``erfinv`` is at ``w = v^2``."""
    return 1 - inverse_erf(v * v) / v


def scaled_tail(z):
    """``(1 + 2z)*erfcx(z)``: between 1 and 1.3."""
    return (1 + 2 * z) * mp.exp(z * z) * mp.erfc(z)


def stirling(x):
    """What Stirling's formula leaves of log(gamma(x)), times x."""
    return x * (mp.loggamma(x) - ((x - mp.mpf(0.5)) * mp.log(x) - x + mp.log(2 * mp.pi) / 2))


def digamma_quotient(x):
    """``digamma(x)`` over the distance of x from its zero."""
    return mp.digamma(x) / (x - mp.findroot(mp.digamma, 1.46163))
