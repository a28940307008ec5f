"""What ``explain`` says of an adjoint: what passes do, what is stored and why, how loops are reversed."""

import numpy as np
from numba import prange

import nbgrad as nb


def heat(u, c, steps):
    s = 0.0
    for _ in range(steps):
        k = c * (1.0 + u[0])
        for i in range(1, u.size - 1):
            u[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1]) ** 2
        s += np.sum(u**2)
    return s


def sections(text):
    """The sections of an explanation, by title."""
    lines, found, title = text.split("\n"), {}, ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"} and len(below) == len(line):
            title, found[line] = line, []
        elif not (line and set(line) == {"-"}):
            found[title].append(line)
    return {title: "\n".join(lines).strip() for title, lines in found.items()}


def test_what_is_stored_is_explained():
    found = sections(nb.adjoint(heat).explain(np.ones(5), 0.1, 3))
    assert list(found) == [
        "After lowering",
        "Changed by common subexpressions",
        "Passes that changed nothing",
        "Derivatives",
        "Stored values",
        "Loops",
        "Generated code",
    ]
    assert "total = total + u[k1] ** 2" in found["After lowering"]
    assert "+        k = c * sum1" in found["Changed by common subexpressions"]
    assert "with: u, c, s, sum1, k, total" in found["Derivatives"]
    stored = found["Stored values"].splitlines()
    assert stored[0].startswith(
        "sum1: recorded on the tape sum1_tape, over the loops _, since it is computed from what"
    )
    assert stored[1].startswith("k: computed again, since the derivative of 'u[i] = u[i] + k * ")
    assert stored[2].startswith("u[i]: recorded on the tape u_tape, over the loops _, i, since 'u[i] = u[i] + k * ")
    loops = found["Loops"].splitlines()
    assert (
        loops[1] == "for i in range(1, u.size - 1): reversed from the last iteration, since iterations share u, u_bar"
    )
    assert loops[2].endswith("reversed from the first iteration, since iterations are independent")
    assert found["Generated code"] in nb.adjoint(heat)._generated((np.ones(5), 0.1, 3)).text


def test_parallel_loops_and_local_reversal_are_explained():
    def total(x, y):
        s = 0.0
        for i in prange(x.size):
            v = np.sin(x[i])
            s += v * v
        for i in range(1, x.size):
            y[i] = y[i - 1] * x[i]
        return s

    loops = sections(nb.adjoint(total).explain(np.ones(3), np.ones(3)))["Loops"]
    assert "for i in prange(x.size): parallel" in loops
    assert "for i in range(1, x.size): reversed from the last iteration, since iterations share y_bar" in loops


def test_checkpoints_are_in_the_code():
    adj = nb.adjoint(heat, checkpoint=2)
    found = sections(adj.explain(np.ones(5), 0.1, 3))
    assert "snapshots" in found["Generated code"]
    assert found["Generated code"] in adj._generated((np.ones(5), 0.1, 3)).text
    assert "sum1: recorded on the tape sum1_tape, since it is computed" in found["Stored values"]


def test_nothing_is_stored_where_nothing_is_lost():
    def square(x):
        return x * x

    found = sections(nb.adjoint(square).explain(2.0))
    assert found["Stored values"] == "nothing: no derivative reads a value that is lost"
    assert found["Loops"] == ""


def test_arguments_in_tuples():
    def norm(pair, scale):
        return scale * np.sqrt(pair[0] ** 2 + pair[1] ** 2)

    assert "sqrt" in nb.adjoint(norm).explain((3.0, 4.0), 2.0)
