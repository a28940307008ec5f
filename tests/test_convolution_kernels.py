"""The convolution and pooling kernels against plain loops, and the convolutions against each other."""

import itertools

import numpy as np
import pytest

from nbgrad.kernels import convolution_kernels as ck

# name: N, C, (D, H, W), F, taps, strides, dilates, pads, groups
CONVOLUTIONS = {
    "1-d": (2, 3, (1, 1, 9), 4, (1, 1, 3), (1, 1, 1), (1, 1, 1), (0, 0, 1), 1),
    "1-d, stride 3, columns left over": (2, 2, (1, 1, 12), 3, (1, 1, 4), (1, 1, 3), (1, 1, 1), (0, 0, 0), 1),
    "1-d, stride 2, dilate 3": (2, 2, (1, 1, 15), 2, (1, 1, 3), (1, 1, 2), (1, 1, 3), (0, 0, 2), 1),
    "2-d, few channels": (5, 1, (1, 8, 8), 6, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), 1),
    "2-d, asymmetric": (2, 3, (1, 7, 6), 2, (1, 4, 2), (1, 2, 1), (1, 1, 2), (0, 0, 3), 1),
    "2-d, stride 2, groups": (3, 4, (1, 9, 8), 6, (1, 3, 3), (1, 2, 2), (1, 1, 1), (0, 1, 0), 2),
    "2-d, stride beyond the taps": (2, 2, (1, 10, 11), 3, (1, 2, 2), (1, 3, 3), (1, 1, 1), (0, 0, 0), 1),
    "2-d, a filter a channel": (2, 4, (1, 6, 5), 4, (1, 3, 3), (1, 1, 1), (1, 2, 2), (0, 2, 2), 4),
    "2-d, the taps cover the image": (4, 3, (1, 4, 5), 5, (1, 4, 5), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "2-d, pad wider than the taps": (2, 1, (1, 3, 3), 2, (1, 2, 2), (1, 1, 2), (1, 1, 1), (0, 3, 4), 1),
    "1x1": (3, 4, (1, 6, 7), 5, (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "1x1, groups": (3, 4, (1, 6, 7), 6, (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), 2),
    "1x1, few pixels": (7, 4, (1, 2, 3), 5, (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "1x1, stride 2, pad": (3, 4, (1, 6, 7), 5, (1, 1, 1), (1, 2, 2), (1, 1, 1), (0, 1, 1), 1),
    "3-d": (2, 2, (4, 5, 6), 3, (2, 3, 2), (1, 1, 1), (1, 1, 1), (1, 1, 0), 1),
    "3-d, stride 2, dilate 2, groups": (2, 4, (7, 6, 8), 2, (3, 2, 2), (2, 1, 2), (1, 2, 2), (1, 0, 1), 2),
    "no samples": (0, 2, (1, 5, 5), 3, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "a plane that is never padded": (1, 1, (1, 1, 1), 1, (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
}


def output_size(size, taps, strides, dilates, pads):
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in zip(size, taps, strides, dilates, pads, strict=True)
    )


def naive(x, w, g, strides, dilates, pads, groups, want):
    """The three convolutions by their definition: y, or x or w accumulated."""
    out = {"y": np.zeros_like(g), "x": np.zeros_like(x), "w": np.zeros_like(w)}
    _, F, *outs = g.shape
    A, *taps = w.shape[1:]
    for f, a in np.ndindex(F, A):
        c = f // (F // groups) * A + a
        for o, k in itertools.product(np.ndindex(*outs), np.ndindex(*taps)):
            at = tuple(np.array(o) * strides + np.array(k) * dilates - pads)
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                here, there = (slice(None), f, *o), (slice(None), c, *at)
                out["y"][here] += w[(f, a, *k)] * x[there]
                out["x"][there] += w[(f, a, *k)] * g[here]
                out["w"][(f, a, *k)] += g[here] @ x[there]
    return [out[name] for name in want]


def problem(case, dtype, seed=0):
    N, C, size, F, taps, strides, dilates, pads, groups = case
    outs = output_size(size, taps, strides, dilates, pads)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, C, *size)).astype(dtype)
    w = rng.standard_normal((F, C // groups, *taps)).astype(dtype)
    g = rng.standard_normal((N, F, *outs)).astype(dtype)
    return x, w, g, (N, C, *size, F, *taps, *outs, *strides, *dilates, *pads, groups)


def run(kernel, first, second, like, sizes):
    """The kernel's answer; output and workspace start as NaN, and the workspace is followed by a guard."""
    out = np.full(like.size, np.nan, like.dtype)
    room = ck.workspace_size(*sizes)
    work = np.full(room + 64, np.nan, like.dtype)
    kernel(first.ravel(), second.ravel(), out, work, *sizes)
    assert np.isnan(work[room:]).all(), "wrote past the workspace"
    return out.reshape(like.shape)


def run_all(x, w, g, sizes):
    return (
        run(ck.conv_forward, x, w, g, sizes),
        run(ck.conv_data_grad, g, w, x, sizes),
        run(ck.conv_weight_grad, x, g, w, sizes),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_follow_their_definition(name, dtype):
    case = CONVOLUTIONS[name]
    x, w, g, sizes = problem(case, dtype)
    expected = naive(*(a.astype("float64") for a in (x, w, g)), *case[5:], "yxw")
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    for got, want in zip(run_all(x, w, g, sizes), expected, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_adjoint(name):
    x, w, g, sizes = problem(CONVOLUTIONS[name], "float64", seed=1)
    y, dx, dw = run_all(x, w, g, sizes)
    value = np.vdot(y, g)
    scale = 1 + np.linalg.norm(y) * np.linalg.norm(g)
    assert abs(np.vdot(x, dx) - value) < 1e-12 * scale
    assert abs(np.vdot(w, dw) - value) < 1e-12 * scale


BLOCKED = {
    "rows of one sample": (3, 6, (1, 40, 41), 4, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), 1),
    "rows across planes": (2, 8, (5, 24, 24), 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 2),
    "parts of a long row": (2, 3, (1, 2, 2500), 4, (1, 1, 5), (1, 1, 2), (1, 1, 1), (0, 0, 2), 1),
    "several samples, and a rest": (37, 4, (1, 12, 12), 4, (1, 5, 5), (1, 2, 1), (1, 1, 1), (0, 2, 2), 1),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_convolutions_cut_into_blocks(name):
    """Against sums over shifted views, which are quick enough for images that take several blocks."""
    N, C, size, F, taps, strides, dilates, pads, groups = BLOCKED[name]
    x, w, g, sizes = problem(BLOCKED[name], "float64", seed=2)
    _, rows, wide, *_ = ck._plan(N, C, F, taps, g.shape[2:], strides, dilates, groups)
    assert rows * wide < g[:, 0].size
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pads)])
    dpadded, y, dw = np.zeros_like(padded), np.zeros_like(g), np.zeros_like(w)
    A, G = C // groups, F // groups
    for q in range(groups):
        cs, fs = slice(q * A, q * A + A), slice(q * G, q * G + G)
        for k in np.ndindex(*taps):
            at = [slice(i, i + s * (n - 1) + 1, s) for i, s, n in zip(k, strides, g.shape[2:], strict=True)]
            at, tap = (slice(None), cs, *at), (fs, slice(None), *k)
            y[:, fs] += np.einsum("fc,ncdhw->nfdhw", w[tap], padded[at])
            dpadded[at] += np.einsum("fc,nfdhw->ncdhw", w[tap], g[:, fs])
            dw[tap] = np.einsum("nfdhw,ncdhw->fc", g[:, fs], padded[at])
    inner = tuple(slice(p, p + n) for p, n in zip(pads, size, strict=True))
    for got, want in zip(run_all(x, w, g, sizes), (y, dpadded[(..., *inner)], dw), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_the_workspace_is_bounded_for_large_images():
    sizes = (8, 64, 1, 56, 56, 64, 1, 3, 3, 1, 56, 56, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1)
    assert 8 * ck.workspace_size(*sizes) < 8 << 20


# name: B, (D, H, W), taps, strides, pads, outputs (None: as many as fit)
POOLINGS = {
    "1-d": (3, (1, 1, 9), (1, 1, 3), (1, 1, 2), (0, 0, 1), None),
    "2-d, halves": (4, (1, 8, 6), (1, 2, 2), (1, 2, 2), (0, 0, 0), None),
    "2-d, overlapping, asymmetric": (2, (1, 7, 8), (1, 4, 3), (1, 1, 2), (0, 2, 1), None),
    "2-d, windows past the end": (2, (1, 7, 8), (1, 3, 3), (1, 2, 2), (0, 1, 1), (1, 5, 5)),
    "2-d, the whole image": (2, (1, 5, 6), (1, 5, 6), (1, 1, 1), (0, 0, 0), None),
    "2-d, stride beyond the taps": (2, (1, 9, 9), (1, 2, 2), (1, 3, 4), (0, 0, 0), None),
    "2-d, windows with no cell": (1, (1, 3, 3), (1, 2, 1), (1, 1, 3), (0, 2, 0), (1, 7, 2)),
    "3-d": (2, (4, 5, 6), (2, 3, 2), (2, 1, 2), (1, 1, 0), None),
    "no planes": (0, (1, 4, 4), (1, 2, 2), (1, 2, 2), (0, 0, 0), None),
}


def pooling(name, dtype, seed=3):
    B, size, taps, strides, pads, outs = POOLINGS[name]
    outs = outs or output_size(size, taps, strides, (1, 1, 1), pads)
    x = np.random.default_rng(seed).integers(-3, 4, (B, *size)).astype(dtype)  # small integers: exact, with ties
    return x, outs, (B, *size, *taps, *outs, *strides, *pads)


def windows(name, outs):
    """Per output: its place, its window clipped to the input, and its cells in input and pad."""
    _, size, taps, strides, pads, _ = POOLINGS[name]
    for o in np.ndindex(*outs):
        start = [i * s - p for i, s, p in zip(o, strides, pads, strict=True)]
        clipped = tuple(slice(max(0, a), max(0, a + k)) for a, k in zip(start, taps, strict=True))
        padded = [max(1, min(a + k, n + p) - a) for a, k, n, p in zip(start, taps, size, pads, strict=True)]
        yield o, clipped, int(np.prod(padded))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", POOLINGS)
def test_max_pool_and_its_adjoint(name, dtype):
    x, outs, sizes = pooling(name, dtype)
    y, index = np.empty(len(x) * np.prod(outs), dtype), np.empty(len(x) * np.prod(outs), np.int64)
    ck.max_pool(x.ravel(), y, index, 0, *sizes)
    positions = np.arange(x.size).reshape(x.shape)
    g = np.arange(1, y.size + 1).astype(dtype)
    dx = np.zeros(x.size, dtype)
    for (o, clipped, _), b in itertools.product(windows(name, outs), range(len(x))):
        i = np.ravel_multi_index((b, *o), (len(x), *outs))
        cells = x[(b, *clipped)]
        if cells.size:
            assert index[i] == positions[(b, *clipped)].flat[np.argmax(cells)]  # argmax: the first of equals
            assert y[i] == cells.max()
            dx[index[i]] += g[i]
        else:
            assert (y[i], index[i]) == (-np.inf, -1)

    again = np.full_like(y, np.nan)
    ck.gather(x.ravel(), index, again, y.size)
    np.testing.assert_array_equal(again, np.where(index < 0, 0, y))
    back = np.full(x.size, np.nan, dtype)
    ck.scatter_add(g, index, back, y.size)
    np.testing.assert_array_equal(back, dx)


def test_max_pool_takes_the_first_nan_and_knows_minus_infinity():
    inf, nan = np.inf, np.nan
    x = np.array([1, nan, 2, nan, -inf, -inf, 3, inf, nan, 1, -0.0, 0.0])
    y, index = np.empty(4), np.empty(4, np.int64)
    ck.max_pool(x, y, index, 0, 1, 1, 1, 12, 1, 1, 3, 1, 1, 4, 1, 1, 3, 0, 0, 0)
    np.testing.assert_array_equal(y, [nan, nan, nan, 1])
    np.testing.assert_array_equal(index, [1, 3, 8, 9])
    ck.max_pool(x[4:], y, index, 0, 1, 1, 1, 8, 1, 1, 2, 1, 1, 4, 1, 1, 2, 0, 0, 0)
    np.testing.assert_array_equal(index, [4 - 4, 7 - 4, 8 - 4, 10 - 4])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("include_pad, total", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("name", POOLINGS)
def test_avg_pool_and_its_adjoint(name, include_pad, total, dtype):
    x, outs, sizes = pooling(name, dtype)
    expected, dx = np.zeros((len(x), *outs)), np.zeros(x.shape)
    g = np.random.default_rng(4).standard_normal(expected.shape).astype(dtype)
    for (o, clipped, padded), b in itertools.product(windows(name, outs), range(len(x))):
        cells = x[(b, *clipped)]
        divisor = 1 if total else padded if include_pad else max(1, cells.size)
        expected[(b, *o)] = cells.sum() / divisor
        dx[(b, *clipped)] += g[(b, *o)] / divisor

    tolerance = 1e-14 if dtype == "float64" else 1e-6
    y, back = np.full(expected.size, np.nan, dtype), np.full(x.size, np.nan, dtype)
    ck.avg_pool(x.ravel(), y, *sizes, include_pad, total)
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=tolerance, atol=tolerance)
    ck.avg_pool_adjoint(g.ravel(), back, *sizes, include_pad, total)
    np.testing.assert_allclose(back.reshape(x.shape), dx, rtol=tolerance, atol=10 * tolerance)
