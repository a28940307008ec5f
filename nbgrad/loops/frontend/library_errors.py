"""Calls of definitions of the library: errors show the line of the call, and what they make is known as theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import TraceError
from .function_table import MODULES
from .syntax import unparse

if TYPE_CHECKING:
    from .calls import Calls
    from .source import Source

__all__ = ["shown_at_call"]


@contextmanager
def shown_at_call(low: Calls, node: ast.Call, source: Source) -> Iterator[None]:
    """While the call `node` of `source` is lowered: its errors, and those that are recorded until all kinds are known,
    show that call; the arrays that it makes are noted."""
    if source.module not in MODULES or low.source.module in MODULES:
        yield
        return

    def at_call(err: Exception) -> Exception:
        what, instead = getattr(err, "said", (str(err), "write a loop"))
        return low.source.refuse(node, f"{unparse(node.func)}: {what}", instead)

    recorded: tuple[list, ...] = (
        low.lowered_function.operations,
        low.lowered_function.may_be_bools,
        low.lowered_function.assumed_kinds,
    )
    before, names = [len(entries) for entries in recorded], set(low.lowered_function.ranks)
    try:
        yield
    except TraceError as err:
        raise at_call(err) from None
    low.shared.made_by_library |= low.lowered_function.ranks.keys() - names
    for entries, count in zip(recorded, before, strict=True):
        entries[count:] = [(*known, at_call(err)) for *known, err in entries[count:]]
