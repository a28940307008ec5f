"""The passes that stand in the place of Numba's: what they make is the same."""

import io
import math
import re
import textwrap

import numba
import numpy as np
import pytest
from loop_programs import copies
from numba.core import ir
from numba.core.compiler import run_frontend
from numba.core.ssa import reconstruct_ssa
from programs import PROGRAMS

import nbgrad as nb
from nbgrad.backends.numba import compile as compiling
from nbgrad.backends.numba.ssa import construct_ssa
from nbgrad.backends.numba.value_range import LowerBounds


def irreducible(n, x):
    while True:
        if n > 3:
            y = n
            n -= 1
            continue
        if n == 1:
            break
        for k in range(n):
            if k > 2:
                x, y = y, x
            else:
                del x
                x = k
        n = x + 1 if n else 1
    return x, y  # perhaps never set


def adjoint(name):
    f, args = PROGRAMS[name]
    made = nb.adjoint(f)
    return made.compiled(*made._bound_arguments(copies(args), {})).py_func


def text(function, how):
    made = run_frontend(function)
    how(made)
    written = io.StringIO()
    made.dump(written)
    return re.sub(r":\d+\)", ")", written.getvalue())  # but for line numbers


@pytest.mark.parametrize("name", ["adaptive", "kalman", "lattice_boltzmann", "march", "qr", "soft_edit"])
def test_versions_of_variables_in_adjoints_are_those_of_numba(name):
    function = adjoint(name)
    assert text(function, lambda made: construct_ssa(made.blocks)) == text(function, reconstruct_ssa)


@pytest.mark.parametrize("function", [irreducible, textwrap.TextWrapper._wrap_chunks])
def test_versions_of_variables_are_those_of_numba(function):
    assert text(function, lambda made: construct_ssa(made.blocks)) == text(function, reconstruct_ssa)


SOURCE = """
import numpy as np
from numba import njit

@njit(error_model="numpy")
def elements(a, i, j, u, s):
    b = a
    if s:
        b = a[::-1]
    n = 0
    for k in range(a.shape[0]):
        n += k
        b[k - 1, -1] = a[i, -2] + k
        b[-k, j] += 2
        a[u, 1] = True
    flags = np.zeros(3, np.bool_)
    flags[-1] = a[i, j] > 0
    small = np.zeros((2, 1, 3), np.float32)
    small[1, 0, -1] = 0.1
    small[-1, -1, 0] += a[u, j] * small[1, 0, 2]
    words = np.array([250, 3], np.uint8)
    words[0] = words[0] + words[1]
    return n, b[i, u], flags, small, words, words[1] // 2 - small[1, 0, 2] ** 2, u % 2 + n / 4
"""


