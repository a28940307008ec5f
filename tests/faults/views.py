"""Random programs that write into arrays that share memory, recorded and not, against NumPy and finite differences.

A program is a list of steps on a few arrays: new arrays, views of them (slices, reshapes, ``detach``, ``from_numpy`` of
parts of one memory, DLPack), writes of recorded and constant values by every way there is, and reads. The reference
does the same on NumPy arrays, whose views are views; derivatives by central differences, with the values that the
program took as constants (``detach`` of a recorded array, ``BlockGrad``) held as they are. A program agrees, or
raises one of the errors for writes that the tape cannot follow.
"""

from __future__ import annotations

import random

import numpy as np

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import InPlaceError

from . import Outcome

SHORT, LONG = 200, 20_000

_SIZE = 6
_ERRORS = (
    "already in a computational graph",
    "Inplace operations",
    "changed in place after",
    "taken separately",
    "through it lost",
)


class _Ours:
    """Steps on NDArrays."""

    def __init__(self, x: nb.NDArray) -> None:
        self.x = x
        self.recorded: list[bool] = []  # of the arrays that `detach` was called of

    def new(self, values, how):
        if how == "numpy":
            return nd.from_numpy(np.array(values))
        return nd.array(np.array(values))

    def memory(self, values, parts):
        a = np.array(values)
        return [nd.from_numpy(a[lo:hi]) if k % 2 else nd.from_dlpack(a[lo:hi]) for k, (lo, hi) in enumerate(parts)]

    def part(self, a, lo, hi):
        return a[lo:hi]

    def shape(self, a, two):
        return a.reshape((2, -1)) if two and a.size % 2 == 0 else a.reshape((-1,))

    def row(self, a):
        return a[a.shape[0] - 1] if a.ndim == 2 else a[0:1]

    def detach(self, a):
        self.recorded.append(a._node is not None)
        return a.detach()

    def share(self, a):
        return nd.from_dlpack(a)

    def flat(self, a):
        return a.reshape((-1,))

    def function(self, name, a, b):
        return _FUNCTIONS[name][0](a, b)

    def blocked(self, a):
        return nd.BlockGrad(a)

    def write(self, how, a, value):
        if how == "whole":
            a[:] = value
        elif how == "none":
            a[None] = value
        elif how == "ellipsis":
            a[...] = value
        elif how == "out":
            nd.identity(value, out=a)
        elif how == "copyto":
            value.copyto(a)
        elif how == "assign":
            a.slice_assign(value, (0,) * a.ndim, a.shape)
        elif how == "iadd":
            a += value
        elif how == "imul":
            a *= value
        else:
            a[0] = value[0] if value.ndim == 1 else value[0, :]


class _Theirs:
    """The same on NumPy arrays. Constants are kept in the first run, and the same in those for differences."""

    def __init__(self, x: np.ndarray, recorded: list[bool], constants: list | None) -> None:
        self.x = x
        self.recorded = iter(recorded)
        self.first = constants is None
        self.constants: list = [] if constants is None else constants
        self._next = 0

    def constant(self, value):
        if self.first:
            self.constants.append(np.array(value))
        self._next += 1
        return np.array(self.constants[self._next - 1])

    def new(self, values, how):
        return np.array(values)

    def memory(self, values, parts):
        a = np.array(values)
        return [a[lo:hi] for lo, hi in parts]

    def part(self, a, lo, hi):
        return a[lo:hi]

    def shape(self, a, two):
        return a.reshape(2, -1) if two and a.size % 2 == 0 else a.reshape(-1)

    def row(self, a):
        return a[-1] if a.ndim == 2 else a[0:1]

    def detach(self, a):
        return self.constant(a) if next(self.recorded) else a

    def share(self, a):
        return a

    def flat(self, a):
        return a.reshape(-1)

    def function(self, name, a, b):
        return _FUNCTIONS[name][1](a, b)

    def blocked(self, a):
        return self.constant(a)

    def write(self, how, a, value):
        if how == "iadd":
            a += value
        elif how == "imul":
            a *= value
        elif how == "first":
            a[0] = value[0]
        else:
            a[...] = value


_FUNCTIONS = {
    "square": (lambda a, b: a * a, lambda a, b: a * a),
    "sin": (lambda a, b: nd.sin(a), lambda a, b: np.sin(a)),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "sum": (lambda a, b: a + 2 * b, lambda a, b: a + 2 * b),
    "copy": (lambda a, b: a.copy(), lambda a, b: a.copy()),
}
_WRITES = ("whole", "none", "ellipsis", "out", "copyto", "assign", "iadd", "imul", "first")


def _program(rng: random.Random) -> list[tuple]:
    """Steps as data; operands are numbers of arrays, taken modulo how many there are."""
    steps: list[tuple] = []
    for _ in range(rng.randint(3, 14)):
        kind = rng.choices(
            ("new", "memory", "part", "shape", "row", "detach", "share", "function", "blocked", "write", "constant"),
            (2, 1, 4, 2, 2, 1, 1, 6, 0.5, 6, 3),
        )[0]
        at = tuple(rng.randrange(100) for _ in range(3))
        cut = tuple(sorted(rng.sample(range(_SIZE + 1), 2)))
        numbers = [rng.uniform(-1, 1) for _ in range(_SIZE)]
        before = rng.random() < 0.25  # recording begins after it
        steps.append((kind, at, cut, numbers, rng.choice(list(_FUNCTIONS)), rng.choice(_WRITES), before))
    steps.sort(key=lambda s: not s[-1])
    return steps


