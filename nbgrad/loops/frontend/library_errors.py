"""Errors of definitions of the library: the user sees the line of the call, not the definition's."""

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
    """While the call `node` of `source` is lowered: errors, and those that are recorded until all kinds are known."""
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
    before = [len(entries) for entries in recorded]
    try:
        yield
    except TraceError as err:
        raise at_call(err) from None
    for entries, count in zip(recorded, before, strict=True):
        entries[count:] = [(*known, at_call(err)) for *known, err in entries[count:]]
