"""The options of `nb.adjoint` for checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AttrError

__all__ = ["CheckpointOptions"]


@dataclass(frozen=True)
class CheckpointOptions:
    """What is asked for, outermost loop first.

    `counts` are the numbers of snapshots, None for as many as fit into `memory` bytes; `names` the variables of the
    loops, None for the loop with the largest tapes.
    """

    counts: tuple[int, ...] | None
    names: tuple[str | None, ...]
    memory: int | None

    @classmethod
    def of(cls, function: str, checkpoint: Any, loop: Any, memory: Any) -> CheckpointOptions | None:
        """The options as the user gives them; None without checkpoints."""
        if checkpoint is None:
            if loop is not None or memory is not None:
                raise AttrError(f"{function}: loop and memory are for checkpoints; say checkpoint=")
            return None
        names = loop if isinstance(loop, tuple) and loop else (loop,)
        if not all(isinstance(n, str) for n in names) and loop is not None:
            raise AttrError(
                f"{function}: loop is the name of the loop's variable, as in loop='t', or the names of loops in one "
                f"another, as in loop=('epoch', 't'); got {loop!r}"
            )
        if checkpoint == "auto":
            counts = None
        else:
            several = isinstance(checkpoint, tuple) and bool(checkpoint)
            counts = checkpoint if several else (checkpoint,) * len(names)
            if not all(map(_positive, counts)):
                raise AttrError(
                    f"{function}: checkpoint must be a number of snapshots, one for each of several loops in one "
                    f"another, or 'auto', got {checkpoint!r}"
                )
            names = (None,) * len(counts) if loop is None else names
            if len(counts) != len(names):
                raise AttrError(
                    f"{function}: checkpoint={checkpoint!r} and loop={loop!r} are for different numbers of loops; give "
                    "a number of snapshots for each loop"
                )
        if memory is not None and (counts is not None or not _positive(memory)):
            raise AttrError(f"{function}: memory is a number of bytes, for checkpoint='auto'; got {memory!r}")
        return cls(counts, names, memory)


def _positive(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number > 0)
