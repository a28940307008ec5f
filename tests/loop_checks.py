"""Checks of the derivatives of a function with loops: value, adjoint, tangent and Hessian-vector product."""

import inspect
from contextlib import nullcontext

import numba
import numpy as np
import pytest
from loop_programs import uncompiled

import nbgrad as nb


def float_leaves(a):
    """The floats and float arrays in an argument, nested tuples flattened."""
    if isinstance(a, tuple):
        return [x for part in a for x in float_leaves(part)]
    is_array = isinstance(a, np.ndarray) and a.dtype.kind == "f"
    return [np.atleast_1d(a)] if is_array or isinstance(a, float) else []


def as_vector(args):
    return np.concatenate([np.zeros(0), *(x.ravel() for x in float_leaves(args))])


def from_vector(a, vector, others=lambda x: x):
    """The argument `a` with its floats taken from an iterator over `vector`; `others` maps the rest."""
    if isinstance(a, tuple):
        parts = [from_vector(part, vector, others) for part in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, float):
        return float(next(vector))
    if isinstance(a, np.ndarray) and a.dtype.kind == "f":
        return np.array([next(vector) for _ in range(a.size)]).reshape(a.shape)
    return others(a)


def check_derivatives(f, *args, second=True, compiled=True, step=1e-6):
    """Compare value, gradient, tangent and Hessian-vector product of `f`, which returns a number, with differences.

    `compiled`: the gradient is compared with that of the function that Numba compiles, too. Otherwise only the gradient
    is compiled, and Python runs what is generated for the others.
    """
    plain = getattr(f, "py_func", f)
    signature = inspect.signature(plain)
    binding = signature.bind(*args)
    binding.apply_defaults()
    args = binding.args
    kinds = [p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()]
    fixed = kinds.index(True) if True in kinds else len(kinds)

    def grouped(given):
        return given if fixed == len(kinds) else (*given[:fixed], given[fixed:])

    at, adj = as_vector(args), nb.adjoint(f)

    def call(function, vector):
        return function(*from_vector(args, iter(vector)))

    def gradient(vector):
        value, gradients = call(adj.value_and_grad, vector)
        assert value == close_to(call(plain, vector))
        zeros = grouped(from_vector(args, iter(vector * 0)))
        return as_vector(filled(zeros, gradients))

    slope = gradient(at)
    for function in (plain, numba.njit(plain)) if compiled else (plain,):
        differences = [(call(function, at + e) - call(function, at - e)) / (2 * step) for e in np.eye(at.size) * step]
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-7)
    direction = np.cos(np.arange(at.size) + 1.0)
    directions = grouped(from_vector(args, iter(direction), lambda x: None))
    with nullcontext() if compiled else uncompiled(shuffle=False):
        value, derivative = nb.tangent(f).jvp(from_vector(args, iter(at)), directions)
        assert value == close_to(call(plain, at))
        np.testing.assert_allclose(derivative, slope @ direction, rtol=1e-9, atol=1e-12)
        if second:
            products = adj.hvp(from_vector(args, iter(at)), directions)
            curved = (gradient(at + step * direction) - gradient(at - step * direction)) / (2 * step)
            zeros = grouped(from_vector(args, iter(at * 0)))
            np.testing.assert_allclose(as_vector(filled(zeros, products)), curved, rtol=1e-4, atol=1e-6)


def filled(zeros, gradients):
    """Gradients as arguments: what has none is taken from `zeros`."""
    if isinstance(zeros, tuple):
        parts = gradients if isinstance(gradients, tuple) else [None] * len(zeros)
        return tuple(map(filled, zeros, parts))
    return zeros if gradients is None else gradients if np.ndim(gradients) else float(gradients)


def close_to(value):
    return pytest.approx(value, rel=1e-10, abs=1e-13)
