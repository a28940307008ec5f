"""Arrays that share memory are differentiated as such: alias analysis tells apart only those that never do."""

import random
import sys

import numba
import numpy as np
import pytest
from programs import PROGRAMS

import nbgrad as nb
from nbgrad.backends.numba import alias_analysis
from nbgrad.backends.numba.compile import module

HEAD = "from numba import njit\nimport numpy as np\n\n@njit\ndef same(x):\n    return x\n\n@njit\n"


def arrays(size):
    return [np.arange(size) + 3.0 * k for k in range(3)]


def mixed(draw: random.Random) -> str:
    """A function in which three names are bound to three arrays, or fewer, and are rebound in loops and branches."""

    def exchange(depth):
        a, b, c = draw.sample("abc", 3)
        kinds = ["{a}, {b} = {b}, {a}", "{a}, {b}, {c} = {b}, {c}, {a}", "{a} = {b}.copy()", "{a}, {b} = {b}, {a}"]
        kinds += ["{a} = {b}", "{a} = same({b})", "{a} = {b}[:]"] if draw.random() < 0.5 else []
        line = draw.choice(kinds).format(a=a, b=b, c=c)
        if depth < 2 and draw.random() < 0.3:
            return [f"if t % 2 == {draw.randrange(2)}:", f"    {line}", *exchange(depth + 1)]
        return [line]

    def work():
        a, b, c = (draw.choice("abc") for _ in range(3))
        k, m = draw.choice(["i - 1", "i + 1", "i"]), draw.choice(["i - 1", "i + 1", "i"])
        return ["for i in range(1, n - 1):", f"    {a}[{k}] += {b}[{m}]", f"    {c}[i] = {b}[{k}] - {a}[i]"]

    body = [line for _ in range(draw.randrange(1, 3)) for line in [*work(), *exchange(0)]]
    lines = [
        "t = 0",
        *(exchange(0) if draw.random() < 0.5 else []),
        "for t in range(5):",
        *(f"    {s}" for s in body),
        *work(),
    ]
    return "def mixed(a, b, c, n):\n" + "".join(f"    {s}\n" for s in [*lines, "return a, b, c"])


@pytest.mark.parametrize("seed", range(12))
def test_what_shares_memory_is_not_told_apart(seed):
    text = HEAD + mixed(random.Random(seed))
    compiled, given = module("mixed", text), arrays(40)
    names: dict = {}
    exec(text.replace("@njit", ""), names)
    for found, expected in zip(compiled(*given, 40), names["mixed"](*arrays(40), 40), strict=True):
        assert np.array_equal(found, expected), text


@pytest.mark.parametrize("name", ["wave", "shallow_water", "burgers"])
def test_nothing_is_compared_when_it_runs(name, monkeypatch):
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", None)  # its own comparisons would be counted
    f, args = PROGRAMS[name]
    made = nb.adjoint(f)._generated(args)
    values = made.cotangent_arguments(args, {}, (0.0,) if made.f.results else ())
    kinds = tuple(map(numba.typeof, (*args, *values.values())))

    def comparisons():
        entry = module(f"{name}_adjoint", made.text)
        entry._cache = numba.core.caching.NullCache()
        entry.compile(kinds)
        return entry.inspect_llvm(kinds).count("conflict")

    assert comparisons() == 0
    monkeypatch.setattr(alias_analysis.AliasRoots, "no_alias", lambda *_: False)
    assert comparisons() > 0


@pytest.mark.skipif(sys.platform != "linux", reason="the system's memory")
def test_tapes_are_made_of_the_same_pages():
    import resource

    def decay(u, steps):
        for _ in range(steps):
            for i in range(1, u.size):
                u[i] *= u[i - 1]
        return u[0]

    adj, u = nb.adjoint(decay), np.full(1000, 0.5)
    adj.value_and_grad(u.copy(), 200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        adj.value_and_grad(u.copy(), 200)  # 400 pages each
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20 * 200
