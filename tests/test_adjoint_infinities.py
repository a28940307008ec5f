"""Infinities that a program masks with: what vanishes there is a strong zero, within statements too."""

import math

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import TraceError
from nbgrad.ir.expr import strong, var, vjp


def soft_dtw(x, y, gamma):
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), np.inf)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - y[j - 1]) ** 2
            r0 = R[i - 1, j - 1]
            r1 = R[i - 1, j]
            r2 = R[i, j - 1]
            rmin = min(r0, min(r1, r2))
            rsum = math.exp(-(r0 - rmin) / gamma) + math.exp(-(r1 - rmin) / gamma) + math.exp(-(r2 - rmin) / gamma)
            R[i, j] = d + rmin - gamma * math.log(rsum)
    return R[n, m]


def soft_dtw_split(x, y, gamma):
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), float("inf"))
    R[0, 0] = 0.0
    inv = 1.0 / gamma
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - y[j - 1]) ** 2
            r0 = -R[i - 1, j - 1] * inv
            r1 = -R[i - 1, j] * inv
            r2 = -R[i, j - 1] * inv
            rmax = max(r0, r1, r2)
            rsum = np.exp(r0 - rmax) + np.exp(r1 - rmax) + np.exp(r2 - rmax)
            R[i, j] = d - gamma * (np.log(rsum) + rmax)
    return R[n, m]


def soft_dtw_sentinel(x, y, gamma):
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), 1e308)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - y[j - 1]) ** 2
            r0, r1, r2 = R[i - 1, j - 1], R[i - 1, j], R[i, j - 1]
            rmin = min(r0, r1, r2)
            rsum = math.exp((rmin - r0) / gamma) + math.exp((rmin - r1) / gamma) + math.exp((rmin - r2) / gamma)
            R[i, j] = d + rmin - gamma * math.log(rsum)
    return R[n, m]


def masked_lse(x, mask, t):
    s = np.empty(len(x))
    for i in range(len(x)):
        s[i] = x[i] / t if mask[i] > 0 else -np.inf
    m = np.max(s)
    total = 0.0
    for i in range(len(x)):
        total += math.exp(s[i] - m)
    return m + math.log(total)


def masked_lse_t(x, mask, t):
    s = np.where(mask > 0, x, -np.inf)
    m = np.max(s)
    return m / t + np.log(np.sum(np.exp((s - m) / t)))


def hmm(pi, A, B, obs, beta):
    n = len(pi)
    la = np.log(A) * beta
    a, b = np.empty(n), np.empty(n)
    for i in range(n):
        a[i] = np.log(pi[i]) + math.log(B[i, obs[0]])
    for t in range(1, len(obs)):
        for j in range(n):
            m = -np.inf
            for i in range(n):
                m = max(m, a[i] + la[i, j])
            s = 0.0
            for i in range(n):
                s += math.exp(a[i] + la[i, j] - m)
            b[j] = m + math.log(s) + math.log(B[j, obs[t]])
        for j in range(n):
            a[j] = b[j]
    m = np.max(a)
    return m + np.log(np.sum(np.exp(a - m)))


def viterbi(lp, lA, lB, obs, t):
    n = len(lp)
    a, b = np.full(n, -np.inf), np.empty(n)
    for i in range(n):
        a[i] = lp[i] + lB[i, obs[0]]
    for k in range(1, len(obs)):
        for j in range(n):
            m = -np.inf
            for i in range(n):
                v = a[i] + lA[i, j] / t
                if v > m:
                    m = v
            b[j] = m + lB[j, obs[k]]
        for j in range(n):
            a[j] = b[j]
    return np.max(a)


def attention(q, k, v, mask, scale):
    n, d = q.shape
    total = 0.0
    for i in range(n):
        m = -np.inf
        s = np.empty(n)
        for j in range(n):
            dot = 0.0
            for c in range(d):
                dot += q[i, c] * k[j, c]
            s[j] = dot / scale + mask[i, j]
            m = max(m, s[j])
        z, o = 0.0, 0.0
        for j in range(n):
            e = math.exp(s[j] - m)
            z += e
            o += e * v[j]
        total += (o / z) ** 2
    return total


def causal(q, k, v, scale):
    n = len(q)
    s = np.full((n, n), -np.inf)
    for i in range(n):
        for j in range(i + 1):
            s[i, j] = np.sum(q[i] * k[j])
    total = 0.0
    for i in range(n):
        m = np.max(s[i])
        e = np.exp((s[i] - m) * scale)
        total += (np.sum(e * v) / np.sum(e)) ** 2
    return total


