"""Makes the tables of nbgrad/vmath: minimax polynomials, and constants in several parts.

``python tools/coefficients.py`` computes every entry of :data:`FITS`, and of those for Bessel functions and exponential
integrals, anew with mpmath and writes the files, which takes minutes; ``python tools/coefficients.py EXP LOG`` does so
with these entries and keeps the others.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import bessel_fits
import exact
import mpmath as mp
from minimax import Fit, Parts, Words

__all__ = ["FITS"]

FOLDER = Path(__file__).resolve().parent.parent / "nbgrad" / "vmath"


def half_ln2():
    return mp.log(2) * mp.mpf("0.5001")


def atanh_end():
    """The largest s = (m - 1)/(m + 1) for m between sqrt(1/2) and sqrt(2)."""
    return (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)


def log_by_atanh(s):
    return 2 * mp.atanh(s)


def log2_by_atanh(s):
    return 2 * mp.atanh(s) / mp.log(2)


def eighth_turn():
    """And a little more: what is left of large angles."""
    return mp.pi * mp.mpf("0.2556")


def sinc(r):
    return mp.sinc(mp.pi * r)


def inverse_root(e):
    return (1 - e) ** (mp.mpf(-1) / 3)


#: One entry each; a comment says what it is for. Single precision ends in ``_F``.
FITS: dict[str, Fit | Parts | Words] = {
    "LN2": Parts(lambda: mp.log(2), (42, 53)),
    "LN2_F": Parts(lambda: mp.log(2), (15, 24)),
    # exp(r) = 1 + r + r²*(...)
    "EXP": Fit(mp.exp, lambda: -half_ln2(), half_ln2, range(2, 13), fixed={0: 1.0, 1: 1.0}),
    "EXP_F": Fit(mp.exp, lambda: -half_ln2(), half_ln2, range(2, 7), fixed={0: 1.0, 1: 1.0}, bits=24),
    # 2^r = 1 + r*(...), for |r| a little more than 1/2
    "EXP2": Fit(lambda r: mp.mpf(2) ** r, -0.504, 0.504, range(1, 13), fixed={0: 1.0}),
    "EXP2_F": Fit(lambda r: mp.mpf(2) ** r, -0.504, 0.504, range(1, 7), fixed={0: 1.0}, bits=24),
    # the same for |r| a little more than that
    "EXP2_WIDE": Fit(lambda r: mp.mpf(2) ** r, -0.53, 0.53, range(1, 12), fixed={0: 1.0}),
    # expm1(r) = r + r²/2 + r³*(...)
    "EXPM1": Fit(mp.expm1, lambda: -half_ln2(), half_ln2, range(3, 13), fixed={1: 1.0, 2: 0.5}),
    "EXPM1_F": Fit(mp.expm1, lambda: -half_ln2(), half_ln2, range(3, 7), fixed={1: 1.0, 2: 0.5}, bits=24),
    # log(m) = 2*s + s³*(...) with s = (m - 1)/(m + 1), in powers of s²
    "LOG": Fit(log_by_atanh, 0, atanh_end, range(3, 17, 2), fixed={1: 2.0}),
    "LOG_F": Fit(log_by_atanh, 0, atanh_end, range(3, 9, 2), fixed={1: 2.0}, bits=24),
    # the same for m between 1 and 2
    "LOG_WIDE": Fit(log_by_atanh, 0, lambda: mp.mpf(1) / 3, range(3, 25, 2), fixed={1: 2.0}),
    "LOG_WIDE_F": Fit(log_by_atanh, 0, lambda: mp.mpf(1) / 3, range(3, 13, 2), fixed={1: 2.0}, bits=24),
    # log(x)/log(b) = f/log(b) + n*log(2)/log(b) - ...
    "LOG2_E": Parts(lambda: 1 / mp.log(2), (53, 53)),
    "LOG2_E_F": Parts(lambda: 1 / mp.log(2), (24, 24)),
    "LOG10_E": Parts(lambda: 1 / mp.log(10), (53, 53)),
    "LOG10_E_F": Parts(lambda: 1 / mp.log(10), (24, 24)),
    "LOG10_2": Parts(lambda: mp.log10(2), (42, 53)),
    "LOG10_2_F": Parts(lambda: mp.log10(2), (15, 24)),
    # the same as LOG to more than double precision: s³*(2/3 + s²*(...)), 2/3 in two parts
    "TWO_THIRDS": Parts(lambda: mp.mpf(2) / 3, (53, 53)),
    "LOG_LONG": Fit(log_by_atanh, 0, atanh_end, range(5, 19, 2), fixed={1: 2.0, 3: mp.mpf(2) / 3}),
    # log2(m) = a*s + a/3*s³ + s⁵*(...), a = 2/log(2), both in two parts
    "TWO_LOG2_E": Parts(lambda: 2 / mp.log(2), (53, 53)),
    "TWO_LOG2_E_F": Parts(lambda: 2 / mp.log(2), (24, 24)),
    "TWO_THIRDS_LOG2_E": Parts(lambda: 2 / mp.log(8), (53, 53)),
    "TWO_THIRDS_LOG2_E_F": Parts(lambda: 2 / mp.log(8), (24, 24)),
    "LOG2_POWER": Fit(log2_by_atanh, 0, atanh_end, range(5, 19, 2), fixed={1: 2 / mp.log(2), 3: 2 / mp.log(8)}),
    "LOG2_POWER_F": Fit(
        log2_by_atanh, 0, atanh_end, range(5, 11, 2), fixed={1: 2 / mp.log(2), 3: 2 / mp.log(8)}, bits=24
    ),
    # exp(2r) - 1 = r*(...)
    "EXP_TWICE": Fit(lambda r: mp.expm1(2 * r), lambda: -half_ln2() / 2, lambda: half_ln2() / 2, range(1, 13)),
    "EXP_TWICE_F": Fit(
        lambda r: mp.expm1(2 * r), lambda: -half_ln2() / 2, lambda: half_ln2() / 2, range(1, 7), bits=24
    ),
    # tanh(x) = x + x³*(...), for |x| < 0.6, in float32 0.55
    "TANH": Fit(mp.tanh, 0, 0.6, range(3, 27, 2), fixed={1: 1.0}),
    "TANH_F": Fit(mp.tanh, 0, 0.55, range(3, 11, 2), fixed={1: 1.0}, bits=24),
    # sinh(x) = x + x³*(...), for |x| < 1
    "SINH": Fit(mp.sinh, 0, 1, range(3, 19, 2), fixed={1: 1.0}),
    "SINH_F": Fit(mp.sinh, 0, 1, range(3, 11, 2), fixed={1: 1.0}, bits=24),
    # pi/2 in parts, to reduce angles
    "HALF_PI": Parts(lambda: mp.pi / 2, (53, 53, 53)),
    "TWO_OVER_PI": Words(lambda: 2 / mp.pi, 21),
    "HALF_PI_F": Parts(lambda: mp.pi / 2, (24, 24, 24)),
    # sin(r) = r + r³*(...), cos(r) = 1 + r²*(...), tan(r) = r + r³*(...), in powers of r²
    "SIN": Fit(mp.sin, 0, eighth_turn, range(3, 15, 2), fixed={1: 1.0}),
    "SIN_F": Fit(mp.sin, 0, eighth_turn, range(3, 9, 2), fixed={1: 1.0}, bits=24),
    "COS": Fit(mp.cos, 0, eighth_turn, range(2, 16, 2), fixed={0: 1.0}),
    "COS_F": Fit(mp.cos, 0, eighth_turn, range(2, 10, 2), fixed={0: 1.0}, bits=24),
    "TAN": Fit(mp.tan, 0, eighth_turn, range(3, 33, 2), fixed={1: 1.0}),
    "TAN_F": Fit(mp.tan, 0, eighth_turn, range(3, 17, 2), fixed={1: 1.0}, bits=24),
    "SQRT_2": Parts(lambda: mp.sqrt(2), (53, 53)),
    "SQRT_8": Parts(lambda: mp.sqrt(8), (53, 53)),
    "SQRT_2_F": Parts(lambda: mp.sqrt(2), (24, 24)),
    "SQRT_2_OVER_PI": Parts(lambda: mp.sqrt(2 / mp.pi), (53, 53)),
    # arcsin(s) and arctan(s) = s + s³*(...), in powers of s²
    "ASIN": Fit(mp.asin, 0, 0.5, range(3, 27, 2), fixed={1: 1.0}),
    "ASIN_F": Fit(mp.asin, 0, 0.5, range(3, 13, 2), fixed={1: 1.0}, bits=24),
    "ATAN": Fit(mp.atan, 0, 1, range(3, 43, 2), fixed={1: 1.0}),
    "ATAN_F": Fit(mp.atan, 0, 1, range(3, 19, 2), fixed={1: 1.0}, bits=24),
    # sin(pi*r)/(pi*r) = 1 + r²*(...), in powers of r²
    "SINC": Fit(sinc, 0, 0.5, range(2, 20, 2), fixed={0: 1.0}),
    # The error function: erf(x)/x - 1 in x² up to 0.6²; ((1 + 2z)*erfcx(z) - 1)/s in s = 2z/(z + 3.75), less 1.
    "ERF_MID": Fit(lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1, 0, 0.36, range(10), weight=lambda u: mp.mpf(1)),
    "ERF_TAIL": Fit(
        lambda t: (exact.scaled_tail(3.75 * (1 + t) / (1 - t)) - 1) / (1 + t), -1, 1, range(24), weight=lambda t: 1 + t
    ),
    # log(erfc(a)) up to 4, where erfc is to be subtracted from 1
    "ERF_MID_F": Fit(
        lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1, 0, 0.45, range(6), weight=lambda u: mp.mpf(1), bits=24
    ),
    "ERF_LOG_F": Fit(lambda a: mp.log(mp.erfc(a)), 0.6, 4, range(8), weight=mp.erfc, bits=24),
    "ERF_TAIL_F": Fit(
        lambda t: (exact.scaled_tail(3.75 * (1 + t) / (1 - t)) - 1) / (1 + t),
        -0.79,
        0.48,
        range(11),
        weight=lambda t: 1 + t,
        bits=24,
    ),
    # Its inverse, with w = -log(1 - x²): (erfinv(x)/x - sqrt(pi)/2)/w in w - 4, w up to 8; 1 - erfinv(x)/v with
    # v = sqrt(w) in v - 4.5, v up to 6.1, and in 16/v - 1.6 beyond. In float32 w - 2.5, w up to 5, and v - 3.
    "ERFINV_SLOPE": Parts(lambda: mp.sqrt(mp.pi) / 2, (53, 53)),
    "ERFINV_SLOPE_F": Parts(lambda: mp.sqrt(mp.pi) / 2, (24, 24)),
    "ERFINV_MID": Fit(lambda t: exact.inverse_slope(4 + t), -4, 4, range(26), weight=lambda t: 4 + t),
    "ERFINV_TAIL": Fit(lambda t: exact.far_quantile(t + 4.5), -1.68, 1.6, range(24), weight=lambda t: mp.mpf(1)),
    "ERFINV_FAR": Fit(
        lambda t: exact.far_quantile(16 / (t + mp.mpf(1.6))), -1.016, 1.03, range(25), weight=lambda t: mp.mpf(1)
    ),
    "ERFINV_MID_F": Fit(
        lambda t: exact.inverse_slope(2.5 + t), -2.5, 2.5, range(11), weight=lambda t: 2.5 + t, bits=24
    ),
    "ERFINV_TAIL_F": Fit(
        lambda t: exact.far_quantile(t + 3), -0.77, 1.1, range(9), weight=lambda t: mp.mpf(1), bits=24
    ),
    # The first two for float32 results calculated in float64, v up to 4.65 in v - 3.7.
    "ERFINV_MID_SHORT": Fit(lambda t: exact.inverse_slope(4 + t), -4, 4, range(14), weight=lambda t: 4 + t),
    "ERFINV_TAIL_SHORT": Fit(lambda t: exact.far_quantile(t + 3.7), -0.88, 0.95, range(10), weight=lambda t: mp.mpf(1)),
    # Gamma: log(gamma(2 + f))/f; the rest of Stirling's formula times x, in 1/x², from 7.5; sin(pi*r) in r².
    "LOG_GAMMA": Fit(lambda f: mp.loggamma(2 + f) / f, -0.5, 0.5, range(20)),
    "SINE_REST": Fit(
        lambda z: (mp.sinpi(mp.sqrt(z)) / (mp.pi * mp.sqrt(z)) - 1) / z, 0, 0.25, range(9), weight=lambda z: z
    ),
    "LOG_GAMMA_SHORT": Fit(lambda f: mp.loggamma(2 + f) / f, -0.5, 0.5, range(11)),
    "STIRLING_SHORT": Fit(lambda z: exact.stirling(1 / mp.sqrt(z)), 1e-6, 1 / 56.25, range(3)),
    "STIRLING_START": Parts(lambda: (mp.log(2 * mp.pi) - 1) / 2, (53, 53)),
    "STIRLING": Fit(lambda z: exact.stirling(1 / mp.sqrt(z)), 1e-6, 1 / 56.25, range(8)),
    # Digamma: psi(1.5 + t)/(1.5 + t - its zero); x*(log(x) - psi(x)) in 1/x, from 2.
    "DIGAMMA_ZERO": Parts(lambda: mp.findroot(mp.digamma, 1.46163), (53, 53)),
    "DIGAMMA_MID": Fit(lambda t: exact.digamma_quotient(1.5 + t), -0.5, 0.5, range(24)),
    "DIGAMMA_TAIL": Fit(lambda u: (mp.log(1 / u) - mp.digamma(1 / u)) / u, 1e-6, 0.5, range(17)),
    # x²*(its slope) - x, in 1/x, from 2
    "TRIGAMMA": Fit(lambda u: (mp.polygamma(1, 1 / u) / u - 1) / u, 1e-6, 0.5, range(17), weight=lambda u: u),
    # (1 - e)^(-1/3) = 1 + e*(...): from an inverse cube root with 3 digits to one with 23, in single precision 13 bits
    "CBRT": Fit(inverse_root, -0.1021, 0.1021, range(1, 5), fixed={0: 1.0}, weight=lambda e: mp.mpf(1)),
    "CBRT_F": Fit(inverse_root, -0.1021, 0.1021, range(1, 3), fixed={0: 1.0}, weight=lambda e: mp.mpf(1), bits=24),
    # arcsinh(s) and arctanh(s) = s + s³*(...), in powers of s²
    "ASINH": Fit(mp.asinh, 0, 0.5625, range(3, 31, 2), fixed={1: 1.0}),
    "ASINH_F": Fit(mp.asinh, 0, 0.5625, range(3, 15, 2), fixed={1: 1.0}, bits=24),
    "ATANH": Fit(mp.atanh, 0, 0.5, range(3, 31, 2), fixed={1: 1.0}),
    "ATANH_F": Fit(mp.atanh, 0, 0.5, range(3, 15, 2), fixed={1: 1.0}, bits=24),
}


#: The entries of each file.
FILES = {"coefficients.py": FITS, "bessel_coefficients.py": bessel_fits.FITS}

HEAD = '''"""Coefficients for :mod:`nbgrad.vmath`, lowest power first: written by tools/coefficients.py, not by hand."""

# fmt: off
'''


def entry(name: str, fit: Fit | Parts | Words) -> str:
    numbers, remark = fit.make()
    print(f"{name}: {len(numbers)} numbers, {remark}", flush=True)
    lines = textwrap.wrap(", ".join(map(repr, numbers)) + ",", 116, break_on_hyphens=False)
    return f"{remark}\n{name} = (\n" + textwrap.indent("\n".join(lines), "    ") + "\n)\n"


def write(path: Path, fits: dict[str, Fit | Parts | Words], names: list[str]) -> None:
    made = {name: entry(name, fits[name]) for name in names or fits if name in fits}
    if names and path.exists():  # the others as they are
        there = path.read_text(encoding="utf-8").split("\n#: ")[1:]
        kept = {text.split("\n")[1].split(" ")[0]: text.rstrip() + "\n" for text in there}
        missing = {name: entry(name, fits[name]) for name in fits if name not in kept and name not in made}
        made = kept | missing | made
    order = [name for name in fits if name in made] + [name for name in made if name not in fits]
    path.write_text(HEAD + "".join(f"#: {made[name]}" for name in order), encoding="utf-8")


def main(names: list[str]) -> None:
    for file, fits in FILES.items():
        write(FOLDER / file, fits, names)


if __name__ == "__main__":
    main(sys.argv[1:])
