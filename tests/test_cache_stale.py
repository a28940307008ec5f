"""No process gets code that another one made of other values: programs are changed, and started again."""

import enum
import functools
import os
import shutil
import subprocess
import sys
import types
from collections import namedtuple
from pathlib import Path

import numba
import numpy as np
import pytest

from nbgrad.backends.numba import disk_cache, package_sources, staleness
from nbgrad.backends.numba.compile import generate
from nbgrad.backends.numba.fingerprint import of_function, of_value
from nbgrad.backends.numba.known_names import NoFingerprint
from nbgrad.backends.numba.trusted_files import Root

ROOT = Path(__file__).resolve().parent.parent

HELPERS = """
import numba
import numpy as np
K = 3.0
TABLE = np.arange(4.0)
LONG = tuple(range(1000)) + (7.0,)
@numba.njit
def deeper(x):
    return 1.0 * x
@numba.njit
def h(x):
    return deeper(x) * 2.0
"""
MAIN = """
import numba, numpy as np, nbgrad as nb, helpers
@nb.primitive
@numba.njit
def f(x):
    return x * {use}
@f.defvjp
@numba.njit
def f_vjp(g, y, x):
    return g * {use}
def loop(u):
    s = 0.0
    for i in range(u.size):
        s += f(u[i])
    return s
value, (gradient,) = nb.adjoint(loop).value_and_grad(np.ones(2))
print(value / 2, gradient[0])
"""


def start(folder, *arguments):
    """What a program prints, and whether its adjoint was "loaded", "compiled" or is "not kept"."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD")}
    env |= {"NBGRAD_CACHE_DIR": str(folder / "cache"), "NBGRAD_LOG": "compile", "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), env.get("PYTHONPATH", ""), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *(arguments or ["main.py"])], env=env, cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.split("\n") if line.startswith("nbgrad: ")]
    how = "not kept" if any("not kept" in t for t in told) else told[-1].split()[1]
    return [float(x) for x in done.stdout.split()], how


#: What the first program reaches, its sum, and changes with what they add to it.
EVERYTHING = "(helpers.K + helpers.h(1.0) + helpers.LONG[1000] + helpers.TABLE[2])", 3.0 + 2.0 + 7.0 + 2.0
CHANGES = [
    ("K = 3.0", "K = 5.0", 2.0),
    ("* 2.0", "* 4.0", 2.0),
    ("1.0 * x", "3.0 * x", 4.0),
    ("(7.0,)", "(9.0,)", 2.0),
    ("np.arange(4.0)", "np.arange(4.0) * 3", 4.0),
]


def test_what_a_primitive_reaches_is_changed_and_the_program_started_again(tmp_path):
    use, before = EVERYTHING
    (tmp_path / "main.py").write_text(MAIN.format(use=use))
    (tmp_path / "helpers.py").write_text(HELPERS)
    assert start(tmp_path) == ([before, before], "compiled")
    for old, new, more in CHANGES:
        assert HELPERS.count(old) == 1
        (tmp_path / "helpers.py").write_text(HELPERS.replace(old, new))
        assert start(tmp_path) == ([before + more] * 2, "compiled")
    (tmp_path / "helpers.py").write_text(HELPERS)
    assert start(tmp_path) == ([before, before], "loaded")


def test_arrays_of_which_the_address_is_in_the_code_are_in_no_file(tmp_path):
    (tmp_path / "helpers.py").write_text(HELPERS.replace("np.arange(4.0)", "np.arange(150_000.0)"))
    (tmp_path / "main.py").write_text(MAIN.format(use="helpers.TABLE[149_999]"))
    for _ in range(3):
        assert start(tmp_path) == ([149_999.0] * 2, "not kept")
    assert not list((tmp_path / "cache").rglob("*.kernel"))


def test_so_it_is_for_kernels_of_ours(monkeypatch, tmp_path):
    root = Root(str(tmp_path))
    monkeypatch.setattr(disk_cache, "_chosen", (root, (root,)))
    for table in (np.arange(150_000.0), np.arange(8.0)[::2]):
        out = np.zeros(1)
        source = "def read_table(out):\n    for i in range(2):\n        out[0] += table[i + 1]\n"
        generate("read_table", source, {"table": table})(out)
        assert out[0] == table[1] + table[2]
    assert not list(tmp_path.rglob("*.kernel"))


def test_code_that_was_compiled_with_other_values_is_not_stored(tmp_path):
    """Numba keeps what it compiled; a program that sets K after that must not leave its code to one that begins so."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    late = MAIN.format(use="helpers.K").replace(
        "def loop", "f.forward(1.0), f_vjp(1.0, 1.0, 1.0)\nhelpers.K = 5.0\ndef loop"
    )
    (tmp_path / "main.py").write_text(late)
    assert start(tmp_path) == ([3.0, 3.0], "not kept")
    (tmp_path / "main.py").write_text(MAIN.format(use="helpers.K"))
    (tmp_path / "helpers.py").write_text(HELPERS.replace("K = 3.0", "K = 5.0"))
    assert start(tmp_path) == ([5.0, 5.0], "compiled")


