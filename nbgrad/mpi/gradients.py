"""Gradients of sums over ranks, each of which computes its own terms: one model on many data."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from numbers import Real
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..autodiff.constants import carries_gradient
from ..core import config
from ..errors import DTypeError, TraceError
from ..functional import derivatives
from ..functional.pytrees import flatten
from .communication import MPI, agreed, check_dtype, communicator, on_device, on_host

__all__ = ["summed", "value_and_grad"]


def summed(function: Callable, comm: MPI.Intracomm | None = None) -> Callable:
    """A function that adds up what `function` returns on all ranks.

    Parameters
    ----------
    function : callable
        Returns numbers and arrays, or dicts, lists, tuples and dataclasses of them, of the same shapes on all ranks;
        None stays None. It may be compiled: ``summed(nb.jit(nb.value_and_grad(loss)))``,
        ``summed(nb.adjoint(loss).value_and_grad)``.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Returns
    -------
    callable
        Takes the same arguments, and returns the sums in the same form, on every rank. All arrays of one dtype travel
        in one message.

    Raises
    ------
    DTypeError
        If the function returns something else, truth values among it.
    TraceError
        If it is called inside a function that is differentiated or compiled: use :func:`allreduce` there.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.mpi.summed(lambda own: {"n": len(own), "total": np.sum(own)})(np.array([1.0, 2.0]))  # one rank
    {'n': 2, 'total': np.float64(3.0)}
    """
    comm = communicator(comm)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _sum_of(function(*args, **kwargs), comm)

    return call


def value_and_grad(
    function: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, comm: MPI.Intracomm | None = None
) -> Callable:
    """The value and gradient of the sum over all ranks of `function`, which computes one rank's terms.

    Parameters
    ----------
    function : callable
        Returns this rank's part of a sum, a scalar, from variables that are the same on all ranks and from whatever
        is this rank's own. It need not know of other ranks.
    argnums, has_aux
        As for :func:`nbgrad.value_and_grad`; what is passed on is each rank's own.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Returns
    -------
    callable
        As of :func:`nbgrad.value_and_grad`. Value and gradient are those of the sum, and the same on all ranks, with
        one message for both.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`nbgrad.grad`.

    Examples
    --------
    >>> import nbgrad as nb
    >>> import nbgrad.np as np
    >>> def loss(w, own):
    ...     return np.sum((w - own) ** 2)
    >>> nb.mpi.value_and_grad(loss)(3.0, np.array([1.0, 2.0]))  # one rank
    (5.0, 6.0)
    """
    comm = communicator(comm)
    own = derivatives.value_and_grad(function, argnums, has_aux)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        value, gradient = own(*args, **kwargs)
        if not has_aux:
            return _sum_of((value, gradient), comm)
        total, gradient = _sum_of((value[0], gradient), comm)
        return (total, value[1]), gradient

    return call


def _sum_of(tree: Any, comm: MPI.Intracomm) -> Any:
    leaves: list[Any] = []
    rebuilt = flatten(tree, leaves)
    arrays = [_numbers(x) for x in leaves]
    if config.CHECKED:
        agreed(comm, ("summed", *(f"{a.dtype}{a.shape}" for a in arrays)))
    sums = [np.empty_like(a) for a in arrays]
    for dtype in dict.fromkeys(a.dtype for a in arrays):
        places = [k for k, a in enumerate(arrays) if a.dtype == dtype]
        message = np.concatenate([arrays[k].ravel() for k in places])
        comm.Allreduce(MPI.IN_PLACE, message, MPI.SUM)
        ends = np.cumsum([arrays[k].size for k in places])
        for k, part in zip(places, np.split(message, ends[:-1]), strict=True):
            sums[k][...] = part.reshape(sums[k].shape)
    return rebuilt(iter([_like(x, total) for x, total in zip(leaves, sums, strict=True)]))


def _numbers(x: Any) -> np.ndarray:
    """The values of a leaf; none of None."""
    if isinstance(x, NDArray):
        if carries_gradient(x) or x._kind.traced:
            raise TraceError(
                "summed: the function returned an array that is being recorded; inside a function that is "
                "differentiated or compiled, add up with nb.mpi.allreduce(x)"
            )
        return on_host("summed", x)
    if x is None:
        return np.empty(0)
    if isinstance(x, np.ndarray | np.generic | Real) and np.asarray(x).dtype.kind in "iuf":
        return check_dtype("summed", np.asarray(x))
    raise DTypeError(f"summed: the function must return numbers and arrays of them, got {x!r}")


def _like(x: Any, total: np.ndarray) -> Any:
    if isinstance(x, NDArray):
        return on_device(total, x)
    if x is None or isinstance(x, np.ndarray):
        return None if x is None else total
    return total[()] if isinstance(x, np.generic) else type(x)(total[()])
