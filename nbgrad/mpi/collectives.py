"""Collectives for users: the calls, their defaults and what they refuse; the maps are in :mod:`.linear_maps`."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from .. import nd
from ..arrays.ndarray import NDArray
from ..errors import AttrError, DTypeError, ShapeError
from .communication import MPI, agreed, communicator
from .linear_maps import AtRoot, Block, BlockOfSum, FromRoot, Join, Local, Shape, Shift, Spread, Sum, Transposed

__all__ = ["allgather", "allreduce", "alltoall", "bcast", "halo", "local", "reduce", "scatter", "scatter_sum",
           "sendrecv", "spread"]  # fmt: skip


def _array(name: str, x: Any, axes: int = 0) -> NDArray:
    """`x`, which must be an array with at least this number of axes."""
    if not isinstance(x, NDArray):
        raise DTypeError(f"{name}: an array of nd or np is expected, got {x!r}; convert it with nd.array(x)")
    if len(x.shape) < axes:
        raise ShapeError(f"{name}: axis {axes - 1} is needed, and the array has the shape {x.shape}; give it more axes")
    return x


def allreduce(x: NDArray, op: str = "sum", comm: MPI.Intracomm | None = None) -> NDArray:
    """The elementwise sum, product, largest or smallest value of all ranks' arrays, which all ranks get.

    Parameters
    ----------
    x : NDArray
        This rank's own values, of the same shape and dtype on all ranks.
    op : {'sum', 'prod', 'max', 'min'}
        Of the last three, the arrays of all ranks are collected: they take that much memory. Among equal extremes the
        gradient goes to the first rank.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Returns
    -------
    NDArray
        Like `x`, and the same on all ranks. The transpose of the sum is :func:`spread`.

    Raises
    ------
    PlacementError
        If `x` is computed from variables that did not pass through :func:`spread` or :func:`local`.

    Examples
    --------
    >>> import nbgrad as nb
    >>> import nbgrad.np as np
    >>> def loss(w, own):  # the same on all ranks, as its gradient is
    ...     return nb.mpi.allreduce(np.sum((nb.mpi.spread(w) - own) ** 2))
    >>> nb.grad(loss)(3.0, np.array([1.0, 2.0]))  # one rank
    6.0
    """
    comm, x = communicator(comm), _array("allreduce", x)
    if op == "sum":
        return Sum(comm)(x)
    if op not in ("prod", "max", "min"):
        raise AttrError(f"allreduce: op must be 'sum', 'prod', 'max' or 'min', got {op!r}")
    every = Join(comm, [1] * comm.size)(nd.expand_dims(x, axis=0))
    if op == "prod":
        return nd.prod(every, axis=0)
    return nd.pick(every, (nd.argmax if op == "max" else nd.argmin)(every, axis=0), axis=0)


def spread(x: NDArray, comm: MPI.Intracomm | None = None) -> NDArray:
    """What is the same on all ranks, as this rank's own: to be used with what only this rank has.

    Its transpose is the sum over all ranks: so the gradient of a variable that passed through is that of all ranks'
    computations together, and the same on all ranks.

    Examples
    --------
    See :func:`allreduce`.
    """
    return Spread(communicator(comm))(_array("spread", x))


def local(x: NDArray, comm: MPI.Intracomm | None = None) -> NDArray:
    """A variable that is this rank's own, such as its part of a field; its gradient is this rank's, too.

    Examples
    --------
    >>> import nbgrad as nb
    >>> import nbgrad.np as np
    >>> nb.grad(lambda part: nb.mpi.allreduce(np.sum(nb.mpi.local(part) ** 2)))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return Local(communicator(comm))(_array("local", x))


def _lengths(name: str, comm: MPI.Intracomm, x: NDArray) -> list[int]:
    """The lengths of the first axis on all ranks, whose other axes and dtypes must be the same."""
    _array(name, x, 1)
    said = agreed(comm, (name, f"rows of shape {x.shape[1:]}", np.dtype(x.dtype).name), x.shape[0])
    return [n for _, n in said]


