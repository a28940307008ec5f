"""Random loop nests around sums of products: recognized as products of matrices or not, the results are the same.

A wrong one is described by its seed: ``python -m faults products --count 1 --seed N`` runs that program alone.
"""

import traceback
from random import Random

import numpy as np
from loop_programs import copies, uncompiled
from random_loops import function, indent

import nbgrad as nb
from nbgrad.errors import TraceError
from nbgrad.loops.ir.passes import Pass, without

from . import Outcome
from .loops import gradients

SHORT, LONG = 30, 10_000
HEAD = "def f(a, b, c, d, e, n):"


class Nest:
    """A function of matrices `a`, `b` and `c`, a stack of matrices `d`, a vector `e` and `n`, the length of each axis
    less two."""

    def __init__(self, random):
        self.random = random
        self.axes = dict.fromkeys("ijk", 0)

    def index(self, name):
        """An index along an axis: within the array, for all trips."""
        return self.random.choice(
            [name] * 6 + [f"{name} + 1", f"{name} + 2", f"1 + {name}", f"{name} - 2", f"n - 1 - {name}"]
        )

    def matrix(self, name, p, q):
        p, q = self.random.choice([(p, q)] * 3 + [(q, p)])
        stack = f"{self.random.choice(['t', '0', '1'])}, " if name == "d" else ""
        return f"{name}[{stack}{self.index(p)}, {self.index(q)}]"

    def factor(self):
        r = self.random
        return r.choice(
            [""] * 6
            + ["0.5 * ", "-", "e[i] * ", "e[j] * ", "e[k] * ", "e[0] * ", "w * ", "c[i, j] * ", "(1.0 + e[j]) * "]
        )

    def term(self):
        left, right = self.random.choice(
            [("a", "b")] * 4 + [("a", "a"), ("d", "b"), ("a", "d"), ("c", "b"), ("a", "c")]
        )
        return f"{self.factor()}{self.matrix(left, 'i', 'k')} * {self.matrix(right, 'k', 'j')}"

    def head(self, name):
        bounds = ["n"] * 8 + ["2, n", "b.shape[0] - 2", "n - 1", "0, n, 2", "n - 1, -1, -1"] + ["i + 1"] * (name == "j")
        return f"for {name} in range({self.random.choice(bounds)}):"

    def about(self, target):
        """Statements around a sum, or none."""
        r = self.random
        choice = [f"{target} = 0.0", f"{target} *= 0.5", f"{target} = np.sin({target}) + e[j]", f"{target} = e[i]",
                  f"{target} += c[(i + 1) % n, j]", "w = 0.5 * w + e[i]", f"e[i] = 0.1 * {target}"]  # fmt: skip
        return [r.choice(choice)] if r.random() < 0.3 else []

    def nest(self):
        r = self.random
        target = r.choice(["c[i, j]"] * 4 + ["c[j, i]", "c[i, j + 1]", "d[0, i, j]", "d[t, i, j]", "y[i, j]"])
        i, j, k = (self.head(name) for name in "ijk")
        if r.random() < 0.5:
            order = r.choice([[i, j, k], [i, k, j], [k, i, j], [j, i, k], [j, k, i]])
            lines = [f"{target} {r.choice(['+=', '+=', '-='])} {self.term()}"]
            for depth, head in enumerate(reversed(order)):
                bound = {"ijk"[[i, j, k].index(h)] for h in order[: 3 - depth]}
                around = self.about(target) if {"i", "j"} <= bound and depth else []
                after = self.about(target) if {"i", "j"} <= bound and depth else []
                lines = [head, *indent([*around, *lines, *after])] if depth else [head, *indent(lines)]
            return lines
        start = r.choice(["0.0"] * 4 + ["e[j]", target, "c[0, j]", "w"])
        end = r.choice([f"{target} = s"] * 3 + [f"{target} += s", f"{target} -= s", f"{target} = np.tanh(s) + e[j]",
                       f"{target} = 0.5 * {target} + w * s", "w += s", f"{target} = s + c[i, 0]"])  # fmt: skip
        inner = [k, f"    s {r.choice(['+=', '+=', '-='])} {self.term()}"]
        return [i, *indent([j, *indent([f"s = {start}", *inner, end])])]

    def source(self):
        r = self.random
        lines = ["w = 0.3", "y = np.ones((a.shape[0], a.shape[1]))", "v = np.ones(a.shape[0])", "t = 0"]
        for _ in range(r.randint(1, 2)):
            nest = r.choices([self.nest, self.vector, self.library], [6, 2, 2])[0]()
            if r.random() < 0.3:
                update = r.choice([[], ["a[1, :] = 0.5 * c[0, :]"], ["b *= 0.9"], ["c = np.tanh(c)"], ["e += c[1]"]])
                nest = ["for t in range(2):", *indent([*nest, *update])]
            lines += nest
        if r.random() < 0.3:
            lines.append("c = c * c")
        return (
            "\n".join(
                [
                    HEAD,
                    *indent(
                        [*lines, "return np.sum(c * a) + np.sum(np.sin(d)) + w + np.sum(y * y) + np.sum(v * v * v)"]
                    ),
                ]
            )
            + "\n"
        )

    def vector(self):
        """A sum of a matrix and a vector."""
        r = self.random
        factor = r.choice(["", "", "w * ", "-", "e[j] * "])
        term = f"{factor}{self.matrix(r.choice('abcd'), 'i', 'k')} * e[{self.index('k')}]"
        target = r.choice(["v[i]"] * 3 + ["c[i, 1]", "v[i + 1]", "e[i]"])
        i, k = self.head("i"), self.head("k")
        if r.random() < 0.5:
            start, end = r.choice(["0.0", "e[i]", target]), r.choice(["= s", "+= s", "= np.tanh(s) * w"])
            lines = [i, *indent([f"s = {start}", k, f"    s += {term}", f"{target} {end}"])]
        else:
            heads = [i, k] if r.random() < 0.5 else [k, i]
            lines = [heads[0], *indent([heads[1], *indent([f"{target} += {term}"])])]
        return [line.replace("e[j]", "e[i]").replace("range(i + 1)", "range(n)") for line in lines]

    def library(self):
        """A line with products of NumPy's."""
        one = self.random.choice(["a", "b.T", "d[1]", "a[:, :]", "np.sin(c)", "(a @ b)"])
        other = self.random.choice(["b", "c", "d[0].T", "a", "(0.1 * b @ a)"])
        product = self.random.choice([f"{one} @ {other}", f"np.dot({one}, {other})"])
        return [
            self.random.choice(
                [f"y = {product}", f"y[:] = 0.1 * ({product})", f"c += {product}", f"y = np.tanh({product} + e)"]
            )
        ]


