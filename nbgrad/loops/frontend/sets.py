"""Sets of numbers: lists that no item is put in twice.

That is where a function makes the set, under one name, and only adds to it, takes items out, asks what is in it, how
many items there are, and for the smallest, the largest or all of them in order. No other order of the items shows.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

from ..ir.names import Names
from .canonical_form import Resolving
from .structured_control import with_location
from .syntax import Transformer, all_names, bound_name, copy_tree, free_variables, own_nodes, stored_names, subtrees

__all__ = ["Sets"]

_METHODS = {"add": 1, "discard": 1, "remove": 1, "clear": 0}
_READERS = len, sorted, min, max


class Sets(Resolving):
    """Rewrites each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self.outside = self.outside, free_variables(node)
        self.generic_visit(node)
        for name in self.sets_in(node):
            _AsList(name, Names(all_names(node))).visit(node)
        self.outside = around
        return node

    def sets_in(self, node: ast.FunctionDef) -> list[str]:
        """The names of sets that can be lists."""
        nodes = own_nodes(node)
        stored = [*stored_names(node.body), *(a.arg for a in subtrees(node.args) if isinstance(a, ast.arg))]
        made: Counter[str] = Counter()
        uses: Counter[str] = Counter()
        for n in nodes:
            match n:
                case ast.Assign([ast.Name(id=name)], value) if self.is_set(value):
                    made[name] += 1
                case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), method), args, [])):
                    if _METHODS.get(method) == len(args):
                        uses[name] += 1
                case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]):
                    uses[name] += 1
                case ast.Call(function, [ast.Name(id=name)], []) if self.called(function) in _READERS:
                    uses[name] += 1
                case ast.If(test=ast.Name(id=name)) | ast.While(test=ast.Name(id=name)):
                    uses[name] += 1
                case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                    uses[name] += 1
        mentions = Counter(n.id for n in subtrees(node) if isinstance(n, ast.Name))
        return [n for n, k in made.items() if stored.count(n) == k and mentions[n] == k + uses[n]]

    def is_set(self, value: ast.expr) -> bool:
        """Whether an expression makes a set."""
        made = isinstance(value, ast.Call) and self.called(value.func) is set and not value.keywords
        return isinstance(value, ast.Set) or (made and len(value.args) < 2)  # type: ignore[attr-defined]

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``k in {0, 2}`` as ``k in (0, 2)``."""
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            node.comparators = [
                ast.copy_location(ast.Tuple(c.elts, ast.Load()), c) if isinstance(c, ast.Set) else c
                for c in node.comparators
            ]
        return node


class _AsList(Transformer):
    """Makes a list of one set."""

    def __init__(self, name: str, free: Names) -> None:
        self.name, self.free = name, free

    def visit_Assign(self, s: ast.Assign) -> Any:
        match s.targets:
            case [ast.Name(id=name)] if name == self.name:
                empty = ast.Assign(s.targets, ast.List([], ast.Load()))
                return [with_location(t, s) for t in (empty, *self.filled(s.value))]
        return s

    def filled(self, value: ast.expr) -> list[ast.stmt]:
        match value:
            case ast.Set(elts=elements):
                return [t for e in elements for t in self.added(e)]
            case ast.Call(args=[over]):
                item = self.free.fresh("item")
                return [ast.For(ast.Name(item, ast.Store()), over, self.added(ast.Name(item, ast.Load())), [])]
        return []

    def added(self, value: ast.expr) -> list[ast.stmt]:
        """What puts an item in that is not there yet."""
        first: list[ast.stmt] = []
        if not isinstance(value, ast.Name | ast.Constant):
            item = self.free.fresh("item")
            first, value = [ast.Assign([ast.Name(item, ast.Store())], value)], ast.Name(item, ast.Load())
        call = ast.Call(self.method("append"), [copy_tree(value)], [])
        test = ast.Compare(value, [ast.NotIn()], [ast.Name(self.name, ast.Load())])
        return [*first, ast.If(test, [ast.Expr(call)], [])]

    def method(self, name: str) -> ast.expr:
        return ast.Attribute(ast.Name(self.name, ast.Load()), name, ast.Load())

    def visit_Expr(self, s: ast.Expr) -> Any:
        match s.value:
            case ast.Call(ast.Attribute(ast.Name(id=name), "add"), [value]) if name == self.name:
                return [with_location(t, s) for t in self.added(value)]
            case ast.Call(ast.Attribute(ast.Name(id=name) as owner, "discard"), [value]) if name == self.name:
                test = ast.Compare(copy_tree(value), [ast.In()], [owner])
                removed = ast.Expr(ast.Call(self.method("remove"), [value], []))
                return with_location(ast.If(test, [removed], []), s)
            case ast.Call(ast.Attribute(ast.Name(id=name), "remove"), [value]) if name == self.name:
                test = ast.Compare(copy_tree(value), [ast.NotIn()], [ast.Name(name, ast.Load())])
                error = ast.Call(bound_name(KeyError, "KeyError"), [ast.Constant("the set has no such item")], [])
                return [with_location(ast.If(test, [ast.Raise(error)], []), s), s]
        return s
