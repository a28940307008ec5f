"""Test utilities of MXNet's ``mxnet.test_utils``: comparing arrays, and creating random ones.

Random numbers come from :mod:`nbgrad.random`; its ``seed`` repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .arrays.ndarray import NDArray, set_storage_type
from .core.context import Context, current_context
from .kernels.random import bernoulli, normal, randint, uniform
from .testing import check_grads

__all__ = [
    "almost_equal",
    "assert_almost_equal",
    "assert_exception",
    "check_numeric_gradient",
    "default_context",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "same",
]

#: Default (rtol, atol), by the less precise of the two dtypes; others are compared exactly.
_TOLERANCES = {"float16": (1e-2, 1e-3), "float32": (1e-4, 1e-6), "float64": (1e-5, 1e-12)}


def default_context() -> Context:
    """The current context."""
    return current_context()


def _value(x) -> np.ndarray:
    return x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)


def same(a, b) -> bool:
    """Whether two arrays have the same shape and the same elements, exactly (NaN equals nothing)."""
    return np.array_equal(_value(a), _value(b))


def _tolerances(a: np.ndarray, b: np.ndarray, rtol: float | None, atol: float | None) -> tuple[float, float]:
    floats = [v.dtype.name for v in (a, b) if v.dtype.kind == "f"]
    wide = max((_TOLERANCES[name] for name in floats), default=(0.0, 0.0))
    return wide[0] if rtol is None else rtol, wide[1] if atol is None else atol


def almost_equal(a, b, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False) -> bool:
    """Whether ``|a - b| <= atol + rtol*|b|`` everywhere; arguments as for ``assert_almost_equal``."""
    a, b = _value(a), _value(b)
    rtol, atol = _tolerances(a, b, rtol, atol)
    return np.allclose(a, b, rtol, atol, equal_nan)


def assert_almost_equal(
    a,
    b,
    rtol: float | None = None,
    atol: float | None = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
) -> None:
    """Assert that ``|a - b| <= atol + rtol*|b|`` everywhere.

    Parameters
    ----------
    a, b : NDArray or array-like
        Of shapes that broadcast.
    rtol, atol : float, optional
        By default 1e-2 and 1e-3 if one is float16, else 1e-4 and 1e-6 if one is float32, else 1e-5 and 1e-12;
        arrays that are not floating must be equal.
    names : sequence of str
        The names of the two in the message.
    equal_nan : bool
        Whether NaN equals NaN.

    Raises
    ------
    AssertionError
        With the number of violations, and index and values of the worst.

    Examples
    --------
    >>> from nbgrad import nd
    >>> from nbgrad.test_utils import assert_almost_equal
    >>> assert_almost_equal(nd.exp(nd.zeros(2)), [1, 1])
    """
    x, y = _value(a), _value(b)
    rtol, atol = _tolerances(x, y, rtol, atol)
    close = np.isclose(x, y, rtol, atol, equal_nan)
    if close.all():
        return
    x, y = (np.broadcast_to(v, close.shape).astype(np.float64) for v in (x, y))
    with np.errstate(invalid="ignore"):
        excess = np.where(close, -np.inf, np.nan_to_num(abs(x - y) / (atol + rtol * abs(y) + 1e-300), nan=np.inf))
    at = tuple(int(k) for k in np.unravel_index(excess.argmax(), close.shape))
    raise AssertionError(
        f"{names[0]} and {names[1]} differ by more than rtol {rtol:g} and atol {atol:g} in {close.size - close.sum()} "
        f"of {close.size} elements, the most at {at}: {x[at]!s} and {y[at]!s}"
    )


def assert_exception(f: Callable, exception_type: type[BaseException], *args, **kwargs) -> None:
    """Assert that ``f(*args, **kwargs)`` raises `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{exception_type.__name__} was not raised")


def check_numeric_gradient(f: Callable, location: Sequence, numeric_eps: float = 1e-3, rtol=1e-4, atol=1e-6) -> None:
    """Compare the gradients of a function at `location`, a list of arrays, with finite differences, in float64.

    Takes a function where MXNet takes a Symbol. See :func:`nbgrad.testing.check_grads`, which has higher orders, too.
    """
    check_grads(f, location, order=1, eps=numeric_eps, rtol=rtol, atol=atol)


def rand_shape_nd(num_dim: int, dim: int = 10) -> tuple[int, ...]:
    """A shape with `num_dim` random lengths from 1 to `dim`."""
    return tuple(randint(1, dim + 1, shape=num_dim).tolist())


def rand_shape_2d(dim0: int = 10, dim1: int = 10) -> tuple[int, ...]:
    """A random shape with lengths up to `dim0` and `dim1`."""
    return (*rand_shape_nd(1, dim0), *rand_shape_nd(1, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10) -> tuple[int, ...]:
    """A random shape with lengths up to `dim0`, `dim1` and `dim2`."""
    return (*rand_shape_2d(dim0, dim1), *rand_shape_nd(1, dim2))


def random_arrays(*shapes: tuple[int, ...]):
    """NumPy arrays of standard normal values in the default dtype, one per shape: a list, or the single one."""
    arrays = [normal(shape=s).asnumpy() for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def rand_ndarray(shape, stype: str = "default", density: float | None = None, dtype=None) -> NDArray:
    """An array of values uniform on [-1, 1); with a `density`, each is nonzero with that probability."""
    values = uniform(-1, 1, shape=shape, dtype=dtype)
    return set_storage_type(values if density is None else values * bernoulli(density, shape=shape), stype)
