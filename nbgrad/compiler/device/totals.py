"""The totals of reductions, in the source of CUDA kernels."""

from __future__ import annotations

from ...backends.cuda import driver
from ..elements import calculated_in
from .groups import Member

__all__ = ["added", "first", "room", "together", "wide"]

_FIRST = {"sum": "0", "max": "-np.inf", "min": "np.inf"}
#: NaN wins: what is compared with one is not greater.
_COMBINE = {
    "sum": "{0} = {0} + {1}",
    "max": "{0} = {0} if {0} >= {1} or {0} != {0} else {1}",
    "min": "{0} = {0} if {0} <= {1} or {0} != {0} else {1}",
}


def added(m: Member, total: str, value: str) -> str:
    """The statement that adds a value to a total, in the sense of the reduction."""
    return _COMBINE[m.s.how].format(total, value)


def wide(m: Member) -> str:
    """What a reduction calculates in: sums of floats in float64, whatever they are sums of."""
    return "float64" if m.s.how == "sum" and m.s.value.dtype.is_float else calculated_in(m.s.value.dtype)


def first(m: Member) -> str:
    """What a total begins with."""
    if m.s.how == "sum" or m.s.value.dtype.is_float:
        return f"np.{wide(m)}({_FIRST[m.s.how]})"
    return f"np.int64({-(2**63) + 1 if m.s.how == 'max' else 2**63 - 1})"


def room() -> int:
    """Elements of the memory in which the threads of a block leave their totals."""
    return driver.block() if driver.simulated() else 32


def together(totals: dict[Member, str]) -> list[str]:
    """The threads of a block put their totals together; all of them have the results."""
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
            lines.append(added(m, total, "value"))
        lines += ["if t % 32 == 0:", f"    parts_{total}[t // 32] = {total}"]
    lines.append("cuda.syncthreads()")
    for m, total in totals.items():
        lines += [
            f"{total} = parts_{total}[0]",
            f"for k in range(1, cuda.blockDim.x{'' if simulated else ' // 32'}):",
            f"    value = parts_{total}[k]",
            "    " + added(m, total, "value"),
        ]
    return lines
