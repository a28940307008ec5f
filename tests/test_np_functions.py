"""Functions of nbgrad.np beside NumPy's: values, shapes and dtypes, first and second derivatives, compiled."""

import numpy as np
import pytest

import nbgrad as nb
import nbgrad.np as nbnp

_RNG = np.random.default_rng(3)
_X = _RNG.normal(size=(3, 4))
ARRAYS = {
    "x": _X,
    "y": _RNG.normal(size=(3, 4)),
    "p": _RNG.uniform(0.5, 2.0, size=(3, 4)),
    "v": _RNG.normal(size=5),
    "w": _RNG.normal(size=5),
    "s": np.array(0.7),
    "m": _RNG.normal(size=(3, 3)) + 3 * np.eye(3),
    "q": _RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3),
    "h": np.array([[2.0, 0.3, 0.1], [0.3, 3.0, -0.2], [0.1, -0.2, 4.0]]),
    "t": _RNG.normal(size=(2, 3, 4)),
    "u": np.array([0.1, 0.4, 0.9, 1.3, 2.0]),
}
INTEGERS = {"i": np.arange(12).reshape(3, 4) % 5, "k": np.array([2, 0, 1]), "b": _X > 0}

#: Calls, with the names above; those of floats are differentiated.
CALLS = """
np.sum(x)
np.sum(x, axis=0)
np.sum(x, (0, 1), keepdims=True)
np.sum(t, axis=(0, 2))
np.sum(x, axis=())
np.sum(x, initial=2.0)
np.sum(x, where=b)
np.sum(i)
np.sum(b)
np.sum(i, axis=1, dtype=float)
np.prod(p, axis=1)
np.prod(i)
np.mean(x)
np.mean(x, axis=1, keepdims=True)
np.mean(i, axis=0)
np.mean(x, where=b)
np.var(x)
np.var(x, axis=0, ddof=1)
np.std(x, axis=1)
np.std(x, ddof=1, keepdims=True)
np.var(i)
np.max(x)
np.max(x, axis=1)
np.min(x, axis=(0, 1))
np.amax(x, 0)
np.max(i, axis=0)
np.max(x, axis=0, initial=0.5)
np.min(x, axis=0, initial=0.5, where=b)
np.ptp(x, axis=1)
np.argmax(x)
np.argmax(x, axis=1)
np.argmin(x, axis=0, keepdims=True)
np.all(b)
np.any(b, axis=0)
np.count_nonzero(x > 0, axis=1)
np.median(x)
np.median(x, axis=0)
np.cumsum(x)
np.cumsum(x, axis=1)
np.cumsum(i, axis=0)
np.cumprod(p, axis=1)
np.average(x, axis=0, weights=p)
np.average(x, axis=1, weights=np.array([1.0, 2.0, 3.0, 4.0]))
np.nansum(x)
np.nanmean(x, axis=0)
np.nanvar(x, axis=0)
np.nanstd(x)
np.nanmax(x, axis=1)
np.nanmin(x)
np.nanprod(p)
np.sort(x)
np.sort(x, axis=None)
np.sort(x, axis=0)
np.argsort(x, axis=0)
np.quantile(x, 0.3)
np.quantile(x, [0.1, 0.6], axis=0)
np.percentile(x, 40, axis=1, keepdims=True)
np.reshape(x, (2, -1))
np.ravel(x)
np.transpose(x)
np.transpose(t, (1, 0, 2))
np.swapaxes(t, 0, 2)
np.moveaxis(t, 0, -1)
np.rollaxis(t, 2)
np.expand_dims(x, (0, 2))
np.squeeze(np.expand_dims(x, 1))
np.atleast_1d(s)
np.atleast_2d(v)
np.atleast_3d(x)
np.broadcast_to(v, (2, 5))
np.concatenate([x, y])
np.concatenate([x, y], axis=1)
np.concatenate([x, y], axis=None)
np.concatenate([x, i])
np.stack([x, y])
np.stack([x, y], axis=-1)
np.hstack([x, y])
np.hstack([v, w])
np.vstack([v, w])
np.dstack([x, y])
np.column_stack([v, w])
np.block([[x, y], [y, x]])
np.append(x, y, axis=0)
np.split(t, 3, axis=1)[1]
np.array_split(v, 2)[0]
np.hsplit(x, 2)[1]
np.tile(v, 2)
np.tile(x, (2, 1))
np.repeat(x, 2, axis=1)
np.repeat(v, [1, 0, 2, 1, 3])
np.flip(x)
np.flip(x, 1)
np.flipud(x)
np.fliplr(x)
np.roll(x, 1)
np.roll(x, (1, 2), (0, 1))
np.rot90(x)
np.rot90(x, 2)
np.rot90(x, 3)
np.where(b, x, y)
np.where(b, x, 0.0)
np.where(x > 0, x, i)
np.where(b, 1, 2)
np.take(x, [2, 0], axis=0)
np.take(x, [1, 7])
np.take_along_axis(x, np.argsort(x, axis=1), 1)
np.choose(i % 2, [x, y])
np.select([x > 1, x > 0], [x, y], 0.5)
np.delete(v, 1)
np.insert(v, 2, s)
np.insert(v, [1, 3], [1.0, 2.0])
np.clip(x, -0.5, 0.5)
np.clip(x, None, 0.5)
np.clip(i, 1, 3)
np.clip(x, -p, p)
np.round(x, 2)
np.nan_to_num(x)
np.diag(v)
np.diag(v, 1)
np.diag(m)
np.diagonal(t, 1, 1, 2)
np.tril(m)
np.triu(m, 1)
np.trace(m)
np.pad(v, 2)
np.pad(x, ((1, 0), (2, 3)))
np.pad(x, 1, constant_values=2.0)
np.pad(v, (2, 1), mode="edge")
np.pad(x, 1, mode="reflect")
np.pad(x, 1, mode="wrap")
np.dot(v, w)
np.dot(m, m)
np.dot(t, x.T)
np.vdot(x, y)
np.inner(x, y)
np.outer(v, w)
np.matmul(q, m)
x @ y.T
m @ np.array([1.0, 2.0, 3.0])
np.tensordot(x, y, 2)
np.tensordot(t, m, ((1,), (0,)))
np.einsum("ij,kj->ik", x, y)
np.einsum("ij,ij", x, y)
np.kron(m, x)
np.cross(x[:, :3], y[:, :3])
np.diff(v)
np.diff(x, 2, axis=0)
np.diff(v, prepend=0.0, append=1.0)
np.ediff1d(x)
np.gradient(v)
np.gradient(v, 0.5)
np.gradient(v, u)
np.gradient(x, axis=1)
np.gradient(v, u, edge_order=2)
np.gradient(x)[0]
np.trapezoid(v)
np.trapezoid(v, u)
np.trapezoid(x, dx=0.5, axis=0)
np.interp(u, np.array([0.0, 1.0, 3.0]), np.array([1.0, -1.0, 2.0]))
np.interp(0.5, u, v)
np.unwrap(v * 3)
np.polyval(v, s)
np.polyadd(v, np.array([1.0, 2.0]))
np.polymul(v, w)
np.polyder(v)
np.polyint(v)
np.convolve(v, w)
np.convolve(v, w[:3], "same")
np.convolve(v, w[:3], "valid")
np.correlate(v, w[:3])
np.correlate(v, w, "full")
np.cov(x)
np.cov(x, rowvar=False)
np.cov(v, w)
np.corrcoef(x)
np.bincount(k, weights=np.array([0.5, 1.0, 2.0]))
np.vander(v, 3)
np.linspace(0.0, 1.0, 5)
np.linspace(s, 2.0, 4)
np.geomspace(1.0, 8.0, 4)
np.linalg.solve(m, x)
np.linalg.solve(m, x[:, 0])
np.linalg.solve(q, x)
np.linalg.inv(m)
np.linalg.inv(q)
np.linalg.pinv(x)
np.linalg.det(m)
np.linalg.det(q)
np.linalg.slogdet(m)[1]
np.linalg.cholesky(h + h.T)
np.linalg.eigvalsh(h)
np.linalg.eigh(h)[0]
np.linalg.svd(x, full_matrices=False)[1]
np.linalg.svd(x, compute_uv=False)
abs(np.linalg.qr(m)[1])
np.linalg.lstsq(x.T, v[:4], None)[0]
np.linalg.lstsq(x.T, v[:4], None)[1]
np.linalg.norm(x)
np.linalg.norm(x, axis=1)
np.linalg.norm(v, 1)
np.linalg.norm(v, 3)
np.linalg.norm(v, np.inf)
np.linalg.norm(m, 2)
np.linalg.norm(m, "nuc")
np.linalg.norm(m, 1)
np.linalg.norm(x, axis=0, keepdims=True)
np.linalg.matrix_power(m, 3)
np.linalg.matrix_power(m, -2)
np.linalg.multi_dot([x.T, m, x])
np.linalg.cond(m)
np.linalg.matrix_rank(m)
x[1]
x[1, 2]
x[:, 1:3]
x[::2, ::-1]
x[..., None]
x[k]
x[k, k]
x[b]
x[:, k]
v[np.array([0, 0, 3])]
x.T
x.sum()
x.mean(axis=0)
x.reshape(4, 3)
x.transpose()
t.transpose(2, 0, 1)
x.ravel()
x.std()
x.clip(-1, 1)
x.dot(y.T)
x.flatten()
x.astype(np.float32)
-x
abs(x)
x + i
x * 2
2 - x
x / p
p ** 2
p ** 1.5
2.0 ** x
x // p
x % p
i / 2
i // 2
i % 3
i ** 2
x > y
(x > 0) & (y > 0)
~(x > 0)
(i == 2) | (i == 3)
x == y
divmod(x, p)[1]
np.isnan(x)
np.logical_and(x, y)
np.add.reduce(x)
np.multiply.outer(v, w)
np.add.accumulate(v)
np.maximum.reduce(x, axis=1)
np.logaddexp2(x, y)
np.fmax(x, y)
np.heaviside(x, 0.5)
np.exp2(x)
np.fmod(x, p)
np.array([x[0, 0] * 2, x[1, 1]])
np.array([[s, 1.0], [2.0, s]])
np.full((2, 3), s)
np.ones_like(x)
np.zeros_like(i)
np.eye(3)
np.arange(5)
np.arange(0.0, 1.0, 0.25)
np.meshgrid(v, u)[0]
np.meshgrid(v, u, indexing="ij")[1]
np.float_power(p, 2)
np.searchsorted(u, 1.0)
np.histogram(x, bins=4)[0]
np.nonzero(b)[0]
np.polydiv(v, u[3:])[0]
np.polydiv(v, u[3:])[1]
np.poly(v)
np.polyfit(u, w, 2)
np.polyfit(u, w, 1, w=u)
np.polyfit(u, w, 2, cov=True)[1]
np.polyfit(u, np.vstack([v, w]).T, 1)
np.polyfit(u, w, 2, full=True)[1]
np.nancumsum(x, axis=1)
np.nancumprod(p)
np.nanquantile(x, 0.3, axis=0)
np.nanquantile(x, [0.25, 0.8])
np.nanpercentile(x, 40, axis=1, keepdims=True)
np.nanmedian(x, axis=0)
np.modf(x)[0]
np.modf(x)[1]
np.divmod(x, p)[1]
np.ldexp(x, i)
np.frexp(x)[0]
np.frexp(x)[1]
np.gcd(i, 4)
np.lcm(i, k[0] + 2)
np.isposinf(x * np.inf)
np.isneginf(x)
np.isreal(x)
np.lexsort((i[0], i[1]))
np.argpartition(v, 2)[2]
np.unravel_index(k, (2, 3))[1]
np.ravel_multi_index((k, k), (3, 3))
np.triu_indices_from(m)[0]
np.setxor1d(i, k)
np.apply_over_axes(np.sum, t, [0, 2])
np.hanning(5) * v
np.kaiser(5, 2.0)
np.lib.stride_tricks.sliding_window_view(v, 3)
np.lib.stride_tricks.sliding_window_view(x, (2, 3))
np.lib.stride_tricks.sliding_window_view(t, 2, axis=1)
np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(1, 1))
np.lib.stride_tricks.sliding_window_view(v, 5)[0]
np.r_[v, 0.5, 1:4]
np.r_[x, y]
np.c_[v, w]
np.c_[x, y]
np.mgrid[0:2, 0:1:5j]
np.ogrid[0:2, 0:3][1]
np.vectorize(lambda a, b: a * b if a > 0 else b**2)(x, v[:4])
""".strip().splitlines()


