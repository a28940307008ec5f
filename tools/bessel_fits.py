"""What tools/coefficients.py makes for Bessel functions of orders 0 and 1, and for exponential integrals.

J and Y have a polynomial up to 2.5, one to 5, and beyond that two: of P, and of Q times x, in 1/(x² + 12), of Hankel's
expansion ``sqrt(2/(pi*x))*(P*cos(w) - Q*sin(w))`` with ``w = x - (2*v + 1)*pi/4``.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
from minimax import Fit, Parts

__all__ = ["FITS"]

MIDDLE = 3.75  # of the interval from 2.5 to 5


def one(x):
    return mp.mpf(1)


def of_square(f: Callable) -> Callable:
    """`f` as a function of w = x²."""
    return lambda w: f(mp.sqrt(w))


def hankel(v, s):
    """``x, P + i*Q`` at s = 1/(x² + 12)."""
    x = mp.sqrt(1 / s - 12)
    return x, mp.hankel1(v, x) * mp.expj((2 * v + 1) * mp.pi / 4 - x) * mp.sqrt(mp.pi * x / 2)


def hankel_p(v) -> Callable:
    return lambda s: mp.re(hankel(v, s)[1])


def hankel_q(v) -> Callable:
    def times_x(s):
        x, h = hankel(v, s)
        return x * mp.im(h)

    return times_x


def rest_of_y0(x):
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def rest_of_y1(x):
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def rest_of_k0(x):
    return mp.besselk(0, x) + mp.log(x) * mp.besseli(0, x)


def rest_of_k1(x):
    return (mp.besselk(1, x) - mp.log(x) * mp.besseli(1, x) - 1 / x) / x


def scaled_i(v) -> Callable:
    """``exp(-x)*sqrt(x)*I`` in 1/x - 1/16."""

    def function(t):
        x = 1 / (t + mp.mpf(1) / 16)
        return mp.besseli(v, x) * mp.exp(-x) * mp.sqrt(x)

    return function


def scaled_k(v) -> Callable:
    """``exp(x)*sqrt(x)*K`` in 1/(x + 1) - 1/4."""

    def function(t):
        x = 1 / (t + mp.mpf(1) / 4) - 1
        return mp.besselk(v, x) * mp.exp(x) * mp.sqrt(x)

    return function


def scaled_e1(t):
    """``exp(x)*x*E1(x)`` in 2/(x + 2) - 1/3."""
    x = 2 / (t + mp.mpf(1) / 3) - 2
    return mp.e1(x) * mp.exp(x) * x


def zero_of_ei():
    return mp.findroot(mp.ei, 0.3725)


def ei_slope(x):
    """``(Ei(x) - log(x/z))/(x - z)`` with its zero z."""
    z = zero_of_ei()
    return (mp.ei(x) - mp.log(x / z)) / (x - z)


def scaled_ei(middle) -> Callable:
    """``exp(-x)*x*Ei(x)`` in 1/x - `middle`."""

    def function(t):
        x = 1 / (t + mp.mpf(middle))
        return mp.ei(x) * mp.exp(-x) * x

    return function


def inverse_gammas(sign) -> Callable:
    """The even and odd part of ``1/gamma(1 - m)``, the latter over m, in m²."""

    def function(w):
        m = mp.sqrt(w)
        part = (mp.rgamma(1 - m) + sign * mp.rgamma(1 + m)) / 2
        return part if sign > 0 else part / m

    return function


END = mp.mpf(1) / 37
TINY = 1e-7  # next to an infinite x

FITS: dict[str, Fit | Parts] = {
    # x up to 2.5, in w = x²; J1 and the rest of Y1 over x
    "J0_NEAR": Fit(of_square(lambda x: mp.besselj(0, x)), 0, 6.25, range(1, 11), fixed={0: 1.0}, weight=one),
    "J1_NEAR": Fit(of_square(lambda x: mp.besselj(1, x) / x), 0, 6.25, range(1, 10), fixed={0: 0.5}, weight=one),
    "Y0_NEAR": Fit(of_square(rest_of_y0), 1e-6, 6.25, range(11), weight=one),
    "Y1_NEAR": Fit(of_square(rest_of_y1), 1e-6, 6.25, range(12), weight=one),
    # x - 3.75, from 2.5 to 5
    "J0_MID": Fit(lambda t: mp.besselj(0, t + MIDDLE), -1.25, 1.25, range(17), weight=one),
    "J1_MID": Fit(lambda t: mp.besselj(1, t + MIDDLE), -1.25, 1.25, range(17), weight=one),
    "Y0_MID": Fit(lambda t: mp.bessely(0, t + MIDDLE), -1.25, 1.25, range(21), weight=one),
    "Y1_MID": Fit(lambda t: mp.bessely(1, t + MIDDLE), -1.25, 1.25, range(23), weight=one),
    # from 5, in 1/(x² + 12)
    "HANKEL_P0": Fit(hankel_p(0), TINY, END, range(1, 16), fixed={0: 1.0}, weight=one),
    "HANKEL_Q0": Fit(hankel_q(0), TINY, END, range(14), weight=mp.sqrt),
    "HANKEL_P1": Fit(hankel_p(1), TINY, END, range(1, 16), fixed={0: 1.0}, weight=one),
    "HANKEL_Q1": Fit(hankel_q(1), TINY, END, range(14), weight=mp.sqrt),
    # I up to 8, in w = x²; from 8 in 1/x - 1/16
    "I0_NEAR": Fit(of_square(lambda x: mp.besseli(0, x)), 0, 64, range(1, 19), fixed={0: 1.0}),
    "I1_NEAR": Fit(of_square(lambda x: mp.besseli(1, x) / x), 0, 64, range(1, 18), fixed={0: 0.5}),
    "I0_FAR": Fit(scaled_i(0), lambda: -mp.mpf(1) / 16 + TINY, 0.0625, range(25)),
    "I1_FAR": Fit(scaled_i(1), lambda: -mp.mpf(1) / 16 + TINY, 0.0625, range(25)),
    # K up to 1, in w = x², and I for it; from 1 in 1/(x + 1) - 1/4
    "I0_SHORT": Fit(of_square(lambda x: mp.besseli(0, x)), 0, 1, range(1, 8), fixed={0: 1.0}),
    "I1_SHORT": Fit(of_square(lambda x: mp.besseli(1, x) / x), 0, 1, range(1, 8), fixed={0: 0.5}),
    "K0_NEAR": Fit(of_square(rest_of_k0), 1e-8, 1, range(8)),
    "K1_NEAR": Fit(of_square(rest_of_k1), 1e-8, 1, range(9)),
    "K0_FAR": Fit(scaled_k(0), lambda: -mp.mpf(1) / 4 + TINY, 0.25, range(25)),
    "K1_FAR": Fit(scaled_k(1), lambda: -mp.mpf(1) / 4 + TINY, 0.25, range(25)),
    # 1/gamma(1 - m) for |m| up to 1/2
    "GAMMA_EVEN": Fit(inverse_gammas(1), 0, 0.25, range(1, 8), fixed={0: 1.0}),
    "GAMMA_ODD": Fit(inverse_gammas(-1), 1e-9, 0.25, range(8)),
    # E1(x) + log(x) up to 1, in x - 1; from 1 in 2/(x + 2) - 1/3
    "E1_NEAR": Fit(lambda t: mp.e1(1 + t) + mp.log(1 + t), -1, 0, range(15), weight=one),
    "E1_FAR": Fit(scaled_e1, lambda: -mp.mpf(1) / 3 + TINY, lambda: mp.mpf(1) / 3, range(31)),
    # Ei up to 6, by its zero; then in 1/x less its value in the middle, up to 12, 24 and infinity
    "EI_ZERO": Parts(zero_of_ei, (53, 53)),
    "EI_NEAR": Fit(ei_slope, 0, 6, range(23)),
    "EI_6": Fit(scaled_ei(0.125), lambda: mp.mpf(1) / 12 - 0.125, lambda: mp.mpf(1) / 6 - 0.125, range(23)),
    "EI_12": Fit(scaled_ei(0.0625), lambda: mp.mpf(1) / 24 - 0.0625, lambda: mp.mpf(1) / 12 - 0.0625, range(19)),
    "EI_24": Fit(scaled_ei(0.02), lambda: -mp.mpf(0.02) + TINY, lambda: mp.mpf(1) / 24 - mp.mpf(0.02), range(23)),
}
