"""Arrays as indices: of integers, and masks of truth values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..ir.statements import If, Store, Within, parse, unparse
from ..ir.type_inference import kind_of
from .array_expressions import Elementwise, Leaf, Made, Op, Scalar, Tree
from .views import Axis, View, count

if TYPE_CHECKING:
    from .expressions import Expressions
    from .scope import Scope

__all__ = ["Picked", "Same", "inside", "look", "picked", "store_masked", "unmasked"]


@dataclass(frozen=True)
class Picked(View):
    """Elements at indices that are elements of arrays. `order` has -1 for each axis of these; `picks` has them by the
    axes of the array that they are for, with what makes a place along that axis of an element."""

    picks: dict[int, tuple[View, Callable[[ast.expr], ast.expr]]] = field(default_factory=dict)

    def axis(self, d: int) -> Axis:
        if self.order[d] != -1:
            return super().axis(d)
        return next(iter(self.picks.values()))[0].axis(d - self.order.index(-1))

    def at(self, indices: list[ast.expr]) -> ast.Subscript:
        first, rank = self.order.index(-1), self.order.count(-1)
        others = next(iter(self.picks.values()))[0]
        parts, order = list(self.parts), (*self.order[:first], *self.order[first + rank :])
        for place, (view, placed) in self.picks.items():
            here = indices[first : first + rank]
            along = [_moved(n, others.axis(d), view.axis(d)) for d, n in enumerate(here)]
            parts[place] = placed(view.at(along))
        return View(self.name, tuple(parts), order).at([*indices[:first], *indices[first + rank :]])

    def whole(self, sizes: list[ast.expr]) -> bool:
        return False


def _moved(index: ast.expr, mine: Axis, other: Axis) -> ast.expr:
    """The index along `other` of the element that `index` is along `mine`."""
    if unparse(mine.start) == unparse(other.start) and unparse(mine.step) == unparse(other.step):
        return index
    place = f"({unparse(index)} - ({unparse(mine.start)})) // ({unparse(mine.step)})"
    return parse(f"({unparse(other.start)}) + {place} * ({unparse(other.step)})")


def picked(low: Expressions, node: ast.Subscript, tree: Tree, axis: Axis) -> tuple[View, bool]:
    """An array of integers that is an index along `axis`; whether it is known to be in range."""
    kind = look(low, tree)
    if kind not in ("int", "bool"):
        raise low.source.refuse(
            node, f"an array as index in {unparse(node)}, which may be of floats", "make it with dtype=np.int64"
        )
    if kind == "bool":
        if tree.rank > 1:
            raise low.source.refuse(
                node, f"a mask of several axes in {unparse(node)}", "sum np.where(mask, a, 0.0), or write a loop"
            )
        loops = Elementwise(low, node)
        loops.masks = True
        loops.same(count(loops.axes(tree)[0]), count(axis))
        tree = low.library(np.flatnonzero, node, tree)
    return sure(low, node, low.view_of(tree, node, "index"), "int"), kind == "bool"


def inside(low: Expressions, node: ast.Subscript, index: View, size: ast.expr, what: str) -> None:
    """All elements of `index` must be indices of a part of an array, which has `size` elements along that axis."""
    loops = Elementwise(low, node)
    loops.turns = [loops.turn(index.axis(d)) for d in range(index.rank)]
    element = index.at([ast.Name(t.counter, ast.Load()) for t in loops.turns])
    loops.loops([Within(element, size, what, place=low.place_of(node))], "")


def sure(low: Expressions, node: ast.AST, view: View, kind: str) -> View:
    """`view`, whose kind must turn out to be `kind`."""
    error = low.source.refuse(node, "an array as index that is given numbers of another kind", "use another name")
    low.made.doubtful.append((view.name, [ast.Constant(kind == "bool") if kind == "bool" else ast.Constant(0)], error))
    return view


# Masks that are written through.


def store_masked(low: Expressions, node: ast.AST, view: View, mask: Tree, value: Tree) -> None:
    """``view[mask] = value``, the elements of which are those for which the mask holds."""
    if isinstance(mask, Leaf):
        sure(low, node, mask.view, "bool")
    loops = Elementwise(low, node)
    line, low.line = low.line, ""
    loops.turns = [loops.turn(view.axis(d)) for d in range(view.rank)]
    loops.target = view.at([ast.Name(t.counter, ast.Load()) for t in loops.turns])
    loops.masks = True
    holds = loops.element(mask)
    loops.masks = False
    made = loops.element(value)
    if loops.overlap:
        now = Leaf(view)
        whole = Op(lambda t, a, b: ast.IfExp(t, a, b), [mask, value, now])
        Elementwise(low, node).store(view, whole)
        return
    loops.loops([If(holds, [Store(view.name, loops.target.slice, made)], [])], line)


@dataclass(eq=False)
class Same(Leaf):
    """All of an array, of which the part by the mask at hand is meant."""

    masked = True


def unmasked(low: Expressions, node: ast.expr, mask: str) -> ast.expr:
    """A right-hand side in which ``y[mask]`` is all of `y`, as far as functions of elements are taken of it."""

    def again(n: ast.expr) -> ast.expr:
        match n:
            case ast.Subscript() if unparse(n.slice) == mask:
                return ast.copy_location(low.done(Same(low.view(n.value))), n)
            case ast.BinOp():
                made: ast.expr = ast.BinOp(again(n.left), n.op, again(n.right))
            case ast.UnaryOp():
                made = ast.UnaryOp(n.op, again(n.operand))
            case ast.Call() if isinstance(low.function_of(n.func), np.ufunc) and not n.keywords:
                made = ast.Call(n.func, [again(a) for a in n.args], [])
            case _:
                return n
        return ast.copy_location(made, n)

    return again(node)


# What kind elements are of.


def look(low: Scope, tree: Tree) -> str:
    """The kind of the elements of `tree`, or "" where that is not known yet."""
    found = {kind_of(_sample(tree), _Guess(low, guess)) for guess in ("bool", "float")}  # type: ignore[arg-type]
    return found.pop() if len(found) == 1 else ""


def _sample(tree: Tree) -> ast.expr:
    """An element, wherever it is."""
    match tree:
        case Scalar():
            return tree.node
        case Leaf():
            return tree.view.at([ast.Constant(0)] * tree.rank)
        case Made():
            return tree.build(*[ast.Constant(0)] * tree.rank) if tree.build is not None else ast.Constant(0.0)
        case Op():
            return tree.build(*map(_sample, tree.args))
    return ast.Constant(0.0)


class _Guess:
    """Kinds of names, for :func:`.kind_of`; those that are not known yet are `guess`."""

    def __init__(self, low: Scope, guess: str) -> None:
        self.low, self.guess = low, guess
        self.names = low.names

    @property
    def kinds(self) -> _Guess:
        return self

    def __getitem__(self, name: str) -> str:
        made, shared = self.low.made, self.low.shared
        if name in shared.looks:
            return shared.looks[name] or self.guess
        if name in made.parameters or name in made.constants or name in shared.bound or made.ranks.get(name):
            return made.kinds[name]
        if name in shared.most:  # a length
            return "int"
        if unparse(known := shared.known.get(name, ast.Name(name))) != name:
            return kind_of(known, self)  # type: ignore[arg-type]
        return self.guess

    def get(self, name: str, default: str) -> str:
        return self[name]
