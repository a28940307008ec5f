"""Programs that run on several ranks: ``mpiexec -n 3 python ranks.py``; test_mpi.py asks for the outcome of each.

Every rank has all data, and so can compute alone what the ranks compute together.
"""

import json
import sys
import traceback

import numpy as np
from mpi4py import MPI

import nbgrad as nb
import nbgrad.mpi  # at the top: it ends all ranks if one raises
import nbgrad.np as nbnp
from nbgrad import autograd, nd

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
#: All ranks' vectors, matrices and weights, a row of the first axis each.
VECTORS = np.random.default_rng(1).normal(size=(SIZE, 12))
MATRICES = np.random.default_rng(2).normal(size=(SIZE, 3, 4))
CHECKS = {}
#: What collectives make of all ranks' arrays, on each rank.
MAPS = {
    "allreduce": (lambda x: nb.mpi.allreduce(x), lambda xs: [xs.sum(0)] * SIZE),
    "allreduce prod": (lambda x: nb.mpi.allreduce(x, "prod"), lambda xs: [xs.prod(0)] * SIZE),
    "allreduce max": (lambda x: nb.mpi.allreduce(x, "max"), lambda xs: [xs.max(0)] * SIZE),
    "allreduce min": (lambda x: nb.mpi.allreduce(x, op="min"), lambda xs: [xs.min(0)] * SIZE),
    "allgather": (lambda x: nb.mpi.allgather(x), lambda xs: [np.concatenate(xs)] * SIZE),
    "scatter_sum": (lambda x: nb.mpi.scatter_sum(x), lambda xs: np.array_split(xs.sum(0), SIZE)),
    "bcast": (lambda x: nb.mpi.bcast(x, SIZE - 1), lambda xs: [xs[-1]] * SIZE),
    "reduce": (lambda x: nb.mpi.reduce(x), lambda xs: [xs.sum(0), *([0 * xs[0]] * (SIZE - 1))]),
    "alltoall": (lambda x: nb.mpi.alltoall(x), lambda xs: list(np.concatenate(np.split(xs, SIZE, axis=1), axis=0)
                 .reshape(SIZE, SIZE, 12 // SIZE, *xs.shape[2:]).reshape(SIZE, *xs.shape[1:]))),
    "shift": (lambda x: nb.mpi.sendrecv(x, (RANK + 1) % SIZE, (RANK - 1) % SIZE), lambda xs: np.roll(xs, 1, axis=0)),
    "shift from the edge": (
        lambda x: nb.mpi.sendrecv(x, RANK + 1 if RANK < SIZE - 1 else None, RANK - 1 if RANK else None),
        lambda xs: [0 * xs[0], *xs[:-1]],
    ),
    "halo": (lambda x: nb.mpi.halo(x, 2), lambda xs: _with_edges(np.pad(np.concatenate(xs), 2), 2)),
    "periodic halo": (
        lambda x: nb.mpi.halo(x, 1, periodic=True), lambda xs: _with_edges(np.pad(np.concatenate(xs), 1, "wrap"), 1)
    ),
}  # fmt: skip
REPLICATED = {"allreduce", "allreduce prod", "allreduce max", "allreduce min", "allgather", "bcast"}


def _with_edges(padded, width):
    return [padded[12 * rank : 12 * (rank + 1) + 2 * width] for rank in range(SIZE)]


def check(function):
    CHECKS[function.__name__] = function
    return function


def equal(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def raises(kind, call, *words):
    try:
        call()
    except kind as err:
        assert all(word in str(err) for word in words), err
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def energy(apply, replicated):
    """The sum over ranks of a nonlinear function of what a collective gives, as a function of this rank's array."""

    def function(x):
        y = apply(nb.mpi.local(x))
        y = nb.mpi.spread(y) if replicated else y
        weights = np.cos(np.arange(y.size) + RANK).reshape(y.shape)
        return nb.mpi.allreduce(nbnp.sum(nbnp.sin(y) * weights + y**3))

    return function


def energy_of_all(expected, xs):
    ys = expected(xs)
    weights = [np.cos(np.arange(y.size) + rank).reshape(y.shape) for rank, y in enumerate(ys)]
    return sum(np.sum(np.sin(y) * w + y**3) for y, w in zip(ys, weights, strict=True))


def differences(function, x, rank, step=1e-6):
    """The gradient of a function of all ranks' arrays with respect to that of one rank."""
    found = np.zeros(x.shape[1:])
    for k in np.ndindex(found.shape):
        ends = []
        for h in (step, -step):
            moved = x.copy()
            moved[(rank, *k)] += h
            ends.append(function(moved))
        found[k] = (ends[0] - ends[1]) / (2 * step)
    return found


def _collective(name):
    apply, expected = MAPS[name]

    def run():
        x = VECTORS[RANK]
        equal(apply(nbnp.array(x)).asnumpy(), expected(VECTORS)[RANK])
        equal(apply(nd.array(x)).asnumpy(), np.float32(expected(VECTORS)[RANK]), 1e-5)
        function = energy(apply, name in REPLICATED)
        of_all = lambda xs: energy_of_all(expected, xs)  # noqa: E731
        value, gradient = nb.value_and_grad(function)(x)
        equal(value, of_all(VECTORS))
        equal(gradient, differences(of_all, VECTORS, RANK), 1e-6)
        direction = np.sin(np.arange(12.0) + RANK)
        directions = np.array([np.sin(np.arange(12.0) + rank) for rank in range(SIZE)])
        second = nb.hvp(function)(x, direction)
        h = 1e-5
        slopes = [differences(of_all, VECTORS + s * h * directions, RANK) for s in (1, -1)]
        equal(second, (slopes[0] - slopes[1]) / (2 * h), 1e-3)
        compiled = nb.jit(nb.value_and_grad(function))
        for scale in (1.0, 0.5):
            for found, plain in zip(
                compiled(nbnp.array(scale * x)), nb.value_and_grad(function)(nbnp.array(scale * x)), strict=True
            ):
                equal(found.asnumpy(), plain.asnumpy())
        equal(nb.jit(nb.hvp(function))(nbnp.array(x), nbnp.array(direction)).asnumpy(), second)

    run.__name__ = name
    check(run)


for _name in MAPS:
    _collective(_name)


@check
def rows_of_different_lengths():
    xs = [np.arange(2.0 * (rank + 1)).reshape(-1, 2) + rank for rank in range(SIZE)]
    whole = np.concatenate(xs)
    equal(nb.mpi.allgather(nbnp.array(xs[RANK])).asnumpy(), whole)
    gradient = nb.grad(lambda x: nbnp.sum(nb.mpi.allgather(nb.mpi.local(x)) ** 3))(xs[RANK])
    equal(gradient, 3 * xs[RANK] ** 2)
    lengths = [rank + 1 for rank in range(SIZE)]
    equal(nb.mpi.scatter(nbnp.array(whole), lengths).asnumpy(), xs[RANK])
    part = lambda w: nb.mpi.allreduce(nbnp.sum(nb.mpi.scatter(w, lengths) ** 3))  # noqa: E731
    equal(nb.grad(part)(whole), 3 * whole**2)
    equal(nb.mpi.scatter_sum(nbnp.array(whole), lengths).asnumpy(), SIZE * xs[RANK])


@check
def scatter_by_default():
    whole = np.arange(10.0)
    equal(nb.mpi.scatter(nbnp.array(whole)).asnumpy(), np.array_split(whole, SIZE)[RANK])


def model(w, x, y):
    return nbnp.sum(nbnp.log(1 + nbnp.exp(-y * (x @ w)))) + 0.1 * nbnp.sum(w**2) / SIZE


@check
def one_model_on_many_data():
    rng = np.random.default_rng(3)
    x, y, w = rng.normal(size=(50, 4)), rng.choice([-1.0, 1.0], 50), rng.normal(size=4)
    own = np.array_split(x, SIZE)[RANK], np.array_split(y, SIZE)[RANK]

    def alone(w):
        return nbnp.sum(nbnp.log(1 + nbnp.exp(-y * (x @ w)))) + 0.1 * nbnp.sum(w**2)

    def together(w):
        return nb.mpi.allreduce(model(nb.mpi.spread(w), *own))

    expected = nb.value_and_grad(alone)(w)
    every = [
        nb.value_and_grad(together)(w),
        nb.mpi.value_and_grad(lambda w: model(w, *own))(w),
        nb.mpi.summed(nb.value_and_grad(lambda w: model(w, *own)))(w),
        nb.mpi.summed(nb.jit(nb.value_and_grad(model)))(nbnp.array(w), *map(nbnp.array, own)),
        nb.jit(nb.value_and_grad(together))(nbnp.array(w)),
    ]
    for value, gradient in every:
        equal(value, expected[0])
        equal(gradient, expected[1])
    equal(nb.hessian(together)(w), nb.hessian(alone)(w), 1e-11)
    equal(nb.jit(nb.hessian(together))(nbnp.array(w)).asnumpy(), nb.hessian(alone)(w), 1e-11)
    third = lambda f: nb.grad(lambda w: nbnp.sum(nb.hessian(f)(w) ** 2))(w)  # noqa: E731
    equal(third(together), third(alone), 1e-10)


@check
def recorded_arrays_of_nd():
    w = nd.array([0.5, -1.0, 2.0], dtype="float64")
    w.attach_grad()
    with autograd.record():
        y = nb.mpi.allreduce(nd.exp(nb.mpi.spread(w) * (RANK + 1)).sum())
    y.backward()
    scale = np.arange(1, SIZE + 1)[:, None]
    equal(w.grad.asnumpy(), np.sum(scale * np.exp(scale * w.asnumpy()), axis=0))


@check
def trees_of_numbers():
    total = SIZE * (SIZE + 1) / 2
    given = {
        "a": nbnp.array([1.0, 2.0]) * (RANK + 1), "b": (RANK + 1, float(RANK + 1), None), "c": np.float32(RANK + 1),
        "d": [nd.ones((2, 2)) * (RANK + 1), np.arange(3) * (RANK + 1)],
    }  # fmt: skip
    found = nb.mpi.summed(lambda: given)()
    equal(found["a"].asnumpy(), np.array([1.0, 2.0]) * total)
    assert found["b"] == (total, total, None)
    assert [type(v) for v in (*found["b"], found["c"])] == [int, float, type(None), np.float32]
    equal(found["d"][0].asnumpy(), np.full((2, 2), total))
    equal(found["d"][1], np.arange(3) * total)
    assert found["d"][1].dtype == np.arange(3).dtype and found["d"][0].dtype == np.float32


@check
def passed_on():
    function = nb.mpi.value_and_grad(lambda w: (nbnp.sum(w**2), {"rank": RANK}), has_aux=True)
    (value, aux), gradient = function(np.array([1.0, 2.0]))
    equal(value, 5.0 * SIZE)
    equal(gradient, np.array([2.0, 4.0]) * SIZE)
    assert aux == {"rank": RANK}


def loop(w, x):
    total = 0.0
    for i in range(x.shape[0]):
        total += np.sin(w[0] * x[i]) * w[1]
    return total


@check
def adjoints_of_loops():
    x, w = np.linspace(0.1, 2.0, 24), np.array([0.7, 1.3])
    value, gradients = nb.mpi.summed(nb.adjoint(loop, argnums=(0,)).value_and_grad)(w, np.split(x, SIZE)[RANK])
    expected = nb.adjoint(loop, argnums=(0,)).value_and_grad(w, x)
    equal(value, expected[0])
    equal(gradients[0], expected[1][0])


def heat(u, k, steps, edges):
    for _ in range(steps):
        v = edges(u)
        u = u + k * (v[2:] - 2 * v[1:-1] + v[:-2])
    return u


@check
def heat_equation_in_parts():
    u, target, k = np.sin(np.arange(24.0)), np.cos(np.arange(24.0)), 0.2
    own, aim = np.split(u, SIZE)[RANK], np.split(target, SIZE)[RANK]

    def alone(u, k):
        return nbnp.sum((heat(u, k, 15, lambda u: nbnp.pad(u, 1)) - target) ** 2)

    def together(u, k):
        found = heat(nb.mpi.local(u), nb.mpi.spread(k), 15, nb.mpi.halo)
        return nb.mpi.allreduce(nbnp.sum((found - aim) ** 2))

    value, (by_u, by_k) = nb.value_and_grad(alone, argnums=(0, 1))(u, k)
    for found in (
        nb.value_and_grad(together, argnums=(0, 1))(own, k),
        nb.jit(nb.value_and_grad(together, argnums=(0, 1)))(nbnp.array(own), nbnp.array(k)),
    ):
        equal(found[0], value)
        equal(found[1][0], np.split(np.asarray(by_u), SIZE)[RANK])
        equal(found[1][1], by_k)
    direction = np.cos(3 * np.arange(24.0))
    second = nb.hvp(lambda u: together(u, nbnp.array(k)))(own, np.split(direction, SIZE)[RANK])
    equal(second, np.split(nb.hvp(lambda u: alone(u, k))(u, direction), SIZE)[RANK])


@check
def grid_cut_in_two_dimensions():
    for periods in ([False, False], [True, False], [True, True]):
        cart = COMM.Create_cart(MPI.Compute_dims(SIZE, 2), periods)
        whole = np.random.default_rng(5).normal(size=(3 * cart.dims[0], 4 * cart.dims[1]))
        i, j = cart.coords
        own = whole[3 * i : 3 * i + 3, 4 * j : 4 * j + 4]
        padded = whole
        for axis, wrapped in enumerate(periods):
            edges = [(2, 2) if axis == a else (0, 0) for a in range(2)]
            padded = np.pad(padded, edges, "wrap" if wrapped else "constant")
        expected = padded[3 * i : 3 * i + 7, 4 * j : 4 * j + 8]
        equal(nb.mpi.halo(nbnp.array(own), 2, comm=cart).asnumpy(), expected)  # corners, too

        def energy(u, cart=cart):
            return nb.mpi.allreduce(nbnp.sum(nb.mpi.halo(nb.mpi.local(u), 2, comm=cart) ** 2), comm=cart)

        equal(nb.grad(energy)(own), 2 * own * _times_seen(cart, own.shape, 2))


def _times_seen(cart, shape, width):
    """How many ranks have each element of this rank's part, in their halos or as their own."""
    count = np.ones(shape)
    for axis in range(2):
        before, after = cart.Shift(axis, 1)
        edge = np.arange(shape[axis])
        times = 1.0 + (before >= 0) * (edge < width) + (after >= 0) * (edge >= shape[axis] - width)
        count = count * times.reshape([-1 if a == axis else 1 for a in range(2)])
    return count


@check
def values_without_spread():
    x = nbnp.array(VECTORS[RANK])
    w = VECTORS[0]
    error = nb.mpi.PlacementError
    raises(error, lambda: nb.grad(lambda w: nb.mpi.allreduce(nbnp.sum(w * x)))(w), "allreduce", "spread")
    raises(error, lambda: nb.grad(lambda w: nbnp.sum(w * nb.mpi.spread(w)))(w), "multiply", "spread")
    raises(error, lambda: nb.grad(lambda w: nb.mpi.spread(nb.mpi.spread(w)).sum())(w), "already")
    again = lambda w: nbnp.sum(nb.mpi.allreduce(nb.mpi.spread(w) * x) * nb.mpi.halo(nb.mpi.local(w))[1:-1])  # noqa: E731
    raises(error, lambda: nb.grad(again)(w), "spread")
    raises(error, lambda: nb.jit(nb.grad(again))(nbnp.array(w)), "spread")
    equal(nb.grad(lambda w: nbnp.sum(w**2))(w), 2 * w)  # nothing is left behind


@check
def derivatives_of_what_each_rank_has():
    w = VECTORS[0]
    along = nb.jvp(lambda w: nbnp.sin(nb.mpi.spread(w)) * (RANK + 1), (w,), (w,))[1]
    equal(along, np.cos(w) * w * (RANK + 1))
    full = nb.jacobian(lambda w: nb.mpi.allreduce(nb.mpi.spread(w) ** 2 * (RANK + 1)))(w)
    equal(full, np.diag(2 * w) * SIZE * (SIZE + 1) / 2)


@check
def wrong_arguments():
    x = nbnp.array([1.0, 2.0])
    base = nb.NBGradError
    raises(base, lambda: nb.mpi.allreduce([1.0]), "nd.array")
    raises(base, lambda: nb.mpi.allreduce(x, "mean"), "'sum'")
    raises(base, lambda: nb.mpi.allreduce(x, comm=3), "communicator")
    raises(base, lambda: nb.mpi.bcast(x, SIZE), "rank")
    raises(base, lambda: nb.mpi.sendrecv(x, -5, 0), "rank")
    raises(base, lambda: nb.mpi.halo(x, 3), "halo")
    for call in (nb.mpi.spread, nb.mpi.local, nb.mpi.bcast, nb.mpi.reduce, nb.mpi.allgather, nb.mpi.scatter):
        raises(base, lambda call=call: call([1.0]), "nd.array")
    raises(base, lambda: nb.mpi.sendrecv([1.0], RANK, RANK), "nd.array")
    raises(base, lambda: nb.mpi.allreduce([1.0], "max"), "nd.array")
    raises(TypeError, lambda: nb.mpi.scatter(x, [0.5] * SIZE), "integer")
    raises(base, lambda: nb.mpi.summed(lambda: True)(), "numbers")
    raises(base, lambda: nb.mpi.summed(lambda: np.ones(2, "float16"))(), "16 bits")
    raises(base, lambda: nb.mpi.scatter(x, [1] * (SIZE + 1)), "lengths")
    raises(base, lambda: nb.mpi.scatter(x.sum()), "axis")
    raises(base, lambda: nb.mpi.allreduce(nbnp.ones(2, dtype="float16")), "16 bits")
    raises(base, lambda: nb.mpi.summed(lambda: "text")(), "numbers")
    raises(base, lambda: nb.grad(lambda w: nb.mpi.summed(lambda: w * 2)())(x), "allreduce")
    if SIZE > 1:
        raises(base, lambda: nb.mpi.alltoall(nbnp.ones(SIZE + 1)), "multiple")
        raises(nb.mpi.MismatchError, lambda: nb.mpi.allgather(nbnp.ones((2, 2 + RANK))), "rank 1", "(3,)")


@check
def nothing_is_sent_twice():
    """Arrays of no elements, and results that the caller changes."""
    equal(nb.mpi.allreduce(nbnp.zeros((0, 3))).shape, (0, 3))
    equal(nb.mpi.allgather(nbnp.zeros((0, 3))).shape, (0, 3))
    x = nbnp.ones(3)
    y = nb.mpi.spread(x)
    y[0] = 5.0
    equal(x.asnumpy(), np.ones(3))
    whole = nbnp.array(np.arange(12.0))
    y = nb.mpi.scatter(whole)
    y[0] = -1.0
    equal(whole.asnumpy(), np.arange(12.0))


def mismatched_calls():
    """In checked mode: calls that do not fit together, and a replicated value that is not."""
    x = nbnp.ones(2 + RANK)
    raises(nb.mpi.MismatchError, lambda: nb.mpi.allreduce(x), "rank 1", "(3,)")
    other = lambda: nb.mpi.allreduce(nbnp.ones(2)) if RANK else nb.mpi.bcast(nbnp.ones(2))  # noqa: E731
    raises(nb.mpi.MismatchError, other, "allreduce", "bcast")
    raises(nb.mpi.MismatchError, lambda: nb.mpi.spread(nbnp.ones(2) * RANK), "same on all ranks")
    w = np.ones(2)
    own = nbnp.array([1.0, 2.0]) * (RANK + 1)
    mixed = lambda w: nbnp.sum(nb.mpi.allreduce(nb.mpi.spread(w)) * own)  # noqa: E731
    raises(nb.mpi.MismatchError, lambda: nb.grad(mixed)(w), "cotangent")
    raises(nb.mpi.MismatchError, lambda: nb.mpi.summed(lambda: np.ones(2 + RANK))(), "summed")


def one_rank_raises():
    if RANK == SIZE - 1:
        raise ValueError("this rank has no data")
    nb.mpi.allreduce(nbnp.ones(2))


def outcome(function):
    try:
        function()
        return "ok"
    except Exception:
        return traceback.format_exc()


if __name__ == "__main__":
    if sys.argv[1:]:
        globals()[sys.argv[1]]()
    else:
        found = {name: COMM.gather(outcome(function)) for name, function in CHECKS.items()}
        if RANK == 0:
            print(json.dumps(found))
