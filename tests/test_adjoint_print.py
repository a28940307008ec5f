"""``print`` in loops: what Python prints, once per call."""

# ruff: noqa: NPY002, UP031, UP032  # ways to write what people print

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.0, 2.0, 3.5])


def progress(x, n, name="run"):
    """Monte-Carlo, with its progress."""
    np.random.seed(3)
    total = 0.0
    for i in range(n):
        total += x[i % 3] * np.random.normal() + x[0] ** 2
        if i % 4 == 3:
            print(f"{name} {i + 1:>3d} of {n}: {total / (i + 1):.3f}")
    print("done", n, end=".\n")
    return total / n


def formats(x, k):
    label = "x"
    y = 2.0 * x[1:]
    print()
    print(label, "=", x, y, x[::2], sep=" ", flush=True)
    print("%s %d %g" % (label, k, x[0]), "100%%", "{:.2f}|{n}".format(x[1], n=k), "a" * 3 + str(k))
    print(f"{x[0]:{k}.2f} {k!r} {label}", x[0] > 0.5, None, (1, "two", (k, label)), k // 2, -k)
    values = [v * v for v in x]
    print(values, len(values), True, 1e300, "\N{GREEK SMALL LETTER ALPHA} \"'\\ {}")
    return np.sum(y) * k


def newton(a, tolerance):
    x = 1.0
    for k in range(20):
        try:
            step = (x * x - a) / (2.0 * x)
        except ZeroDivisionError:
            print("the slope is 0")
            return 0.0
        x -= step
        print("iteration", k, "residual <", 10.0 * tolerance)
        if abs(step) < tolerance:
            print("converged")
            break
    else:
        print("no convergence")
    return x


def told(x, k):
    """Printed by a function that is called."""

    def inform(v):
        print("value", v)
        return v * v

    total = 0.0
    for v in x:
        total += inform(v) if v > 1.5 else v
        while k > 2:
            k -= 1
            print("down to", k)
    return total


PROGRAMS = {
    "progress": (progress, X, 12),
    "formats": (formats, X, 8),
    "newton": (newton, 2.0, 1e-9),
    "functions": (told, X, 4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_transform_prints_once(name, capfd):
    f, *args = PROGRAMS[name]
    if name == "progress":  # draws are Numba's, so only its lines are known
        expected = None
    else:
        f(*args)
        expected = capfd.readouterr().out.replace("np.float64(", "").replace("True)", "True")
        if name == "formats":
            expected = expected.replace("[1.0), 4.0), 12.25)]", "[1.0, 4.0, 12.25]")
    adj, tan = nb.adjoint(f), nb.tangent(f)
    ones = tuple(np.ones_like(a) if isinstance(a, np.ndarray) else 1.0 if isinstance(a, float) else None for a in args)
    ones += (None,) * (len(adj.vjp(*args).parameters) - len(ones)) if name != "progress" else (None,)
    capfd.readouterr()
    given = (*args, *(("run",) if name == "progress" else ()))
    for call in (
        lambda: adj.value_and_grad(*args),
        lambda: tan.jvp(given, ones),
        lambda: adj.hvp(given, ones),
        lambda: adj.vjp(*args),
    ):
        call()
        text = capfd.readouterr().out
        if expected is None:
            assert text.count("run") == 3
            assert text.endswith("done 12.\n")
            continue
        assert text == expected, name


def test_a_pullback_prints_nothing(capfd):
    for f, *args in (PROGRAMS["formats"], PROGRAMS["newton"], PROGRAMS["functions"]):
        pull = nb.adjoint(f).vjp(*args)
        assert capfd.readouterr().out
        first, second = pull(1.0), pull(1.0)
        assert not capfd.readouterr().out
        np.testing.assert_array_equal(first[0], second[0])


def test_an_operator_prints_once(capfd):
    operation = nb.primitive(told)
    value, gradient = nb.value_and_grad(lambda x: operation(x, 4))(X)
    assert capfd.readouterr().out.count("value") == 2
    assert float(value) == told(X, 4)
    np.testing.assert_allclose(gradient, [1.0, 4.0, 7.0])


def test_derivatives(capfd):
    for name in ("formats", "functions"):
        check_derivatives(*PROGRAMS[name], compiled=False)
    check_derivatives(newton, 2.0, 1e-9, compiled=False, second=False)


def test_explanations_print_nothing(capfd):
    f, *args = PROGRAMS["functions"]
    assert nb.adjoint(f).explain(*args).count("print_values(True, ") == 4  # in two listings
    assert not capfd.readouterr().out


class Broken:
    def write(self, text):
        raise BrokenPipeError("nobody reads this")

    def flush(self):
        pass


def test_an_error_of_print_is_raised(monkeypatch):
    import sys

    adj = nb.adjoint(told)
    adj.value_and_grad(X, 2)
    monkeypatch.setattr(sys, "stdout", Broken())
    with pytest.raises(BrokenPipeError, match="nobody reads this"):
        adj.value_and_grad(X, 2)


def test_of_parallel_loops(capfd):
    """They are serial: lines come in order, and a second call of a pullback is silent on every thread."""

    def f(x):
        total = 0.0
        for i in numba.prange(x.size):
            total += x[i] ** 2
            print(i, total)
        return total

    x = np.arange(50.0)
    f(x)
    expected = capfd.readouterr().out
    pull = nb.adjoint(f).vjp(x)
    assert capfd.readouterr().out == expected
    for _ in range(2):
        np.testing.assert_allclose(pull(1.0)[0], 2.0 * x)
    assert not capfd.readouterr().out


def test_of_arrays_that_change(capfd):
    """What is printed is what arrays hold at that point, twice if it is printed twice."""

    def f(x, a):
        u, v, table = x.copy(), x * a, np.zeros(2)
        total = 0.0
        for i in range(x.size):
            u, v = v, u
            table[0] = u[i]
            table[1] = table[0] * a
            total += table[1] ** 2
            print(i, table, u, v[1:], f"{total:.4f}")
            print(table)
            print(table)
            u[0] += v[1]
            try:
                total += x[i + 1]
                print("next", i)
            except IndexError:
                print("last", table[0] > a)
        print(u)
        u[:] = u * u
        print(u)
        return np.sum(u * v) + total

    f(X.copy(), 0.7)
    expected = capfd.readouterr().out
    for call in (
        lambda: nb.adjoint(f).value_and_grad(X, 0.7),
        lambda: nb.tangent(f).jvp((X, 0.7), (X, 1.0)),
        lambda: nb.adjoint(f).hvp((X, 0.7), (X, 1.0)),
        lambda: nb.adjoint(f).vjp(X, 0.7)(1.0),
    ):
        call()
        assert capfd.readouterr().out == expected
    check_derivatives(f, X, 0.7, compiled=False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("print(x, file=None)", r"file in print\(x, file=None\)"),
        ("y = print(x)", "print has no derivative here in 'y = print(x)'; call it as a statement"),
        ("print(np.sin)", r"print of np.sin, which is a function"),
        ("print(*x)", r"Starred is outside of the subset|\*x"),
    ],
)
def test_refused(line, said):
    from test_adjoint_refused import made

    with pytest.raises(TraceError, match=said.replace("print(x)'", r"print\(x\)'")):
        nb.adjoint(made(f"{line}\nreturn x[0] * a")).value_and_grad(X, X, 1.0, 2)


def decay(u, n):
    for k in range(n):
        print(k)
        for i in range(1, u.size):
            u[i] += 0.1 * u[i - 1] * u[i]
    return np.sum(u)


def test_checkpoints_are_refused():
    with pytest.raises(TraceError, match="checkpoints run iterations again, which would print again; leave checkpoint"):
        nb.adjoint(decay, checkpoint=2).value_and_grad(X.copy(), 9)
