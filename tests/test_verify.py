"""What the verifier of the IR finds; that passes leave valid functions is checked in all tests of loops."""

import ast

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.loops.analysis.liveness import control_names, definitely_bound, live_before
from nbgrad.loops.frontend.lowering import lower
from nbgrad.loops.frontend.source import source_of
from nbgrad.loops.ir.effects import (
    AddTo,
    Bind,
    Break,
    Evaluate,
    NewStack,
    Pop,
    PopFrame,
    Push,
    PushFrame,
    Return,
)
from nbgrad.loops.ir.names import called
from nbgrad.loops.ir.passes import Pass, enabled, recorded, without
from nbgrad.loops.ir.printer import lines_of_items
from nbgrad.loops.ir.reverse_ir import Branch, Comment, For, ForIndices, Step, bound_by, evaluated_by
from nbgrad.loops.ir.statements import Alloc, Assign, Check, Grow, Loop, Store, Swap, walk
from nbgrad.loops.ir.terms import (
    MINUS_ONE,
    ONE,
    ZERO,
    Binary,
    Call,
    Compare,
    Constant,
    Copy,
    Element,
    Global,
    Length,
    Prefix,
    Property,
    Shape,
    Subscript,
    Tuple,
    Variable,
    named,
)
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


def set_in_a_loop_alone(f):
    f.set_once.add("t")
    f.body.append(Assign("s", Variable("t")))


BROKEN = {
    set_in_a_loop_alone: "t is used in t, and not defined before",
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
    with pytest.raises(InvalidIRError, match="f, after a test: a break outside of a loop"):
        verify_sweep([Branch(test, body=[Break()])], "f", "a test")
    verify_sweep([For("i", ZERO, ONE, body=[Branch(test, body=[Break()])]), Return((x,))], "f", "a test")
    with pytest.raises(InvalidIRError, match="something follows a return"):
        verify_sweep([Return((x,)), step], "f", "a test")
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


X, AT, N, ROWS = map(Variable, ("x", "i", "n", "rows"))
TAPE, SWAP = Bind(("t",), called(np.empty, N)), Swap("u", "x_bar")


def sweeps(known=("n", "x", "u"), **changed):
    """Both sweeps of a loop that records `x`, pushes a frame and an array, and swaps; with some items `changed`."""
    made = {
        "allocated": TAPE,
        "stack": NewStack("kept"),
        "top": Bind(("top",), ZERO),
        "recorded": Step(Element("t", (AT,)), "=", X),
        "kept": Push("kept", Copy(Variable("u"))),
        "pushed": PushFrame("top", N),
        "begun": Bind(("x_bar",), called(np.zeros_like, Variable("u"))),
        "popped": PopFrame("top", N),
        "read": Step(X, "=", Element("t", (AT,))),
        "called": Bind(("found",), called(np.sum, Element("kept", (MINUS_ONE,)))),
        "added": AddTo(Variable("x_bar"), Variable("found")),
        "dropped": Pop("kept"),
        "swapped": SWAP,
    } | changed
    items = {name: [item] * (item is not None) for name, item in made.items()}
    there = For("i", ZERO, N, body=[*items["recorded"], *items["kept"], *items["pushed"]])
    back = [*items["popped"], *items["read"], *items["called"], *items["added"], *items["dropped"]]
    begun = [*items["allocated"], *items["stack"], *items["top"], there, *items["begun"]]
    verify_sweeps([*begun, For("i", ZERO, N, body=back), *items["swapped"]], {"t"}, set(known), set(), "f")


def check_of_lengths(name):
    return Check(Compare(("!=",), (Length(name, 0), N)), "lengths differ")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recorded": None}, "f: recorded or read, but not both: t"),
        ({"read": None}, "f: recorded or read, but not both: t"),
        ({"pushed": None}, "f: pushed and popped a different number of times: top"),
        ({"popped": PushFrame("top", N)}, "f: pushed and popped a different number of times: top"),
        ({"popped": PopFrame("top", ONE)}, "f: pushed and popped a different number of times: top"),
        ({"dropped": None}, "f: pushed and popped a different number of times: kept"),
        ({"kept": None}, "f: pushed and popped a different number of times: kept"),
        ({"begun": None}, "f: x_bar is used before it has a value, in an AddTo"),
        ({"allocated": None}, "f: t is used before it has a value, in a Step"),
        ({"allocated": Bind(("t",), called(np.empty, ROWS))}, "f: rows is used before it has a value, in a Bind"),
        ({"allocated": Bind(("t",), Tuple((N, ROWS)))}, "f: rows is used before it has a value, in a Bind"),
        ({"stack": None}, "f: kept is used before it has a value, in a Push"),
        ({"top": None}, "f: top is used before it has a value, in a PushFrame"),
        ({"pushed": PushFrame("top", ROWS)}, "f: rows is used before it has a value, in a PushFrame"),
        ({"called": None}, "f: found is used before it has a value, in an AddTo"),
        ({"swapped": Swap("u", "w")}, "f: w is used before it has a value, in a Swap"),
        ({"swapped": Grow("w", N)}, "f: w is used before it has a value, in a Grow"),
        ({"swapped": check_of_lengths("w")}, "f: w is used before it has a value, in a Check"),
        ({"swapped": Evaluate(called(len, Variable("w")))}, "f: w is used before it has a value, in an Evaluate"),
        ({"swapped": ForIndices("at", "w")}, "f: w is used before it has a value, in a ForIndices"),
        ({"swapped": Return((X, ROWS))}, "f: rows is used before it has a value, in a Return"),
        ({"known": ("n", "u")}, "f: x is used before it has a value, in a Step"),
    ],
)
def test_sweeps_that_do_not_fit(changed, message):
    sweeps()
    with pytest.raises(InvalidIRError, match=f"^{message}$"):
        sweeps(**changed)


