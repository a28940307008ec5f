"""Instances of jitclasses in nb.adjoint and nb.tangent: fields are arguments, gradients come back in the same form."""

import math

import numba
import numpy as np
import pytest
from numba.experimental import jitclass
from numba.types import DictType

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError, TraceError


@jitclass([("stiffness", numba.float64), ("calls", numba.int64)])
class Spring:
    def __init__(self, stiffness):
        self.stiffness = stiffness
        self.calls = 0

    def force(self, d):
        return -self.stiffness * d * d


@jitclass(
    [
        ("mass", numba.float64),
        ("count", numba.int64),
        ("table", numba.float64[:]),
        ("matrix", numba.float64[:, :]),
        ("spring", Spring.class_type.instance_type),
        ("on", numba.boolean),
        ("__drag", numba.float64),
    ]
)
class Particle:
    def __init__(self, mass, table, matrix, spring, drag):
        self.mass = mass
        self.count = 0
        self.table = table
        self.matrix = matrix
        self.spring = spring
        self.on = True
        self.__drag = drag

    @property
    def weight(self):
        return 9.81 * self.mass * math.sin(self.mass)

    @property
    def double(self):
        return 2.0 * self.mass

    @double.setter
    def double(self, value):
        self.mass = 0.5 * value

    @staticmethod
    def square(x):
        return x * x

    def energy(self, x):
        return 0.5 * self.mass * self.square(x) + self.spring.force(x) - self.__drag * x**3

    def total(self, x):
        s = 0.0
        for i in range(self.table.shape[0]):
            s += self.energy(x + self.table[i])
        return s

    def step(self, dt):
        self.count += 1
        self.mass -= dt * self.mass * self.mass
        for i in range(len(self.table)):
            self.table[i] *= math.exp(-dt * self.mass)

    def recurse(self, x):
        return self.recurse(x)


def particle(mass=1.5, drag=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return Particle(mass, rng.uniform(0.5, 1.5, 3), rng.uniform(0.5, 1.5, (2, 2)), Spring(1.0 + mass), drag)


def floats(p):
    return p.mass, p.table.copy(), p.matrix.copy(), p.spring.stiffness, p._Particle__drag


def rebuilt(values):
    mass, table, matrix, stiffness, drag = values
    return Particle(mass, table.copy(), matrix.copy(), Spring(stiffness), drag)


def shifted(p, direction, h):
    return rebuilt([v + h * d for v, d in zip(floats(p), direction, strict=True)])


def direction_of(p, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=np.shape(v)) if np.ndim(v) else rng.normal() for v in floats(p)]


def nested(d):
    """A direction in the form of a gradient."""
    return d[0], None, d[1], d[2], (d[3], None), None, d[4]


def flat(g):
    """The gradients of the floats."""
    return [g.mass, g.table, g.matrix, g.spring.stiffness, g._Particle__drag]


def reads(p, x):
    s = 0.0
    for i in range(p.table.shape[0]):
        s += p.table[i] * p.mass * x
    if p.on:
        s += p.matrix[0, 1] * p.matrix[1, 0] * p.spring.stiffness
    return s + np.sum(p.matrix @ p.matrix) * p.weight


def methods(p, x):
    q = p
    spring = q.spring
    return q.total(x) + Particle_square(x) * spring.force(p.mass) + p.square(p.mass * x)


@numba.njit
def Particle_square(x):
    return x * x


@numba.njit
def helper(p, x):
    return p.energy(x) * p.double


@numba.njit
def compiled(p, x):
    return helper(p, x) + helper(p, 2.0 * x)


def writes(p, x):
    s = 0.0
    for _ in range(3):
        p.step(0.1 * x)
        s += p.mass * p.table[1]
    p.double = p.mass * x
    p.spring.stiffness *= 2.0
    p.spring.calls += 2
    p.table[0] = p.mass
    return s + p.energy(x)


