"""Adjoints do not depend on names: programs with names of generated code, of Python, of NumPy, and of Unicode."""

import sys
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
from hygiene import pool, renamed
from loop_programs import agrees, copies, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.backends.numba.generated_module import is_generated
from nbgrad.errors import TraceError
from nbgrad.loops.ir.names import RESERVED, Names, nfkc_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import generation

del sys.path[0]

U = np.array([1.0, 2.0, 4.0])


@pytest.fixture(autouse=True)
def by_python():
    with uncompiled(shuffle=False):
        yield


def checked(source, args, names=None):
    f = function(source, names)
    return agrees(f, args, rtol=1e-5)


def test_a_variable_called_factor():
    source = """
def f(u, c, dt, limited):
    factor = c * dt
    if limited > 0.0: factor = 0.5
    total = 0.0
    for i in range(1, u.size):
        u[i] = u[i] - c*dt*(u[i]-u[i-1]); total += factor*u[i]
    return total
"""
    checked(source.lstrip(), (U, 0.3, 0.1, 1.0))
    value, gradients = nb.adjoint(function(source.lstrip())).value_and_grad(U.copy(), 0.3, 0.1, 1.0)
    assert value == pytest.approx(2.95455) and gradients[1] != 0.0 and gradients[2] != 0.0


def test_variables_called_like_what_tests_gave():
    """Variables of generated tests are stored where others are recomputed."""
    plain = """
def f(u, a):
    s = 0.0
    for i in range(u.size):
        {flag} = u[i] * a
        if u[i] > 1.5:
            u[i] = u[i] * a
        s += {flag} * {flag}
    return s
"""
    texts = [nb.adjoint(function(plain.format(flag=name).lstrip())) for name in ("branch7", "other")]
    for adj in texts:
        adj.value_and_grad(U.copy(), 0.7)
    assert texts[0].source.replace("branch7", "other") == texts[1].source


def test_a_variable_called_underscore_goes_from_turn_to_turn():
    source = """
def f(u, a):
    _ = a
    s = 0.0
    for i in prange(u.size):
        t = u[i] * _
        for j in range(2):
            t = t * t * a
        _ = _ * 0.5 + t
        s += t
    return s + _
"""
    f = function(source.lstrip())
    agrees(f, (0.3 * U, 0.7), rtol=1e-5)
    assert all(said.startswith("serial") for said in nb.adjoint(f).parallel(0.3 * U, 0.7).values())


@pytest.mark.parametrize("name", ["turns_tape_top", "u_tape_size", "s_bar_given", "u_bar", "found", "k1", "g", "entry"])
def test_names_that_are_put_together(name):
    source = f"""
def f(u, {name}):
    s = 0.0
    k = 0
    while u[0] < 9.0:
        for i in range(1 + k % 3):
            u[i % 3] = u[i % 3] * u[0] * {name} + 0.4
        k += 1
        s += u[1] * {name}
    w = u * {name}
    return s, w
"""
    agrees(function(source.lstrip()), (U, 1.3), rtol=1e-4)


@pytest.mark.parametrize(
    "name", sorted(RESERVED & {"np", "math", "min", "len", "range", "grown", "plus", "ValueError"})
)
def test_parameters_and_variables_may_be_called_what_generated_code_calls_others(name):
    source = f"""
def f(u, {name}):
    s = 0.0
    for i in prange(u.size):
        if u[i] > {name}:
            s += u[i] * {name}
        else:
            u[i] = sine(u[i]) * {name}
    {name} = {name} * s
    return {name}
"""
    adj = checked(source.lstrip(), (U, 1.5), {"sine": np.sin})
    assert len(adj.vjp(U.copy(), 1.5)((1.0, None))) == 2


def test_constants_called_like_the_function_that_is_made():
    source = """
def f(u):
    s = 0.0
    for i in range(u.size):
        s += f_adjoint * u[i] * u[i] + f_tangent + f_forward
    return s
"""
    checked(source.lstrip(), (U,), {"f_adjoint": 3.0, "f_tangent": 2.0, "f_forward": 0.5})


def test_primitives_called_like_functions_of_the_table():
    """Whatever its name, the primitive is called, not NumPy's function or a variable of the generated code."""
    ours = "sin", "power", "select", "mul", "j1", "bessel_j1", "np", "max", "plus"
    for called in (*ours, "g", "s_bar", "hole0", "u", "f2", "f2", "f2_", "low0", "out3_"):
        made = {}
        exec(f"def {called}(x):\n    return 2.5 * x * x\n\n\ndef rule(c, y, x):\n    return 5.0 * x * c\n", made)
        own = nb.primitive(numba.njit(made[called]))
        own.defvjp(numba.njit(made["rule"]))
        source = "def f(u):\n    s = 0.0\n    for i in range(u.size):\n        s += own(u[i]) * 0.5\n    return s\n"
        adj = nb.adjoint(function(source, {"own": own}))
        value, gradient = adj.value_and_grad(U.copy())
        assert value == pytest.approx(np.sum(1.25 * U * U)), called
        np.testing.assert_allclose(gradient[0], 2.5 * U, err_msg=called)
        assert nb.tangent(function(source, {"own": own})).jvp((U,), (np.ones(3),))[1] == pytest.approx(np.sum(2.5 * U))


