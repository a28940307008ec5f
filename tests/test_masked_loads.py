"""Values that are read and then overwritten under a condition: vectorised loops read them first, whatever LLVM does."""

import math

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.backends.numba import internals
from nbgrad.backends.numba.compile import kernel
from nbgrad.backends.numba.masked_loads import may_read_too_late


def _take_out(m, s, z, y):
    for i in range(s.size):
        if m[i] > 0:
            g = s[i]
            s[i] = 0.0
        else:
            g = z[i]
        y[i] += g


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_kernels_read_what_they_overwrite(dtype):
    rng = np.random.default_rng(0)
    for n in (1, 5, 40, 131):
        m = (rng.random(n) > 0.4).astype("int64" if dtype == "float64" else "int32")
        s, z, y = (rng.random(n).astype(dtype) for _ in range(3))
        args = [a.copy() for a in (m, s, z, y)]
        kernel(_take_out)(*args)
        assert args[1].tolist() == np.where(m > 0, 0, s).tolist()
        assert args[3].tolist() == (y + np.where(m > 0, s, z)).tolist()


def taken_out(x, m, scale):
    s = x.copy()
    y = np.zeros(x.size)
    for i in range(x.size):
        if m[i] > 0:
            g = s[i] * scale
            s[i] = 0.0
        else:
            g = x[i] * x[i]
        y[i] += g
    return np.sum(y * y) + np.sum(s * x)


def masked_log_sum_exp(x, m, scale):
    s = np.empty(len(x))
    for i in range(len(x)):
        s[i] = x[i] / scale if m[i] > 0 else -np.inf
    best = np.max(s)
    total = 0.0
    for i in range(len(x)):
        total += math.exp(s[i] - best)
    return best + math.log(total)


@pytest.mark.parametrize("f", [taken_out, masked_log_sum_exp])
@pytest.mark.parametrize("n", [5, 40])
def test_gradients_and_second_derivatives_of_masked_loops(f, n):
    rng = np.random.default_rng(n)
    x, m, scale, v = rng.random(n) + 0.5, (np.arange(n) % 3 != 1).astype(int), 0.8, rng.random(n)
    step = 1e-6

    def gradient(at, of):
        return nb.adjoint(f).value_and_grad(at, m, of)[1]

    found = gradient(x, scale)
    found = found[0] if isinstance(found, tuple) else found
    for k in range(n):
        e = step * (np.arange(n) == k)
        assert math.isclose(
            found[k], (f(x + e, m, scale) - f(x - e, m, scale)) / (2 * step), rel_tol=1e-6, abs_tol=1e-8
        )
    bar_x, bar_v = np.zeros(n), np.zeros(n)
    adjoint = nb.adjoint(nb.tangent(f)).compiled(x, m, scale, v, 0.4)
    adjoint(x, m, scale, v.copy(), 0.4, 0.0, 1.0, bar_x, bar_v)
    assert np.allclose(bar_v, found, rtol=1e-12, atol=1e-14)  # the tangent is linear in v, with the gradient


FOLDED = """define i32 @f(ptr %s, ptr %z) {
loop:
  %p = getelementptr double, ptr %s, i64 %i
  %g = tail call <4 x double> @llvm.masked.load.v4f64.p0(ptr align 8 %p, <4 x i1> %m, <4 x double> poison)
  tail call void @llvm.masked.store.v4f64.p0(<4 x double> zeroinitializer, ptr align 8 %STORED, <4 x i1> %m)SCOPE
  %q = getelementptr double, ptr %z, i64 %i
  %r = tail call <4 x double> @llvm.masked.load.v4f64.p0(ptr align 8 %p, <4 x i1> %m, <4 x double> OTHER)
}
"""


@pytest.mark.parametrize(
    "stored, other, scope, expected",
    [
        ("p", "%x", ", !alias.scope !1", True),
        ("p", "zeroinitializer", ", !alias.scope !1", True),
        ("p", "poison", "", False),  # as the vectoriser wrote it
        ("z", "%x", ", !alias.scope !1", False),  # an array that shares no memory
        ("z", "%x", "", True),  # one that may
    ],
)
def test_folded_loads_after_stores_are_found(stored, other, scope, expected):
    code = FOLDED.replace("STORED", stored).replace("OTHER", other).replace("SCOPE", scope)
    assert may_read_too_late(code) is expected


@pytest.mark.skipif(not internals.MOVES_MASKED_LOADS, reason="this LLVM does not move masked loads")
def test_other_masked_loops_stay_vectorised():
    @kernel
    def chosen(m, x, y):
        for i in range(x.size):
            if m[i] > 0:
                y[i] += x[i]

    kinds = np.dtype("int64"), np.dtype("float64"), np.dtype("float64")
    assert "llvm.masked.store" in chosen.llvm(*kinds) or "x double>" in chosen.llvm(*kinds)
