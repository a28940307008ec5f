"""What all collectives share: communicators, agreement of the ranks, copies on the host, the end of all if one ends."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core import config
from ..errors import DTypeError, NBGradError

try:
    from mpi4py import MPI
except ImportError as err:  # pragma: no cover
    raise ImportError(f"nbgrad.mpi needs mpi4py and a library of MPI: pip install 'nbgrad[mpi]' ({err})") from err

__all__ = ["MPI", "MismatchError", "agreed", "check_agreement", "check_dtype", "check_replicated", "communicator",
           "end_all_ranks_on_errors", "on_device", "on_host"]  # fmt: skip


class MismatchError(NBGradError):
    """Ranks that call different collectives, or the same one with arrays that do not fit together."""


def communicator(comm: Any) -> MPI.Intracomm:
    """`comm`, or all ranks if it is None."""
    if comm is None:
        return MPI.COMM_WORLD
    if not isinstance(comm, MPI.Intracomm):
        raise DTypeError(f"comm must be a communicator of mpi4py, such as MPI.COMM_WORLD, or None, got {comm!r}")
    return comm


def agreed(comm: MPI.Intracomm, *what: Any) -> list[tuple]:
    """What each rank says of its call, in the order of ranks; MismatchError on all of them if it begins differently.

    `what` begins with what must be equal.
    """
    said = comm.allgather(what)
    if any(other[0] != said[0][0] for other in said):
        differing = "; ".join(f"rank {rank}: {_described(*other[0])}" for rank, other in enumerate(said))
        raise MismatchError(
            f"the ranks do not make the same call: {differing}. Every rank must make the same calls, in the same "
            "order, of arrays that fit together; a test of comm.rank may choose values, not whether to call"
        )
    return said


def _described(name: str, *details: Any) -> str:
    return f"{name} of {', '.join(map(str, details))}" if details else name


def check_agreement(comm: MPI.Intracomm, name: str, x: NDArray) -> None:
    """In checked mode, whether all ranks make this call of an array of this shape and dtype."""
    if config.CHECKED and comm.size > 1:
        agreed(comm, (name, f"shape {x.shape}", np.dtype(x.dtype).name))


def check_replicated(comm: MPI.Intracomm, name: str, x: NDArray) -> None:
    """In checked mode, whether an array that is to be the same on all ranks is."""
    if config.CHECKED and comm.size > 1:
        said = agreed(comm, (name, f"shape {x.shape}", np.dtype(x.dtype).name), x.asnumpy().tobytes())
        differing = [rank for rank, (_, numbers) in enumerate(said) if numbers != said[0][1]]
        if differing:
            raise MismatchError(
                f"{name}: the operand is to be the same on all ranks, and is not on rank {differing[0]}. In a gradient "
                "it is the cotangent of a result of allreduce and the like that met numbers of this rank's own: pass "
                "that result through nb.mpi.spread(x) first"
            )


def on_host(name: str, x: NDArray) -> np.ndarray:
    """The numbers of an array, for MPI."""
    return check_dtype(name, x.asnumpy())


def check_dtype(name: str, values: np.ndarray) -> np.ndarray:
    """`values`, of a dtype that MPI has."""
    if values.dtype == np.float16:
        raise DTypeError(f"{name}: MPI has no numbers of 16 bits; convert with x.astype('float32')")
    return values


def on_device(values: np.ndarray, like: NDArray) -> NDArray:
    """An array of the class and on the device of another one."""
    return from_value(values, like=like._kind)


def end_all_ranks_on_errors() -> None:
    """End all ranks when one of several ends by an exception: the others would wait for it for ever."""
    before = sys.excepthook

    def end(kind: type[BaseException], err: BaseException, trace: TracebackType | None) -> None:
        if MPI.Is_finalized() or issubclass(kind, SystemExit):
            before(kind, err, trace)
            return
        text = "".join(traceback.format_exception(kind, err, trace))
        sys.stderr.write(f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} ended by an exception:\n{text}")
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)

    if MPI.COMM_WORLD.size > 1:
        sys.excepthook = end
