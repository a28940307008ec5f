"""The linear maps of all ranks' arrays that collectives are, with their transposes: closed under differentiation.

The pullback of each is another one of them: the sum over all ranks and the spread of what is replicated; joining
blocks and taking one; the value of one rank and keeping it there alone; exchanges between pairs of ranks. So
derivatives of any order are made of the same calls, in the same order on every rank.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import nd
from ..arrays.ndarray import NDArray
from ..autodiff import tracing
from ..custom.function import Function
from .communication import MPI, check_agreement, check_replicated, on_device, on_host
from .placement import Placement, check_operand

__all__ = ["AtRoot", "Block", "BlockOfSum", "FromRoot", "Join", "Local", "Shift", "Spread", "Sum", "Transposed"]

_REPLICATED, _VARYING = Placement.REPLICATED, Placement.VARYING
Shape = tuple[int, ...]


class Collective(Function):
    """A linear map of arrays of all ranks. `takes` and `gives` say how operand and result are placed."""

    _saves = ()
    name: str
    takes = gives = _VARYING

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm

    def __call__(self, x: NDArray) -> NDArray:
        if x._node is None and tracing.current.graph is None:
            return self.forward(x)
        check_operand(self.name, x, self.takes)
        return super().__call__(x)

    def infer(self, x: NDArray) -> Any:
        return x

    def forward(self, x: NDArray) -> NDArray:
        self.save_for_backward(None)  # nothing, not even the operand: the map is linear
        self.check(x)
        return self.result(x)

    def check(self, x: NDArray) -> None:
        check_agreement(self.comm, self.name, x)

    def result(self, x: NDArray) -> NDArray:
        return on_device(self.moved(on_host(self.name, x)), x)

    def moved(self, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _held(self, saved: bool = True, kinds: Any = NDArray) -> list[Any]:
        return []  # no arrays: without a look at the attributes, a call takes half the time


class Sum(Collective):
    name, gives = "allreduce", _REPLICATED

    def moved(self, x: np.ndarray) -> np.ndarray:
        total = np.empty_like(x)
        self.comm.Allreduce(x, total, MPI.SUM)
        return total

    def backward(self, g: NDArray) -> NDArray:
        return Spread(self.comm)(g)


class _Here(Collective):
    """A map of what is replicated: it takes no messages, since each rank has the operand already."""

    takes = _REPLICATED

    def check(self, x: NDArray) -> None:
        check_replicated(self.comm, self.name, x)

    def result(self, x: NDArray) -> NDArray:
        return x.copy()


class Spread(_Here):
    name = "spread"

    def backward(self, g: NDArray) -> NDArray:
        return Sum(self.comm)(g)


class Local(_Here):
    name = "local"

    def check(self, x: NDArray) -> None:
        pass

    def backward(self, g: NDArray) -> NDArray:
        return g


class _OfBlocks(Collective):
    """A map from or to blocks of rows, of these lengths on the ranks; by default to this rank's."""

    def __init__(self, comm: MPI.Intracomm, lengths: list[int]) -> None:
        super().__init__(comm)
        self.lengths = lengths

    def infer(self, x: NDArray) -> Any:
        return (self.lengths[self.comm.rank], *x.shape[1:]), x.dtype


class Join(_OfBlocks):
    name, gives = "allgather", _REPLICATED

    def infer(self, x: NDArray) -> Any:
        return (sum(self.lengths), *x.shape[1:]), x.dtype

    def check(self, x: NDArray) -> None:
        pass  # where lengths are found, the ranks have agreed

    def moved(self, x: np.ndarray) -> np.ndarray:
        joined = np.empty((sum(self.lengths), *x.shape[1:]), x.dtype)
        self.comm.Allgatherv(x, (joined, _counts(self.lengths, x)))
        return joined

    def backward(self, g: NDArray) -> NDArray:
        return Block(self.comm, self.lengths)(g)


class Block(_OfBlocks, _Here):
    name = "scatter"

    def result(self, x: NDArray) -> NDArray:
        start = sum(self.lengths[: self.comm.rank])
        return nd.slice_axis(x, axis=0, begin=start, end=start + self.lengths[self.comm.rank])

    def backward(self, g: NDArray) -> NDArray:
        return Join(self.comm, self.lengths)(g)


class BlockOfSum(_OfBlocks):
    name = "scatter_sum"

    def moved(self, x: np.ndarray) -> np.ndarray:
        block = np.empty((self.lengths[self.comm.rank], *x.shape[1:]), x.dtype)
        self.comm.Reduce_scatter(x, block, _counts(self.lengths, x), MPI.SUM)
        return block

    def backward(self, g: NDArray) -> NDArray:
        return Spread(self.comm)(Join(self.comm, self.lengths)(g))


def _counts(lengths: list[int], x: np.ndarray) -> list[int]:
    """How many elements blocks of these lengths have."""
    return [n * math.prod(x.shape[1:]) for n in lengths]


class FromRoot(Collective):
    name, gives = "bcast", _REPLICATED

    def __init__(self, comm: MPI.Intracomm, root: int) -> None:
        super().__init__(comm)
        self.root = root

    def moved(self, x: np.ndarray) -> np.ndarray:
        values = x.copy()
        self.comm.Bcast(values, self.root)
        return values

    def backward(self, g: NDArray) -> NDArray:
        return AtRoot(self.comm, self.root)(g)


class AtRoot(_Here):
    """What is replicated, on one rank; zeros on the others."""

    name = "reduce"

    def __init__(self, comm: MPI.Intracomm, root: int) -> None:
        super().__init__(comm)
        self.root = root

    def result(self, x: NDArray) -> NDArray:
        return x.copy() if self.comm.rank == self.root else nd.zeros_like(x)

    def backward(self, g: NDArray) -> NDArray:
        return FromRoot(self.comm, self.root)(g)


class Transposed(Collective):
    """Block k of rank r becomes block r of rank k."""

    name = "alltoall"

    def moved(self, x: np.ndarray) -> np.ndarray:
        exchanged = np.empty_like(x)
        self.comm.Alltoall(x, exchanged)
        return exchanged

    def backward(self, g: NDArray) -> NDArray:
        return Transposed(self.comm)(g)


class Shift(Collective):
    """What another rank sends, of a shape, in exchange for what this one sends to a third, of another shape."""

    name = "sendrecv"

    def __init__(self, comm: MPI.Intracomm, dest: int, source: int, sent: Shape, received: Shape) -> None:
        super().__init__(comm)
        self.dest, self.source, self.sent, self.received = dest, source, sent, received

    def infer(self, x: NDArray) -> Any:
        return self.received, x.dtype

    def check(self, x: NDArray) -> None:
        pass  # of each pair of ranks MPI checks that the shapes fit

    def moved(self, x: np.ndarray) -> np.ndarray:
        found = np.zeros(self.received, x.dtype)  # no rank sends zeros
        self.comm.Sendrecv(x, self.dest, recvbuf=found, source=self.source)
        return found

    def backward(self, g: NDArray) -> NDArray:
        return Shift(self.comm, self.source, self.dest, self.received, self.sent)(g)
