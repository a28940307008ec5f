"""Minimax polynomials and constants in several parts, with mpmath: what tools/coefficients.py makes its tables of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp

__all__ = ["Fit", "Parts", "Words"]

mp.mp.prec = 320  # enough for functions that cancel next to a zero
GRID = 24  # points of the grid per unknown


def rounded(value, bits: int) -> float:
    """The nearest number with that many bits: 53 for a float64, 24 for a float32, fewer for exact products."""
    with mp.workprec(bits):
        return float(+value)


class Parts(NamedTuple):
    """A constant as a sum of numbers, the greatest first.

    Parameters
    ----------
    value : callable
        ``value()`` as mpmath.
    bits : tuple of int
        How many bits each part has: fewer than the type holds, and products with small integers are exact.
    """

    value: Callable
    bits: tuple[int, ...]

    def make(self) -> tuple[list[float], str]:
        rest, parts = self.value(), []
        for bits in self.bits:
            parts.append(rounded(rest, bits))
            rest -= mp.mpf(parts[-1])
        return parts, f"in {len(parts)} parts"


class Words(NamedTuple):
    """The binary digits of a number below 1 in words of 64, the lowest first; two words before the point are zero."""

    value: Callable
    words: int

    def make(self) -> tuple[list[float], str]:
        with mp.workprec(64 * self.words):
            whole = int(mp.floor(mp.ldexp(self.value(), 64 * (self.words - 2))))
        return [whole >> 64 * k & 0xFFFFFFFFFFFFFFFF for k in range(self.words)], "binary digits"


class Fit(NamedTuple):
    """The polynomial closest to a function on an interval.

    Parameters
    ----------
    function : callable
        With mpmath numbers.
    low, high : float or callable
        The interval; ``callable()`` as mpmath. Where the function or the weight cannot be calculated
        (0/0 at 0), the point is left out.
    powers : sequence of int
        Those of the monomials, in the order of the coefficients.
    fixed : dict
        Coefficients given in advance: {power: value}. Powers that stand only here are not written.
    weight : callable, optional
        What errors are multiplied with; as it stands 1/function, for the least relative error.
    bits : int
        53 or 24: what coefficients are rounded to. The rest is fitted anew after each rounding.
    """

    function: Callable
    low: float | Callable
    high: float | Callable
    powers: tuple[int, ...] | range
    fixed: dict[int, object] = {}  # noqa: RUF012  # never written
    weight: Callable | None = None
    bits: int = 53

    def make(self) -> tuple[list[float], str]:
        points, values, weights = self._grid()
        done = {power: mp.mpf(value) for power, value in self.fixed.items()}
        values = [v - sum(c * x**p for p, c in done.items()) for v, x in zip(values, points)]
        free = [power for power in self.powers if power not in done]
        found, error = [], mp.inf
        while free:
            again, least = remez(points, values, weights, free)
            if least < 2 * error:  # else the exchange went astray: without low powers it can
                found, error = again, least
            power = free.pop(0)
            done[power] = mp.mpf(rounded(found.pop(0), self.bits))
            values = [v - done[power] * x**power for v, x in zip(values, points)]
        error = max(abs(w * v) for w, v in zip(weights, values))
        return [float(done[power]) for power in self.powers], f"error 2^{float(mp.log(error, 2)):.1f}"

    def _grid(self) -> tuple[list, list, list]:
        low, high = (mp.mpf(end() if callable(end) else end) for end in (self.low, self.high))
        count = GRID * (len(self.powers) + 1)
        points, values, weights = [], [], []
        for k in range(count + 1):
            x = (low + high) / 2 - (high - low) / 2 * mp.cospi(mp.mpf(k) / count)
            try:
                value = self.function(x)
                weight = self.weight(x) if self.weight else 1 / value
            except (ZeroDivisionError, ValueError):
                continue
            if mp.isfinite(value) and mp.isfinite(weight):
                points.append(x)
                values.append(value)
                weights.append(weight)
        return points, values, weights


def remez(points: list, values: list, weights: list, powers: list[int]) -> tuple[list, mp.mpf]:
    """Coefficients whose largest weighted error on a grid is least, by exchanging alternating extrema."""
    unknowns = len(powers) + 1
    # Errors alternate in the sign of a polynomial times the lowest power, which is negative below 0 if that is odd.
    weights = [-w if x < 0 and powers[0] % 2 else w for x, w in zip(points, weights)]
    basis = [[w * x**p for p in powers] for x, w in zip(points, weights)]
    target = [w * v for w, v in zip(weights, values)]
    # Between the ends: there monomials or weights may vanish.
    chosen = [round((len(points) - 1) * (k + 0.5) / unknowns) for k in range(unknowns)]
    for _ in range(60):
        rows = [[*basis[i], (-1) ** k] for k, i in enumerate(chosen)]
        *found, level = mp.lu_solve(mp.matrix(rows), mp.matrix([target[i] for i in chosen]))
        errors = [t - mp.fdot(b, found) for t, b in zip(target, basis)]
        largest = max(map(abs, errors))
        if largest <= abs(level) * mp.mpf("1.0001"):
            break
        chosen = extrema(errors, unknowns)
    return found, largest


def extrema(errors: list, count: int) -> list[int]:
    """Where errors of alternating sign are largest: `count` places."""
    places: list[int] = []
    for i, error in enumerate(errors):
        if places and (errors[places[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[places[-1]]):
                places[-1] = i
        else:
            places.append(i)
    while len(places) > count:
        if len(places) == count + 1:
            places.pop(0 if abs(errors[places[0]]) < abs(errors[places[-1]]) else -1)
        else:  # a pair of neighbours, that signs still alternate
            k = min(range(len(places) - 1), key=lambda k: max(abs(errors[places[k]]), abs(errors[places[k + 1]])))
            del places[k : k + 2]
    if len(places) < count:
        raise ArithmeticError(f"the error alternates {len(places)} times, {count} are needed: fewer powers would do")
    return places
