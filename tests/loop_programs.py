"""The examples of :mod:`nbgrad.demo.loops` with arguments, and what checks any such function."""

import ast
import re
from contextlib import contextmanager

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.backends.numba import compile as compiling
from nbgrad.demo import loops
from nbgrad.errors import TraceError
from nbgrad.loops import variants
from nbgrad.loops.frontend.syntax import subtrees


def examples():
    rng = np.random.default_rng(3)
    normal, positive = rng.normal, lambda *shape: 1.0 + rng.random(shape)
    matrix = normal(size=(5, 5))
    starts = np.array([0, 2, 2, 5, 6])
    columns = np.array([0, 3, 1, 2, 3, 0])
    return {
        "heat": (loops.heat, (normal(size=(4, 5, 4)), positive(4, 5, 4), 0.05, 3)),
        "lynx_hare": (loops.lynx_hare, (np.array([0.5, 0.03, 0.02, 0.8]), np.array([30.0, 4.0]), 0.1,
                                        np.zeros(12), np.zeros(12))),
        "thomas": (loops.thomas, (normal(size=6), 5 + positive(6), normal(size=6), normal(size=6), np.zeros(6))),
        "cholesky": (loops.cholesky, (matrix @ matrix.T + 5 * np.eye(5),)),
        "sor": (loops.sor, (normal(size=(5, 6)), normal(size=(5, 6)), 1.4, 3)),
        "soft_dtw": (loops.soft_dtw, (normal(size=5), normal(size=6), 0.7)),
        "lstm": (loops.lstm, (normal(size=(4, 3)), normal(size=(8, 3)), normal(size=(8, 2)), normal(size=8),
                              normal(size=(5, 2)))),
        "pairwise": (loops.pairwise, (2.0 * normal(size=(6, 3)), 2.5)),
        "csr_product": (loops.csr_product, (normal(size=6), columns, starts, normal(size=4), np.zeros(4))),
    }  # fmt: skip


def shuffled(*bounds):
    """The iterations of a parallel loop, in another order."""
    return np.random.default_rng(7).permutation(np.arange(*bounds)).tolist()


def forward(*index):
    """An index of a tape, of which compiled code knows that it is not below zero."""
    assert min(index) >= 0, f"index {index} of a tape"
    return index


def plain_module(name, source, tapes=()):
    """A generated file that Python runs: for arrays of few elements that is a hundred times faster than compiling it.
    Indices of tapes are looked at, which the text does not say."""
    source = re.sub(r"@njit.*\n", "", source)
    made = compiling.module(name, source)
    if not tapes:
        return made
    tree = ast.parse(source)
    for node in subtrees(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in tapes:
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            node.slice = ast.copy_location(ast.Call(ast.Name("forward", ast.Load()), index, []), node)
            ast.copy_location(node.slice.func, node)
    names = {**made.__globals__}
    exec(compile(tree, made.__code__.co_filename, "exec"), names)
    made.__code__ = names[name].__code__
    made.__globals__["forward"] = forward
    return made


@contextmanager
def uncompiled(shuffle=True):
    """Let Python run what is generated. Parallel iterations are shuffled."""

    def plain(name, source, tapes=()):
        if shuffle:
            source = source.replace("import njit, prange", "import njit\nfrom loop_programs import shuffled as prange")
        return plain_module(name, source, tapes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "compiled_module", plain)
        yield


def copies(args):
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def floats(args):
    return [
        k for k, a in enumerate(args) if isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype.kind == "f")
    ]


def places(args, parts, count):
    """One entry for each of `count` parameters: the `parts` for floats, None for the others."""
    parts = dict(zip(floats(args), parts, strict=True))
    return tuple(parts.get(k) for k in range(count))


def there(gradients):
    """Those of floats."""
    return [g for g in gradients if g is not None]


def run(f, args):
    """All outputs as one vector: the results, and all arrays of floats as they are afterwards."""
    args = copies(args)
    results = f(*args)
    results = () if results is None else results if isinstance(results, tuple) else (results,)
    parts = [np.ravel(r) for r in results]
    return parts, [np.ravel(args[k]) for k in floats(args) if isinstance(args[k], np.ndarray)]


def flat(*parts):
    return np.concatenate([np.ravel(p) for p in parts]) if parts else np.zeros(0)


def moved(args, directions, h):
    args = list(copies(args))
    for k, d in zip(floats(args), directions, strict=True):
        args[k] = args[k] + h * d
    return tuple(args)


