"""Lists whose items are arrays, or tuples: they are rewritten as tuples that are bound anew where a list changes.

Lowering asks for it where it finds such an item, and begins again. Loops in which such a list grows are unrolled.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ..ir.names import Names
from .array_expressions import ArrayExpr, TupleExpr
from .function_table import lowers
from .growing_lists import is_end, makes_list, with_all
from .known_integers import integer_of
from .structured_control import with_location
from .syntax import Transformer, all_names, bound_name, copy_tree, first_name, stored_names, subtrees, unparse

if TYPE_CHECKING:
    from .calls import Calls
    from .source import Source

__all__ = ["ListsOfArrays", "changed_lists"]


class ListsOfArrays(Transformer):
    """Rewrites the lists `names` of a function, not those of functions in it."""

    def __init__(self, source: Source, names: Collection[str]) -> None:
        self.source, self.names = source, names
        self.function: ast.FunctionDef | None = None
        self.fresh = Names(())

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if self.function is None:
            self.function, self.fresh = node, Names(all_names(node))
            self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self.names:
                node.value = _as_tuple(value)
            case ast.Assign(targets=[ast.Subscript(ast.Name(id=name), index)]) if name in self.names:
                return self.generic_visit(with_location(self.item_set(name, index, node.value), node))
            case ast.Assign(value=ast.Call(func=ast.Attribute(ast.Name(id=name), "pop"), args=args)):
                if name in self.names and is_end(args):
                    return with_all(self.popped(name, node.targets, bool(args)), node)
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """A loop over a list whose items the body sets reads them by their numbers, as Python does; but not where it
        sets the item that it has just read."""
        over = {n.id for n in subtrees(node.iter) if isinstance(n, ast.Name)} & set(self.names)
        stores = [n for s in node.body for n in subtrees(s) if isinstance(n, ast.Subscript) and _is_set(n, over)]
        if not stores or (isinstance(node.iter, ast.Call) and first_name(node.iter.func) == "range"):
            return self.generic_visit(node)
        number = ast.Name(self.fresh.fresh("k"), ast.Store())
        match node:
            case ast.For(ast.Tuple(elts=[counter, item]), ast.Call(ast.Name("enumerate"), [ast.Name() as of], [])):
                plain = isinstance(counter, ast.Name) and counter.id not in stored_names(node.body)
                if plain and all(unparse(n.slice) == unparse(counter) for n in stores):
                    return self.generic_visit(node)
            case ast.For(item, ast.Name() as of):
                counter = number
            case _:
                what = f"a loop over {unparse(node.iter)} that sets items of {', '.join(sorted(over))}"
                raise self.source.refuse(node, what, "loop over a range of numbers")
        read = ast.Name(number.id, ast.Load())
        first: list[ast.stmt] = [] if counter is number else [ast.Assign([counter], read)]
        first.append(ast.Assign([item], ast.Subscript(of, read, ast.Load())))
        count = ast.Call(bound_name(len, "len"), [copy_tree(of)], [])
        node.target, node.iter = number, ast.Call(bound_name(range, "range"), [count], [])
        node.body[:0] = with_all(first, node)
        return self.generic_visit(with_location(node, node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        match node.target:
            case ast.Subscript(ast.Name(id=name), index) if name in self.names:
                item = self.fresh.fresh("item")
                read = ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())
                first = ast.Assign([ast.Name(item, ast.Store())], read)
                changed = ast.AugAssign(ast.Name(item, ast.Store()), node.op, node.value)
                last = self.item_set(name, index, ast.Name(item, ast.Load()))
                return with_all([first, changed, last], node)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        match node.value:
            case ast.Call(func=ast.Attribute(ast.Name(id=name), method), args=args) if name in self.names:
                old: ast.expr = ast.Name(name, ast.Load())
                match method, args:
                    case "append", [item]:
                        return with_all([_joined(name, old, ast.Tuple([item], ast.Load()))], node)
                    case "extend", [items]:
                        return with_all([_joined(name, old, _as_tuple(items))], node)
                    case "insert", [_, item] if is_end(args[:1]):
                        return with_all([_joined(name, ast.Tuple([item], ast.Load()), old)], node)
                    case "pop", _ if is_end(args):
                        return with_all(self.popped(name, [], bool(args)), node)
        return self.generic_visit(node)

    def item_set(self, name: str, index: ast.expr, value: ast.expr) -> ast.stmt:
        """The list with another item in one place."""
        if isinstance(index, ast.Slice):
            what = f"a slice of {name}, a list of arrays, that is set"
            raise self.source.refuse(index, what, "set one item after the other")
        call = ast.Call(bound_name(with_item, f"{name}[...] = ..."), [ast.Name(name, ast.Load()), index, value], [])
        return ast.Assign([ast.Name(name, ast.Store())], call)

    def popped(self, name: str, targets: list[ast.expr], first: bool) -> list[ast.stmt]:
        """The statements that take the first or last item."""
        item = ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(0 if first else -1), ast.Load())
        end = ast.UnaryOp(ast.USub(), ast.Constant(1))
        rest = ast.Slice(ast.Constant(1), None, None) if first else ast.Slice(None, end, None)
        count = ast.Call(bound_name(len, "len"), [ast.Name(name, ast.Load())], [])
        error = ast.Call(bound_name(IndexError, "IndexError"), [ast.Constant("pop from empty list")], [])
        empty = ast.If(ast.Compare(count, [ast.Eq()], [ast.Constant(0)]), [ast.Raise(error)], [])
        taken: list[ast.stmt] = [ast.Assign(targets, item)] if targets else []
        left = ast.Subscript(ast.Name(name, ast.Load()), rest, ast.Load())
        return [empty, *taken, ast.Assign([ast.Name(name, ast.Store())], left)]


def _is_set(node: ast.Subscript, names: Collection[str]) -> bool:
    """Whether an item of one of these lists is set."""
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id in names


def _joined(name: str, first: ast.expr, second: ast.expr) -> ast.stmt:
    """``name = first + second``."""
    return ast.Assign([ast.Name(name, ast.Store())], ast.BinOp(first, ast.Add(), second))


def _as_tuple(node: ast.expr) -> ast.expr:
    """A new list as a tuple."""
    match node:
        case ast.List(elts=items):
            made = ast.copy_location(ast.Tuple(items, ast.Load()), node)
            made.of_list = True  # type: ignore[attr-defined]
            return made
        case ast.Call(func=ast.Name(id="list"), args=[]):
            return ast.copy_location(ast.Tuple([], ast.Load()), node)
        case ast.BinOp(op=ast.Mult()):
            node.left, node.right = _as_tuple(node.left), _as_tuple(node.right)
    return node


def changed_lists(source: Source) -> list[str]:
    """The names that a function binds to lists that it makes, alone, so that they may become tuples."""
    made: dict[str, list[ast.expr]] = {}
    for n in subtrees(source.with_lists) if source.with_lists is not None else ():
        for t in n.targets if isinstance(n, ast.Assign) else ():
            if isinstance(t, ast.Name):
                made.setdefault(t.id, []).append(n.value)  # type: ignore[attr-defined]
    return [name for name, values in made.items() if all(map(makes_list, values))]


def with_item(items: tuple, index: int, value: Any) -> Any:
    """A tuple with another item in one place."""


@lowers(with_item, arguments=(3, 3), shares=True)
def _with_item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    tree, new = low.tree(node.args[0]), low.tree_or_static(node.args[2])
    index = low.value(node.args[1])
    place = ast.copy_location(ast.Subscript(node.args[0], node.args[1], ast.Load()), node)
    k = integer_of(low, index)
    if not isinstance(tree, TupleExpr) or k is None:
        raise low.varying_index(place, index)
    low.item_of(place, tree)  # an error if there is none
    items = list(tree.items)
    items[k] = new
    return TupleExpr(items, tree.tuple_class)
