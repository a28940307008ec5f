"""Signals, forks, threads and tasks in the middle of things: programs in processes of their own."""

import asyncio
import os
import pty
import subprocess
import sys
import threading

import numpy as np
import pytest
from test_thread_pool import FORK, script

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import DTypeError, NBGradError

HEAD = """
import signal, sys, threading, time, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import numpy as np
import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends.numba import disk_cache
from nbgrad.backends.numba.compile import generate
disk_cache.store = lambda *_: None

def fresh(number):
    source = f"def f(x, y):\\n    for i in range(x.size):\\n        y[i] = x[i] * {number}.0\\n"
    x, y = np.ones(3), np.zeros(3)
    made = generate("f", source, {})
    return made, lambda: (made(x, y), y.tolist())[1]

number = time.time_ns() % (1 << 40)
"""


def test_an_interrupt_of_compiling_surfaces_and_the_next_call_compiles():
    source = """
    made, call = fresh(number)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    caught = 0
    for delay in (0.001, 0.01, 0.03, 0.06, 0.1, 0.2):
        made, call = fresh(number)
        number += 1
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            caught += 1
        assert call() == [number - 1.0] * 3
    print(caught > 0)
    """
    assert script(HEAD + _dedented(source)) == ["True"]


def _dedented(source):
    return "\n".join(line.removeprefix("    ") for line in source.splitlines())


def test_a_handler_compiles_while_the_program_compiles():
    source = """
    seen = []
    def handler(*_):
        seen.append(fresh(7)[1]())
    signal.signal(signal.SIGALRM, handler)
    made, call = fresh(number)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    assert call() == [float(number)] * 3
    while not seen: time.sleep(0.01)
    print(seen == [[7.0] * 3])
    """
    assert script(HEAD + _dedented(source)) == ["True"]


def test_a_program_that_ends_while_it_compiles_ends_well():
    source = """
    made, call = fresh(number)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        print("interrupted")
    """
    assert script(HEAD + _dedented(source)) in (["interrupted"], [])


def test_no_thread_waits_forever_for_an_interrupted_one():
    source = """
    from nbgrad.backends.numba.compile_guard import run_uninterrupted
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    caught = 0
    for k in range(1500):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + (k % 100) * 3e-6)
            for _ in range(3):
                run_uninterrupted(time.sleep, 1e-6)
            while True: time.sleep(0.001)
        except KeyboardInterrupt:
            caught += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    for _ in range(100):
        if len(sys._current_frames()) > 1: time.sleep(0.05)
    print(caught, len(sys._current_frames()))
    """
    assert script(HEAD + _dedented(source)) == ["1500", "1"]


def test_interrupts_print_nothing_and_break_nothing():
    source = """
    lost = []
    sys.unraisablehook = lambda given: lost.append(given)
    x = nd.ones(20_000)
    x.attach_grad()
    def program():
        with autograd.record():
            y = nd.exp(x * 0)
            for _ in range(20):
                y = y * 1
            y = y.sum()
        y.backward()
    program()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    caught = 0
    for k in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + (k % 100) * 2e-5)
            program()
            while True: time.sleep(0.001)
        except KeyboardInterrupt:
            caught += 1
        autograd.set_recording(False), autograd.set_training(False)  # Python's with may be interrupted at its end
    program()
    print(caught, lost, x.grad.asnumpy().any())
    """
    assert script(HEAD + _dedented(source)) == ["300", "[]", "False"]


@FORK
def test_a_handler_compiles_while_the_program_is_in_llvm():
    """In a lock that another thread, which compiles, would wait for."""
    source = """
    import llvmlite.binding as llvm
    from llvmlite.binding import ffi
    number = time.time_ns() % (1 << 40)
    signal.signal(signal.SIGALRM, lambda *_: print(fresh(number)[1]() == [float(number)] * 3))
    module = llvm.parse_assembly("define i64 @f() { ret i64 1 }")
    once = [1]
    def acquired():
        if once and threading.current_thread() is threading.main_thread():
            once.clear()
            signal.raise_signal(signal.SIGALRM)
    ffi.register_lock_callback(acquired, lambda: None)
    module.close()
    """
    assert script(HEAD + _dedented(source)) == ["True"]