def test_users_modules_are_not_ours_whatever_they_are_called(monkeypatch):
    module = ModuleType("nbgrad_mine_0123456789ab")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("def f(x):\n    return x\n", vars(module))
    assert not is_generated(module.f)


def test_python_takes_some_names_for_the_same():
    source = """
def f(u, ﬁ, µ):
    ℌ = 0.0
    for i in range(u.size):
        t_baｒ = fi * u[i] * μ
        ℌ += t_bar * fi
        factor·x = u[i] * ﬁ
        H += factor·x * factor·x
    return H
"""
    checked(source.lstrip(), (U, 0.7, 0.4))


def test_no_name_is_given_twice():
    names = Names({"x", "x1", "µ"}, {"x1"})
    made = [*map(names.fresh, ["x", "x", "μ", "sum", "if", "ﬁ", "fi"]), *map(names.claim_free_name, ["x1", "x1"])]
    made.append(names.fresh("x", plain=False))
    assert len(set(made)) == len(made) and not {"x", "μ", "sum", "if"} & set(made)
    assert all(nfkc_name(n) == n and n.isidentifier() for n in made)
    apart = names.copy()
    assert apart.fresh("y") == names.fresh("y") == "y"


def test_the_names_to_choose_from_are_those_of_generated_code():
    found = {ways[0] for group in pool()[0] for ways in group}
    assert {"factor", "g", "u_bar", "result", "k1", "plus", "held", "part", "trips"} <= found


def test_other_names_are_other_names():
    from random import Random

    text, given, name = renamed(Random(3), "def f(x, a):\n    return np.sum(x) * a\n", {})
    f = function(text, given, name=name)
    assert f(U, 2.0) == 14.0 and f.__name__ == name != "f"


def chain(count):
    lines = []
    for k in range(count):
        lines += [f"        {'el' * (k > 0)}if u[i] < {k}.5:", f"            u[i] = u[i] * u[i] * {k + 1}.0 * a"]
    return "\n".join(
        ["def f(u, a):", "    s = 0.0", "    for i in range(u.size):", *lines, "        s += u[i]", "    return s\n"]
    )


def test_a_chain_of_branches_takes_time_in_proportion_to_its_length():
    """Counts function calls instead of time: 16 and 32 branches take about twice and four times as many as 8. So it is
    with bounds checks, too, which ask for all tests before each branch."""

    def made(f, **options):
        nb.adjoint(f, **options)._generated((U.copy(), 0.7))

    def calls(count, **options):
        return generation.calls(made, function(chain(count)), **options)

    calls(4)
    for options in ({"boundscheck": False}, {}):
        found = {n: calls(n, **options) for n in (8, 16, 32)}
        assert found[16] < 2.6 * found[8] and found[32] < 2.6 * found[16], found
    agrees(function(chain(12)), copies((U, 0.3)), rtol=1e-5)


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize("transform", [nb.adjoint, nb.tangent])
def test_more_branches_than_python_takes_are_refused(transform, count):
    """Generated code nests each branch in the one before."""
    with pytest.raises(TraceError, match=r"line \d+: too many branches and loops around this .*; choose by an index"):
        transform(function(chain(count)))
    agrees(function(chain(80)), copies((U, 0.3)), rtol=1e-5)


def test_more_cases_than_python_takes_branches_are_refused():
    cases = [line for k in range(200) for line in (f"        case {k}:", f"            return u[0] * {k}.0")]
    source = "\n".join(["def f(u, k):", "    match k:", *cases, "    return u[0]\n"])
    with pytest.raises(TraceError, match=r"too many branches and loops around this .*each case"):
        nb.adjoint(function(source))


OTHERS_CALLED_AS_BUILTINS = {
    "a global repr": (
        """
def f(x):
    s = 0.0
    for i in repr(3):
        if x[i] > 9.0:
            raise ValueError('large')
        s += x[i] ** 2
    return s
""",
        {"repr": range},
    ),
    "a parameter str": (
        """
def f(x, str):
    if x[0] > 9.0:
        raise ValueError('large ' + 'x')
    return str * x[0]
""",
        {},
    ),
    "a function str inside": (
        """
def f(x):
    def str(v):
        return v * v
    if x[0] > 9.0:
        raise ValueError('large')
    return str(x[1]) + x[0]
""",
        {},
    ),
    "a function print inside": (
        """
def f(x):
    def print(v):
        x[1] = v * v
    print(x[0])
    return x[1] * x[0]
""",
        {},
    ),
}


@pytest.mark.parametrize("case", OTHERS_CALLED_AS_BUILTINS)
def test_functions_and_values_called_str_repr_and_print(case, capsys):
    source, names = OTHERS_CALLED_AS_BUILTINS[case]
    args = (U, 2.0) if "x, str" in source else (U,)
    checked(source, args, names)
    assert capsys.readouterr().out == ""


def test_names_that_end_with_an_underscore_in_parallel_loops():
    @numba.njit(parallel=True)
    def standardized(image):
        for n in numba.prange(image.shape[0]):
            image_ = image[n]
            image_ = image_ - np.mean(image_)
            image[n] = image_ / np.std(image_)
        return image

    images = np.random.default_rng(3).normal(size=(3, 2, 4))
    pull = nb.adjoint(standardized).vjp(images.copy())
    np.testing.assert_allclose(pull(np.ones((3, 2, 4)))[0], 0.0, atol=1e-12)