#: Two modules, made anew in one process, whose functions are called alike: `of` is too long to be inlined.
ALIKE = """
import linecache, sys, types
import numpy as np, nbgrad as nb
def made(name, text):
    module = sys.modules[name] = types.ModuleType(name)
    file = f"{name} {hash(text)}.py"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), vars(module))
    return module
def gradient(k):
    text = "import math, numba, numpy as np\\n@numba.njit\\ndef of(x, n):\\n    a = np.zeros(n)\\n"
    text += "    for i in range(1, n):\\n        a[i] = math.sqrt(a[i - 1] / (a[i] + x))\\n" * 40
    text += f"    return 0.0 * a.sum() + {k}.0\\n@numba.njit\\ndef f{k}(x):\\n    return x * of(x, 3)\\n"
    text += "@numba.njit\\ndef vjp(g, y, x):\\n    return g * of(x, 3)\\n"
    users = made("users", text)
    loop = made("loops", f"def g(x):\\n    s = 0.0\\n    for i in range(2):\\n        s += f{k}(x)\\n    return s\\n")
    setattr(loop, f"f{k}", nb.primitive(getattr(users, f"f{k}"), vjp=users.vjp))
    return nb.adjoint(loop.g).value_and_grad(1.0)[1][0]
print(*[gradient(int(k)) for k in sys.argv[1:]])
"""


def test_functions_of_one_name_in_code_of_two_processes_are_told_apart(tmp_path):
    """Numba numbers functions of one name from 1 in each process, and the linker keeps the first (numba#10486)."""
    (tmp_path / "main.py").write_text(ALIKE)
    for k in (2, 3):
        assert start(tmp_path, "main.py", str(k)) == ([2.0 * k], "compiled")
    assert start(tmp_path, "main.py", "2", "3") == ([4.0, 6.0], "loaded")
    assert start(tmp_path, "main.py", "3", "2") == ([6.0, 4.0], "loaded")


def test_functions_that_call_themselves_are_in_no_file(tmp_path):
    """Numba links these when it compiles them; loaded, they call nothing."""
    (tmp_path / "helpers.py").write_text(
        "import numba\n@numba.njit\ndef h(x, n):\n"
        "    if n <= 0:\n        return x\n    return h(x, n - 1) + h(0.5 * x, n - 2)\n"
    )
    (tmp_path / "main.py").write_text(MAIN.format(use="helpers.h(1.0, 5)"))
    for _ in range(2):
        assert start(tmp_path) == ([5.125, 5.125], "not kept")