@pytest.mark.parametrize("f", [reads, methods, compiled, writes])
def test_values_gradients_tangents_and_hessians(f):
    x, d = 0.7, direction_of(particle())
    plain = particle()
    expected = getattr(f, "py_func", f)(plain, x)
    p = particle()
    value, (g, gx) = nb.adjoint(f).value_and_grad(p, x)
    assert value == pytest.approx(expected, rel=1e-14)
    # The instance is changed as by one plain call.
    assert (p.count, p.on, p.spring.calls) == (plain.count, plain.on, plain.spring.calls)
    for mine, theirs in zip(floats(p), floats(plain), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)
    assert type(g).__name__ == "Particle" and type(g.spring).__name__ == "Spring"
    assert (g.count, g.on, g.spring.calls) == (None, None, None)
    assert isinstance(g.mass, float) and g.table.shape == (3,) and g.matrix.shape == (2, 2)

    plain_f, h = getattr(f, "py_func", f), 1e-5
    up, down = (plain_f(shifted(particle(), d, s * h), x + 0.4 * s * h) for s in (1, -1))
    slope = sum(np.sum(a * b) for a, b in zip(flat(g), d, strict=True)) + 0.4 * gx
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-7)

    before = particle()
    outputs, dots = nb.tangent(f).jvp((before, x), (nested(d), 0.4))
    if f is writes:
        outputs, dots = outputs[0], dots[0]
    assert outputs == pytest.approx(expected, rel=1e-14) and dots == pytest.approx(slope, rel=1e-12)
    cotangents = (1.0, None, None, None) if f is writes else None
    product, px = nb.adjoint(f).hvp((before, x), (nested(d), 0.4), cotangents)
    assert before.count == 0
    for mine, theirs in zip(floats(before), floats(particle()), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    above, below = (nb.adjoint(f).value_and_grad(shifted(particle(), d, s * h), x + 0.4 * s * h)[1] for s in (1, -1))
    for got, a, b in zip([*flat(product), px], [*flat(above[0]), above[1]], [*flat(below[0]), below[1]], strict=True):
        np.testing.assert_allclose(got, (np.array(a) - b) / (2 * h), rtol=1e-6, atol=1e-8)


def test_vjp_changes_the_instance_once():
    p, plain, x = particle(), particle(), 0.7
    pull = nb.adjoint(writes).vjp(p, x)
    assert pull.value == pytest.approx(writes(plain, x))
    g = nb.adjoint(writes).value_and_grad(particle(), x)[1][0]
    for _ in range(2):
        got = pull((1.0, None, None, None))[0]
        for a, b in zip(flat(got), flat(g), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
        assert (p.count, p.spring.calls) == (3, 2)
        assert p.mass == pytest.approx(plain.mass, rel=1e-14)
    # Cotangents of the fields that are written: of the mass alone.
    got = pull((0.0, [1.0], None, None))[0]
    d = direction_of(p)
    ends = []
    for h in (1e-6, -1e-6):
        changed = shifted(particle(), d, h)
        writes(changed, x)
        ends.append(changed.mass)
    slope = sum(np.sum(a * b) for a, b in zip(flat(got), d, strict=True))
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-7)


def test_directions_may_be_instances_or_none():
    p, d = particle(), direction_of(particle())
    tangent = nb.tangent(reads)
    expected = tangent.jvp((p, 0.7), (nested(d), None))[1]
    assert tangent.jvp((p, 0.7), (rebuilt(d), None))[1] == expected
    assert tangent.jvp((p, 0.7), (None, 1.0))[1] == pytest.approx(np.sum(p.table) * p.mass)
    with pytest.raises(AttrError, match=r"a tuple of 7 is expected \(mass, count, .*\), or an instance or None"):
        tangent.jvp((p, 0.7), ((1.0, 2.0), None))
    with pytest.raises(AttrError, match="direction of an instance of Particle is one of Spring"):
        tangent.jvp((p, 0.7), (Spring(1.0), None))
    with pytest.raises(DTypeError, match="only floats have derivatives"):
        tangent.jvp((p, 0.7), ((1.0, 2, None, None, None, None, None), None))


def test_tuples_of_instances_and_argnums():
    def f(springs, x):
        s = springs[0].force(x) * springs[1].stiffness
        for spring in springs:
            s += spring.force(2.0 * x)
        return s

    springs, x = (Spring(2.0), Spring(3.0)), 0.5
    value, (g, _) = nb.adjoint(f).value_and_grad(springs, x)
    assert value == pytest.approx(-2.0 * x**2 * 3.0 - 5.0)
    assert g[0].stiffness == pytest.approx(-3.0 * x**2 - 1.0) and g[1].stiffness == pytest.approx(-2.0 * x**2 - 1.0)
    assert nb.adjoint(f, argnums=1).value_and_grad(springs, x)[1] == pytest.approx(-2 * 2.0 * 3.0 * x - 5.0 * 8.0 * x)
    assert nb.adjoint(f, argnums=0).value_and_grad(springs, x)[1] == g


def test_what_is_shared_and_written():
    def both(p, q):
        p.stiffness = 2.0 * q.stiffness
        return p.stiffness * q.stiffness

    def only_reads(p, q):
        return p.stiffness * q.stiffness

    spring = Spring(2.0)
    with pytest.raises(AttrError, match="the instance in q is passed twice, and its fields are set"):
        nb.adjoint(both).value_and_grad(spring, spring)
    value, (g, h) = nb.adjoint(only_reads).value_and_grad(spring, spring)
    assert (value, g.stiffness, h.stiffness) == (4.0, 2.0, 2.0)

    def inner(p, spring):
        p.spring.stiffness = 3.0 * spring.stiffness
        return p.mass

    p = particle()
    with pytest.raises(AttrError, match="the instance in spring is passed twice"):
        nb.adjoint(inner).value_and_grad(p, p.spring)

    def arrays(p, y):
        p.table[0] = y[1]
        return p.table[0] * y[0]

    with pytest.raises(AttrError, match="may share memory"):
        nb.adjoint(arrays).value_and_grad(p, p.table)

    def of_records(p, records):
        for k in range(3):
            records[k].a = 2.0 * p.table[k]
        return p.table[0] * records[0].a

    def of_record(p, record):
        p.table[0] = 2.0 * record.a
        return record.a

    records = np.zeros(3, [("a", "f8"), ("b", "f8")])
    view = Particle(1.5, np.ascontiguousarray(records["a"]), np.ones((2, 2)), spring, 0.3)
    assert nb.adjoint(of_records).value_and_grad(view, records)[0] == 0.0
    whole = records.view("f8")[:3]  # the first field, and others
    view = Particle(1.5, whole, np.ones((2, 2)), spring, 0.3)
    with pytest.raises(AttrError, match="records shares memory with another argument, p, and is written"):
        nb.adjoint(of_records).value_and_grad(view, records)
    with pytest.raises(AttrError, match="p shares memory with another argument, record, and is written"):
        nb.adjoint(of_record).value_and_grad(view, records[0])


SPRING = Spring(2.0)


def of_a_global(x):
    return SPRING.stiffness * x


def of_a_global_method(x):
    return SPRING.force(x)


def of_new_instances(x):
    return Spring(x).force(x)


def replaces_an_array(p, x):
    p.table = x
    return p.mass


def replaces_an_instance(p, q):
    p.spring = q.spring
    return p.mass


def no_such_field(p, x):
    return p.velocity


def no_such_method(p, x):
    return p.velocity(x)


def indexes(p, x):
    return p[0]


def sets_a_property(p, x):
    p.weight = 1.0
    return p.mass


def returns_it(p, x):
    return p


def recursive(p, x):
    return p.recurse(1.0)


@pytest.mark.parametrize("f", [of_a_global, of_a_global_method])
def test_captured_instances_are_refused(f):
    with pytest.raises(TraceError, match=r"SPRING, an instance of a jitclass in .*pass it as an argument"):
        nb.adjoint(f)


def test_new_instances_are_refused():
    with pytest.raises(TraceError, match=r"Spring has no derivative here.*make the instance before, and pass it"):
        nb.adjoint(of_new_instances)


def test_a_parameter_may_have_the_name_of_a_global_instance():
    def f(SPRING, x):
        return SPRING.force(x) + SPRING.stiffness

    assert nb.adjoint(f).value_and_grad(Spring(3.0), 2.0)[0] == -9.0


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (replaces_an_array, r"p.table, an array of an instance that is replaced.*p.table\[:\] = "),
        (replaces_an_instance, "p.spring, an instance of an instance that is replaced.*set its fields one by one"),
        (
            no_such_field,
            "p.velocity, which is no field or property of the jitclass Particle.*its fields are mass, count",
        ),
        (no_such_method, "p.velocity, which is no method of the jitclass Particle"),
        (indexes, r"p\[0\], an index of an instance of the jitclass Particle"),
        (sets_a_property, "p.weight, which is no field or property"),
        (returns_it, "a record as a result.*return its fields"),
        (recursive, "recurse, which calls itself"),
    ],
)
def test_what_is_refused(f, message):
    p = particle()
    other = p.table.copy() if f is replaces_an_array else particle() if f is replaces_an_instance else 1.0
    with pytest.raises(TraceError, match=f"test_adjoint_jitclass.py, line.*{message}"):
        nb.adjoint(f).vjp(p, other)


