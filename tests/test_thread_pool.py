"""The helpers of large operations: whole programs with threads, forks and processes of their own."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.backends import threads
from nbgrad.errors import AttrError


@pytest.fixture(autouse=True)
def as_before():
    before = nb.get_num_threads()
    yield
    nb.set_num_threads(before)


@pytest.fixture
def eager(monkeypatch):
    """Ranges so small that arrays of a few thousand elements are shared."""
    monkeypatch.setattr(threads, "GRAIN", 512)


# The pool itself.


def test_every_range_is_run_once(eager):
    nb.set_num_threads(4)
    counts = np.zeros(100_003, int)
    names = set()

    def call(start, stop):
        counts[start:stop] += 1
        names.add(threading.current_thread().name)

    for _ in range(50):
        threads.parallel_ranges(call, counts.size, 1, 64)
    assert (counts == 50).all()
    assert names <= {"nbgrad", threading.current_thread().name}


def test_one_thread_means_no_other(eager):
    nb.set_num_threads(1)
    seen = []
    threads.parallel_ranges(lambda start, stop: seen.append((start, stop, threading.current_thread())), 10**6)
    assert seen == [(0, 10**6, threading.current_thread())]


@pytest.mark.parametrize("place", [0, 5, 63])
def test_an_error_in_a_range_is_raised_when_all_have_ended(eager, place):
    nb.set_num_threads(4)
    running = []

    def call(start, stop):
        running.append(start)
        try:
            if start <= place * 1024 < stop:
                raise ZeroDivisionError("in a range")
        finally:
            running.remove(start)

    for _ in range(20):
        with pytest.raises(ZeroDivisionError, match="in a range"):
            threads.parallel_ranges(call, 64 * 1024)
        assert not running
    counts = []
    threads.parallel_ranges(lambda start, stop: counts.append(stop - start), 64 * 1024)
    assert sum(counts) == 64 * 1024


def test_an_interrupt_waits_for_what_runs(eager):
    nb.set_num_threads(2)
    caller = threading.current_thread()
    begun, go, ended = threading.Event(), threading.Event(), []

    def call(start, stop):
        if threading.current_thread() is caller:
            assert begun.wait(60)
            threading.Timer(0.05, go.set).start()
            raise KeyboardInterrupt
        begun.set()
        go.wait(60)
        ended.append(start)

    with pytest.raises(KeyboardInterrupt):
        threads.parallel_ranges(call, 64 * 1024)
    assert len(ended) == 1  # the helper's range was waited for, and no other begun


def test_calls_within_a_helper_are_serial(eager):
    nb.set_num_threads(2)
    caller = threading.current_thread()
    helped, inner = threading.Event(), []

    def call(start, stop):
        if threading.current_thread() is caller:
            helped.wait(60)
        else:
            threads.parallel_ranges(lambda a, b: inner.append((a, b)), 10**6)
            helped.set()

    threads.parallel_ranges(call, 64 * 1024)
    assert set(inner) == {(0, 10**6)}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None, True])
def test_set_num_threads_validates(wrong):
    before = nb.get_num_threads()
    with pytest.raises(AttrError, match="set_num_threads: n must be an integer of at least 1, got"):
        nb.set_num_threads(wrong)
    assert nb.get_num_threads() == before


def test_set_num_threads_takes_integers():
    nb.set_num_threads(np.int64(3))
    assert nb.get_num_threads() == 3
    assert type(nb.get_num_threads()) is int


# Whole programs, in processes of their own: what hangs is a failure.


def script(source, timeout=240, **variables):
    """What a program prints; its stacks, if it takes too long."""
    head = f"import faulthandler; faulthandler.dump_traceback_later({timeout - 20}, exit=True)\n"
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", head + textwrap.dedent(source)],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:  # a child that hangs keeps the pipes open
        (os.killpg if hasattr(os, "killpg") else os.kill)(process.pid, 9)
        raise
    assert process.returncode == 0, err
    assert not err
    return out.split()


PROGRAM = """
import os, threading
import numpy as np
import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends import threads

threads.GRAIN = 2048
nb.set_num_threads(3)