def test_a_fork_waits_for_a_thread_that_compiles():
    source = """
    numbers = iter(range(number, number + 1000))
    stop = threading.Event()
    def work():
        while not stop.is_set():
            fresh(next(numbers))[1]()
    thread = threading.Thread(target=work)
    thread.start()
    codes = []
    for k in range(4):
        time.sleep(0.05 * (k + 1))
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if fresh(k)[1]() == [float(k)] * 3 else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    thread.join()
    print(codes == [0] * 4)
    """
    assert script(HEAD + _dedented(source)) == ["True"]


def test_a_thread_that_compiles_may_ask_for_a_logger_while_a_fork_waits():
    source = """
    import logging
    from nbgrad.backends.numba.compile_guard import COMPILING
    held = threading.Event()
    def work():
        with COMPILING:
            held.set()
            time.sleep(0.3)
            logging.getLogger("another")
    threading.Thread(target=work).start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0)
    """
    head = "import faulthandler\nfaulthandler.dump_traceback_later(60, exit=True)\n"
    assert script(head + HEAD + _dedented(source)) == ["True"]


IMPORTED = """
import numba
import numpy as np
import nbgrad as nb


@numba.njit
def twice(x):
    return 2.0 * x


@nb.primitive
@numba.njit
def squares(x):
    return x * x


@squares.defvjp
@numba.njit
def squares_vjp(g, y, x):
    return 2 * g * x


def total(x):
    y = squares(x)
    s = 0.0
    for i in range(x.size):
        s += twice(y[i])
    return s


print(*nb.adjoint(total).value_and_grad(np.ones(3))[1][0])
print(*nb.jit(nb.grad(lambda x: squares(x).sum()))(np.ones(3)))
"""


def test_a_module_that_compiles_while_it_is_imported_waits_for_nobody(tmp_path):
    (tmp_path / "compiles_at_import.py").write_text(IMPORTED)
    call = [
        sys.executable,
        "-W",
        "error",
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import compiles_at_import",
    ]
    for _ in range(2):  # the second one loads what was stored
        made = subprocess.run(call, capture_output=True, text=True, timeout=120)
        assert made.returncode == 0 and made.stdout.split() == ["4.0"] * 3 + ["2.0"] * 3, made.stderr


def _graph(size=2000):
    x = nd.array(np.linspace(0.5, 1.5, size))
    x.attach_grad()
    with autograd.record():
        y = x
        for _ in range(60):
            y = nd.sin(y) * x
    y.backward(retain_graph=True)
    return x, y, x.grad.asnumpy()