@jitclass([("weights", DictType(numba.int64, numba.float64)), ("x", numba.float64)])
class Holder:
    def __init__(self, x):
        self.weights = numba.typed.Dict.empty(numba.int64, numba.float64)
        self.x = x


@jitclass([("flags", numba.uint8[:])])
class Flags:
    def __init__(self, flags):
        self.flags = flags


def test_unsupported_fields_are_named():
    def f(p, x):
        return x

    with pytest.raises(
        TraceError, match=r"the field weights of the jitclass Holder is a DictType.*argument of its own"
    ):
        nb.adjoint(f).value_and_grad(Holder(1.0), 1.0)
    with pytest.raises(TraceError, match=r"the field flags of the jitclass Flags is a uint8.*declare it int64"):
        nb.adjoint(f).value_and_grad(Flags(np.zeros(2, np.uint8)), 1.0)


def test_methods_of_other_values_are_refused_when_called():
    def f(x):
        return x.velocity(2.0)

    with pytest.raises(TraceError, match=r"the method x\.velocity"):
        nb.adjoint(f).value_and_grad(np.ones(3))


def test_numbers_that_are_set_before_an_error_stay_set():
    def f(spring, d):
        spring.stiffness += d
        if spring.stiffness > 2.0:
            raise ValueError("too stiff")
        return spring.force(d)

    adj, spring = nb.adjoint(f), Spring(1.0)
    adj.value_and_grad(spring, 0.5)
    assert spring.stiffness == 1.5
    with pytest.raises(ValueError, match="too stiff"):
        adj.value_and_grad(spring, 1.0)
    assert spring.stiffness == 2.5


def test_instances_in_dictionaries():
    def pull(spring, d):
        return spring.force(d)

    def f(spring, d):
        held = {"spring": spring, "d": d}
        return pull(**held) * held["spring"].stiffness

    value, (gradient, slope) = nb.adjoint(f).value_and_grad(Spring(1.5), 0.5)
    assert value == f(Spring(1.5), 0.5)
    assert (gradient.stiffness, slope) == pytest.approx((-2 * 1.5 * 0.5**2, -2 * 1.5**2 * 0.5))
