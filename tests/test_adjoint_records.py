"""Records and structured arrays that share memory, and whose fields are called as attributes of arrays."""

import numpy as np
import pytest
from test_adjoint_structured import PAIR, POINT, filled, of_two

import nbgrad as nb
from nbgrad.errors import AttrError, TraceError


def test_memory_that_is_shared_or_read_only():
    def f(a, b):
        for i in range(len(a)):
            a[i]["a"] = b[i]["b"]
        return a[0]["a"]

    points = filled(POINT, 4)
    with pytest.raises(AttrError, match="shares memory with another argument"):
        nb.adjoint(f).value_and_grad(points[:2], points[1:3])
    with pytest.raises(AttrError, match="passed twice"):
        nb.adjoint(f).value_and_grad(points, points)
    frozen = points.copy()
    frozen.flags.writeable = False
    with pytest.raises(AttrError, match="read-only"):
        nb.adjoint(f).value_and_grad(frozen, points)
    assert nb.adjoint(of_two).value_and_grad(points, points)[0] == pytest.approx(of_two(points, points))


def test_records_that_are_shared():
    def from_array(a, p):
        p.a = a[1].b
        return a[0].a * p.a

    def of_records(p, q):
        p.a = q.b
        return p.a * q.a

    def in_tuples(pair, x):
        p, q = pair
        p.a = x
        return p.a * q.a

    def field(p, b):
        p.a = b[0]
        return p.a * b[1]

    def of_nested(pair, p):
        p.a = pair.w
        return pair.p.a * p.a

    def only_reads(p, q):
        return p.a * q.b

    pair = filled(PAIR, 2)[0]
    with pytest.raises(AttrError, match="p shares memory with another argument, pair"):
        nb.adjoint(of_nested).value_and_grad(pair, pair["p"])
    for points in (filled(POINT, 4), filled(POINT, 4).view(np.recarray)):
        before, (p, q) = points.copy(), (points[0], points[0])
        shared = [
            (from_array, (points, p), "p shares memory with another argument, a"),
            (of_records, (p, q), "p shares memory with another argument, q"),
            (of_records, (p, p), "the record p is passed twice"),
            (in_tuples, ((p, q), 3.0), "pair shares memory with another argument, pair"),
            (field, (p, points["a"]), "p shares memory with another argument, b"),
        ]
        for f, args, message in shared:
            with pytest.raises(AttrError, match=message):
                nb.adjoint(f).value_and_grad(*args)
            np.testing.assert_array_equal(points, before)
        with pytest.raises(AttrError, match="p shares memory"):
            nb.tangent(of_records).jvp((p, q), (p, q))
        value, (left, right) = nb.adjoint(only_reads).value_and_grad(p, q)
        assert (value, left["a"], right["b"]) == (p["a"] * p["b"], p["b"], p["a"])
        other = points[1]  # of the same array, and apart
        assert nb.adjoint(of_records).value_and_grad(p, other)[0] == other["b"] * before[1]["a"]


def test_fields_that_are_called_as_attributes_of_arrays():
    def f(a):
        total = 0.0
        for i in range(a.size):
            total += a[i]["size"] * a["shape"][i] * a.shape[0]
        return total

    a = filled(np.dtype([("size", "f8"), ("shape", "f8"), ("T", "f8")]), 3)
    for given in (a, a.view(np.recarray)):
        value, (gradient,) = nb.adjoint(f).value_and_grad(given)
        assert value == pytest.approx(f(given), rel=1e-14)
        np.testing.assert_allclose(gradient["size"], 3 * a["shape"])
        np.testing.assert_allclose(gradient["shape"], 3 * a["size"])

    def of_record(p):
        return p.size * 2.0

    def transposed(a):
        return a.T[0] * 2.0

    def written(p):
        p.T = 2.0
        return p["T"]

    for g, given in ((of_record, a[0]), (transposed, a), (written, a[0])):
        with pytest.raises(TraceError, match=r"an attribute of every record and array, too.*write [pa]\['(size|T)'\]"):
            nb.adjoint(g).value_and_grad(given)


def test_what_was_written_before_an_error_stays_written():
    def f(a, x):
        a[0].a = 2 * x
        if x > 1.0:
            raise ValueError("too large")
        a[1].a = x
        return a[0].a * x

    adj = nb.adjoint(f)
    for x in (0.5, 3.0, 0.5):
        points = filled(POINT, 2)
        expected = points.copy()
        for function, given in ((f, expected.view(np.recarray)), (adj.value_and_grad, points)):
            if x == 3.0:
                with pytest.raises(ValueError, match="too large"):
                    function(given, x)
            else:
                function(given, x)
        assert points.tobytes() == expected.tobytes()


def test_read_only_records_are_called_by_their_names():
    def f(p, x):
        p.a = x
        return p.a * p.b

    points = filled(POINT, 2)
    adj = nb.adjoint(f)
    assert adj.value_and_grad(points[0], 3.0)[0] == 3.0 * points[0]["b"]
    points.flags.writeable = False
    before = points.copy()
    with pytest.raises(AttrError, match=r"f: p is read-only, and is written; pass p.copy\(\)"):
        adj.value_and_grad(points[0], 4.0)
    assert points.tobytes() == before.tobytes()


def test_fields_that_are_not_read_may_have_any_dtype():
    def f(a, x):
        return a["x"][0] * x * a["count"][1]

    fields = [("x", "f8"), ("half", "f2"), ("name", "U3"), ("count", "u2"), ("complex", "c16"), ("long", np.longdouble)]
    points = np.zeros(2, fields)
    points["x"], points["count"] = [0.5, 2.0], [7, 3]
    value, (gradient, slope) = nb.adjoint(f).value_and_grad(points, 4.0)
    assert (value, slope) == (6.0, 1.5)
    np.testing.assert_array_equal(gradient["x"], [12.0, 0.0])

    def halves(a):
        return a["half"][0]

    with pytest.raises(TraceError, match="the field half, of the dtype float16"):
        nb.adjoint(halves).value_and_grad(points)


def test_records_in_dictionaries():
    def read(a, x):
        p, total = a[1], 0.0
        held = {"p": p, "x": x}
        p.a = 3.0 * x
        for i in range(len(a)):
            q = a[i]
            other = {"q": q, "all": a}
            total += other["q"].b * x + 0.0 * other["q"]["b"] * other["all"]["a"][i]
        return held["p"].a * held["x"] + total

    def rebound(a, x):
        p = a[1]
        held = dict(p=p)
        p = a[0]
        return held["p"].a * x

    points = filled(POINT, 3)
    value, (gradient, slope) = nb.adjoint(read).value_and_grad(points.copy(), 0.7)
    assert value == pytest.approx(read(points.copy().view(np.recarray), 0.7), rel=1e-14)
    np.testing.assert_array_equal(gradient["b"], 0.7)
    assert slope == pytest.approx(6 * 0.7 + np.sum(points["b"]))
    with pytest.raises(TraceError, match="p, a record in a dictionary"):
        nb.adjoint(rebound).value_and_grad(points, 0.7)