def _together(call, count):
    errors, start = [], threading.Barrier(count)

    def work():
        start.wait()
        try:
            call()
        except NBGradError as err:
            errors.append(str(err))

    threads = [threading.Thread(target=work) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return errors


def test_threads_that_keep_a_graph_are_right():
    x, y, expected = _graph()
    assert _together(lambda: [y.backward(retain_graph=True) for _ in range(20)], 4) == []
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_of_threads_that_free_a_graph_one_is_right_and_others_are_told():
    for _ in range(30):
        x, y, expected = _graph()
        errors = _together(y.backward, 3)
        assert len(errors) == 2
        assert all("retain_graph=True" in text for text in errors), errors
        np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_a_sweep_inside_of_a_sweep_over_the_same_graph_is_told():
    class Again(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, g):
            with pytest.raises(NBGradError, match="another backward goes over this graph"):
                heads[1].backward()
            return g

    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        y = Again()(x)
        heads = [y * 2, y * 3]
    heads[0].backward()
    assert x.grad.tolist() == [2.0] * 3


def test_scopes_belong_to_a_task():
    seen = {}

    @autograd.record()
    async def decorated():
        await asyncio.sleep(0.002)
        return autograd.is_recording()

    async def records(name, scope, go, other):
        with scope:
            go.set()
            await other.wait()
            await asyncio.sleep(0.001)
            seen[name] = autograd.is_recording(), autograd.is_training()
            await asyncio.sleep(0.001)
        seen[f"{name} after"] = autograd.is_recording()

    async def plain(name, *events):
        for event in events:
            await event.wait()
        seen[name] = autograd.is_recording(), autograd.is_training()

    async def main():
        a, b = asyncio.Event(), asyncio.Event()
        found = await asyncio.gather(
            records("a", autograd.record(), a, b), records("b", autograd.pause(), b, a), plain("c", a, b), decorated()
        )
        assert found[-1] is True
        assert (autograd.is_recording(), autograd.is_training()) == (False, False)

    asyncio.run(main())
    assert seen == {
        "a": (True, True), "a after": False, "b": (False, False), "b after": False, "c": (False, False),
    }  # fmt: skip


def test_a_scope_around_a_generator_is_refused():
    with pytest.raises(DTypeError, match="numbers is a generator"):

        @autograd.record()
        def numbers():
            yield 1


def test_a_scope_that_is_left_elsewhere_is_an_error():
    def held():
        with autograd.record():
            yield

    steps = held()
    next(steps)
    errors = _together(lambda: next(steps, None), 1)
    autograd.set_recording(False), autograd.set_training(False)
    assert len(errors) == 1 and "left in another thread or task" in errors[0]


MATRIX = np.arange(4.0).reshape(2, 2)


def written(x):
    for i in range(2):
        x[i, 0] = 2.0 * x[i, 1]


SUBCLASSES = {"matrix": np.matrix, "recarray": lambda a: a.view(np.recarray), "memmap": lambda a: a.view(np.memmap)}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", SUBCLASSES)
@pytest.mark.parametrize("call", [nb.jit(lambda x: x * 2), nb.grad(lambda x: nd.sum(x * x)), lambda x: nd.array(x) * 2])
def test_subclasses_are_their_elements(name, call):
    found = call(SUBCLASSES[name](MATRIX))
    assert type(found) in (np.ndarray, nb.NDArray)
    np.testing.assert_array_equal(found if type(found) is np.ndarray else found.asnumpy(), MATRIX * 2)


@pytest.mark.parametrize(
    "call", [nb.jit(lambda x: x * 2), nb.grad(lambda x: nd.sum(x * x)), nd.array, lambda x: nd.ones((2, 2)) + x,
             nd.from_numpy, nd.from_dlpack, lambda x: nd.zeros((2, 2)).__setitem__(..., x),
             lambda x: nd.ones((9,))[x.astype(int)], nb.adjoint(written).vjp, nb.tangent(written).jvp,
             lambda x: nb.adjoint(written).vjp(MATRIX.copy())(x)]
)  # fmt: skip
def test_masks_are_not_dropped(call):
    masked = np.ma.array(MATRIX, mask=MATRIX > 1)
    with pytest.raises(DTypeError, match=r"masked array|MaskedArray"):
        call((MATRIX.copy(),), (masked,)) if getattr(call, "__name__", "") == "jvp" else call(masked)


def test_a_matrix_in_checked_mode():
    source = """
    import numpy as np, nbgrad as nb
    import warnings; warnings.simplefilter("ignore")
    print(nb.jit(lambda x: x * 2)(np.matrix([[1.0, 2.0]])).tolist())
    """
    assert script(_dedented(source), NBGRAD_CHECKED="1") == ["[[2.0,", "4.0]]"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize("progress, lines", [("1", 1), ("0", 0)])
def test_long_compilations_say_so_on_a_terminal(progress, lines):
    source = HEAD + _dedented("""
    from nbgrad.backends.numba import compile_guard
    compile_guard.PATIENCE = 0.2
    for k in range(8): fresh(number + k)[1]()
    """)
    leader, follower = pty.openpty()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NBGRAD_PROGRESS": progress}
    subprocess.run([sys.executable, "-c", source], stderr=follower, env=environment, timeout=200, check=True)
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 1000):
            shown += part
    except OSError:  # the end, on Linux
        pass
    os.close(leader)
    assert shown.decode().splitlines() == ["nbgrad: compiling f ..., kept for next time"] * lines