def gauss(d, w, s):
    t = 0.0
    for i in range(len(d)):
        t += w[i] * math.exp(-d[i] / s)
    return t


def rational(d, w, s):
    big = np.where(d > 2.0, np.inf, d)
    t = 0.0
    for i in range(len(d)):
        t += w[i] / (1.0 + big[i] / s)
    return t


def power(d, w, s):
    big = np.where(d > 2.0, np.inf, d)
    t = 0.0
    for i in range(len(d)):
        t += w[i] * (1.0 + big[i] / s) ** -1.5
    return t


def saturated(d, w, s):
    t = 0.0
    for i in range(len(d)):
        t += w[i] * math.tanh(d[i] / s) + w[i] / (1 + math.exp(-d[i] / s))
    return t


R = np.random.default_rng(0)
X, Y, W = R.normal(size=5), R.normal(size=6), R.normal(size=5)
KEPT = np.array([1, 0, 1, 0, 1])
A = R.uniform(size=(3, 3))
A[0, 2] = A[2, 0] = 0.0
A /= A.sum(1, keepdims=True)
B, PI, SEEN = R.uniform(0.1, 1, size=(3, 4)), np.array([0.4, 0.6, 0.0]), np.array([0, 1, 3, 2, 2])
Q, K, V = R.normal(size=(4, 3)), R.normal(size=(4, 3)), R.normal(size=4)
CAUSAL = np.where(np.tri(4) > 0, 0.0, -np.inf)
FAR, NEAR = np.array([0.3, np.inf, 1.2, np.inf, 2.5]), np.array([0.3, 4.0, 1.2, 5.0, 0.7])
with np.errstate(divide="ignore"):
    LOG_PI, LOG_A, LOG_B = np.log(PI), np.log(A), np.log(B)
CASES = {
    "soft_dtw": (soft_dtw, (X, Y, 0.7)),
    "soft_dtw_split": (soft_dtw_split, (X, Y, 0.7)),
    "soft_dtw_sentinel": (soft_dtw_sentinel, (X, Y, 0.7)),
    "masked_lse": (masked_lse, (X, KEPT, 0.8)),
    "masked_lse_t": (masked_lse_t, (X, KEPT, 0.8)),
    "hmm": (hmm, (PI, A, B, SEEN, 0.9)),
    "viterbi": (viterbi, (LOG_PI, LOG_A, LOG_B, SEEN, 0.9)),
    "attention": (attention, (Q, K, V, CAUSAL, 1.3)),
    "causal": (causal, (Q, K, V, 0.6)),
    "gauss": (gauss, (FAR, W, 0.7)),
    "rational": (rational, (NEAR, W, 0.7)),
    "power": (power, (NEAR, W, 0.7)),
    "saturated": (saturated, (FAR, W, 0.7)),
}