def agrees(f, args, *, h=1e-6, rtol=2e-6, seed=0):
    """Whether the adjoint agrees with central differences in a random direction, for random cotangents."""
    rng = np.random.default_rng(seed)
    adj = nb.adjoint(f)
    here = copies(args)
    pull = adj.vjp(*here)
    results, arrays = run(f, args)
    for (_, a), b in zip([(k, here[k]) for k in floats(here) if isinstance(here[k], np.ndarray)], arrays, strict=True):
        np.testing.assert_allclose(np.ravel(a), b, rtol=1e-12)  # what the function writes is written
    value = () if pull.value is None else pull.value if isinstance(pull.value, tuple) else (pull.value,)
    for a, b in zip(value, results, strict=True):
        np.testing.assert_allclose(np.ravel(a), b, rtol=1e-12)
    names, params = pull.outputs, list(pull.parameters)
    weights = []
    for name in names:
        if name in params and np.ndim(args[params.index(name)]):
            weights.append(rng.normal(size=args[params.index(name)].shape))
        else:
            shape = np.shape(value[len(weights)])
            weights.append(rng.normal(size=shape) if shape else float(rng.normal()))
    directions = [rng.normal(size=np.shape(args[k])) if np.ndim(args[k]) else float(rng.normal()) for k in floats(args)]

    def projected(at):
        at = copies(at)
        out = f(*at)
        out = () if out is None else out if isinstance(out, tuple) else (out,)
        every = [*out, *(at[params.index(n)] for n in names[len(out) :])]
        return sum(np.sum(w * o) for w, o in zip(weights, every, strict=True))

    gradients = there(pull(tuple(weights)))
    found = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
    duals = nb.tangent(f).jvp(args, places(args, directions, len(adj._source.signature.parameters)))[1]
    duals = duals if isinstance(duals, tuple) else (duals,)
    forward = sum(np.sum(w * d) for w, d in zip(weights, duals, strict=True))
    expected = (projected(moved(args, directions, h)) - projected(moved(args, directions, -h))) / (2 * h)
    scale = max(1.0, sum(np.sum(np.abs(g * d)) for g, d in zip(gradients, directions, strict=True)))
    assert abs(found - forward) <= 1e-12 * scale, (found, forward, adj.source)
    assert abs(found - expected) <= rtol * scale, (found, expected, adj.source)
    # In one function, as for value_and_grad, where iterations of loops may be reversed at once.
    whole = pull._generated(copies(pull._args), dict(zip(names, weights, strict=True)), pull._results)[1]
    at_once = sum(np.sum(g * d) for g, d in zip(whole, directions, strict=True))
    assert abs(at_once - found) <= 1e-10 * scale, (at_once, found, adj.source)
    return adj


def twice(f, args, *, h=1e-6, rtol=1e-5, seed=0):
    """Whether products with the Hessian agree with central differences of gradients."""
    rng = np.random.default_rng(seed)
    adj = nb.adjoint(f)
    pull = adj.vjp(*copies(args))
    given = dict(zip(pull.parameters, args, strict=True))
    value = () if pull.value is None else pull.value if isinstance(pull.value, tuple) else (pull.value,)
    every = [*value, *(given[n] for n in pull.outputs[len(value) :])]
    weights = tuple(rng.normal(size=np.shape(y)) if np.ndim(y) else 0.7 for y in every)
    along = [rng.normal(size=np.shape(args[k])) if np.ndim(args[k]) else 0.3 for k in floats(args)]
    up, down = (adj.vjp(*moved(args, along, k * h))(weights) for k in (1, -1))
    products = adj.hvp(copies(args), places(args, along, len(adj._source.signature.parameters)), weights)
    for found, a, b in zip(*map(there, (products, up, down)), strict=True):
        scale = max(1.0, np.max(np.abs(found), initial=0.0))
        np.testing.assert_allclose(found, (a - b) / (2 * h), rtol=rtol, atol=rtol * scale)


class Programs(list):
    """Functions of two numbers, ``f(a, b)``, or of a number and an array, ``f(a, x)``, by a decorator, so that a test
    leaves none out."""

    def __call__(self, f):
        self.append(f)
        return f


def as_python_or_refused(f):
    """Check that a program is refused, or has the value, the derivative by its number, or the error that Python has."""
    number, other = 1.5, 2.0 if f.__code__.co_varnames[1] != "x" else np.array([0.5, 2.0, 3.0, -1.0])

    def value(a):
        return f(a, np.copy(other) if np.ndim(other) else other)

    try:
        expected = value(number)
    except Exception as err:
        expected = type(err)
    try:
        with uncompiled():
            found, gradients = nb.adjoint(f).value_and_grad(number, np.copy(other) if np.ndim(other) else other)
    except TraceError:
        return
    except Exception as err:
        assert isinstance(expected, type), err
        assert issubclass(type(err), expected)
        return
    assert found == pytest.approx(expected, rel=1e-12)
    h = 1e-6
    assert gradients[0] == pytest.approx((value(number + h) - value(number - h)) / (2 * h), rel=1e-5, abs=1e-6)
