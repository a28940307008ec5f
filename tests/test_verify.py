"""What the verifier of the IR finds; that passes leave valid functions is checked in all tests of loops."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.loops.frontend.lowering import lower
from nbgrad.loops.frontend.source import source_of
from nbgrad.loops.ir.names import called
from nbgrad.loops.ir.passes import Pass, enabled, recorded, without
from nbgrad.loops.ir.reverse_ir import Branch, Comment, For, Step
from nbgrad.loops.ir.statements import Alloc, Assign, Loop, Store, Swap, walk
from nbgrad.loops.ir.terms import ONE, ZERO, Binary, Call, Constant, Element, Global, Length, Shape, Variable
from nbgrad.loops.ir.type_inference import infer
from nbgrad.loops.ir.verify import InvalidIRError, verify, verify_sweep, verify_sweeps


def smoothed(u, c):
    v = np.zeros(u.size)
    w = np.zeros(u.size)
    for i in range(1, u.size):
        t = c * u[i]
        v[i] = t * u[i - 1]
    v, w = w, v
    return np.sum(w)


@pytest.fixture
def lowered():
    f = lower(source_of(smoothed), {"u": 1, "c": 0}, {"u": "float", "c": "float"})
    infer(f)
    return f


def first(f, kind):
    return next(s for s in walk(f.body) if isinstance(s, kind))


def loop(f):
    return next(s for s in walk(f.body) if isinstance(s, Loop) and any(isinstance(t, Assign) for t in s.body))


def not_defined(f):
    loop(f).body.reverse()


def twice(f):
    loop(f).body.append(loop(f).body[0])


def without_array(f):
    f.body.remove(first(f, Alloc))


def array_as_scalar(f):
    first(f, Assign).value = Binary("+", Variable("u"), ONE)


def scalar_as_array(f):
    first(f, Assign).value = Element("c", (ZERO,))


def too_many_axes(f):
    first(f, Store).index = (ZERO, ZERO)


def axis_that_is_not_there(f):
    loop(f).stop = Length("u", 1)


def shape_of_a_scalar(f):
    first(f, Assign).value = Shape("c")


def another_function(f):
    first(f, Assign).value = Call(Global("math.sin", np.cos), (ONE,))


def unknown_function(f):
    first(f, Assign).value = Call(Global("helper", np.cos), (ONE,))


def no_step(f):
    loop(f).step = ZERO


def neither_range_nor_test(f):
    loop(f).index = ""


def swapped_kinds(f):
    f.kinds[first(f, Swap).first] = "int"


def lost_result(f):
    f.results = ["gone"]


def assigned_array(f):
    f.body.append(Assign("u", ONE))


def longer_allocation(f):
    first(f, Alloc).shape = (ONE, ONE)


BROKEN = {
    not_defined: "t is used in t",
    twice: "in the function twice",
    without_array: "is used in v.*not defined before",
    array_as_scalar: "the array u is used as a scalar",
    scalar_as_array: r"c\[0\] of an array of 0 axes",
    too_many_axes: r"v\[0, 0\] of an array of 1 axes",
    axis_that_is_not_there: r"u.shape\[1\] of an array of 1 axes",
    shape_of_a_scalar: "c.shape of no array",
    another_function: "math.sin is bound to something else",
    unknown_function: "helper is bound to something else",
    no_step: "a loop of step 0",
    neither_range_nor_test: "either a variable or a test",
    swapped_kinds: "are swapped and differ",
    lost_result: "the result gone is never defined",
    assigned_array: "the array u is assigned as a scalar",
    longer_allocation: "is allocated with 2",
}


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda f: f.__name__)
def test_what_is_invalid_is_found(lowered, break_it):
    verify(lowered, "lowering")
    break_it(lowered)
    with pytest.raises(InvalidIRError, match=f"smoothed, after a test: .*{BROKEN[break_it]}"):
        verify(lowered, "a test")


def test_what_is_invalid_in_a_sweep_is_found():
    x, test = Variable("x"), called(bool, Variable("c"))
    step = Step(x, "=", ONE)
    verify_sweep([Branch(test, body=[step]), Comment("else"), Branch(test, True, body=[Step(x, "=", ZERO)])], "f", "a")
    with pytest.raises(InvalidIRError, match="f, after a test: 'x = 1' is in the sweep twice"):
        verify_sweep([step, For("i", ZERO, ONE, body=[step])], "f", "a test")
    with pytest.raises(InvalidIRError, match="an else without its if"):
        verify_sweep([Branch(test, True, body=[step])], "f", "a test")
    with pytest.raises(InvalidIRError, match="an else without its if"):
        verify_sweep([Branch(Constant(True), body=[]), Branch(test, True, body=[step])], "f", "a test")
    with pytest.raises(InvalidIRError, match="step 0"):
        verify_sweep([For("i", ONE, ONE, ZERO, body=[step])], "f", "a test")


@pytest.mark.parametrize("optional", Pass, ids=lambda p: p.name)
def test_passes_can_be_switched_off(optional):
    with without(optional), without(Pass.LOOP_FUSION):
        assert not enabled(optional)
        assert not enabled(Pass.LOOP_FUSION)
    assert enabled(optional)


def test_what_is_switched_off_does_not_run():
    def f(x, a, b):
        s = 0.0
        for i in range(x.size):
            s += a * b * x[i]
        return s

    def history(*off):
        with without(*off), recorded() as texts:
            nb.adjoint(f)._generated((np.ones(3), 2.0, 3.0))
        return dict(texts)

    assert "factor" in history()["loop-invariant factors"]
    off = history(Pass.INVARIANT_FACTORS)
    assert "loop-invariant factors" not in off
    assert "factor" not in off["storage planning"]


def sweeps(recorded="t[i] = x", pushed="top += 1", begun="x_bar = 0.0", read="x = t[i]", popped="top -= 1"):
    lines = ["for i in range(n):", f"    {recorded}", f"    {pushed}", begun, "for i in range(n):", f"    {popped}"]
    verify_sweeps([*lines, f"    {read}", "    x_bar += x"], {"t"}, {"top"}, {"x_bar"}, "f")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recorded": "pass"}, "f: recorded or read, but not both: t"),
        ({"read": "x = 1.0"}, "f: recorded or read, but not both: t"),
        ({"pushed": "pass"}, "f: pushed and popped a different number of times: top"),
        ({"popped": "top += 1"}, "f: pushed and popped a different number of times: top"),
        ({"begun": "pass"}, "f: the cotangent x_bar is used before it has a value"),
    ],
)
def test_sweeps_that_do_not_fit(changed, message):
    sweeps()
    with pytest.raises(InvalidIRError, match=f"^{message}$"):
        sweeps(**changed)
