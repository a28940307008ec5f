"""Structured arrays, records and recarrays as arguments of functions with loops."""

import math

import numpy as np
import pytest
from numba import njit

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError, TraceError

BODY = np.dtype([("x", "f8", 3), ("v", "f8", 3), ("mass", "f8"), ("kind", "i4")])
PARTICLE = np.dtype([("x", "f8"), ("v", "f8"), ("charge", "f4"), ("alive", "?"), ("name", "S4")])
POINT = np.dtype([("a", "f8"), ("b", "f8")])
PAIR = np.dtype([("p", POINT), ("corners", POINT, 2), ("w", "f8"), ("n", "u2")])
PACKED = np.dtype([("tag", "i1"), ("x", ">f8"), ("k", "<i2"), ("y", "f8")])
OPTION = np.dtype([("strike", "f8"), ("expiry", "f8"), ("volatility", "f8"), ("is_call", "i8")])


@njit
def potential(bodies, softening):
    energy = 0.0
    for i in range(len(bodies)):
        for j in range(i):
            d = bodies["x"][i] - bodies["x"][j]
            r = math.sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + softening**2)
            energy -= bodies["mass"][i] * bodies["mass"][j] / r
    return energy


@njit
def kinetic(bodies):
    energy = 0.0
    for b in bodies:
        energy += 0.5 * b["mass"] * (b["v"][0] ** 2 + b["v"][1] ** 2 + b["v"][2] ** 2)
    return energy


@njit
def total_energy(bodies, softening):
    return kinetic(bodies) + potential(bodies, softening)


@njit
def drift(p, dt):
    p.x += dt * p.v


@njit
def simulate(particles, k, dt, steps):
    """Oscillators, as records that functions modify."""
    for _ in range(steps):
        for i in range(particles.size):
            particles[i].v -= dt * k * particles[i].x * particles[i].charge
            drift(particles[i], dt)
    energy = 0.0
    for i in range(particles.shape[0]):
        if particles[i].alive:
            energy += particles[i].v ** 2 + k * particles["x"][i] ** 2
    return energy


@njit
def neighbours(particles):
    """Coulomb's law between neighbours, with names for records."""
    total = 0.0
    for i in range(1, len(particles)):
        a = particles[i - 1]
        b = particles[i]
        total += a.charge * b.charge / (1.0 + (a.x - b["x"]) ** 2)
    return total


def whole_fields(particles):
    particles["x"] += 0.5 * particles["v"]
    particles["v"][1:-1] = particles["x"][2:] - particles["x"][:-2]
    particles["x"][0] = particles["v"].sum()
    return np.sum(particles["x"] * np.tanh(particles["v"]))


def shifted(particles):
    """Records are copied, field by field."""
    for i in range(len(particles) - 1):
        particles[i] = particles[i + 1]
        particles[i].x *= 2.0
    return np.sum(particles["x"] ** 2 * particles["v"])


def of_slices(particles):
    inner = particles[1:-1]
    last = particles[-1]
    return np.sum(inner["x"] * inner["v"]) * last["x"] + len(inner)


def of_a_copy(particles):
    before = particles.copy()
    particles["x"][:] = particles["x"] ** 2
    return np.sum(particles["x"] * before["x"])


@njit
def black_scholes(options, spot, rate):
    total = 0.0
    for k in range(options.shape[0]):
        o = options[k]
        s = o.volatility * math.sqrt(o.expiry)
        d = (math.log(spot / o.strike) + (rate + 0.5 * o.volatility**2) * o.expiry) / s
        first = 0.5 * math.erfc(-d / math.sqrt(2.0))
        second = 0.5 * math.erfc(-(d - s) / math.sqrt(2.0))
        call = spot * first - o.strike * math.exp(-rate * o.expiry) * second
        if o.is_call == 1:
            total += call
        else:
            total += call - spot + o.strike * math.exp(-rate * o.expiry)
    return total


@njit
def of_one_record(record, x):
    record.w = record.w + x
    record.p.a *= x
    return record.w * record.p.a * record.p.b + record["corners"][1]["b"] * record["n"]


@njit
def nested_fields(pairs):
    total = 0.0
    for i in range(len(pairs)):
        total += pairs["p"]["a"][i] * pairs[i].p.b * pairs.w[i]
        for k in range(2):
            total += pairs[i]["corners"][k]["a"] ** 2 + pairs["corners"][i, k].b
    return total


def of_packed(records):
    total = 0.0
    for i in range(records.size):
        total += records["x"][i] ** 2 * records["k"][i] + records["y"][i] * records["tag"][i]
        records["x"][i] = total
    return total


def of_two(a, b):
    total = 0.0
    for p, q in zip(a, b):
        total += p["a"] * q["b"]
    for i, p in enumerate(a):
        total += i * p["b"]
    return total


def of_a_matrix(grid):
    total = 0.0
    for i in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            total += grid[i, j]["a"] * grid["b"][i, j] + grid[i]["a"][j] ** 3
    return total


