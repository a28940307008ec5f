"""Expressions of arrays, and the loops that evaluate them element by element."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.affine import minus, offset, parts, plus
from ..ir.statements import Block, Check, Like, Loop, Store, parse, subtrees, unparse
from .views import ONE, ZERO, Axis, View, added, count, size_of, times

if TYPE_CHECKING:
    from .scope import Scope

__all__ = [
    "Chosen",
    "Elementwise",
    "Leaf",
    "Made",
    "Op",
    "Scalar",
    "Several",
    "Tree",
    "Turn",
    "combine",
    "copied",
    "leaves",
    "numbers",
]


class Tree:
    """An expression; `rank` is its number of axes, 0 for a number."""

    rank: int


@dataclass(eq=False)
class Scalar(Tree):
    """A number, lowered."""

    node: ast.expr
    rank = 0


@dataclass(eq=False)
class Leaf(Tree):
    """An array or part of one; `fresh`: made by this expression, so that nothing else can have it."""

    view: View
    fresh: bool = False
    masked = False  # whether the part by a mask is meant

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.view.rank


@dataclass(eq=False)
class Several(Tree):
    """A tuple; `of` is its type."""

    items: list[Tree]
    of: type = tuple
    rank = 0

    @property
    def fields(self) -> tuple[str, ...]:
        return getattr(self.of, "_fields", ())


@dataclass(eq=False)
class Op(Tree):
    """`build` makes the element of the elements of `args`; `kind` and `dtype` as for Made."""

    build: Callable[..., ast.expr]
    args: list[Tree]
    kind: str | Like = ""
    dtype: str = ""

    @property
    def rank(self) -> int:  # type: ignore[override]
        return max(a.rank for a in self.args)


@dataclass(eq=False)
class Chosen(Op):
    """Elements of one array or another. `refusal`: the error if it gets a name, which Python gives to the array itself,
    where a copy would not do the same."""

    refusal: Exception | None = None


@dataclass(eq=False)
class Made(Tree):
    """Elements that `build` makes of positions, counted from 0."""

    sizes: list[ast.expr]
    build: Callable[..., ast.expr] | None  # None: anything
    kind: str | Like = ""  # of a new array, "" for that of the elements
    dtype: str = ""

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.sizes)


def combine(build: Callable[..., ast.expr], args: list[Tree]) -> Tree:
    if all(isinstance(a, Scalar) for a in args):
        return Scalar(build(*(a.node for a in args)))  # type: ignore[attr-defined]
    return Op(build, args)


def copied(tree: Tree, kind: str | Like = "", dtype: str = "") -> Tree:
    """The values of `tree`, not its memory."""
    return Op(lambda e: e, [tree], kind, dtype)


def numbers(tree: Tree) -> bool:
    """Whether it is a number, or a tuple of numbers or of such tuples."""
    return all(map(numbers, tree.items)) if isinstance(tree, Several) else isinstance(tree, Scalar)


def leaves(tree: Tree) -> list[Tree]:
    return [n for a in tree.args for n in leaves(a)] if isinstance(tree, Op) else [tree]


@dataclass
class Turn:
    """A loop along one axis: its counter goes over the elements of `axis`."""

    counter: str
    axis: Axis
    size: str  # code for the number of turns

    def position(self) -> ast.expr:
        """How many elements come before the counter's."""
        name = ast.Name(self.counter, ast.Load())
        if unparse(self.axis.step) == "1":
            return minus(name, self.axis.start)
        if unparse(self.axis.step) == "-1":
            return ast.BinOp(self.axis.start, ast.Sub(), name)
        return ast.BinOp(minus(name, self.axis.start), ast.FloorDiv(), self.axis.step)

    def along(self, other: Axis) -> ast.expr:
        """The index along `other` of the element with the same position."""
        name = ast.Name(self.counter, ast.Load())
        mine, start = self.axis.start, other.start
        if unparse(self.axis.step) == unparse(other.step):
            if unparse(mine) == unparse(start):
                return name
            (base, p), (its, q) = _constant(mine), _constant(start)
            return plus(name, q - p) if base == its else added(start, minus(name, mine))
        return added(start, times(self.position(), other.step))


def _constant(node: ast.expr) -> tuple[str, int]:
    """``min(3, n)``, the start of a slice, as a number that is 3 wherever there are elements."""
    if isinstance(node, ast.Constant):
        return "", node.value  # type: ignore[return-value]
    if isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant):
        return "", node.args[0].value  # type: ignore[return-value]
    return unparse(node), 0