def program(seed):
    x = nd.array(np.random.default_rng(seed).normal(size=(60, 1000)))
    x.attach_grad()
    with autograd.record():
        y = nd.sum(nd.softmax(nd.tanh(x * x + 0.5)) * nd.exp(x - nd.mean(x, axis=0)))
    y.backward()
    return y.asnumpy().tobytes() + x.grad.asnumpy().tobytes()
"""


def test_eight_threads_at_once():
    source = (
        PROGRAM
        + """
expected = [program(k) for k in range(8)]
wrong, rounds = [], [0] * 8

def work(k):
    for _ in range(40):
        if program(k) != expected[k]:
            wrong.append(k)
        rounds[k] += 1

workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for w in workers: w.start()
for w in workers: w.join()
print(wrong, sum(rounds), threading.active_count() <= 3)
"""
    )
    assert script(source) == ["[]", "320", "True"]


def test_the_pool_of_buffers_under_threads():
    source = (
        PROGRAM
        + """
from nbgrad.backends.buffer_pool import pool
import gc

def work(k):
    for _ in range(30): program(k)

workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for w in workers: w.start()
for w in workers: w.join()
gc.collect()
pool.clear()
print(pool.cached_bytes, pool.lent)
"""
    )
    assert script(source) == ["0", "0"]


def test_executor_threads():
    source = (
        PROGRAM
        + """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(program, [1, 2] * 20))
print(len(set(found)), found[0] == program(1))
"""
    )
    assert script(source) == ["2", "True"]


FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@FORK
def test_fork_after_use():
    source = (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        + PROGRAM
        + """
expected = program(0)
busy = threading.Thread(target=lambda: [program(5) for _ in range(60)])
busy.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if program(0) == expected and program(0) == expected else 1)
    assert program(0) == expected
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
busy.join()
print("done")
"""
    )
    assert script(source) == ["done"]


@FORK
def test_a_fork_waits_for_every_lock_and_the_child_has_them_free():
    source = (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        + PROGRAM
        + """
import time
from nbgrad.core import fork_safety
expected = program(0)
locks = list(fork_safety._register)
print(len(locks) >= 6)

for lock in locks:
    taken, freed = threading.Event(), []

    def hold():
        with lock:
            taken.set()
            time.sleep(0.02)
            freed.append(True)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if freed and program(0) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, lock
    holder.join()
"""
    )
    assert script(source, timeout=120) == ["True"]


@FORK
def test_a_forked_child_has_a_pool_of_its_own():
    source = (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        + PROGRAM
        + """
program(0)
child = os.fork()
if child == 0:
    before = threading.active_count()
    names, both = set(), threading.Barrier(2)
    def call(start, stop):
        if len(names) < 2 and threading.current_thread() not in names:
            names.add(threading.current_thread())
            both.wait(60)
    nb.set_num_threads(2)
    threads.parallel_ranges(call, 1 << 20)
    os._exit(0 if (before, len(names)) == (1, 2) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert script(source) == ["0"]


@pytest.mark.parametrize("method", ["spawn", pytest.param("fork", marks=FORK)])
def test_multiprocessing(method, tmp_path):
    file = tmp_path / "program.py"
    head = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
    file.write_text(
        head
        + PROGRAM
        + f"""
import multiprocessing
if __name__ == "__main__":
    expected = [program(k) for k in range(4)]
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(program, range(4)) == expected)
"""
    )
    assert script(f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')") == ["True"]


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({}, None),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"NUMBA_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1,2", "NUMBA_NUM_THREADS": "2"}, 1),
        ({"OMP_NUM_THREADS": "none"}, None),
        ({"OMP_NUM_THREADS": "1000"}, None),
    ],
)
def test_environment(variables, expected):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    (found,) = script("import nbgrad; print(nbgrad.get_num_threads())", **variables)
    assert int(found) == (expected or cores)


def test_the_end_of_a_program_with_helpers():
    source = (
        PROGRAM
        + """
program(0)
late = threading.Thread(target=lambda: [program(k) for k in range(3)], daemon=True)
late.start()
print("end")
"""
    )
    assert script(source) == ["end"]
