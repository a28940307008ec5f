"""``bisect``: places in sorted lists."""

from __future__ import annotations

import bisect

from ..function_table import Array, definition
from .sorting import place

__all__: list[str] = []  # they are found through the table


@definition(bisect)
def bisect_left(a: Array, x):
    return place(a, x, "left")


@definition(bisect)
def bisect_right(a: Array, x):
    return place(a, x, "right")


@definition(bisect, "bisect")
def bisect_(a: Array, x):
    return place(a, x, "right")
