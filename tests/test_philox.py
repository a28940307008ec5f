"""The random kernels: known answers of Philox, moments, and that the split of a fill cannot be seen."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from nbgrad.backends.numba.compile import kernel
from nbgrad.kernels import philox

KEY = 20240229


@kernel
def _rounds(counter, key, out):
    a, b, c, d = philox.philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])
    out[0], out[1], out[2], out[3] = a, b, c, d


@kernel
def _blocks(key, offset, out):
    for i in range(out.size // 4):
        a, b, c, d = philox.block(np.uint64(key), np.uint64(offset + i))
        out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3] = a, b, c, d


@kernel
def _log(x, out):
    for i in range(x.size):
        out[i] = philox.log_unit(x[i])


@kernel
def _quantile(u, out):
    for i in range(u.size):
        out[i] = philox.to_normal(u[i])


@kernel
def _below(high, low, n, out):
    for i in range(out.size):
        out[i] = philox.below(high[i], low[i], n[i])


def words(text):
    return np.array([int(word, 16) for word in text.split()], np.uint64)


def raw(n_blocks, key=KEY, offset=0):
    out = np.empty(4 * n_blocks, np.uint64)
    _blocks(key, offset, out)
    return out


def fill(made, n, dtype, *args, key=KEY, offset=0):
    out = np.empty(n, dtype)
    made(out, key, offset, *args)
    return out


# The known-answer vectors published with Random123 (Salmon et al. 2011): counter, key, result.
@pytest.mark.parametrize(
    ("counter", "key", "result"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers(counter, key, result):
    out = np.empty(4, np.uint64)
    _rounds(words(counter), words(key), out)
    assert out.tolist() == words(result).tolist()


def test_a_block_is_numbered_and_keyed_by_64_bit_integers():
    assert raw(1, key=0).tolist() == words("6627e8d5 e169c58d bc57ac4c 9b00dbd8").tolist()
    out = np.empty(4, np.uint64)
    for key, offset in ((-1, -1), (KEY << 33, 1 << 32), (5, 2**63 - 1)):
        counter = np.array([offset & 0xFFFFFFFF, offset >> 32 & 0xFFFFFFFF, 0, 0], np.uint64)
        _rounds(counter, np.array([key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF], np.uint64), out)
        assert raw(1, key, offset).tolist() == out.tolist()


FILLS = [
    (philox.uniform, "f4", (-1.0, 3.0)),
    (philox.uniform, "f8", (-1.0, 3.0)),
    (philox.normal, "f4", (1.0, 2.0)),
    (philox.normal, "f8", (1.0, 2.0)),
    (philox.exponential, "f4", (2.0,)),
    (philox.exponential, "f8", (2.0,)),
    (philox.bernoulli, "f4", (0.3, 2.0)),
    (philox.bernoulli, "f8", (0.3, 2.0)),
    (philox.bernoulli, "u1", (0.3, 1.0)),
    (philox.integers, "i8", (-5, 1000)),
    (philox.integers, "i4", (-5, 1000)),
    (philox.integers, "u1", (0, 256)),
    (philox.integers, "i1", (-128, 128)),
]


@pytest.mark.parametrize(("made", "dtype", "args"), FILLS)
def test_a_fill_does_not_show_how_it_was_split(made, dtype, args):
    whole = fill(made, 203, dtype, *args, offset=7)
    for start in (4, 64, 100):
        used = philox.consumed(made, start, whole.itemsize)
        assert (fill(made, 203 - start, dtype, *args, offset=7 + used) == whole[start:]).all()
    for n in range(9):
        assert (fill(made, n, dtype, *args, offset=7) == whole[:n]).all()


@pytest.mark.parametrize(("made", "dtype", "args"), FILLS)
def test_what_is_consumed_is_what_is_used(made, dtype, args):
    for n in range(1, 10):
        used = philox.consumed(made, n, np.dtype(dtype).itemsize)
        grown = fill(made, 64, dtype, *args)
        beyond = fill(made, 64, dtype, *args, offset=used)
        shift = used * (64 // philox.consumed(made, 64, np.dtype(dtype).itemsize))
        assert n <= shift < n + 4
        assert (grown[shift:] == beyond[: 64 - shift]).all()
    assert philox.consumed(made, 0, 8) == 0
    assert philox.consumed(philox.permutation, 7, 8) == 4


def test_uniform_is_made_of_the_documented_bits():
    w = raw(50)
    single = (w >> np.uint64(8)).astype(np.float32) / np.float32(2**24)
    assert (fill(philox.uniform, 200, "f4", 0.0, 1.0) == single).all()
    pairs = (w[0::2] << np.uint64(32)) | w[1::2]
    double = (pairs >> np.uint64(11)).astype(np.float64) / 2.0**53
    assert (fill(philox.uniform, 100, "f8", 0.0, 1.0) == double).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_uniform_never_gives_its_upper_bound(dtype):
    low = np.array(1, dtype)
    high = np.nextafter(low, np.array(2, dtype))
    assert (fill(philox.uniform, 10_000, dtype, float(low), float(high)) == low).all()
    assert (fill(philox.uniform, 9, dtype, 2.0, 2.0) == 2.0).all()


@pytest.mark.parametrize(
    ("made", "args", "law"),
    [
        (philox.uniform, (-2.0, 5.0), stats.uniform(-2, 7)),
        (philox.normal, (1.5, 3.0), stats.norm(1.5, 3)),
        (philox.exponential, (0.7,), stats.expon(scale=0.7)),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_moments_and_distribution(made, args, law, dtype):
    n = 400_000
    x = fill(made, n, dtype, *args).astype(np.float64)
    z = (x - law.mean()) / law.std()
    skewness, kurtosis = law.stats("sk")
    assert abs(z.mean()) < 4 / n**0.5
    assert abs((z**2).mean() - 1) < 4 * ((kurtosis + 2) / n) ** 0.5
    assert abs((z**3).mean() - skewness) < 0.1
    assert abs(np.mean(z[1:] * z[:-1])) < 4 / n**0.5
    assert stats.kstest(x, law.cdf).pvalue > 1e-3


def test_streams_of_different_keys_are_unlike():
    columns = np.stack([fill(philox.normal, 50_000, "f8", 0.0, 1.0, key=key) for key in range(6)])
    assert np.abs(np.corrcoef(columns) - np.eye(6)).max() < 4.5 / 50_000**0.5


def test_normal_is_the_quantile_of_a_symmetric_grid():
    k = np.array([0, 1, 2, 1000, 2**40, 2**51 - 1, 2**51, 2**51 + 9, 2**52 - 3, 2**52 - 1], np.int64)
    u = (2 * k + 1) / 2.0**53
    out, mirrored = np.empty_like(u), np.empty_like(u)
    _quantile(u, out)
    _quantile(1 - u, mirrored)
    assert (out == -mirrored).all()
    for p, z in zip(u.tolist(), out.tolist(), strict=True):
        with mpmath.workdps(40):
            error = (mpmath.ncdf(z) - p) / mpmath.npdf(z)
        assert abs(error) < 5e-16 * max(abs(z), 1e-16), p


def test_log_unit_against_mpmath():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.random(1500), 10.0 ** rng.uniform(-300, 2, 500), 1 - 10.0 ** rng.uniform(-16, -1, 500)])
    out = np.empty_like(x)
    _log(x, out)
    with mpmath.workdps(40):
        worst = max(
            abs(float((mpmath.log(v) - y) / np.spacing(abs(y) or 1.0)))
            for v, y in zip(x.tolist(), out.tolist(), strict=True)
        )
    assert worst < 1.5


@pytest.mark.parametrize(
    ("p", "kept"),
    [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (2.0, 0.0), (0.25, 0.75), (1e-3, 0.999)],
)
def test_masks_keep_the_right_share(p, kept):
    n = 200_000
    mask = fill(philox.bernoulli, n, "f4", p, 4.0)
    assert set(np.unique(mask)) <= {0.0, 4.0}
    assert abs((mask != 0).mean() - kept) <= 4 * (kept * (1 - kept) / n) ** 0.5


def test_a_mask_keeps_where_u_is_at_least_p():
    w = raw(5)
    for p in (0.5, float(w[3]) / 2**32, float(w[7] + np.uint64(1)) / 2**32, (float(w[11]) - 0.5) / 2**32):
        assert (fill(philox.bernoulli, 20, "f8", p, 1.0) == (w / 2.0**32 >= p)).all()


def test_below_is_the_upper_half_of_the_product():
    rng = np.random.default_rng(5)
    high, low = rng.integers(0, 2**32, (2, 300), np.uint64)
    n = np.concatenate([rng.integers(1, 2**64 - 1, 250, np.uint64), rng.integers(1, 100, 50, np.uint64)])
    high[:20] = low[:20] = 2**32 - 1
    out = np.empty(300, np.uint64)
    _below(high, low, n, out)
    expected = [(h << 32 | m) * c >> 64 for h, m, c in zip(high.tolist(), low.tolist(), n.tolist(), strict=True)]
    assert out.tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("i8", 0, 7),
        ("i4", -3, 4),
        ("u1", 0, 256),
        ("i1", -128, 128),
        ("i8", -(2**63), 2**63 - 1),
        ("i8", 5, 6),
    ],
)
def test_integers_cover_their_range_evenly(dtype, low, high):
    x = fill(philox.integers, 64_000, dtype, low, high)
    assert x.min() >= low
    assert x.max() < high
    if high - low <= 256:
        counts = np.bincount(x.astype(np.int64) - low, minlength=high - low)
        assert counts.size == high - low
        assert high - low == 1 or stats.chisquare(counts).pvalue > 1e-3
    else:
        assert abs(x.astype(float).mean()) < 4 * 2.0**63 / (3 * x.size) ** 0.5


def test_permutations_are_permutations_and_even():
    for n in (0, 1, 2, 3, 1000, 1001):
        assert sorted(fill(philox.permutation, n, "i8").tolist()) == list(range(n))
    counts = {}
    for offset in range(0, 12_000, 2):
        order = tuple(fill(philox.permutation, 4, "i8", offset=offset).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3
