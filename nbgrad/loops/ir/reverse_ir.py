"""The IR of the reverse sweep: assignments, loops and branches with a body, comments, and opaque lines of code.

Passes over the reverse sweep rewrite these items; :func:`flatten_items` prints them.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ...core.source_text import comment_source
from .statements import Loop, parse, parsed, subtrees, unparse

__all__ = [
    "Comment",
    "Item",
    "Nest",
    "Step",
    "as_range_loop",
    "elementwise_loops",
    "flatten_items",
    "hoist_common_steps",
    "loop_head",
    "loops_over",
    "mentions",
    "merge_zero_steps",
    "names",
    "names_in_line",
    "negative",
    "replace_by_scalars",
    "steps",
]  # fmt: skip


@dataclass(eq=False)
class Step:
    """``target = value``, or with ``+=`` or ``-=``; `reassociable`: the additions of all iterations may be
    reordered."""

    target: ast.expr
    assign_op: str
    value: str
    reassociable: bool = False

    def __str__(self) -> str:
        if self.reassociable:
            return f"{self.name} = plus({self.name}, {self.value if self.assign_op == '+=' else negative(self.value)})"
        return f"{unparse(self.target)} {self.assign_op} {self.value}"

    @property
    def name(self) -> str:
        """The scalar or array that it writes."""
        target = self.target.value if isinstance(self.target, ast.Subscript) else self.target
        return target.id  # type: ignore[attr-defined]

    @property
    def zeroes(self) -> bool:
        """Whether it sets its target to zero."""
        return self.assign_op == "=" and not self.reassociable and self.value == "0.0"

    def evaluated_nodes(self) -> list[ast.expr]:
        """The expressions that it evaluates, besides the old value of the target."""
        index = [self.target.slice] if isinstance(self.target, ast.Subscript) else []
        return [parsed(self.value), *index]


@dataclass(frozen=True)
class Comment:
    """A comment in the generated code."""

    text: str

    def __str__(self) -> str:
        return comment_source(self.text)


@dataclass(eq=False)
class Nest:
    """A loop or branch: its first line and its body; `test` is the condition of a branch."""

    head: str
    body: list[Item] = field(default_factory=list)
    test: str = ""

    @property
    def head_tree(self) -> ast.AST:
        """The syntax tree of the condition or of the first line."""
        return parsed(self.test) if self.test else _first(self.head)


#: A string is a line of code that passes do not analyse.
Item = str | Comment | Step | Nest


def loop_head(s: Loop, turns: str = "range") -> str:
    """The first line of a loop that runs forward; `turns`: ``range`` or ``prange``."""
    if not s.index:
        assert s.test is not None
        return f"while {unparse(s.test)}:"
    start, stop, step = unparse(s.start), unparse(s.stop), unparse(s.step)
    parts = [stop] if start == "0" and step == "1" else [start, stop] if step == "1" else [start, stop, step]
    return f"for {s.index} in {turns}({', '.join(parts)}):"


def elementwise_loops(of: str, names: list[str], first: str, sign: str, second: str) -> Item:
    """Loops for ``first... = second...`` over all elements of an array with the shape of `of`.

    `names` are the loop variables, one per axis; `first` and `second` end with ``[`` or ``, ``. Loops rather than
    slices, because Numba takes 2 s to compile the shape errors of slice assignment.
    """
    index = ", ".join(names)
    return loops_over(of, names, f"{first}{index}] {sign} {second}{index}]")


def loops_over(of: str, names: list[str], item: Item) -> Item:
    """Loops that run `item` for each element of the array `of`."""
    for d in reversed(range(len(names))):
        item = Nest(f"for {names[d]} in range({of}.shape[{d}]):", [item])
    return item


def as_range_loop(item: Nest) -> ast.For | None:
    """The syntax tree of `item` if it is a loop over ``range``, else None."""
    tree = None if item.test else item.head_tree
    loop = tree.body[0] if isinstance(tree, ast.Module) else None
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    return loop if isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "range" else None


def negative(value: str) -> str:
    """Code for ``-value``."""
    return unparse(ast.UnaryOp(ast.USub(), parse(value)))


def merge_zero_steps(items: list[Item]) -> list[Item]:
    """A block in which each ``v = 0.0; v += e`` is merged into ``v = e``."""
    merged = list(items)
    positions: dict[str, list[int]] = {}  # positions of the items that mention each name
    for k, item in enumerate(merged):
        for name in _mentioned(item):
            positions.setdefault(name, []).append(k)
    for k, zero in enumerate(merged):
        if not (isinstance(zero, Step) and isinstance(zero.target, ast.Name) and zero.value == "0.0"):
            continue
        after = positions[zero.name]
        at = bisect_right(after, k)
        later = merged[after[at]] if at < len(after) else None
        if not isinstance(later, Step) or later.name != zero.name or later.assign_op == "=" or later.reassociable:
            continue
        if zero.name not in names(later.value):
            merged[k] = ""
            later.value = later.value if later.assign_op == "+=" else negative(later.value)
            later.assign_op = "="
    return [item for item in merged if item != ""]


def _mentioned(item: Item) -> frozenset[str]:
    """All names in `item`."""
    if isinstance(item, Nest):
        return _in_head(item.test, item.head).union(*map(_mentioned, item.body))
    if isinstance(item, Step):
        return names(item.value) | _names_in(item.target)
    return names_in_line(item) if isinstance(item, str) else frozenset()


def mentions(item: Item, name: str) -> bool:
    """Whether `item` contains `name`."""
    if isinstance(item, Nest):
        return name in _in_head(item.test, item.head) or any(mentions(s, name) for s in item.body)
    if isinstance(item, Step):
        return name in names(item.value) or any(isinstance(n, ast.Name) and n.id == name for n in subtrees(item.target))
    return isinstance(item, str) and name in names_in_line(item)


@lru_cache(4096)
def names_in_line(line: str) -> frozenset[str]:
    """The identifiers in a line of code, outside strings and comments."""
    identifiers: set[str] = set()
    word, quote = "", ""
    for k, c in enumerate(f"{line}#"):
        if quote:
            quote = "" if c == quote and line[k - 1] != "\\" else quote
        elif f"_{c}".isidentifier():
            word += c
        else:
            identifiers.add(word)
            word, quote = "", c if c in "'\"" else ""
            if c == "#":
                break
    return frozenset(identifiers)


@lru_cache(4096)
def names(code: str) -> frozenset[str]:
    """The names in an expression."""
    return _names_in(parsed(code))


@lru_cache(4096)
def _in_head(test: str, head: str) -> frozenset[str]:
    """The names in the first line of a loop or branch."""
    return _names_in(parsed(test) if test else _first(head))


def _names_in(tree: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in subtrees(tree) if isinstance(n, ast.Name))


@lru_cache(4096)
def _first(head: str) -> ast.AST:
    return ast.parse(f"{head} pass")


def hoist_common_steps(body: list[Item], orelse: list[Item], test: str) -> tuple[list[Item], list[Item]]:
    """Hoist the steps common to two branches out of them; the steps to run before the branches, and after."""
    codes = [{str(s): s for s in reversed(items) if isinstance(s, Step)} for items in (body, orelse)]
    if not codes[0].keys() & codes[1].keys():
        return [], []
    names = {s: _names(s.target, parse(s.value)) for s in (*body, *orelse) if isinstance(s, Step)}
    before = _common(body, orelse, names, _names(parse(test)))
    for items in (body, orelse):
        items.reverse()
    after = _common(body, orelse, names, set())[::-1]
    for items in (body, orelse):
        items.reverse()
        if all(isinstance(item, Comment) for item in items):
            items.clear()
    return before, after


def _common(body: list[Item], orelse: list[Item], names: dict[Step, set[str]], known: set[str]) -> list[Item]:
    """Remove from both branches the steps that both could begin with and that write no name in `known`; these steps."""
    hoisted: list[Item] = []
    while True:
        others = {str(s): s for s in reversed(_movable(orelse, names))}
        s = next((s for s in _movable(body, names) if str(s) in others and s.name not in known), None)
        if s is None:
            return hoisted
        hoisted.append(s)
        body.remove(s)
        orelse.remove(others[str(s)])


def _movable(items: list[Item], names: dict[Step, set[str]]) -> list[Step]:
    """The steps that can be moved to the beginning of `items`."""
    movable: list[Step] = []
    passed: list[Step] = []
    for item in items:
        if isinstance(item, Step):
            if all(s.name not in names[item] and item.name not in names[s] for s in passed):
                movable.append(item)
            passed.append(item)
        elif not isinstance(item, Comment):
            break
    return movable


def _names(*nodes: ast.AST) -> set[str]:
    return {n.id for node in nodes for n in subtrees(node) if isinstance(n, ast.Name)}


def flatten_items(items: list[Item]) -> list[str]:
    """`items` as lines of code."""
    lines: list[str] = []
    for item in items:
        if isinstance(item, Nest):
            lines += [item.head, *(f"    {line}" for line in flatten_items(item.body) or ["pass"])]
        else:
            lines.append(str(item))
    return lines


def steps(items: list[Item], depth: int = 0) -> Iterator[tuple[Step, int]]:
    """The assignments in `items`, each with the number of loops and branches around it."""
    for item in items:
        if isinstance(item, Step):
            yield item, depth
        elif isinstance(item, Nest):
            yield from steps(item.body, depth + 1)


def replace_by_scalars(item: Item, scalars: dict[str, str]) -> None:
    """Replace array elements, or names, by scalars; `scalars` maps the code of each to the name of its scalar."""
    put = _Exchange({code: ast.Name(name) for code, name in scalars.items()})
    if isinstance(item, Step):
        item.target = put.visit(parse(unparse(item.target)))  # type: ignore[assignment]
        item.value = unparse(put.visit(parse(item.value)))
    elif isinstance(item, Nest):
        for inner in item.body:
            replace_by_scalars(inner, scalars)


class _Exchange(ast.NodeTransformer):
    """Replaces expressions, identified by their code."""

    def __init__(self, expressions: dict[str, ast.expr]) -> None:
        self.expressions = expressions

    def visit(self, node: ast.AST) -> ast.AST:
        replacement = self.expressions.get(unparse(node)) if isinstance(node, ast.Subscript | ast.Name) else None
        return replacement if replacement is not None else self.generic_visit(node)