def names_in(call: str, among: dict) -> list[str]:
    code = compile(call, "<call>", "eval")
    return [n for n in among if n in code.co_names]


def evaluated(call: str, module, arrays: dict):
    return eval(call, {"np": module, **arrays})


def arrays_of(call: str) -> tuple[dict, dict]:
    return ({n: ARRAYS[n] for n in names_in(call, ARRAYS)}, {n: INTEGERS[n] for n in names_in(call, INTEGERS)})


@pytest.mark.parametrize("call", CALLS)
def test_value_shape_and_dtype(call):
    floats, others = arrays_of(call)
    expected = np.asarray(evaluated(call, np, floats | others))
    found = evaluated(call, nbnp, {n: nbnp.array(a) for n, a in (floats | others).items()})
    assert isinstance(found, nbnp.ndarray)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-10, atol=1e-12)


def is_float(call: str) -> bool:
    """Whether a call depends on floats, and gives some."""
    floats, others = arrays_of(call)
    return bool(floats) and np.asarray(evaluated(call, np, floats | others)).dtype == np.float64


@pytest.mark.parametrize("call", [c for c in CALLS if is_float(c)])
def test_derivatives(call):
    floats, others = arrays_of(call)
    rest = {n: nbnp.array(a) for n, a in others.items()}
    names = list(floats)
    sample = np.asarray(evaluated(call, np, floats | others))
    weights = np.cos(1.0 + np.arange(sample.size)).reshape(sample.shape)

    def of_ours(*values):
        return nbnp.sum(evaluated(call, nbnp, dict(zip(names, values, strict=True)) | rest) * weights)

    def of_numpy(values):
        return float(np.sum(evaluated(call, np, dict(zip(names, values, strict=True)) | others) * weights))

    given = [nbnp.array(a) for a in floats.values()]
    directions = [np.sin(2.0 + np.arange(a.size)).reshape(a.shape) for a in floats.values()]
    gradients = nb.grad(of_ours, argnums=tuple(range(len(names))))(*given)
    assert all(isinstance(g, nbnp.ndarray) and g.shape == a.shape for g, a in zip(gradients, given, strict=True))
    slope = sum(float(np.sum(g.asnumpy() * d)) for g, d in zip(gradients, directions, strict=True))
    h = 1e-6
    sides = [of_numpy([a + s * h * d for a, d in zip(floats.values(), directions, strict=True)]) for s in (1, -1)]
    np.testing.assert_allclose(slope, (sides[0] - sides[1]) / (2 * h), rtol=1e-6, atol=1e-7)

    def along(*values):
        found = nb.grad(of_ours, argnums=tuple(range(len(names))))(*values)
        return sum(nbnp.sum(g * nbnp.array(d)) for g, d in zip(found, directions, strict=True))

    second = nb.grad(along, argnums=tuple(range(len(names))))(*given)
    curvature = sum(float(np.sum(g.asnumpy() * d)) for g, d in zip(second, directions, strict=True))
    h = 1e-5

    def slope_at(side):
        moved = [nbnp.array(a + side * h * d) for a, d in zip(floats.values(), directions, strict=True)]
        return float(along(*moved))

    np.testing.assert_allclose(curvature, (slope_at(1) - slope_at(-1)) / (2 * h), rtol=1e-5, atol=1e-5)