def test_an_earlier_iteration_may_bind_a_name_but_no_cotangent():
    later = Branch(Compare((">",), (AT, ZERO)), body=[Step(Variable("s"), "=", X)])
    loop = For("i", ZERO, N, body=[later, Step(X, "=", AT)])
    verify_sweeps([loop], set(), {"n"}, set(), "f")
    with pytest.raises(InvalidIRError, match=r"^f: x is used before it has a value, in a Step$"):
        verify_sweeps([loop], set(), {"n"}, {"x"}, "f")
    with pytest.raises(InvalidIRError, match=r"^f: x is used before it has a value, in a Step$"):
        verify_sweeps([later, loop], set(), {"n", "i"}, set(), "f")


def test_effects_know_what_they_evaluate_and_bind():
    """What is bound is what the text of an item assigns, and what is evaluated are the other names in it."""
    u, v = Variable("u"), Prefix("v", (N,))
    items = [
        Bind(("a", "b"), Tuple((N, u)), unpacks=True),
        Bind(("a",), Subscript(Variable("w"), (AT,)), comment="a note on u"),
        AddTo(u, X),
        AddTo(v, X),
        NewStack("kept"),
        Push("kept", Copy(v)),
        Pop("kept"),
        PushFrame("top", N),
        PopFrame("top", N),
        Evaluate(called(len, u)),
        Return((X, Property(u, "nbytes")), packs=True),
        Grow("u", N),
        Swap("u", "w"),
        Step(X, "+=", N),
        Step(Element("u", (AT,)), "=", X),
    ]
    for item in items:
        (tree,) = ast.parse("\n".join(lines_of_items([item]))).body
        names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in ("np", "len", "grown")]
        assert {n.id for n in names if isinstance(n.ctx, ast.Store)} == {*bound_by(item)}, item
        assert {n.id for n in names} == {*bound_by(item), *named(*evaluated_by(item))}, item
        in_place = isinstance(tree, ast.AugAssign) and isinstance(tree.target, ast.Name)
        loaded = {n.id for n in names if isinstance(n.ctx, ast.Load)} | ({tree.target.id} if in_place else set())
        assert loaded == named(*evaluated_by(item)), item


def test_liveness_of_a_sweep():
    test, found = Compare((">",), (X, ONE)), Variable("found")
    taken, other = Branch(test, body=[Step(found, "=", N)]), Branch(test, True, body=[Swap("found", "w")])
    assert live_before([taken, other, Return((found,))], frozenset()) == {"x", "n", "found", "w"}
    assert live_before([taken, Branch(test, True, body=[Step(found, "=", ONE)]), Return((found,))], frozenset()) == {
        "x",
        "n",
    }
    assert live_before([taken, Return((found,))], frozenset()) == {"x", "n", "found"}
    left = For("i", ZERO, N, body=[Branch(test, body=[Break()]), Step(found, "=", AT)])
    assert live_before([left, Return((found,))], frozenset()) == {"x", "n", "found"}
    assert definitely_bound([taken, other]) == {"found"}
    assert definitely_bound([taken]) == set()
    assert definitely_bound([left]) == set()
    steering = [Bind(("k",), Element("starts", (AT,))), Step(found, "+=", Element("u", (Variable("k"),)))]
    assert control_names([For("i", ZERO, N, body=steering)]) == {"n", "i", "k", "starts"}