def in_tuples(points):
    """Tuples hold the records themselves, which change after."""
    ends, whole = ((points[0], 2.0), points[1]), (points, 1.0)
    total = 0.0
    for i in range(len(points)):
        here = (points[i], 3.0)
        points[i]["a"] = points[i]["b"] ** 2
        total += here[0]["a"] * here[1]
    points[1]["b"] = 7.0 * points[2]["a"]
    (first, weight), second = ends
    return total + first["a"] * weight * second["b"] + whole[0]["b"].sum()


RNG = np.random.default_rng(11)


def filled(dtype, shape):
    """Random records."""
    made = np.zeros(shape, dtype)

    def fill(part):
        for name in part.dtype.names:
            kind = part.dtype[name].base.kind
            if part[name].dtype.names:
                fill(part[name])
            elif kind == "f":
                part[name] = RNG.uniform(0.5, 1.5, size=part[name].shape)
            elif kind in "iu":
                part[name] = RNG.integers(1, 4, size=part[name].shape)
            elif kind == "b":
                part[name] = RNG.uniform(size=part[name].shape) < 0.7

    fill(made)
    return made


BODIES, PARTICLES = filled(BODY, 4), filled(PARTICLE, 6)
PAIRS, OPTIONS = filled(PAIR, 3).view(np.recarray), filled(OPTION, 4)
CASES = [
    (potential, (BODIES, 0.1)),
    (total_energy, (BODIES, 0.1)),
    (total_energy, (filled(BODY, 8)[::2], 0.1)),
    (simulate, (PARTICLES.view(np.recarray), 2.0, 0.1, 3)),
    (neighbours, (PARTICLES.view(np.recarray),)),
    (whole_fields, (PARTICLES,)),
    (shifted, (PARTICLES.view(np.recarray),)),
    (of_slices, (PARTICLES,)),
    (of_a_copy, (PARTICLES,)),
    (black_scholes, (OPTIONS.view(np.recarray), 1.1, 0.02)),
    (of_one_record, (PAIRS[1], 1.3)),
    (nested_fields, (PAIRS,)),
    (of_packed, (filled(PACKED, 5),)),
    (of_two, (filled(POINT, 4), filled(POINT, 3))),
    (of_a_matrix, (filled(POINT, (3, 4)),)),
    (in_tuples, (filled(POINT, 3),)),
]


def copied(args):
    return tuple(a.copy() if isinstance(a, np.ndarray | np.void) else a for a in args)


