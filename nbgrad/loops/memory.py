"""Tapes that fit: their size is compared with the memory of the machine before they are allocated."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..backends.numba.compile import python
from ..errors import OutOfMemoryError, TapeWarning
from .codegen.checkpoint_levels import choose_loops
from .codegen.reverse_sweep import AdjointBuilder
from .codegen.tape_estimate import estimate_source

__all__ = ["TapeEstimate", "available_memory"]

#: The largest tapes that messages name.
_NAMED = 3


def available_memory() -> int:
    """The bytes that can be allocated without swapping; a guess if the system does not tell."""
    found = []
    with suppress(OSError):
        found += [int(n) * 1024 for n in re.findall(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text())]
    with suppress(OSError, ValueError):
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        found.append(limit - used)
    if not found:
        with suppress(AttributeError, ValueError, OSError):
            found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(found, default=2**31), 0)


def physical_memory() -> int:
    """The bytes of memory that the machine has; a guess if the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**32


class _Shaped:
    """An array of which only the shape is known."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class TapeEstimate:
    """The sizes of the tapes of an adjoint, for arguments, before it runs.

    Attributes
    ----------
    tapes : dict
        The tapes whose size is known then, by their labels. Those that grow are not.
    """

    def __init__(self, reverse: AdjointBuilder) -> None:
        self._reverse = reverse
        source, self.tapes = estimate_source(reverse)
        self._sizes: Callable = python(reverse.f.name, source, {"np": np, "math": math})
        self._limit = physical_memory() // 4
        self._warned = False

    def bytes(self, args: tuple) -> dict[str, int]:
        """The bytes of each tape."""
        return dict(zip(self.tapes, map(int, self._sizes(_Shaped, *args)), strict=True))

    @property
    def harmless_size(self) -> int:
        """The tapes are small if no array has more elements, and no integer is larger."""
        axes = max((len(tape.loops) for tape in self.tapes.values()), default=1)
        return int((self._limit / (8 * max(len(self.tapes), 1))) ** (1 / axes) / 4)

    def check(self, args: tuple, level: int) -> None:
        """Warn once of tapes that fill more than a quarter of the memory; raise an error if they do not fit."""
        if not self.tapes or sum(self._sizes(_Shaped, *args)) <= self._limit:
            return
        total, available = sum(self.bytes(args).values()), available_memory()
        if total > available:
            raise OutOfMemoryError(f"{self._message(args, total)}; {_amount(available)} are available")
        if not self._warned:
            self._warned = True
            warnings.warn(self._message(args, total), TapeWarning, stacklevel=level)

    def _message(self, args: tuple, total: int) -> str:
        f = self._reverse.f
        sizes = sorted(self.bytes(args).items(), key=lambda item: -item[1])[:_NAMED]
        tapes = [
            f"{_amount(size)} for {f.with_user_names(label)} in '{self.tapes[label].loops[0].line}'"
            for label, size in sizes
        ]
        loop = None if f.draws else next(iter(choose_loops(self._reverse)), None)
        name = loop and (loop.target or loop.index)
        where = f', loop="{name}"' if name else ""
        advice = f'nb.adjoint({f.name}, checkpoint="auto"{where}) stores snapshots instead'
        if loop is None:
            advice = "iterations that draw random numbers cannot be run again: call it for parts of the data"
        return f"adjoint: {f.where}: {_amount(total)} are stored for the reverse sweep: {', '.join(tapes)}; {advice}"


def _amount(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
