"""Totals of reductions, in the source of CUDA kernels."""

from __future__ import annotations

from ...backends.cuda import driver
from ..elements import element_compute_type
from .groups import Member

__all__ = ["accumulation_type", "combine_in_block", "combine_statement", "initial_total", "shared_totals_size"]

_FIRST = {"sum": "0", "max": "-np.inf", "min": "np.inf"}
#: NaN propagates: a comparison with it is false.
_COMBINE = {
    "sum": "{0} = {0} + {1}",
    "max": "{0} = {0} if {0} >= {1} or {0} != {0} else {1}",
    "min": "{0} = {0} if {0} <= {1} or {0} != {0} else {1}",
}


def combine_statement(m: Member, total: str, value: str) -> str:
    """The statement that combines a value with a total, as the reduction does."""
    return _COMBINE[m.s.how].format(total, value)


def accumulation_type(m: Member) -> str:
    """The type in which a reduction accumulates: float64 for sums of floats of any precision."""
    return "float64" if m.s.how == "sum" and m.s.value.dtype.is_float else element_compute_type(m.s.value.dtype)


def initial_total(m: Member) -> str:
    """The initial value of a total."""
    if m.s.how == "sum" or m.s.value.dtype.is_float:
        return f"np.{accumulation_type(m)}({_FIRST[m.s.how]})"
    return f"np.int64({-(2**63) + 1 if m.s.how == 'max' else 2**63 - 1})"


def shared_totals_size() -> int:
    """The number of elements of shared memory in which the threads of a block store their totals."""
    return driver.block() if driver.simulated() else 32


def combine_in_block(totals: dict[Member, str]) -> list[str]:
    """Combine the totals of the threads of a block; all of them get the results."""
    if not totals:
        return []
    lines = []
    simulated = driver.simulated()  # it has no shuffles
    for m, total in totals.items():
        if simulated:
            lines.append(f"parts_{total}[t] = {total}")
            continue
        for distance in (16, 8, 4, 2, 1):
            lines.append(f"value = cuda.shfl_xor_sync(0xFFFFFFFF, {total}, {distance})")
            lines.append(combine_statement(m, total, "value"))
        lines += ["if t % 32 == 0:", f"    parts_{total}[t // 32] = {total}"]
    lines.append("cuda.syncthreads()")
    for m, total in totals.items():
        lines += [
            f"{total} = parts_{total}[0]",
            f"for k in range(1, cuda.blockDim.x{'' if simulated else ' // 32'}):",
            f"    value = parts_{total}[k]",
            "    " + combine_statement(m, total, "value"),
        ]
    return lines