def test_what_was_compiled_before_us_is_in_no_file(tmp_path):
    """It has a number of Numba's own count, and so a name that another function may have in another process."""
    (tmp_path / "helpers.py").write_text(
        "import numba, numpy as np\n@numba.njit\ndef first(n):\n    return np.sort(np.ones(n)).sum()\nfirst(3)\n"
    )
    main = MAIN.format(use="np.sort(np.ones(3)).sum()")
    (tmp_path / "main.py").write_text(f"import helpers\n{main}")
    assert start(tmp_path) == ([3.0, 3.0], "not kept")
    (tmp_path / "main.py").write_text(main.replace(", helpers", ""))
    assert start(tmp_path) == ([3.0, 3.0], "compiled")


def test_a_pass_of_ours_that_was_mended_does_not_meet_old_code(tmp_path):
    shutil.copytree(ROOT / "nbgrad", tmp_path / "nbgrad", ignore=shutil.ignore_patterns("__pycache__", "*.gz"))
    program = "import numpy as np\nfrom nbgrad.backends.numba.compile import generate\nout = np.zeros(1)\n"
    program += "generate('k', 'def k(out):\\n    out[0] = 3.0\\n', {})(out)\nprint(out[0])\n"
    (tmp_path / "main.py").write_text(program)
    env = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD") and k != "PYTHONPATH"}
    env |= {"NBGRAD_CACHE_DIR": str(tmp_path / "cache"), "NBGRAD_LOG": "compile"}

    def told():
        done = subprocess.run(
            [sys.executable, "main.py"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr.split()[1]

    assert told() == ("3.0", "compiled") and told() == ("3.0", "loaded")
    some = tmp_path / "nbgrad" / "backends" / "numba" / "direct_calls.py"
    times = some.stat()
    text = some.read_text()
    some.write_text(text.replace("the", "teh", 1))
    os.utime(some, ns=(times.st_atime_ns, times.st_mtime_ns))  # of the same size and time, as archives make them
    assert told() == ("3.0", "compiled") and told() == ("3.0", "loaded")
    some.write_text(text)
    assert told() == ("3.0", "loaded")


def test_files_that_change_under_a_process_end_its_part_in_the_cache(monkeypatch, tmp_path):
    (tmp_path / "some.py").write_text("x = 1\n")
    monkeypatch.setattr(package_sources, "PACKAGE", str(tmp_path))
    assert package_sources.digest.__wrapped__() == ""  # it is newer than this process
    monkeypatch.setattr(package_sources.config, "STARTED", (tmp_path / "some.py").stat().st_ctime_ns + 1)
    before = package_sources.digest.__wrapped__()
    assert len(before) == 64 and package_sources.digest.__wrapped__() == before
    (tmp_path / "some.py").write_text("x = 2\n")
    monkeypatch.setattr(package_sources.config, "STARTED", (tmp_path / "some.py").stat().st_ctime_ns + 1)
    assert len(package_sources.digest.__wrapped__()) == 64 and package_sources.digest.__wrapped__() != before


# Fingerprints.


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


Point = namedtuple("Point", "x y")


def module(**values):
    made = types.ModuleType("helpers")
    vars(made).update(values)
    return made


def function(text, **space):
    exec(f"def f(x):\n    return {text}\n", space)
    return space["f"]


def compiled(text, options=(), **space):
    return numba.njit(function(text, **space), **dict(options))


def closure(c):
    return lambda x: x + c


def calling_each_other(k):
    space = {"k": k}
    exec("def f(x):\n    return g(x)\ndef g(x):\n    return f(x) if x else k\n", space)
    space["f"], space["g"] = map(numba.njit, (space["f"], space["g"]))
    return space["f"]


def record(x):
    return np.array([(x, 2)], [("a", "f8"), ("b", "i4")])


#: Two of each pair differ, and each made twice is the same.
PAIRS = {
    "numbers": (lambda: 1, lambda: 2),
    "kinds of numbers": (lambda: 1, lambda: 1.0),
    "truth": (lambda: 1, lambda: True),
    "signs of zero": (lambda: 0.0, lambda: -0.0),
    "text and bytes": (lambda: "a", lambda: b"a"),
    "long tuples": (lambda: (*range(5000), 1), lambda: (*range(5000), 2)),
    "nests": (lambda: (1, (2, 3)), lambda: ((1, 2), 3)),
    "lists and tuples": (lambda: [1], lambda: (1,)),
    "sets": (lambda: {"a", "b", "c"}, lambda: {"a", "b", "d"}),
    "dicts": (lambda: {"a": 1}, lambda: {"a": 2}),
    "arrays": (lambda: np.arange(3), lambda: np.array([0, 1, 3])),
    "long arrays": (lambda: np.arange(9999.0), lambda: np.arange(9999.0) * (1 + 1e-16 * (np.arange(9999) == 5000) * 4)),
    "shapes": (lambda: np.ones((2, 3)), lambda: np.ones((3, 2))),
    "orders": (lambda: np.ones((2, 3)), lambda: np.ones((2, 3), order="F")),
    "dtypes": (lambda: np.zeros(2, "i4"), lambda: np.zeros(2, "f4")),
    "byte orders": (lambda: np.zeros(2, "<i4"), lambda: np.zeros(2, ">i4")),
    "records": (lambda: record(1.0), lambda: record(2.0)),
    "numbers of NumPy's": (lambda: np.float32(1), lambda: np.float64(1)),
    "enums": (lambda: Colour.RED, lambda: Colour.BLUE),
    "members and numbers": (lambda: Colour.RED, lambda: 1),
    "classes of enums": (lambda: enum.Enum("E", {"A": 1}), lambda: enum.Enum("E", {"A": 2})),
    "tuples with names": (lambda: Point(1, 2), lambda: Point(1, 3)),
    "names of tuples": (lambda: Point(1, 2), lambda: (1, 2)),
    "partials": (lambda: functools.partial(max, 1), lambda: functools.partial(max, 2)),
    "slices": (lambda: slice(1, 2), lambda: slice(1, 3)),
    "functions": (lambda: compiled("x + 1"), lambda: compiled("x + 2")),
    "constants of the code": (lambda: compiled("x in (1, 2)"), lambda: compiled("x in (1, 3)")),
    "operators": (lambda: compiled("x + 1"), lambda: compiled("x * 1")),
    "defaults": (lambda: function("x"), lambda: _with_default(function("x"))),
    "options": (lambda: compiled("x", {"fastmath": True}), lambda: compiled("x", {"fastmath": False})),
    "flags": (lambda: compiled("x", {"fastmath": {"nnan"}}), lambda: compiled("x", {"fastmath": {"ninf"}})),
    "globals": (lambda: compiled("x + k", k=1), lambda: compiled("x + k", k=2)),
    "missing": (lambda: compiled("x + k", k=1), lambda: compiled("x + k")),
    "calls": (
        lambda: compiled("h(x)", h=compiled("g(x)", g=compiled("x"))),
        lambda: compiled("h(x)", h=compiled("g(x)", g=compiled("-x"))),
    ),
    "attributes": (lambda: compiled("m.k", m=module(k=1)), lambda: compiled("m.k", m=module(k=2))),
    "attributes of attributes": (
        lambda: compiled("m.n.k", m=module(n=module(k=1))),
        lambda: compiled("m.n.k", m=module(n=module(k=2))),
    ),
    "functions of modules": (
        lambda: compiled("m.h(x)", m=module(h=compiled("x"))),
        lambda: compiled("m.h(x)", m=module(h=compiled("-x"))),
    ),
    "modules as values": (
        lambda: compiled("getattr(m, 'k')", m=module(k=1)),
        lambda: compiled("getattr(m, 'k')", m=module(k=2)),
    ),
    "functions inside": (lambda: function("(lambda y: y + 1)(x)"), lambda: function("(lambda y: y + 2)(x)")),
    "closures": (lambda: closure(1), lambda: closure(2)),
    "functions in closures": (lambda: closure(compiled("x")), lambda: closure(compiled("-x"))),
    "circles": (lambda: calling_each_other(1), lambda: calling_each_other(2)),
    "ufuncs": (lambda: numba.vectorize(function("x + 1")), lambda: numba.vectorize(function("x + 2"))),
    "functions of libraries": (lambda: compiled("g(x)", g=np.exp), lambda: compiled("g(x)", g=np.sin)),
    "builtins": (lambda: compiled("g(x)", g=abs), lambda: compiled("g(x)", g=len)),
    "types": (lambda: numba.float32, lambda: numba.float64),
    "array types": (lambda: numba.float64[:], lambda: numba.float64[::1]),
    "what was put into libraries": (lambda: _put(1.0), lambda: _put(2.0)),
}


def _with_default(f):
    f.__defaults__ = (1,)
    return f


class _put:
    """A fingerprint that is made while NumPy has another attribute."""

    def __new__(cls, value):
        np.put_here = value
        try:
            return of_value(compiled("np.put_here + x", np=np))
        finally:
            del np.put_here


def hashed(value):
    return of_function(value) if isinstance(value, types.FunctionType) else of_value(value)


@pytest.mark.parametrize("name", PAIRS)
def test_a_fingerprint_follows_the_content(name):
    first, second = PAIRS[name]
    assert hashed(first()) == hashed(first()) and hashed(second()) == hashed(second())
    assert hashed(first()) != hashed(second())
    inside = [
        of_value((1, x)) if not isinstance(x, types.FunctionType) else of_function(x) for x in (first(), second())
    ]
    assert inside[0] != inside[1]


class Thing:
    pass


class Rows(np.ndarray):
    pass


def itself():
    found = []
    found.append(found)
    return found


@numba.extending.intrinsic
def an_intrinsic(context, x):
    return x(x), lambda context, builder, signature, args: args[0]


@pytest.mark.parametrize(
    "value",
    [Thing(), Thing, itself(), np.array([Thing()]), np.zeros(3).view(Rows), np.zeros(200_000), np.zeros(9)[::2],
     module(k=1), closure(1), Thing().__init__, an_intrinsic, numba.cfunc("f8(f8)")(lambda x: x), iter([1]),
     numba.typed.List([1]), functools.reduce(lambda t, _: (t,), range(100_000), ()), np.random.default_rng()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_has_no_content_that_is_known_has_no_fingerprint(value):
    with pytest.raises(NoFingerprint):
        of_value(value)
    if not isinstance(value, types.ModuleType):
        with pytest.raises(NoFingerprint):
            of_value(compiled("k", k=value))


def test_who_is_called_so_as_a_library_is_no_library(monkeypatch, tmp_path):
    (tmp_path / "statistics.py").write_text("K = 1\n")
    made = types.ModuleType("statistics")
    made.__file__ = str(tmp_path / "statistics.py")
    monkeypatch.setitem(sys.modules, "statistics", made)
    found = set()
    for made.K in (1, 2):
        found.add(of_value(compiled("m.K", m=made)))
    assert len(found) == 2


def test_it_takes_time_in_proportion():
    """Functions that all call each other are looked at once each, and shared values are hashed as often as named."""
    count = 60
    space = {}
    names = [f"f{k}" for k in range(count)]
    for name in names:
        exec(f"def {name}(x):\n    return {' + '.join(f'{n}(x)' for n in names)}\n", space)
    for name in names:
        space[name] = numba.njit(space[name])
    assert len(of_value(space["f0"])) == 64


def test_code_compiled_of_other_values_has_no_key():
    h = compiled("x + k", k=1.0)
    space = h.py_func.__globals__
    assert h(1.0) == 2.0
    staleness.check(compiled("h(x)", h=h))
    space["k"] = 2.0
    with pytest.raises(NoFingerprint, match="older"):
        staleness.check(compiled("h(x)", h=h))
    space["k"] = 1.0
    staleness.check(compiled("h(x)", h=h))
