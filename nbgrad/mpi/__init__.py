"""Gradients across processes, by MPI: collectives with derivatives of any order, and sums over ranks.

>>> import nbgrad as nb
>>> import nbgrad.np as np
>>> def loss(w, own):  # each rank has its own data
...     return np.sum((w - own) ** 2)
>>> value, gradient = nb.mpi.value_and_grad(loss)(3.0, np.array([1.0, 2.0]))  # of all ranks together

A program is started by ``mpiexec -n 4 python program.py``; see docs/mpi.md.
"""

from ..autodiff.sweeps import checks as _checks
from .collectives import (
    allgather,
    allreduce,
    alltoall,
    bcast,
    halo,
    local,
    reduce,
    scatter,
    scatter_sum,
    sendrecv,
    spread,
)
from .communication import MismatchError
from .communication import end_all_ranks_on_errors as _end_all_ranks_on_errors
from .gradients import summed, value_and_grad
from .placement import PlacementError
from .placement import check_sweep as _check_sweep

__all__ = [
    "MismatchError",
    "PlacementError",
    "allgather",
    "allreduce",
    "alltoall",
    "bcast",
    "halo",
    "local",
    "reduce",
    "scatter",
    "scatter_sum",
    "sendrecv",
    "spread",
    "summed",
    "value_and_grad",
]

_checks.append(_check_sweep)
_end_all_ranks_on_errors()
