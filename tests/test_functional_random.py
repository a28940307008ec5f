"""Random programs through the functional front end: every transform agrees with the others and with differences."""

import numpy as np
import pytest
from test_random_graphs import program

import nbgrad as nb
from nbgrad import autograd, nd


@pytest.mark.parametrize("seed", range(25))
def test_transforms_agree(seed):
    rng = np.random.default_rng(seed)
    at = {"a": rng.uniform(-1, 1, (2, 3)), "rest": [rng.uniform(-1, 1, s) for s in ((3,), (2, 1), (1,))]}
    v = {"a": rng.uniform(-1, 1, (2, 3)), "rest": [rng.uniform(-1, 1, s) for s in ((3,), (2, 1), (1,))]}

    def results(p):
        pool = program(seed, [p["a"], *p["rest"]])
        return {"last": pool[-1], "middle": pool[len(pool) // 2]}

    shapes = {k: y.shape for k, y in nb.vjp(results, at)[0].items()}
    u = {k: rng.uniform(-1, 1, s) for k, s in shapes.items()}

    def f(p):
        y = results(p)
        return sum((y[k] * u[k]).sum() for k in y)

    def flat(tree):
        return np.concatenate([tree["a"].reshape(-1), *[x.reshape(-1) for x in tree["rest"]]])

    def inner(s, t):
        return sum((s[k] * t[k]).sum() for k in s)

    g = flat(nb.grad(f)(at))
    leaves = [nd.array(at["a"]), *map(nd.array, at["rest"])]
    for x in leaves:
        x.attach_grad()
    with autograd.record():
        y = f({"a": leaves[0], "rest": leaves[1:]})
    if y._node is not None:
        y.backward()
    np.testing.assert_allclose(
        g, np.concatenate([x.grad.asnumpy().reshape(-1) for x in leaves]), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(flat(nb.vjp(results, at)[1](u)[0]), g, rtol=1e-12, atol=1e-13)
    value, tangent = nb.jvp(results, (at,), (v,))
    assert inner(tangent, u) == pytest.approx(g @ flat(v), rel=1e-11, abs=1e-12)
    for mode in ("reverse", "forward"):
        J = nb.jacobian(results, mode=mode)(at)
        for k, s in shapes.items():
            rows = [np.reshape(x, (int(np.prod(s)), -1)) for x in (J[k]["a"], *J[k]["rest"])]
            np.testing.assert_allclose(np.hstack(rows) @ flat(v), tangent[k].reshape(-1), rtol=1e-11, atol=1e-12)
    problem = nb.ScipyObjective(f, at)
    assert problem.fun(problem.x0) == pytest.approx(inner(value, u), rel=1e-12, abs=1e-13)
    H = problem.hess(problem.x0)
    np.testing.assert_allclose(H, H.T, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(flat(nb.hvp(f)(at, v)), H @ flat(v), rtol=1e-10, atol=1e-11)
    pushed = nb.jvp(nb.grad(f), (at,), (v,))[1]
    np.testing.assert_allclose(flat(pushed), H @ flat(v), rtol=1e-10, atol=1e-11)
    step = 1e-6 * flat(v)
    up, down = problem.jac(problem.x0 + step), problem.jac(problem.x0 - step)
    np.testing.assert_allclose((up - down) / 2e-6, H @ flat(v), rtol=2e-6, atol=2e-7)
