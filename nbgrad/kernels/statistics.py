"""Mean and spread, medians, and truth of all or any elements: made of the reductions."""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.dtypes import bool_, int64, uint8
from ..core.shapes import axes as resolve_axes
from ..core.shapes import size
from ..errors import ShapeError
from ..ir.expr import const, eq, select, var
from ..operators.cast import cast
from ..operators.elementwise import derived
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import composite
from . import scalar as vm
from .binary import equal, greater, not_equal
from .host import arrayed, computed
from .indexing import take_axis
from .reduce import as_float, mean, numpy_reduction, reduced, reduces, rows, sum_
from .shape import reshape, transpose
from .unary import square

__all__ = ["moments", "std", "var_"]


def _count(data: NDArray, axis, op: str, ddof: int) -> int:
    n = size([data.shape[k] for k in resolve_axes(axis, data.ndim, op)])
    if n <= ddof:
        raise ShapeError(
            f"{op}: {n} element(s) over axis {axis} of shape {data.shape}; more than ddof={ddof} are needed"
        )
    return n - ddof


@composite(
    "var",
    method=True,
    samples=rows(np.var, empty=False, exclude=False, ulp=4, result="float")
    + sample_table(numpy_reduction(np.var), [(3, 2), {"axis": 0, "ddof": 1}], ulp=4, result="float"),
)
def var_(data, axis=None, keepdims=False, ddof=0):
    """Variance: the mean of squared deviations from the mean.

    Parameters
    ----------
    data : NDArray
    axis, keepdims
        As for ``sum``.
    ddof : int
        Divide by the number of elements less this.

    Returns
    -------
    NDArray
        The shape of `data` without these axes; (1,) if that leaves none and `keepdims` is not set.

    Raises
    ------
    ShapeError
        If there are no more than `ddof` elements.

    Notes
    -----
    Gradient: ``2*g*(x - mean)/(n - ddof)``.
    """
    data = as_float(as_array(data, "var"))
    n = _count(data, axis, "var", ddof)
    return sum_(square(data - mean(data, axis=axis, keepdims=True)), axis=axis, keepdims=keepdims) / n


_x = var("x0")
_root = derived("sqrt_or_zero", select(eq(_x, 0), const(0), vm.sqrt(_x)), 1, 0, False)


@composite(method=True, samples=rows(np.std, empty=False, exclude=False, ulp=4, result="float", order=2))
def std(data, axis=None, keepdims=False, ddof=0):
    """Standard deviation, the root of ``var``; arguments as there. The gradient where it is 0 is 0.

    Returns
    -------
    NDArray
        As ``var``.
    """
    return _root.apply1(var_(as_array(data, "std"), axis=axis, keepdims=keepdims, ddof=ddof))


def _numpy_moments(a: np.ndarray, axes=None, keepdims=False) -> list[np.ndarray]:
    return [numpy_reduction(f)(a, axis=axes, keepdims=keepdims) for f in (np.mean, np.var)]


@composite(
    method=True,
    samples=sample_table(
        _numpy_moments,
        [(2, 3)],
        [(2, 3, 2), {"axes": (0, 2)}],
        [(2, 3), {"axes": 1, "keepdims": True}],
        ulp=4,
        result="float",
    ),
)
def moments(data, axes=None, keepdims=False):
    """Mean and (population) variance over the given axes.

    Returns
    -------
    list of NDArray
        ``[mean, variance]``

    Notes
    -----
    Gradients: as for ``mean`` and ``var``.
    """
    data = as_float(as_array(data, "moments"))
    return [mean(data, axis=axes, keepdims=keepdims), var_(data, axis=axes, keepdims=keepdims)]


def _truth(name: str, what: str, reference):
    @reduces(f"Whether {what} is not zero (NaN is not), as bool.", "0")
    def call(data, axis=None, keepdims=False):
        x = as_array(data, name)
        test = not_equal if name == "any" else equal
        hits = sum_(cast(test(x, 0), x._kind.of(int64)), axis=axis, keepdims=keepdims)
        answer = greater(hits, 0) if name == "any" else equal(hits, 0)
        return cast(answer, x._kind.of(bool_))

    call.__name__ = name
    samples = rows(reference, exclude=False, result="bool")
    return composite(name, method=True, samples=samples, differentiable=False)(call)


any_ = _truth("any", "any element", np.any)
all_ = _truth("all", "every element", np.all)


@composite(
    method=True,
    samples=rows(np.median, empty=False, exclude=False, ulp=1, result="float")
    + sample_table(numpy_reduction(np.median), [(4, 5), {"axis": 1}], [(4, 5), {"axis": 0}], ulp=1, result="float"),
)
def median(data, axis=None, keepdims=False):
    """Middle element, or the mean of the two middle ones; NaN if there is one.

    Parameters
    ----------
    data : NDArray
    axis, keepdims
        As for ``sum``.

    Returns
    -------
    NDArray
        The shape of `data` without these axes; (1,) if that leaves none and `keepdims` is not set.

    Notes
    -----
    Gradient: g to the middle element, or half of it to each of the two.

    The gradient goes to the element (half of it to each of the two) that was picked: a subgradient at ties.
    """
    data = as_float(as_array(data, "median"))
    axes = resolve_axes(axis, data.ndim, "median")
    kept = tuple(k for k in range(data.ndim) if k not in axes)
    n = size([data.shape[k] for k in axes])
    if n == 0:
        raise ShapeError(f"median: no elements to choose from: shape {data.shape} reduced over axes {axes}")
    table_ = reshape(transpose(data, axes=kept + axes), (data.size // n, n))
    places = computed(_middle, table_, shape=(len(table_), 2))
    picked = take_axis(reshape(table_, (table_.size,)), places, 0)
    return reshape(mean(picked, axis=1), reduced(data, axes, bool(keepdims)))


@composite(
    samples=sample_table(
        lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: np.array([np.allclose(a, b, rtol, atol, equal_nan)]),
        [(2, 3), (2, 3)],
        [(2, 3), (1, 3), {"rtol": 0.5, "atol": 100.0}],
        [(), (0,)],
        result="uint8",
    ),
    differentiable=False,
)
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """1 if ``|a - b| <= atol + rtol*|b|`` everywhere, else 0, in a uint8 array of shape (1,). Gradient: 0."""
    a, b = as_array(a, "allclose", "a"), as_array(b, "allclose", "b")
    given = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    return arrayed(computed(_close, a, b, shape=(1,), dtype=uint8, **given), uint8, a)


def _middle(values: np.ndarray) -> np.ndarray:
    """The flat places of the middle element of each row, or the two of them; of the first NaN where there is one."""
    n = values.shape[1]
    middle = np.argsort(values, axis=1, kind="stable")[:, [(n - 1) // 2, n // 2]]
    missing = np.isnan(values).any(axis=1)
    middle[missing] = np.isnan(values).argmax(axis=1)[missing, None]
    return np.arange(len(values))[:, None] * n + middle


def _close(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    return np.array([np.allclose(a, b, rtol, atol, equal_nan)])
