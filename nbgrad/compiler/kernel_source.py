"""The source of a generated kernel, and what its arguments are."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from .parallel_chunks import Chunks

__all__ = ["Source"]


class Source:
    """The source of a generated kernel.

    Attributes
    ----------
    text : str
        The function's source.
    helpers : dict
        Global names it uses.
    arrays : list of str
        Names of its arguments, in order.
    chunks : Chunks or None
        How its one loop is split: further arguments are an array per partial sum and, last of all, ``start, stop``.
    scratch : dict
        Name of an argument that is scratch memory -> (dtype, number of elements). These come after the others.
    stack : int
        Bytes of scratch memory on the stack, where each call has its own.
    """

    def __init__(self) -> None:
        self.text = ""
        self.helpers: dict[str, Any] = {}
        self.arrays: list[str] = []
        self.chunks: Chunks | None = None
        self.scratch: dict[str, tuple[DType, int]] = {}
        self.stack = 0
