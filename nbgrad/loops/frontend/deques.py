"""``collections.deque``, as a list: ``q.popleft()`` is ``q.pop(0)``, and where lengths have a limit, items drop."""

from __future__ import annotations

import ast
import collections
from typing import Any

from ..ir.names import Names
from .canonical_form import Resolving
from .structured_control import with_location
from .syntax import Transformer, all_names, bound_name, copy_tree, free_variables, own_nodes, stored_names, subtrees

__all__ = ["Deques"]

_METHODS = {"popleft": ("pop", 0), "appendleft": ("insert", 1)}


class Deques(Resolving):
    """Rewrites each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self.outside = self.outside, free_variables(node)
        self.generic_visit(node)
        made: dict[str, list[ast.Assign]] = {}
        for n in own_nodes(node):
            match n:
                case ast.Assign([ast.Name(id=name)], ast.Call(function)) if self.called(function) is collections.deque:
                    made.setdefault(name, []).append(n)
        stored = [*stored_names(node.body), *(a.arg for a in subtrees(node.args) if isinstance(a, ast.arg))]
        attributes = [n for n in own_nodes(node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
        inserted = {n.value.id for n in attributes if n.attr in ("insert", "rotate")}  # type: ignore[attr-defined]
        for name, assignments in made.items():
            if name in inserted:
                continue
            if stored.count(name) == len(assignments) and all(len(s.value.args) < 3 for s in assignments):  # type: ignore[attr-defined]
                _AsList(name, Names(all_names(node))).visit(node)
        self.outside = around
        return node


class _AsList(Transformer):
    """Makes a list of one deque; `most` is the name of its largest length."""

    def __init__(self, name: str, free: Names) -> None:
        self.name, self.free, self.most = name, free, ""

    def visit_Assign(self, s: ast.Assign) -> Any:
        match s.targets:
            case [ast.Name(id=name)] if name == self.name:
                assert isinstance(s.value, ast.Call)
                given = [*s.value.args[1:], *(k.value for k in s.value.keywords if k.arg == "maxlen")]
                items = s.value.args[:1] or [ast.List([], ast.Load())]
                if not isinstance(items[0], ast.List):
                    items = [ast.Call(bound_name(list, "list"), items, [])]
                made = [ast.Assign(s.targets, items[0])]
                if given and not (isinstance(given[0], ast.Constant) and given[0].value is None):
                    self.most = self.most or self.free.fresh(f"{self.name}_maxlen")
                    made = [ast.Assign([ast.Name(self.most, ast.Store())], given[0]), *made]
                    made.append(self.shorter(ast.While))  # type: ignore[arg-type]
                return [with_location(t, s) for t in made]
        return self.generic_visit(s)

    def shorter(self, kind: Any, method: str = "pop", args: tuple[int, ...] = (0,)) -> ast.stmt:
        """Take an item out where there are too many."""
        length = ast.Call(bound_name(len, "len"), [ast.Name(self.name, ast.Load())], [])
        test = ast.Compare(length, [ast.Gt()], [ast.Name(self.most, ast.Load())])
        return kind(test, [ast.Expr(self.call(method, [ast.Constant(k) for k in args]))], [])

    def call(self, method: str, args: list[Any]) -> ast.expr:
        return ast.Call(ast.Attribute(ast.Name(self.name, ast.Load()), method, ast.Load()), args, [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(ast.Name(id=name), method), args, []) if name == self.name:
                if method in _METHODS and len(args) == _METHODS[method][1]:
                    return with_location(self.call(_METHODS[method][0], [ast.Constant(0), *args]), node)
        return node

    def visit_Expr(self, s: ast.Expr) -> Any:
        method = ""
        match s.value:
            case ast.Call(ast.Attribute(ast.Name(id=name), method)) if name == self.name:
                pass
        self.generic_visit(s)
        if not self.most or method not in ("append", "appendleft", "extend"):
            return s
        end = ("pop", (0,)) if method != "appendleft" else ("pop", ())
        kind = ast.While if method == "extend" else ast.If
        return [s, with_location(copy_tree(self.shorter(kind, *end)), s)]