def allgather(x: NDArray, comm: MPI.Intracomm | None = None) -> NDArray:
    """The arrays of all ranks, joined along the first axis, which all ranks get.

    Parameters
    ----------
    x : NDArray, shape (n, ...)
        This rank's own rows; `n` may differ between ranks.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Returns
    -------
    NDArray, shape (sum of all n, ...)
        The same on all ranks. The transpose is :func:`scatter`.

    Raises
    ------
    MismatchError
        If the other axes or the dtypes differ.
    PlacementError
        As for :func:`allreduce`.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.allgather(nb.nd.array([1.0, 2.0])).shape  # one rank
    (2,)
    """
    comm = communicator(comm)
    return Join(comm, _lengths("allgather", comm, x))(x)


def _blocks(name: str, comm: MPI.Intracomm, x: NDArray, lengths: Any) -> list[int]:
    """The lengths of the blocks of all ranks: those given, or as nearly equal as they can be."""
    n = _array(name, x, 1).shape[0]
    if lengths is None:
        return [n // comm.size + (rank < n % comm.size) for rank in range(comm.size)]
    found = [index(k) for k in lengths]
    if len(found) != comm.size or sum(found) != n or min(found) < 0:
        raise ShapeError(f"{name}: the {comm.size} ranks' blocks of {n} rows cannot have the lengths {lengths}")
    return found


def scatter(x: NDArray, lengths: Any = None, comm: MPI.Intracomm | None = None) -> NDArray:
    """This rank's block of rows of an array that is the same on all ranks.

    Parameters
    ----------
    x : NDArray, shape (n, ...)
    lengths : sequence of int, optional
        How many rows each rank gets; by default as nearly equal as can be, the first ranks one more.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Returns
    -------
    NDArray
        This rank's own. The transpose is :func:`allgather`.

    Raises
    ------
    ShapeError
        If the lengths are not one for each rank, or do not add up to `n`.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.scatter(nb.nd.array([1.0, 2.0])).shape  # one rank
    (2,)
    """
    comm = communicator(comm)
    return Block(comm, _blocks("scatter", comm, x, lengths))(x)


def scatter_sum(x: NDArray, lengths: Any = None, comm: MPI.Intracomm | None = None) -> NDArray:
    """This rank's block of rows of the sum of all ranks' arrays. Arguments and errors as for :func:`scatter`.

    `x` is this rank's own, of the same shape on all ranks.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.scatter_sum(nb.nd.array([1.0, 2.0])).shape  # one rank
    (2,)
    """
    comm = communicator(comm)
    return BlockOfSum(comm, _blocks("scatter_sum", comm, x, lengths))(x)


def _rank(name: str, comm: MPI.Intracomm, rank: Any) -> int:
    if not isinstance(rank, int | np.integer) or not 0 <= rank < comm.size:
        raise AttrError(f"{name}: a rank is a number from 0 to {comm.size - 1}, got {rank!r}")
    return int(rank)


def bcast(x: NDArray, root: int = 0, comm: MPI.Intracomm | None = None) -> NDArray:
    """The array of rank `root`, which all ranks get.

    Every rank passes an array of the same shape and dtype, whose values count on `root` alone. The gradient goes to
    that rank's array; that of the others is zero.

    Raises
    ------
    AttrError
        If there is no such rank.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.bcast(nb.nd.array([1.0, 2.0])).shape
    (2,)
    """
    comm = communicator(comm)
    return FromRoot(comm, _rank("bcast", comm, root))(_array("bcast", x))


def reduce(x: NDArray, root: int = 0, comm: MPI.Intracomm | None = None) -> NDArray:
    """The sum of all ranks' arrays on rank `root`, and zeros on the others. Errors as for :func:`bcast`.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.reduce(nb.nd.array([1.0, 2.0])).shape
    (2,)
    """
    comm = communicator(comm)
    return AtRoot(comm, _rank("reduce", comm, root))(Sum(comm)(_array("reduce", x)))


def alltoall(x: NDArray, comm: MPI.Intracomm | None = None) -> NDArray:
    """One block of rows from each rank: block `k` of rank `r` becomes block `r` of rank `k`.

    Parameters
    ----------
    x : NDArray, shape (n, ...)
        This rank's own; `n` is a multiple of the number of ranks, and the same on all of them.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Raises
    ------
    ShapeError
        If `n` is no such multiple.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.alltoall(nb.nd.array([1.0, 2.0])).shape
    (2,)
    """
    comm = communicator(comm)
    if _array("alltoall", x, 1).shape[0] % comm.size:
        raise ShapeError(f"alltoall: the rows must be a multiple of the {comm.size} ranks, got the shape {x.shape}")
    return Transposed(comm)(x)


def sendrecv(
    x: NDArray,
    dest: int | None,
    source: int | None,
    shape: Shape | None = None,
    comm: MPI.Intracomm | None = None,
) -> NDArray:
    """Send an array to one rank, and get that of another one; the transpose sends the other way.

    Parameters
    ----------
    x : NDArray
    dest, source : int or None
        The ranks; None: no rank, from which zeros come. Where `r` sends to `s`, `s` must name `r` as its source.
    shape : tuple of int, optional
        Of what is received; by default that of `x`.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Raises
    ------
    AttrError
        If there is no such rank.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.sendrecv(nb.nd.array([1.0, 2.0]), dest=0, source=0).shape
    (2,)
    """
    comm = communicator(comm)
    to, origin = (MPI.PROC_NULL if rank is None else _rank("sendrecv", comm, rank) for rank in (dest, source))
    _array("sendrecv", x)
    return Shift(comm, to, origin, x.shape, x.shape if shape is None else tuple(shape))(x)


def halo(u: NDArray, width: int = 1, periodic: bool = False, comm: MPI.Intracomm | None = None) -> NDArray:
    """A part of a grid with the edges of its neighbours around it.

    Parameters
    ----------
    u : NDArray
        This rank's part. On a Cartesian communicator (``comm.Create_cart``) the grid is cut along as many of its first
        axes as that has; else along the first one, in the order of ranks.
    width : int
        How many rows come from each side, at most those that each part has.
    periodic : bool
        Whether the first and last ranks are neighbours; a Cartesian communicator knows that itself.
    comm : communicator of mpi4py, optional
        All ranks by default.

    Returns
    -------
    NDArray
        Longer by ``2 * width`` along the axes that are cut, with zeros where the grid ends. The transpose adds the
        halo's cotangents to the edges that they came from.

    Raises
    ------
    ShapeError
        If the part has fewer rows than `width`.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.mpi.halo(nb.nd.array([1.0, 2.0]), periodic=True).asnumpy()  # one rank
    array([2., 1., 2., 1.], dtype=float32)
    """
    comm = communicator(comm)
    cut = comm.ndim if isinstance(comm, MPI.Cartcomm) else 1
    if not 0 <= index(width) <= min(_array("halo", u, cut).shape[:cut]):
        raise ShapeError(f"halo: {width} rows of each side are wanted of a part of shape {u.shape}")
    for axis in range(cut):
        before, after = _neighbours(comm, axis, periodic)
        n = u.shape[axis]
        first, last = (nd.slice_axis(u, axis=axis, begin=k, end=k + width) for k in (0, n - width))
        from_before = Shift(comm, after, before, first.shape, first.shape)(last)
        from_after = Shift(comm, before, after, first.shape, first.shape)(first)
        u = nd.concat(from_before, u, from_after, dim=axis)
    return u


def _neighbours(comm: MPI.Intracomm, axis: int, periodic: bool) -> tuple[int, int]:
    if isinstance(comm, MPI.Cartcomm):
        return comm.Shift(axis, 1)
    inside = [0 <= rank < comm.size or periodic for rank in (comm.rank - 1, comm.rank + 1)]
    ranks = [rank % comm.size for rank in (comm.rank - 1, comm.rank + 1)]
    before, after = (rank if there else MPI.PROC_NULL for rank, there in zip(ranks, inside, strict=True))
    return before, after
