"""The sweep back before it is text: single assignments, blocks with a head, comments, and lines as they are."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ...core.source_text import comment
from .statements import Loop, parse, parsed, subtrees, unparse

__all__ = ["Comment", "Item", "Nest", "Step", "elements", "exchange", "factored", "flat", "loop_head", "loop_of",
           "mentions", "names", "negative", "over", "steps", "tidy", "words"]  # fmt: skip


@dataclass(eq=False)
class Step:
    """``target = value``, or with ``+=`` or ``-=``; `free`: the additions of all turns may be reordered."""

    target: ast.expr
    how: str
    value: str
    free: bool = False

    def __str__(self) -> str:
        if self.free:
            return f"{self.name} = plus({self.name}, {self.value if self.how == '+=' else negative(self.value)})"
        return f"{unparse(self.target)} {self.how} {self.value}"

    @property
    def name(self) -> str:
        """The number or array that is written."""
        target = self.target.value if isinstance(self.target, ast.Subscript) else self.target
        return target.id  # type: ignore[attr-defined]

    @property
    def zeroes(self) -> bool:
        """Whether it sets something to zero."""
        return self.how == "=" and not self.free and self.value == "0.0"

    def read(self) -> list[ast.expr]:
        """What is evaluated, besides the old value of the target."""
        index = [self.target.slice] if isinstance(self.target, ast.Subscript) else []
        return [parsed(self.value), *index]


@dataclass(frozen=True)
class Comment:
    """A comment for who reads the code."""

    text: str

    def __str__(self) -> str:
        return comment(self.text)


@dataclass(eq=False)
class Nest:
    """A loop or branch: its first line, and what is in it; `test` is that of a branch."""

    head: str
    body: list[Item] = field(default_factory=list)
    test: str = ""

    @property
    def first(self) -> ast.AST:
        """What the first line evaluates."""
        return parsed(self.test) if self.test else _first(self.head)


#: Strings are lines of code, of which nobody knows what they do.
Item = str | Comment | Step | Nest


def loop_head(s: Loop, turns: str = "range") -> str:
    """The first line of a loop, as in the function itself; `turns`: what the loop is over."""
    if not s.index:
        assert s.test is not None
        return f"while {unparse(s.test)}:"
    start, stop, step = unparse(s.start), unparse(s.stop), unparse(s.step)
    parts = [stop] if start == "0" and step == "1" else [start, stop] if step == "1" else [start, stop, step]
    return f"for {s.index} in {turns}({', '.join(parts)}):"


def elements(of: str, names: list[str], first: str, sign: str, second: str) -> Item:
    """``first... = second...`` for all elements of arrays that have the shape of `of`, with a loop's variable for each
    axis; both sides end with ``[`` or ``, ``. What slices say where shapes differ takes Numba 2 s to compile."""
    index = ", ".join(names)
    return over(of, names, f"{first}{index}] {sign} {second}{index}]")


def over(of: str, names: list[str], item: Item) -> Item:
    """`item` for all places in the array `of`."""
    for d in reversed(range(len(names))):
        item = Nest(f"for {names[d]} in range({of}.shape[{d}]):", [item])
    return item


def loop_of(item: Nest) -> ast.For | None:
    """The loop over ``range``, if it is one."""
    tree = None if item.test else item.first
    loop = tree.body[0] if isinstance(tree, ast.Module) else None
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    return loop if isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "range" else None


def negative(value: str) -> str:
    return unparse(ast.UnaryOp(ast.USub(), parse(value)))


def tidy(items: list[Item]) -> list[Item]:
    """`items`, a whole block, with ``v = 0.0; v += e`` as one step."""
    made = list(items)
    places: dict[str, list[int]] = {}  # of what mentions a name, in order
    for k, item in enumerate(made):
        for name in _mentioned(item):
            places.setdefault(name, []).append(k)
    for k, start in enumerate(made):
        if not (isinstance(start, Step) and isinstance(start.target, ast.Name) and start.value == "0.0"):
            continue
        after = places[start.name]
        at = bisect_right(after, k)
        later = made[after[at]] if at < len(after) else None
        if not isinstance(later, Step) or later.name != start.name or later.how == "=" or later.free:
            continue
        if start.name not in names(later.value):
            made[k] = ""
            later.value = later.value if later.how == "+=" else negative(later.value)
            later.how = "="
    return [item for item in made if item != ""]


def _mentioned(item: Item) -> frozenset[str]:
    """All names in an item."""
    if isinstance(item, Nest):
        return _in_head(item.test, item.head).union(*map(_mentioned, item.body))
    if isinstance(item, Step):
        return names(item.value) | _names_in(item.target)
    return words(item) if isinstance(item, str) else frozenset()


def mentions(item: Item, name: str) -> bool:
    """Whether a name is in an item."""
    if isinstance(item, Nest):
        return name in _in_head(item.test, item.head) or any(mentions(s, name) for s in item.body)
    if isinstance(item, Step):
        return name in names(item.value) or any(isinstance(n, ast.Name) and n.id == name for n in subtrees(item.target))
    return isinstance(item, str) and name in words(item)


@lru_cache(4096)
def words(line: str) -> frozenset[str]:
    """The names in a line of code: what consists of characters that names may have, up to a comment."""
    found: set[str] = set()
    word, quote = "", ""
    for k, c in enumerate(f"{line}#"):
        if quote:
            quote = "" if c == quote and line[k - 1] != "\\" else quote
        elif f"_{c}".isidentifier():
            word += c
        else:
            found.add(word)
            word, quote = "", c if c in "'\"" else ""
            if c == "#":
                break
    return frozenset(found)


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


def factored(body: list[Item], orelse: list[Item], test: str) -> tuple[list[Item], list[Item]]:
    """Take the steps that two branches have in common out of them; what goes before the branches, and after them."""
    texts = [{str(s): s for s in reversed(items) if isinstance(s, Step)} for items in (body, orelse)]
    if not texts[0].keys() & texts[1].keys():
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
    """Take out what both could as well begin with and changes no name that is `known`."""
    found: list[Item] = []
    while True:
        there = {str(s): s for s in reversed(_movable(orelse, names))}
        s = next((s for s in _movable(body, names) if str(s) in there and s.name not in known), None)
        if s is None:
            return found
        found.append(s)
        body.remove(s)
        orelse.remove(there[str(s)])


def _movable(items: list[Item], names: dict[Step, set[str]]) -> list[Step]:
    """The steps that could as well be the first."""
    found: list[Step] = []
    passed: list[Step] = []
    for item in items:
        if isinstance(item, Step):
            if all(s.name not in names[item] and item.name not in names[s] for s in passed):
                found.append(item)
            passed.append(item)
        elif not isinstance(item, Comment):
            break
    return found


def _names(*nodes: ast.AST) -> set[str]:
    return {n.id for node in nodes for n in subtrees(node) if isinstance(n, ast.Name)}


def flat(items: list[Item]) -> list[str]:
    lines: list[str] = []
    for item in items:
        if isinstance(item, Nest):
            lines += [item.head, *(f"    {line}" for line in flat(item.body) or ["pass"])]
        else:
            lines.append(str(item))
    return lines


def steps(items: list[Item], depth: int = 0) -> Iterator[tuple[Step, int]]:
    """The assignments in `items`, and in how many branches each is."""
    for item in items:
        if isinstance(item, Step):
            yield item, depth
        elif isinstance(item, Nest):
            yield from steps(item.body, depth + 1)


def exchange(item: Item, texts: dict[str, str]) -> None:
    """Put numbers in the places of elements."""
    put = _Exchange({text: ast.Name(name) for text, name in texts.items()})
    if isinstance(item, Step):
        item.target = put.visit(parse(unparse(item.target)))  # type: ignore[assignment]
        item.value = unparse(put.visit(parse(item.value)))
    elif isinstance(item, Nest):
        for inner in item.body:
            exchange(inner, texts)


class _Exchange(ast.NodeTransformer):
    """Puts expressions in the places of others, which are given by their texts."""

    def __init__(self, texts: dict[str, ast.expr]) -> None:
        self.texts = texts

    def visit(self, node: ast.AST) -> ast.AST:
        found = self.texts.get(unparse(node)) if isinstance(node, ast.Subscript | ast.Name) else None
        return found if found is not None else self.generic_visit(node)