def arguments(random):
    rng = np.random.default_rng(random.randrange(1000))
    n = random.choice([0, 1, 2, 3, 3, 9])
    m = n + 2
    return *(0.5 * rng.normal(size=(m, m)) for _ in range(3)), rng.normal(size=(2, m, m)), rng.normal(size=m), n


def slope(f, args):
    """The directional derivatives of all results, along the arguments."""
    found = nb.tangent(f).jvp(args, (*copies(args)[:5], None))[1]
    return np.concatenate([np.ravel(t) for t in (found if isinstance(found, tuple) else (found,))])


def attempt(seed):
    """What came of a program; an assertion fails if anything is wrong."""
    random = Random(seed)
    f = function(Nest(random).source())
    args = arguments(random)
    try:
        adj = nb.adjoint(f)
        some = gradients(adj, f, args)
    except (TraceError, UnboundLocalError):
        return "refused"
    except IndexError:
        return "out of range"
    if not all(np.isfinite(t).all() for t in some):
        return "not finite"
    with without(Pass.MATRIX_PRODUCTS):
        every = gradients(nb.adjoint(f), f, args)
        tangent = slope(f, args)
    np.testing.assert_allclose(some[0], f(*copies(args)), rtol=1e-10, err_msg="value")
    for a, b in zip([*some, slope(f, args)], [*every, tangent], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * max(1.0, np.max(np.abs(b), initial=0.0)))
    return "recognized" if "add_product(" in adj.source else "loops"


def run(count, seed):
    outcome = Outcome()
    with uncompiled(), np.errstate(all="ignore"):
        for k in range(seed, seed + count):
            try:
                outcome.counts[attempt(k)] += 1
            except Exception:
                outcome.wrong.append(f"seed {k}: {traceback.format_exc(limit=-3)}"[:1500])
    return outcome