class Elementwise:
    """Lowers one statement with arrays, into the lowering's output."""

    def __init__(self, lowering: Scope, node: ast.AST) -> None:
        self.low = lowering
        self.node = node
        self.turns: list[Turn] = []
        self.target: ast.Subscript | None = None
        self.checked: set[str] = set()
        self.overlap = False  # elements are read that the statement writes for another turn
        self.instead = ""  # what to do about arrays of different lengths
        self.masks = False  # whether it is about a mask, whose length must be that of an axis
        self.scattered = False  # whether several turns may write one element

    def over(self, tree: Tree) -> None:
        """Loop over all elements of `tree`."""
        self.turns = [self.turn(a) for a in self.axes(tree)]

    def turn(self, axis: Axis) -> Turn:
        return Turn(self.low.names.fresh("k"), axis, count(axis))

    def axes(self, tree: Tree) -> list[Axis]:
        """For each axis of `tree`, that of the first leaf whose length is not 1 for sure."""
        found: list[Axis | None] = [None] * tree.rank
        for leaf in sorted(leaves(tree), key=lambda n: -n.rank):
            for d in range(leaf.rank):
                at = d + tree.rank - leaf.rank
                if found[at] is None and not _single(leaf, d):
                    found[at] = _axis(leaf, d)
        return [a or Axis(ZERO, ONE) for a in found]

    # Elements.

    def element(self, tree: Tree, turns: list[Turn] | None = None) -> ast.expr:
        """The element of `tree` at the counters."""
        turns = self.turns if turns is None else turns
        if isinstance(tree, Scalar):
            return self.number(tree.node)
        if isinstance(tree, Op):
            return tree.build(*[self.element(a, turns) for a in tree.args])
        if tree.rank > len(turns):
            raise self.low.source.refuse(self.node, "more axes than what it is assigned to", "write a loop")
        mine = turns[len(turns) - tree.rank :]
        masks, self.masks = self.masks, self.masks or (isinstance(tree, Leaf) and tree.masked)
        for d, t in enumerate(mine):
            if not _single(tree, d) or self.masks:
                self.same(count(_axis(tree, d)), t.size)
        self.masks = masks
        if isinstance(tree, Made):
            assert tree.build is not None
            return tree.build(*[t.position() for t in mine])
        assert isinstance(tree, Leaf)
        single = [tree.view.order[d] is not None and _single(tree, d) for d in range(tree.rank)]
        found = tree.view.at(
            [tree.view.axis(d).start if single[d] else t.along(tree.view.axis(d)) for d, t in enumerate(mine)]
        )
        self.compare(found)
        return found

    def number(self, node: ast.expr) -> ast.expr:
        """A number that does not depend on the counters; read before the loop if the loop writes the array it is in."""
        if self.target is None:
            return node
        name = self.low.root(unparse(self.target.value))
        if not any(isinstance(n, ast.Subscript) and self.low.root(unparse(n.value)) == name for n in subtrees(node)):
            return node
        held = self.low.number("held", node)
        return ast.Name(held, ast.Load())

    def same(self, mine: str, other: str) -> None:
        """The lengths must be equal."""
        a, b = self.plain(mine), self.plain(other)
        if mine == other or a == b:
            return
        what = "a mask of another length than the axis" if self.masks else "arrays of different lengths"
        message = f"{self.low.made.name}: {what} in '{self.text}'{self.instead}"
        test = f"{a} != {b}"
        if mine.isdigit() and other.isdigit() and not self.masks:
            raise self.low.source.refuse(self.node, "arrays of different lengths", "use arrays of one shape")
        if test not in self.checked:
            self.checked.add(test)
            self.low.out.append(Check(parse(test), message, "IndexError" if self.masks else "ValueError"))

    def plain(self, text: str) -> str:
        """A number of elements that is not negative."""
        return text if self.low.nonnegative(parse(text)) else f"max({text}, 0)"

    @property
    def text(self) -> str:
        return self.low.source.lines[getattr(self.node, "lineno", 1) - 1].strip()

    def compare(self, read: ast.Subscript) -> None:
        """Note if a turn reads what another writes."""
        if self.target is None or not isinstance(read.value, ast.Name) or not isinstance(self.target.value, ast.Name):
            return
        if self.low.root(read.value.id) != self.low.root(self.target.value.id):
            return
        if read.value.id != self.target.value.id:  # of one memory, under other shapes
            self.overlap = True
            return
        pairs = list(zip(parts(read.slice), parts(self.target.slice), strict=True))
        apart = any(
            self.low.nonnegative(a) and self.low.nonnegative(b) and (self.low.exceeds(a, b) or self.low.exceeds(b, a))
            for a, b in pairs
        ) or any(self.between(a, b) for a, b in pairs)
        self.overlap |= self.scattered or (not apart and any(unparse(a) != unparse(b) for a, b in pairs))

    def between(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether the indices are of elements that steps leave out."""
        (name, p), (other, q) = offset(a), offset(b)
        steps = [offset(t.axis.step) for t in self.turns if t.counter == name]
        return name == other and any(not s and k and (p - q) % k for s, k in steps)

    # Loops.

    def store(self, target: View, tree: Tree) -> None:
        """``target[...] = tree``."""
        line, self.low.line = self.low.line, ""
        axes = [target.axis(d) for d in range(target.rank)]
        self.turns = [self.turn(a) for a in axes]
        self.target = target.at([ast.Name(t.counter, ast.Load()) for t in self.turns])
        self.scattered = -1 in target.order
        if isinstance(self.node, ast.Assign) and isinstance(self.node.targets[0], ast.Name):
            self.instead = "; in loops and branches a name keeps its shape, use another one"
        anything = isinstance(tree, Made) and tree.build is None
        value = self.element(Made(tree.sizes, lambda *_: ZERO) if anything else tree)  # type: ignore[attr-defined]
        if anything:
            return
        if not self.overlap:
            self.loops([Store(target.name, self.target.slice, value)], line)
            return
        # NumPy reads everything before it writes.
        held = self.low.names.fresh("held")
        place = [t.position() for t in self.turns]
        self.low.allocate(held, self.node, [size_of(a) for a in axes], Like(target.name),
                          f"{target.name}.dtype", target.name)  # fmt: skip
        index: ast.expr = ast.Tuple(place, ast.Load()) if len(place) > 1 else place[0]
        again = ast.Subscript(ast.Name(held, ast.Load()), index, ast.Load())
        self.loops([Store(held, index, value)], line)
        self.loops([Store(target.name, self.target.slice, again)], "")

    def loops(self, inner: Block, line: str, turns: list[Turn] | None = None) -> None:
        self.low.out += self.nest(inner, line, self.turns if turns is None else turns)

    def nest(self, inner: Block, line: str, turns: list[Turn]) -> Block:
        for t in reversed(turns):
            self.low.made.ranks[t.counter], self.low.made.kinds[t.counter] = 0, "int"
            inner = [Loop(t.counter, t.axis.start, t.axis.stop, t.axis.step, None, inner)]
        inner[0].line = line
        return inner

    def materialise(self, tree: Tree, name: str) -> View:
        """An array `name` of the elements of `tree`."""
        if isinstance(tree, Chosen) and tree.refusal is not None:
            raise tree.refusal
        axes = self.axes(tree)
        line, self.low.line = self.low.line, ""
        kind, dtype = (tree.kind, tree.dtype) if isinstance(tree, Made | Op) and tree.kind else ("", self.dtype(tree))
        if not kind:
            self.low.shared.looks[name] = self.low.look(tree)
        self.low.allocate(name, self.node, [size_of(a) for a in axes], kind, dtype, "", line)
        view = self.low.all_of(name)
        if isinstance(tree, Made) and tree.build is None:
            return view
        self.turns = [Turn(self.low.names.fresh("k"), view.axis(d), count(a)) for d, a in enumerate(axes)]
        self.target = view.at([ast.Name(t.counter, ast.Load()) for t in self.turns])
        value = self.element(tree)
        self.loops([Store(name, self.target.slice, value)], "")
        return view

    def dtype(self, tree: Tree) -> str:
        """Code for the dtype of floats in a new array that is made of `tree`."""
        names = [leaf.view.name for leaf in leaves(tree) if isinstance(leaf, Leaf)]
        return self.low.dtype_of_floats(n for n in names if self.low.made.kinds[n] == "float")


def _axis(leaf: Tree, d: int) -> Axis:
    if isinstance(leaf, Made):
        return Axis(ZERO, leaf.sizes[d])
    assert isinstance(leaf, Leaf)
    return leaf.view.axis(d)


def _single(leaf: Tree, d: int) -> bool:
    """Whether the length along axis `d` is 1 for sure, so that it fits any other."""
    return count(_axis(leaf, d)) == "1"
