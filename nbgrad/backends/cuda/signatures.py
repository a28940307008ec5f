"""The types of kernels' arguments, as Numba has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
from numba import types

__all__ = ["signature"]


def signature(kinds: Sequence) -> tuple:
    """The Numba types of arguments of these kinds."""
    return tuple([_type(kind) for kind in kinds])


def _type(kind) -> Any:
    if kind is int:
        return types.int64
    if kind is float:
        return types.float64
    return types.Array(numba.from_dtype(kind), 1, "C")