def own(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def movable(a):
    """Where differences can be taken: an infinity stays one, and a zero probability has no logarithm below it."""
    return np.isfinite(a) & (np.asarray(a) != 0)


def moved(args, directions, step):
    return [a if d is None else a + step * d for a, d in zip(args, directions, strict=True)]


def directions_of(gradients, args):
    r = np.random.default_rng(1)
    made = []
    for g, a in zip(gradients, args, strict=True):
        d = None if g is None else np.where(movable(a), r.normal(size=np.shape(a)), 0.0)
        made.append(float(d) if d is not None and d.ndim == 0 else d)
    return tuple(made)


def dot(left, right):
    return sum(float(np.sum(np.asarray(a) * b)) for a, b in zip(left, right, strict=True) if a is not None)


@pytest.mark.parametrize("name", CASES)
@np.errstate(all="ignore")
def test_gradients_of_programs_with_infinities(name):
    f, args = CASES[name]
    value, gradients = nb.adjoint(f).value_and_grad(*own(args))
    assert value == pytest.approx(f(*own(args)), rel=1e-12)
    for k, (g, a) in enumerate(zip(gradients, args, strict=True)):
        if g is None:
            continue
        assert np.all(np.isfinite(g))
        for at in zip(*np.nonzero(np.atleast_1d(movable(a))), strict=True):
            unit = np.zeros(np.shape(a))
            unit[at if unit.ndim else ()] = 1.0
            there, back = ((*args[:k], float(a + s * unit) if unit.ndim == 0 else a + s * unit, *args[k + 1 :])
                           for s in (1e-6, -1e-6))  # fmt: skip
            wanted = (f(*own(there)) - f(*own(back))) / 2e-6
            assert np.asarray(g)[at if unit.ndim else ()] == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    directions = directions_of(gradients, args)
    derivative = nb.tangent(f).jvp(tuple(own(args)), directions)[1]
    assert derivative == pytest.approx(dot(gradients, [0 if d is None else d for d in directions]), rel=1e-9)


@pytest.mark.parametrize("name", CASES)
@np.errstate(all="ignore")
def test_second_derivatives_of_programs_with_infinities(name):
    f, args = CASES[name]
    adj = nb.adjoint(f)
    gradients = adj.value_and_grad(*own(args))[1]
    directions = directions_of(gradients, args)
    products = adj.hvp(tuple(own(args)), directions)
    there, back = (adj.value_and_grad(*moved(args, directions, s))[1] for s in (1e-6, -1e-6))
    for product, p, q in zip(products, there, back, strict=True):
        if product is not None:
            np.testing.assert_allclose(product, (np.asarray(p) - q) / 2e-6, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["soft_dtw", "soft_dtw_split", "hmm", "gauss", "causal"])
@np.errstate(all="ignore")
def test_the_adjoint_of_the_tangent_agrees(name):
    f, args = CASES[name]
    adj = nb.adjoint(f)
    directions = directions_of(adj.value_and_grad(*own(args))[1], args)
    products = adj.hvp(tuple(own(args)), directions)
    pull = nb.adjoint(nb.tangent(f)).vjp(*own(args), *(d for d in directions if d is not None))
    for product, found in zip(products, pull((0.0, 1.0))[: len(args)], strict=True):
        if product is not None:
            np.testing.assert_allclose(found, product, rtol=1e-8, atol=1e-10)


def test_an_exponential_beats_the_pole_of_a_quotient():
    def f(x):
        return math.exp(-1.0 / x)

    assert nb.adjoint(f).value_and_grad(0.0) == (0.0, (0.0,)) and nb.adjoint(f).hvp((0.0,), (1.0,)) == (0.0,)
    assert nb.tangent(f).jvp((0.0,), (1.0,)) == (0.0, 0.0)
    assert nb.adjoint(f).value_and_grad(0.5)[1][0] == pytest.approx(4 * math.exp(-2.0), rel=1e-14)


def test_what_is_not_a_number_stays_so():
    gradients = nb.adjoint(gauss).value_and_grad(np.array([0.3, np.nan]), W[:2].copy(), 0.7)[1]
    assert np.isnan(gradients[2]) and np.isnan(gradients[0][1]) and np.isfinite(gradients[0][0])


def test_programs_without_infinities_have_no_more_tests():
    def f(x, s):
        t = 0.0
        for i in range(len(x)):
            t += math.exp(x[i] * s) * s
        return t

    adj = nb.adjoint(f)
    adj.value_and_grad(X.copy(), 0.7)
    assert "== 0" not in adj.source


def test_nested_strong_products_keep_their_factors_apart():
    g, a, b = var("g"), var("a"), var("b")
    product = strong(g * strong(a * b, a), g)  # g a b
    to_g, to_a, to_b = vjp(product, var("h"), ["g", "a", "b"])
    values = {"g": 2.0, "a": 3.0, "b": 5.0, "h": 1.0}

    def at(e):
        if e.fn is None:
            return values[e.name] if e.name is not None else e.value
        args = [at(x) for x in e.args]
        return args[0] if e.fn.name == "strong" else {"mul": lambda x, y: x * y}[e.fn.name](*args)

    assert [at(e) for e in (to_g, to_a, to_b)] == [15.0, 10.0, 6.0]


def test_float_takes_the_names_of_infinities_only():
    def f(x):
        best = float("-inf")
        for i in range(len(x)):
            best = max(best, x[i])
        return best

    def wrong(x):
        return x * float("one")

    value, (gradient,) = nb.adjoint(f).value_and_grad(X.copy())
    assert value == X.max() and gradient.tolist() == np.eye(5)[X.argmax()].tolist()
    with pytest.raises(TraceError, match="write a number, or 'inf'"):
        nb.adjoint(wrong).value_and_grad(1.0)