def flat_floats(value):
    """The floats in a value, as one vector; None for other things."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.names:
        parts = [flat_floats(value[n]) for n in dtype.names]
        return np.concatenate([p for p in parts if p is not None])
    kind = np.asarray(value).dtype.kind
    return np.ravel(value).astype(float) if kind == "f" else None


def moved(value, direction, h):
    """A copy of a value, its floats moved along a direction."""
    if isinstance(value, int) or direction is None:
        return value
    if not isinstance(value, np.ndarray | np.void):
        return value + h * direction
    made = value.copy()

    def move(part, along):
        for name in part.dtype.names:
            if part.dtype[name].base.names:
                move(part[name], along[name])
            elif part.dtype[name].base.kind == "f":
                part[name] += h * along[name]

    move(made, direction)
    return made


def direction_of(value):
    if isinstance(value, int):
        return None
    if not isinstance(value, np.ndarray | np.void):
        return 0.7
    made = np.zeros_like(value)[()]

    def fill(part, seed):
        for k, name in enumerate(part.dtype.names):
            if part.dtype[name].base.names:
                fill(part[name], seed + k + 1.0)
            elif part.dtype[name].base.kind == "f":
                part[name] = np.cos(seed + k + np.arange(np.size(part[name]))).reshape(np.shape(part[name]))

    fill(made, 0.0)
    return made


@pytest.mark.parametrize(("f", "args"), CASES)
def test_values_and_derivatives(f, args):
    adj, mine, theirs = nb.adjoint(f), copied(args), copied(args)
    value, gradients = adj.value_and_grad(*mine)
    assert value == pytest.approx(f(*theirs), rel=1e-12)
    for a, b in zip(mine, theirs, strict=True):  # it modifies what the function modifies
        if isinstance(a, np.ndarray | np.void):
            np.testing.assert_allclose(flat_floats(a), flat_floats(b), rtol=1e-6 if f is simulate else 1e-12)
            assert a.dtype == b.dtype
    directions = tuple(map(direction_of, args))
    slope = 0.0
    for gradient, d, a in zip(gradients, directions, args, strict=True):
        if d is None:
            assert gradient is None
            continue
        assert type(gradient) is type(a) and np.shape(gradient) == np.shape(a)
        slope += np.sum(flat_floats(gradient) * flat_floats(d))
        for name in getattr(getattr(gradient, "dtype", None), "names", None) or ():
            if gradient.dtype[name].kind in "iub":
                assert not np.any(gradient[name])
    single = any("<f4" in str(getattr(a, "dtype", "")) for a in args)
    step = 1e-2 if single else 1e-4
    values = [f(*map(moved, args, directions, [h * step] * len(args))) for h in (2, 1, -1, -2)]
    numeric = (8 * (values[1] - values[2]) - (values[0] - values[3])) / (12 * step)
    assert slope == pytest.approx(numeric, rel=1e-4 if single else 1e-8)
    derivative = nb.tangent(f).jvp(copied(args), directions)[1]
    derivative = derivative[0] if isinstance(derivative, tuple) else derivative
    assert derivative == pytest.approx(slope, rel=1e-6 if single else 1e-11)


def test_hessians():
    direction = direction_of(BODIES)
    adj = nb.adjoint(total_energy)
    product = adj.hvp((BODIES, 0.1), (direction, None))
    up, down = (adj.value_and_grad(moved(BODIES, direction, h), 0.1)[1] for h in (1e-5, -1e-5))
    assert product[0].dtype == BODY
    for name in ("x", "v", "mass"):
        np.testing.assert_allclose(product[0][name], (up[0][name] - down[0][name]) / 2e-5, rtol=1e-6, atol=1e-7)
    assert product[1] == pytest.approx((up[1] - down[1]) / 2e-5, rel=1e-6)


def test_pullbacks_and_argnums():
    pull = nb.adjoint(kinetic).vjp(BODIES)
    gradient = pull(2.0)[0]
    np.testing.assert_allclose(gradient["v"], 2.0 * BODIES["mass"][:, None] * BODIES["v"], rtol=1e-14)
    alone = nb.adjoint(total_energy, 0).value_and_grad(BODIES, 0.1)[1]
    np.testing.assert_array_equal(alone["mass"], nb.adjoint(total_energy).value_and_grad(BODIES, 0.1)[1][0]["mass"])


def test_outputs_are_the_fields_that_are_written():
    def double(p):
        p["a"] *= 2.0

    points = filled(POINT, 3)
    before = points.copy()
    pull = nb.adjoint(double).vjp(points)
    np.testing.assert_array_equal(points["a"], 2.0 * before["a"])
    np.testing.assert_array_equal(points["b"], before["b"])
    assert pull.outputs == ("p_a",)
    gradient = pull((np.array([1.0, 2.0, 3.0]),))[0]
    np.testing.assert_array_equal(gradient["a"], [2.0, 4.0, 6.0])
    np.testing.assert_array_equal(gradient["b"], 0.0)


def test_fields_of_numbers_only():
    def f(p):
        return np.sum(p["a"] ** 2)

    integers = np.zeros(3, [("a", "i8"), ("b", "u1")])
    integers["a"] = [1, 2, 3]
    assert nb.adjoint(f).value_and_grad(integers) == (14, (None,))
    with pytest.raises(DTypeError, match="no floats"):
        nb.adjoint(f, 0).value_and_grad(integers)


def test_directions_have_the_same_form():
    with pytest.raises(AttrError, match="the fields x, v, mass, kind is expected"):
        nb.tangent(kinetic).jvp((BODIES,), (np.ones(4),))


def a_string(p):
    return p[0].x + len(p["name"][0])


def no_such_field(p):
    return p[0]["y"]


def index_of_a_record(p):
    return p[0][1]


def as_a_number(p):
    return p[0] + 1.0


def whole_array(p):
    return np.sum(p)


def returned(p):
    return p[0]


def one_or_another(p):
    q = p[0] if p[0].x > 0.0 else p[1]
    return q.x


def in_a_branch(p):
    q = p[0]
    if p[0].x > 0.0:
        q = p[1]
    return q.x


def from_the_last_iteration(p):
    q = p[0]
    total = 0.0
    for i in range(1, len(p)):
        total += q.x * p[i].x
        q = p[i]
    return total


def unpacked(p):
    x, v = p[0]
    return x * v


def unknown_attribute(p):
    return p.T[0].x


def to_a_number(p):
    p[0] = 1.0
    return p[0].x


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (a_string, "the field name, of the dtype .*S4"),
        (no_such_field, "the field y, which there is not.*use its numbers and arrays of numbers: x, v, charge"),
        (index_of_a_record, "an index of a record.*give the name of a field"),
        (as_a_number, "tuple"),
        (whole_array, "a structured array or record|where an array is expected"),
        (returned, "a record as a result.*return its fields"),
        (one_or_another, "a structured array or record, here.*use its fields"),
        (in_a_branch, "whose name may be bound to another one|another array under the name"),
        (from_the_last_iteration, "whose name may be bound to another one"),
        (unpacked, "unpacking"),
        (unknown_attribute, "the field T, which there is not"),
        (to_a_number, "a record that is set to this"),
    ],
)
def test_what_is_refused(f, message):
    with pytest.raises(TraceError, match=f"test_adjoint_structured.py, line.*({message})"):
        nb.adjoint(f).value_and_grad(PARTICLES.copy())
