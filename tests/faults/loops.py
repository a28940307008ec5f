"""Random programs with loops: adjoint, tangent and differences agree, and other names change nothing.

A wrong one is described by its seed: ``python -m faults loops --count 1 --seed N`` runs that program alone.
"""

import traceback
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hygiene import renamed
from loop_programs import agrees, copies, uncompiled
from random_arrays import NAMES, ArrayProgram
from random_loops import Program, Recursive, Trying, arguments, function, indent

import nbgrad as nb
from nbgrad.errors import TraceError
from nbgrad.loops.transforms import scatter_to_gather

from . import Outcome

SHORT, LONG = 30, 20_000


class Large(Program):
    """A long program: chains of up to 40 branches, nests of up to 6 loops and branches, up to 60 statements."""

    def source(self):
        r = self.random
        lines = ["w = np.zeros(x.size)", "s = 0.5", "p = a", "v = 0.5 * u", "places = np.array([0, 2, 1, 3])"]
        self.numbers += ["s", "p"]
        kind = r.random()
        if kind < 0.4:
            lines += self.chain(r.randint(5, 40))
        elif kind < 0.7:
            lines += self.deep(r.randint(3, 6))
        else:
            for _ in range(r.randint(20, 60)):
                lines += self.simple()
        lines += self.block(1, 3)
        return "def f(x, u, a, n):\n" + "".join(f"    {line}\n" for line in [*lines, "return s, p"])

    def chain(self, count):
        """A chain, in a loop or not."""
        looped = self.random.random() < 0.7
        self.loops += [("i", 0, 4)] * looped
        lines = []
        for k in range(count):
            lines += [f"{'el' * (k > 0)}if {self.atom()} > {self.random.choice([0.4, 0.9, 1.7])}:"]
            lines += indent(self.simple() if self.random.random() < 0.8 else ["places[1] = (places[1] + 1) % 4"])
        lines += ["else:", *indent(self.simple())] if self.random.random() < 0.5 else []
        self.loops = self.loops[: len(self.loops) - looped]
        return [f"for i in {self.head()}(4):", *indent(lines)] if looped else lines

    def deep(self, depth):
        """A nest."""
        name = "ijklmo"[depth - 1]
        if self.random.random() < 0.4:
            return [f"if {self.test()}:", *indent(self.inner(depth))]
        self.loops.append((name, 0, 2))
        lines = self.inner(depth)
        self.loops.pop()
        return [
            f"for {name} in {self.random.choice(['range(2)', 'range(n - 1)', 'range(1, -1, -1)'])}:",
            *indent(lines),
        ]

    def inner(self, depth):
        first = self.simple() if self.random.random() < 0.5 else []
        last = self.simple() if self.random.random() < 0.3 else []
        return [*first, *(self.deep(depth - 1) if depth > 1 else self.simple()), *last]


def gradients(adj, f, args):
    """The results, and their gradients with weights of one."""
    made = adj._generated(copies(args))
    results = f(*copies(args))
    results = results if isinstance(results, tuple) else (results,)
    weights = {n: np.ones_like(y) if np.ndim(y) else 1.0 for n, y in zip(made.f.results, results, strict=True)}
    values, found = made(copies(args), weights, results)
    return [np.ravel(y) for y in (*values, *found)]


def agreeing(f, args, gradients):
    """Agreement with differences of some step: long ones miss how a slope changes, short ones are rounded. Where a sine
    has a number of 1e11 in it (seed 11104), only steps that are as much shorter see its slope, of a few digits."""
    for h in (1e-6, 1e-7, 1e-8):
        with suppress(AssertionError):
            return agrees(f, args, h=h, rtol=1e-5)
    steepest = max(np.max(np.abs(g), initial=0.0) for g in gradients)
    assert steepest > 1e6, f"differences do not agree with gradients of {steepest:.0f} at most"
    return agrees(f, args, h=1e-1 / steepest, rtol=1e-2)


def attempt(seed):
    """What came of a program; an assertion fails if anything is wrong."""
    random = Random(seed)
    kind = random.choices([Program, ArrayProgram, Large, Trying, Recursive], [5, 3, 2, 3, 1])[0]
    source = kind(random).source()
    outside = NAMES if kind is ArrayProgram else {}
    args = arguments(seed % 101)
    f = function(source, outside)
    text, given, name = renamed(random, source, outside)
    other = function(text, given, name=name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter_to_gather, "_MIN_TRIP_COUNT", seed % 2 * scatter_to_gather._MIN_TRIP_COUNT)
        try:
            plain = gradients(nb.adjoint(f), f, args)
        except TraceError:
            with pytest.raises(TraceError):
                nb.adjoint(other)._generated(copies(args))
            return "refused"
        adj = agreeing(other, args, plain)
        for a, b in zip(plain, gradients(adj, other, args), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * max(1.0, np.max(np.abs(a), initial=0.0)))
    return "right"


def run(count, seed):
    outcome = Outcome()
    with uncompiled():
        for k in range(seed, seed + count):
            try:
                outcome.counts[attempt(k)] += 1
            except Exception:
                outcome.wrong.append(f"seed {k}: {traceback.format_exc(limit=-3)}"[:1500])
    return outcome