def _run(world, steps: list[tuple], begin) -> object:
    """The sum of what all arrays have at the end, each element with a weight of its own."""
    arrays: list = [world.new([0.0] * _SIZE, "numpy"), world.new([0.5] * _SIZE, "")]
    recording = False
    for step in steps:
        kind, at, (lo, hi), numbers, function, how, before = step
        if not before and not recording:
            recording = True
            begin()
            arrays.append(world.x)
        a = arrays[at[0] % len(arrays)]
        if kind == "new":
            arrays.append(world.new(numbers, "numpy" if at[1] % 2 else ""))
        elif kind == "memory":
            arrays += world.memory(numbers, [(lo, hi), (0, _SIZE), (min(lo, 2), max(hi, 3))])
        elif kind == "part":
            flat = world.flat(a)
            n = max(len(flat), 1)
            lo, hi = lo % n, min(hi, len(flat))
            arrays.append(world.part(flat, min(lo, hi - 1) if hi > lo else 0, max(hi, 1)))
        elif kind in ("shape", "row", "detach", "share"):
            arrays.append(world.shape(a, at[1] % 2) if kind == "shape" else getattr(world, kind)(a))
        elif kind in ("function", "blocked"):
            b = _alike(arrays, a, at[1])
            arrays.append(world.blocked(a) if kind == "blocked" else world.function(function, a, b))
        elif kind == "write":
            world.write(how, a, _alike(arrays, a, at[1]))
        else:
            value = world.new(np.resize(numbers, a.shape), "")
            world.write(how, a, value)
    if not recording:
        begin()
        arrays.append(world.x)
    total = 0.0
    for k, a in enumerate(arrays):
        weights = np.cos(np.arange(a.size) + 7.0 * k).reshape(a.shape)
        total = total + (a * (nd.array(weights) if isinstance(world, _Ours) else weights)).sum()
    return total


def _alike(arrays: list, a, at: int):
    """An array of the same shape."""
    found = [b for b in arrays if b.shape == a.shape]
    return found[at % len(found)]


def _reference(steps: list[tuple], x: np.ndarray, recorded: list[bool]) -> tuple[float, np.ndarray]:
    first = _Theirs(x.copy(), recorded, None)
    value = float(_run(first, steps, lambda: None))  # type: ignore[arg-type]
    gradient = np.zeros_like(x)
    h = 1e-5
    for k in range(x.size):
        ends = []
        for side in (h, -h):
            moved = x.copy()
            moved[k] += side
            ends.append(float(_run(_Theirs(moved, recorded, first.constants), steps, lambda: None)))  # type: ignore[arg-type]
        gradient[k] = (ends[0] - ends[1]) / (2 * h)
    return value, gradient


def _marked(steps: list[tuple], x: np.ndarray) -> tuple[float, np.ndarray, list[bool]]:
    """By ``record`` and ``backward``."""
    a = nd.array(x.copy())
    a.attach_grad()
    before = autograd.is_recording()
    try:
        ours = _Ours(a)
        y = _run(ours, steps, lambda: autograd.set_recording(True))
    finally:
        autograd.set_recording(before)
    y.backward()  # type: ignore[attr-defined]
    return y.asscalar(), a.grad.asnumpy(), ours.recorded  # type: ignore[attr-defined, union-attr]


def _transformed(steps: list[tuple], x: np.ndarray) -> tuple[float, np.ndarray, list[bool]]:
    """By ``value_and_grad``, where all of it is recorded."""
    recorded: list[bool] = []

    def f(a):
        ours = _Ours(a)
        y = _run(ours, steps, lambda: None)
        recorded.extend(ours.recorded)
        return y

    return *nb.value_and_grad(f)(x.copy()), recorded


def run(count: int, seed: int) -> Outcome:
    outcome = Outcome()
    for k in range(count):
        rng = random.Random(f"{seed}/{k}")
        steps = _program(rng)
        x = np.array([rng.uniform(-1, 1) for _ in range(_SIZE)])
        ways = (_marked, _transformed)
        how = ways[k % len(ways)]
        try:
            value, gradient, recorded = how(steps, x)
        except (nb.NBGradError, InPlaceError) as err:
            if any(text in str(err) for text in _ERRORS):
                outcome.counts["refused"] += 1
            else:
                outcome.wrong.append(f"views {seed}/{k} {how.__name__}: {type(err).__name__}: {err}")
            continue
        except Exception as err:
            outcome.wrong.append(f"views {seed}/{k} {how.__name__}: {type(err).__name__}: {err}")
            continue
        expected, slope = _reference(steps, x, recorded)
        if abs(value - expected) <= 1e-9 and np.allclose(gradient, slope, rtol=1e-6, atol=1e-7):
            outcome.counts["right"] += 1
        else:
            outcome.wrong.append(f"views {seed}/{k} {how.__name__}: {value}, {gradient} for {expected}, {slope}")
    return outcome
