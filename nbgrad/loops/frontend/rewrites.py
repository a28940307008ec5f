"""What is changed in the source of a function on demand, when lowering finds that it is needed and begins again.

Loops over tuples of arrays are written out, strings become numbers, live ranges of names are split.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .live_range_splitting import NeedsSplitting, split_live_ranges
from .numbered_strings import StringNumbers, number_strings
from .syntax import all_names, stored_names, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["Rewrites", "can_be_written_out", "rewritten"]


@dataclass
class Rewrites:
    """Names whose live ranges are split; strings that are numbers; how many iterations the loops at these places have,
    that are written out."""

    split_names: set[str] = field(default_factory=set)
    strings: StringNumbers = field(default_factory=StringNumbers)
    written_out: dict[tuple, int] = field(default_factory=dict)

    def add(self, asked: NeedsSplitting) -> bool:
        """Add what an attempt asked for; whether it is new."""
        before = len(self.split_names), len(self.strings.names), len(self.written_out)
        if asked.written_out:
            self.written_out.update(asked.written_out)
        else:
            (self.strings.names if asked.numbered else self.split_names).add(asked.name)
        return before != (len(self.split_names), len(self.strings.names), len(self.written_out))


def rewritten(
    source: Source, rewrites: Rewrites, numbered: Collection[str] = (), strings: Collection[str] = ()
) -> Source:
    """A source with what is to be changed; the parameters `numbered` are numbers for strings, and the parameters
    `strings` may become such."""
    source = copy.copy(source)
    source.string_parameters = {*numbered, *strings}
    site = source.definition_site
    loops = {place: n for (*where, place), n in rewrites.written_out.items() if tuple(where) == site}
    if loops:
        source.node = _WriteOut(loops).visit(copy.deepcopy(source.node))
    if numbered or not (rewrites.split_names | rewrites.strings.names).isdisjoint(all_names(source.node)):
        node, source.numbered = number_strings(source, rewrites.strings, numbered)
        source.node = split_live_ranges(node, rewrites.split_names, set(source.signature.parameters))
    return source


def can_be_written_out(s: ast.For) -> bool:
    """Whether a loop over a tuple can be written as its iterations: its body leaves the tuple as it is."""
    iterated = {n.id for n in subtrees(s.iter) if isinstance(n, ast.Name)}
    changed = {*stored_names(s.body), *(n.id for n in subtrees(s.target) if isinstance(n, ast.Name))}
    return _has_items(s.iter) and iterated.isdisjoint(changed)


def _reversed(iterable: ast.expr) -> ast.expr | None:
    """What ``reversed(...)`` or ``...[::-1]`` is of."""
    match iterable:
        case ast.Call(func=ast.Name("reversed"), args=[inner], keywords=[]):
            return inner
        case ast.Subscript(inner, ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))):
            return inner
    return None


def _has_items(iterable: ast.expr) -> bool:
    """Whether :func:`_item` knows the items of an iterable over tuples."""
    inner = _reversed(iterable)
    if inner is not None:
        return isinstance(inner, ast.Name | ast.Attribute | ast.Tuple | ast.List)
    match iterable:
        case ast.Call(func=ast.Name("enumerate"), args=[inner], keywords=[]):
            return _has_items(inner)
        case ast.Call(func=ast.Name("zip"), args=operands, keywords=[]):
            return all(map(_has_items, operands))
        case ast.Subscript(slice=ast.Slice(lower=lower, step=None)):
            return lower is None or (isinstance(lower, ast.Constant) and type(lower.value) is int)
        case ast.Subscript(slice=ast.Slice()):
            return False
    return isinstance(iterable, ast.Name | ast.Attribute | ast.Subscript | ast.Tuple | ast.List)


class _WriteOut(ast.NodeTransformer):
    """Writes the iterations of loops one by one; `loops` has their number by the place of the loop."""

    def __init__(self, loops: dict[tuple[int, int], int]) -> None:
        self.loops = loops

    def visit_For(self, s: ast.For) -> ast.AST | list[ast.AST]:
        self.generic_visit(s)
        count = self.loops.get((s.lineno, s.col_offset), 0)
        if not count or s.orelse:
            return s
        done: list[ast.AST] = []
        for k in range(count):
            item = ast.fix_missing_locations(ast.copy_location(_item(s.iter, k), s))
            done.append(ast.copy_location(ast.Assign([copy.deepcopy(s.target)], item), s))
            done += copy.deepcopy(s.body)
        return done


def _item(iterable: ast.expr, k: int) -> ast.expr:
    """An item of an iterable over tuples; number -1 is the last."""
    inner = _reversed(iterable)
    if inner is not None:
        return _item(inner, -1 - k)
    match iterable:
        case ast.Call(func=ast.Name("enumerate"), args=[inner]):
            return ast.Tuple([ast.Constant(k), _item(inner, k)], ast.Load())
        case ast.Call(args=operands):  # zip
            return ast.Tuple([_item(x, k) for x in operands], ast.Load())
        case ast.Subscript(value=whole, slice=ast.Slice(lower=lower)):
            first = 0 if lower is None else lower.value  # type: ignore[attr-defined]
            return ast.Subscript(copy.deepcopy(whole), ast.Constant(first + k), ast.Load())
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return copy.deepcopy(items[k])
    return ast.Subscript(copy.deepcopy(iterable), ast.Constant(k), ast.Load())