def layouts(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    return [a, np.asfortranarray(a), a[:, ::-1], np.arange(24).reshape(3, 8).astype(dtype)[::-1, ::2], a[:2], a[:1]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
def test_elements_are_those_of_numba(dtype):
    made = compiling.module("elements", SOURCE)
    known = numba.njit(error_model="numpy")(made.py_func)
    for given, again in zip(layouts(dtype), layouts(dtype), strict=True):
        for i, j, s in [(0, 0, False), (-1, -1, True), (0, -4, True)]:
            found, expected = made(given, i, j, np.uint8(0), s), known(again, i, j, np.uint8(0), s)
            np.testing.assert_array_equal(given, again)
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_array_equal(x, y)
                assert np.asarray(x).dtype == np.asarray(y).dtype


ARRAYS = """
import numpy as np
from numba import njit

@njit
def arrays(x, n, a, b, i):
    flags = np.empty((n, n + 1), np.bool_)
    flags[:] = a > b
    like = np.empty_like(x)
    like[:] = 1
    made = flags, np.zeros(n), np.zeros((n, np.uint8(2), 1), x.dtype), np.zeros_like(x), like, np.zeros((), np.int32)
    pairs = max(a, b), min(a, b), max(i, n), max(a, i), min(i, b), min(np.float32(a), b), max(a, 0.0), min(2, i)
    return made, pairs, max(i, n, 7), np.empty(n, dtype=np.float32).dtype == x.dtype
"""


def test_new_arrays_and_the_larger_number_are_those_of_numba():
    made = compiling.module("arrays", ARRAYS)
    known = numba.njit(made.py_func)
    numbers = [(1.0, np.nan), (np.nan, 1.0), (0.0, -0.0), (-0.0, 0.0), (2.0, 3.0)]
    for x in [*layouts("float64"), *layouts("float32")[:1], np.ones(2, np.int64), np.zeros((0, 2))]:
        for a, b in numbers:
            found, expected = made(x, 3, a, b, 5), known(x, 3, a, b, 5)
            for y, z in zip(found[0], expected[0], strict=True):
                assert (y.dtype, y.shape, y.strides) == (z.dtype, z.shape, z.strides)
                np.testing.assert_array_equal(y, z)
            assert repr(found[1:]) == repr(expected[1:])


@pytest.mark.parametrize("n", [-1, 10**6, 10**9])
def test_arrays_that_cannot_be_made_are_an_error(n):
    text = "import numpy as np\nfrom numba import njit\n\n@njit\ndef large(n):\n    return np.zeros((n, n, n)).size\n"
    made = compiling.module("large", text)
    with pytest.raises(Exception) as expected:
        numba.njit(made.py_func)(n)
    with pytest.raises(expected.type, match=re.escape(str(expected.value))):
        made(n)


TOTAL = """
import numpy as np
from numba import njit

@njit(fastmath={"reassoc", "nsz"}, forceinline=True)
def plus(total, term):
    return total + term

@njit
def total(x, start):
    for i in range(x.size):
        start = plus(start, x[i])
    return start
"""


@pytest.mark.parametrize("start", [0.5, np.float32(0.5)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_sums_that_may_be_reordered(dtype, start, monkeypatch):
    monkeypatch.setattr("nbgrad.backends.numba.code_store.load", lambda key: None)
    made = compiling.module("total", TOTAL)
    x = np.arange(-40, 1000).astype(dtype)
    assert made(x, start) == x.sum() + 0.5
    assert made.py_func.__globals__["plus"].signatures == []  # it was not compiled
    known = numba.njit(made.py_func)
    assert known(x, start) == x.sum() + 0.5
    kinds = [f.overloads[f.signatures[0]].signature.return_type for f in (made, known)]
    assert kinds[0] == kinds[1]
    assert "fadd reassoc nsz" in made.inspect_llvm(made.signatures[0])


INDICES = """
import numpy as np
from numba import njit

@njit(error_model="numpy")
def indices(a, k, step):
    n = a.size
    found = np.zeros(12)
    for i in range(n):
        found[0] += a[i - 1] * (i + 1)
        found[1] += a[i - n] * (i + 2)
        found[2] += a[(i + 1) // 2] * (i - 3)
        found[3] += a[-i] * i
    for i in range(1, n):
        found[4] += a[i - 1] * i
        found[5] += a[i - 2] * i
    for i in range(n - 1, -1, -1):
        found[6] += a[i] * i
        found[7] += a[i - 1] * i
    for i in range(k, n):
        found[8] += a[i] * i
    for i in range(n - 1, k, step):
        found[9] += a[i] * i
    i = k
    for _ in range(3):
        found[10] += a[i]
        i = i + 1
    for i in range(max(k, 0), min(n, 4)):
        found[11] += a[min(i, k)] * a[max(i - 1, 0)]
        for j in range(i - 2, i):
            found[11] += a[j] * j
    return found
"""


@pytest.mark.parametrize("k", [-3, -1, 0, 1])
def test_indices_below_zero_count_from_the_end(k):
    made = compiling.module("indices", INDICES)
    a = np.arange(1.0, 7.0) ** 2
    np.testing.assert_array_equal(made(a, k, -2), made.py_func(a, k, -2))


def test_which_indices_are_known_not_to_be_below_zero():
    def function(a, n):
        for i in range(2, n):
            for j in range(n, 0, -1):
                a[i - 2, j] = a[i, j * i] + a[i % 2, i // 2] + a[len(a) - 1, max(n, 1)] + a[a.shape[1], min(i, j)]
                a[i - 3, -j] = a[i + n, j - 2]
            for k in range(n, i):
                a[k - n, k - i] = 0.0

    code = run_frontend(function)
    bounds = LowerBounds(code._definitions)
    tuples = [s.target.name for block in code.blocks.values() for s in block.find_insts(ir.Assign)
              if getattr(s.value, "op", "") == "build_tuple"]  # fmt: skip
    least = [tuple(bounds.items(name, 2)) for name in tuples]
    none = -math.inf
    assert set(least) == {(2, 2), (0, 0), (-1, 1), (0, 1), (none, -1), (-1, none), (0, none)}
    assert len(least) == 8


REMAINDERS = """
from numba import njit


@njit(error_model="numpy")
def remainders(a, i, j):
    total = 0.0
    for k in range(-9, 9):
        total += (k + 10) * a[(k + i) % a.size] + k * a[k * i % j]
    return total
"""


@pytest.mark.parametrize("i", [-5, 0, 2])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_remainders_as_indices_are_those_of_python(i, size):
    made = compiling.module("remainders", REMAINDERS)
    a = np.arange(1.0, size + 1.0) ** 2
    assert [made(a, i, j) for j in (size, -1, -size)] == [made.py_func(a, i, j) for j in (size, -1, -size)]


STACK = """
from numba import njit


@njit
def stack(a, n):
    tape = a.copy()
    top = 0
    for i in range(n):
        for k in range(i):
            tape[top + k] = a[k] * i
        top += i
    for i in range(n - 1, -1, -1):
        top -= i
        for k in range(i):
            a[k] += tape[top + k]
    return a
"""


def test_indices_of_tapes_are_taken_as_they_are(monkeypatch):
    monkeypatch.setattr("nbgrad.backends.numba.code_store.load", lambda key: None)
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", None)  # whose comparisons are others
    made = [compiling.module("stack", STACK, tapes) for tapes in ((), ("tape",))]
    a = np.arange(20.0)
    np.testing.assert_array_equal(made[0](a.copy(), 6), made[1](a.copy(), 6))
    checked, free = (m.inspect_llvm(m.signatures[0]).count(" icmp slt ") for m in made)
    assert free < checked
