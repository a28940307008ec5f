"""Assignments to an array of what is read from it: NumPy reads everything before it writes."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

STATEMENTS = """\
x[:] = w * x[0] + x[1]
x[:] = x[0]
x *= x[0]
x[w > 0] = x[0]
x[w > -5] = w[w > -5] + x[0]
x[:] = x[::-1] * w
x[1:] = x[:-1]
x[:-1] += x[1:]
x[:] = np.full(3, x[0])
x[:] = w + np.full(3, x[0])
x += np.full(3, x[0])
x[1:] = np.full(2, x[0]) + x[1:]
x[np.array([2, 0, 1])] = np.full(3, x[0]) + w
x[:] = np.full_like(w, x[1]) * w
x[:] = np.linspace(x[0], x[1], 3) * w
x[:] = np.eye(3)[0] * x[0] + x[1]
x[:] = np.array([x[1], x[0], x[2] * 2.0]) + w
x[:] = np.where(w > x[0], x[1], w)
x[:] = np.clip(w, x[0], x[0] + 1.0)
x[:] = np.sum(x * w, keepdims=True) + w
x[:] = np.interp(w, np.linspace(-2.0, 2.0, 3), np.array([x[0], x[1], x[2]]))
x[:] = np.concatenate((x[1:], x[:1])) * w
x[:] = np.outer(x, w)[1]
m[:] = np.full((3, 3), m[0, 0]) + np.eye(3) * m[1, 1]
m += np.diag(np.array([m[0, 1], m[1, 2], m[0, 2]]))
m[:] = m.T
m[:2] += m.T[1:]
m[:, 1:] = m[:, :-1] * m[0, 0]
m[:] = m @ m
m[:] = m[np.array([2, 0, 1])]""".splitlines()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_overlaps(statement, tmp_path):
    path = tmp_path / "overlaps.py"
    body = ["x, m = v * 1.0, np.outer(v, w) + 0.3", statement, "return np.sum(x * w) + np.sum(m * np.cos(v))"]
    path.write_text("\n    ".join(["import numpy as np\n\ndef f(v, w):", *body]) + "\n", encoding="utf-8")
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    with uncompiled():
        agrees(names["f"], (np.array([0.4, -0.7, 1.1]), np.array([0.6, 0.2, -0.9])))