#: Calls that need the numbers in an array, and so are no part of a compiled function.
UNTRACED = ("x[b]", "np.unwrap", "np.interp", "np.linalg.lstsq", "np.select", "np.histogram", "np.searchsorted",
            "np.nanquantile", "np.nanpercentile", "np.nanmedian", "np.frexp", "np.polydiv",
            "np.polyfit(u, w, 2, full", "np.vectorize")  # fmt: skip


@pytest.mark.parametrize("call", [c for c in CALLS if is_float(c) and not c.startswith(UNTRACED)][::4])
def test_compiled(call):
    floats, others = arrays_of(call)
    rest = {n: nbnp.array(a) for n, a in others.items()}
    names = list(floats)

    def total(*values):
        return nbnp.sum(evaluated(call, nbnp, dict(zip(names, values, strict=True)) | rest) ** 2)

    given = [nbnp.array(a) for a in floats.values()]
    both = nb.value_and_grad(total, argnums=tuple(range(len(names))))
    (value, gradients), (expected, slopes) = nb.jit(both)(*given), both(*given)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for g, s in zip(gradients, slopes, strict=True):
        assert isinstance(g, nbnp.ndarray)
        np.testing.assert_allclose(g.asnumpy(), s.asnumpy(), rtol=1e-10, atol=1e-12)
