"""The pool of large buffers: what is kept, what is lent again, and that nobody's memory is lent twice."""

import contextlib
import io
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import __main__, autograd, nd
from nbgrad.backends import buffer_pool
from nbgrad.backends.buffer_pool import LARGE, Pool, rounded

ROOT = Path(__file__).resolve().parent.parent
FLOAT = np.dtype("float64")
N = 100_000
ONE = rounded(8 * N)


def address(buf):
    return buf.__array_interface__["data"][0]


def test_sizes_are_rounded_up_by_an_eighth_at_most():
    for size in (1, 4096, 65_536, 65_537, 800_000, 8_000_000, 10**9 + 1):
        found = rounded(size)
        assert size <= found <= max(4096, size * 9 / 8)
        assert found % 4096 == 0
        assert rounded(found) == found


def test_a_returned_buffer_is_lent_again_the_last_one_first():
    pool = Pool(10 * ONE)
    a, b, c = (pool.lend(N, FLOAT) for _ in range(3))
    places = [address(x) for x in (a, b, c)]
    assert len(set(places)) == 3 and all(place % 4096 == 0 for place in places)
    assert (pool.lent, pool.cached_bytes, pool.misses, pool.hits) == (3 * ONE, 0, 3, 0)
    del a, c, b
    assert (pool.lent, pool.cached_bytes, pool.peak) == (0, 3 * ONE, 3 * ONE)
    again = [pool.lend(N, FLOAT) for _ in range(3)]
    assert [address(x) for x in again] == [places[1], places[2], places[0]]
    assert (pool.lent, pool.cached_bytes, pool.misses, pool.hits) == (3 * ONE, 0, 3, 3)


