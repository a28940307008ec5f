"""Lists that grow, comprehensions with tests and several loops, and loops over reversed arrays."""

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, twice, uncompiled
from programs.data import normal

import nbgrad as nb
from nbgrad.errors import TraceError

X, A = normal(11), normal(4, 3)


def squares(x):
    y = []
    for v in x:
        y.append(v * v)
    return y[-1] * y[0] * len(y)


def chosen(x):
    y = []
    for v in x:
        if v > 0:
            y.append(v * v)
    t = 1.0
    for w in y:
        t += w * t
    return t


def path(x):
    y = [0.5]
    for i in range(len(x)):
        y.append(y[-1] * x[i] + y[i] ** 2 * 0.1)
    z = np.array(y)
    return z * z, np.sum(y), max(y)


def until(x):
    ts = [0.1]
    t = 0.1
    while t < 2.0:
        t += 0.3 * abs(x[0]) + 0.01
        ts.append(t * t * x[1])
    return sum(ts), len(ts)


def queue(x):
    """Taken and put at both ends."""
    q = [x[0], x[1]]
    s, k = 0.0, 0
    while q:
        v = q.pop(0)
        s += v * v * k
        k += 1
        if k < 5:
            q.append(v * x[2])
            q.insert(0, v * s + x[3])
        elif len(q) > 3:
            q.pop()
            q.pop(0)
    return s


def extended(x):
    q = []
    q.extend([x[0], x[1] * x[2]])
    q.extend((q[0] * q[1], len(q), q[-1]))  # evaluated before any of them is appended
    q.extend(x)
    q.extend(v * v for v in x)
    q.extend([v * i for i, v in enumerate(x) if v > 0])
    r = [2.0]
    r.extend(q)
    r.insert(0, q[3] * r[0])
    s = 0.0
    for i, v in enumerate(r):
        s += v * i
    return s * len(q)


def taken_into_elements(x):
    """The place is found when the item is gone."""
    y = np.zeros(4)
    q = [x[0], x[1], x[2]]
    y[len(q)] = q.pop()
    y[len(q)] = q.pop(0)
    return y[2] ** 2 + 3 * y[1] * y[2] + 5 * y[3]


def two_lists(x):
    a = []
    b = list()
    for i in range(len(x)):
        a.append(x[i] * 2)
        b.append((i * 3) % len(x))
    s = 0.0
    for k in range(len(b)):
        s += a[b[k]] ** 2 * a[k]
    return s


def begun_again(x, n):
    s = 0.0
    for k in range(n):
        y = []
        for i in range(k + 1):
            y.append(x[i] * x[k])
        y[0] *= 2.0
        for v in y:
            s += v**2
        x[k] = s * 0.1
    return s


def stack(x):
    todo = [x[0], x[1]]
    t = 0.0
    n = 0
    while todo:
        v = todo.pop()
        t += v**2 * x[n % 5]
        n += 1
        if n < 7:
            todo.append(v * x[n])
            todo.append(t * 0.1)
    return t


def repeated_item(x):
    y = [0] * len(x)
    for i in range(len(x)):
        y[i] = x[i] ** 2
        if i > 0:
            y[i] += y[i - 1] * x[i]
    return sum(y)


def display(x):
    y = [x[0], x[1], 2]
    for i in range(3):
        y[i] = y[i] * 2 + y[-1]
    return y[0] * y[1] + y[2]


def inner(x, n):
    y = [v * 2 for v in x if v < n]
    y.append(n)
    return np.array(y)


def inlined(x, n):
    s = 0.0
    for k in range(3):
        s += np.sum(inner(x, n + k) ** 2)
        x[k] = s * 0.1
    return s


def selected(x):
    return sum(v * v for v in x if v > 0), sum(a * b for a in x if a > 0 for b in x if b < a)


def pairs(x, a):
    z = np.array([a[i, j] * x[j] for i in range(a.shape[0]) for j in range(a.shape[1]) if i != j])
    return z * z, max(x[i] * x[j] for i in range(3) for j in range(i + 1))


def in_a_loop(x, n):
    s = 0.0
    for k in range(n):
        kept = [v * s + v for v in x if v > 0.1 * k]
        for w in kept:
            s += w * w
        x[k] = 0.1 * s
    return s


def same_names(x):
    i = 3
    y = [i * v for i in range(i) for v in x[:i]]
    return i * np.sum(np.array(y))


def quantified(x):
    s = 0.0
    for k in range(len(x)):
        if any(v > x[k] for v in x) and not all(v > -0.5 for v in x[k:]):
            s += x[k] ** 2
    return s


def backwards(x, a):
    t = 1.0
    for v in reversed(x):
        t = t * 0.5 + v**2
    for i in reversed(range(1, len(x), 3)):
        t = t * 0.5 + x[i] * i
    for i in reversed(range(7, -2, -4)):
        t = t * 0.5 * x[i]
    for i, v in enumerate(reversed(x)):
        t = t * 0.5 + v * i
    for v, i, row in zip(x, reversed(range(len(a))), reversed(a)):
        t = t * 0.5 + v * i * row[0] ** 2
    for v in reversed((x[0], x[1], 2.0)):
        t = t * v + 1.0
    return t


def sizes_by_value(a, n):
    t = 0.0
    for i in range(a.shape[0]):
        m = 0
        for j in range(a.shape[1]):
            if a[i, j] > 0.0:
                m += 1
        y = np.empty(m)
        k = 0
        for j in range(a.shape[1]):
            if a[i, j] > 0.0:
                y[k] = a[i, j] * (1 + t)
                k += 1
        z = y * y
        t += z.sum() + np.ones(m * 5).sum() * t
        n[i] = len(z)
    return t


