"""Totals of reductions, in the source of CUDA kernels."""

from __future__ import annotations

from ...backends.cuda import driver
from ..reductions import REDUCTIONS, accumulation_type, identity
from .groups import Member

__all__ = ["combine_in_block", "combine_statement", "initial_total", "shared_totals_size", "total_type"]


def combine_statement(m: Member, total: str, value: str) -> str:
    """The statement that combines a value with a total, as the reduction does."""
    return f"{total} = {REDUCTIONS[m.s.how].both_on_device.format(total, value)}"


def total_type(m: Member) -> str:
    """The type of a total."""
    return accumulation_type(m.s.how, m.s.value.dtype)


def initial_total(m: Member) -> str:
    """The initial value of a total."""
    return identity(m.s.how, total_type(m))


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