def test_other_dtypes_and_counts_share_memory_of_one_size():
    pool = Pool(10 * ONE)
    place = address(pool.lend(N, FLOAT))
    single = pool.lend(2 * N, np.dtype("float32"))
    assert address(single) == place and single.dtype == np.float32 and single.size == 2 * N
    assert address(pool.lend(N // 2, FLOAT)) != place
    del single
    assert address(pool.lend(N - 1, FLOAT)) == place


def test_memory_returns_when_the_last_view_dies():
    pool = Pool(10 * ONE)
    buf = pool.lend(N, FLOAT)
    views = [buf[10:20], buf.reshape(10, -1).T, memoryview(buf), buf.view("int64")[::2]]
    del buf
    while views:
        assert pool.lent == ONE and pool.cached_bytes == 0
        views.pop()
    assert pool.lent == 0 and pool.cached_bytes == ONE


def test_an_array_keeps_its_memory_while_anything_reads_it():
    x = nd.array(np.arange(float(N)))
    x.attach_grad()
    with autograd.record():
        y = nd.sin(x)
    expected, shared, part = np.cos(np.arange(N)), np.from_dlpack(y), y[5:7]
    kept = shared.copy()
    y.backward()
    del y
    others = [nd.zeros(N) for _ in range(8)]
    np.testing.assert_array_equal(shared, kept)
    np.testing.assert_array_equal(part.asnumpy(), kept[5:7])
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-15, atol=1e-15)
    assert not any(other.asnumpy().any() for other in others)


def test_what_is_kept_is_bounded_and_the_longest_unused_goes_first():
    pool = Pool(3 * ONE)
    small = rounded(8 * LARGE)
    held = [pool.lend(LARGE, FLOAT), *(pool.lend(N, FLOAT) for _ in range(5))]
    assert pool.lent == 5 * ONE + small
    while held:
        held.pop(0)
        assert pool.cached_bytes <= 3 * ONE
    assert pool.cached_bytes == 3 * ONE and list(pool._free) == [ONE]
    big = pool.lend(4 * N, FLOAT)
    del big  # larger than what may be kept: it goes itself
    assert pool.cached_bytes <= pool.limit


def test_limit_zero_keeps_nothing():
    pool = Pool(0)
    for _ in range(3):
        buf = pool.lend(N, FLOAT)
        buf[:] = 1
        del buf
    assert (pool.cached_bytes, pool.lent, pool.hits, pool.misses) == (0, 0, 0, 3)


def test_small_buffers_do_not_come_from_the_pool():
    before = buffer_pool.pool.lent
    held = buffer_pool.empty(LARGE - 1, FLOAT), buffer_pool.empty(LARGE, FLOAT)
    assert buffer_pool.pool.lent - before == rounded(8 * LARGE)
    assert len(held) == 2


def test_empty_cache_frees_what_is_kept_and_nothing_else():
    x = nd.ones(N)
    y = nd.ones(2 * N)
    del y
    assert buffer_pool.pool.cached_bytes >= 2 * N * x.dtype().itemsize
    lent = buffer_pool.pool.lent
    assert nb.cpu(1).empty_cache() is None  # all CPU contexts have the same memory
    assert (buffer_pool.pool.cached_bytes, buffer_pool.pool.lent) == (0, lent)
    assert (x.asnumpy() == 1).all()
    with pytest.raises(nb.MXNetError, match="not available"):
        nb.gpu().empty_cache()


def test_no_memory_says_how_much_was_wanted():
    pool = Pool(ONE)
    with pytest.raises(MemoryError, match=r"no memory for 4611686018427387904 elements of float64 \(\d+ bytes\)"):
        pool.lend(2**62, FLOAT)
    assert pool.lent == 0


def test_what_is_kept_is_given_up_before_there_is_no_memory(monkeypatch):
    pool = Pool(10 * ONE)
    del [pool.lend(N, FLOAT)][0]
    assert pool.cached_bytes == ONE
    made = buffer_pool._map
    monkeypatch.setattr(
        buffer_pool, "_map", lambda size: made(size) if not pool.cached_bytes else (_ for _ in ()).throw(OSError())
    )
    buf = pool.lend(3 * N, FLOAT)
    assert pool.cached_bytes == 0 and buf.size == 3 * N


def test_threads_never_get_the_same_memory():
    pool = Pool(6 * ONE)
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        held = []
        for step in range(300):
            buf = pool.lend(int(rng.integers(LARGE, 2 * LARGE)), FLOAT)
            buf[:] = mark = 1000 * number + step
            held.append((buf, mark))
            if len(held) > 3:
                old, was = held.pop(int(rng.integers(len(held))))
                if not (old == was).all():
                    wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.lent == 0 and 0 < pool.cached_bytes <= pool.limit
    assert pool.cached_bytes == sum(size * len(pieces) for size, pieces in pool._free.items())
    assert pool.hits + pool.misses == 8 * 300


def _in_child(connection, x):
    y = nd.ones(N) * 7  # memory that the parent kept
    x[:] = 5
    connection.send((float(x.sum().asscalar()), float(y.sum().asscalar())))
    connection.recv()
    connection.send(float(y.sum().asscalar()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_memory_of_its_own():
    x = nd.ones(N) * 1
    kept = nd.ones(N) * 2
    del kept
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(theirs, x))
    child.start()
    assert ours.recv() == (5 * N, 7 * N)
    z = nd.ones(N) * 3  # the same memory, were it shared
    ours.send(None)
    assert ours.recv() == 7 * N
    child.join(60)
    assert child.exitcode == 0
    assert (x.asnumpy() == 1).all() and (z.asnumpy() == 3).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forking_while_another_thread_is_in_the_pool():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            buffer_pool.empty(LARGE, FLOAT)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                buffer_pool.empty(LARGE, FLOAT)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_info_tells_about_the_pool():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        __main__.main(["info"])
    (line,) = [line for line in said.getvalue().split("\n") if line.startswith("memory pool")]
    assert "at most 512.0 MB kept" in line and "lent" in line and "hits" in line and "NBGRAD_POOL_MB=512" in line


def test_the_environment_sets_the_limit():
    code = "from nbgrad.backends.buffer_pool import pool; print(pool.limit)"
    env = os.environ | {"NBGRAD_POOL_MB": "1.5", "PYTHONPATH": str(ROOT)}
    assert subprocess.check_output([sys.executable, "-c", code], env=env, text=True) == "1500000\n"