def doubled(x):
    n = 1
    t = x[1]
    while n < 40:
        n *= 2
        y = np.zeros(n)
        y[n // 2 :] = t * x[0]
        y += x[1]
        t = np.tanh(y.sum())
    return t


def lengths_given(x, lengths):
    t = 0.0
    for n in lengths:
        w = np.ones(n)
        for i in range(n):
            w[i] *= x[i] ** 2 + t
        v = w[::-1] * w
        t += v.sum()
        x[0] = t * 0.01
    return t


ROWS = {
    squares: (X,), chosen: (X,), path: (0.3 * X,), until: (X,), two_lists: (X,), begun_again: (0.3 * X, 10),
    queue: (X,), extended: (X,), taken_into_elements: (X,),
    stack: (X,), repeated_item: (X,), display: (X,), inner: (X, 0.3), inlined: (0.3 * X, 0.3), selected: (X,),
    pairs: (X, A), in_a_loop: (0.3 * X, 4), same_names: (X,), quantified: (X,), backwards: (0.3 * X, A),
    sizes_by_value: (A, np.zeros(4, int)), doubled: (X,), lengths_given: (X, np.array([2, 3, 10, 0, 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", [f.__name__ for f in ROWS])
def test_lists(name):
    f, args = next((f, args) for f, args in ROWS.items() if f.__name__ == name)
    with uncompiled():
        agrees(f, args)
        twice(f, args)


def test_compiled():
    for f in (
        path,
        begun_again,
        stack,
        queue,
        extended,
        in_a_loop,
        repeated_item,
        sizes_by_value,
        doubled,
        lengths_given,
    ):
        agrees(f, ROWS[f])
        twice(f, ROWS[f])


def test_few_elements():
    with uncompiled():
        for n in (0, 1, 2):
            x = normal(n)
            agrees(chosen, (x,))
            agrees(path, (x,))
            agrees(selected, (x,))
            agrees(inner, (x, 0.3))


def test_lists_out_of_range():
    def last(x):
        y = []
        for v in x:
            if v > 0:
                y.append(v)
        return y[-1]

    def popped(x):
        y = []
        y.append(x[0])
        a = y.pop()
        b = y.pop()
        return a * b

    def popped_in_front(x):
        y = [x[0]]
        y.pop(0)
        a = y.pop(0)
        return a

    with uncompiled():
        for f in (last, popped, popped_in_front):
            with pytest.raises(IndexError):
                nb.adjoint(f).value_and_grad(-np.ones(3))


def shared(x):
    y = []
    for v in x:
        y.append(v)
        z = y
    return z[0]


def while_looping(x):
    y = [x[0]]
    for v in y:
        if v < 3.0:
            y.append(v + x[1])
    return y[0]


def in_parallel(x):
    s = 0.0
    for i in numba.prange(len(x)):
        s += sum(v for v in x if v > x[i])
    return s


def taken_inside(x):
    y = [x[0], x[1]]
    return y.pop(1)


def inserted_inside(x):
    y = [x[0], x[1]]
    y.insert(1, x[2])
    return y[1]


def extended_by_itself(x):
    y = [x[0], x[1]]
    y.extend(v * 2 for v in y)
    return y[1]


def extended_while_looping(x):
    y = [x[0], x[1]]
    for v in y:
        y.extend([v])
    return y[1]


REFUSED = [shared, while_looping, extended_by_itself, extended_while_looping]


@pytest.mark.parametrize("f", [taken_inside, inserted_inside], ids=lambda f: f.__name__)
def test_changed_inside(f):
    agrees(f, (X,))


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_refused(f):
    with pytest.raises(TraceError, match=r"a list that changes|changes in a loop over it"):
        nb.adjoint(f).value_and_grad(X)


def test_refused_items():
    with pytest.raises(TraceError, match="in a parallel loop"):
        nb.adjoint(in_parallel).value_and_grad(X)


def slices_are_copies(x, a):
    s = 0.0
    for t in range(3):
        y = [v * a * t for v in x]
        z = y[1:4]
        y[1] = 7.0
        s += z[0] + y[1] + len(z) + sum(y[::-1])
    return s


def arrays_of_lists(x, a):
    y = [v * a for v in x]
    y = np.array(y)
    s = np.sum(y * 2)
    for t in range(3):
        w = np.asarray([v * a for v in x if v > 0.01])
        s += np.sum(w * t + w)
        u = [v * t for v in x]
        s += np.sum(x * u) + np.exp(u)[0]
    return s


@pytest.mark.parametrize("f", [slices_are_copies, arrays_of_lists])
def test_lists_and_arrays(f):
    check_derivatives(f, X, 0.7, compiled=False)


LIST_ARITHMETIC = """\
z = y * 2
z = y + y
z = 2 * y[1:]
z = -y
z = y < y
z = y.copy()
z = repeated(y)
y *= 2""".splitlines()


@pytest.mark.parametrize("line", LIST_ARITHMETIC)
def test_lists_are_no_arrays(line, tmp_path):
    path = tmp_path / "lists.py"
    body = f"for _ in range(2):\n        y = [v * a for v in x]\n        {line}\n        z = y\n    return len(z) * a"
    path.write_text(
        f"import numpy as np\ndef repeated(p):\n    return p * 2\ndef f(x, a):\n    {body}\n", encoding="utf-8"
    )
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    with pytest.raises(TraceError, match=r"list.*np\.array of it"):
        nb.adjoint(names["f"]).vjp(X, 0.5)


def test_a_name_for_a_list_and_an_array():
    def both(x, a):
        y = np.ones(3)
        s = 0.0
        for _ in range(3):
            s += np.sum(y * 2)
            y = [v * a for v in x]
        return s

    with pytest.raises(TraceError, match="y is a list here and an array there"):
        nb.adjoint(both).vjp(X, 0.5)
