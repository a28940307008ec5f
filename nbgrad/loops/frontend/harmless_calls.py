"""What calls of functions and methods may change, so that statements of theirs are put before others in order alone."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from enum import Flag, auto
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from .made_classes import Method, method_of, unreadable
from .sorting_keys import CHANGING_METHODS
from .syntax import children, stored_names, subtrees

if TYPE_CHECKING:
    from .made_classes import PlainClass

__all__ = ["Effect", "Resolve", "effect_of", "evaluated_before", "is_harmless", "may_read_arrays"]

Resolve = Callable[[ast.expr], object]

_DEEPEST = 6  # of calls in calls
_BUILTINS = {abs, bool, complex, enumerate, float, int, len, max, min, pow, range, reversed, round, sum, zip}
_MODULES = {"math", "numpy", "scipy.special", "cmath"}
_WRITING = {"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at", "shuffle", "seed"}


class Effect(Flag):
    """What a method may change: fields of its instance, and what others have, too: arrays that it is given."""

    NOTHING = 0
    OWN_FIELDS = auto()
    OTHERS = auto()
    BOTH = OWN_FIELDS | OTHERS


def evaluated_before(statement: ast.AST, node: ast.AST) -> list[ast.AST]:
    """The nodes of a statement that are evaluated before one, without those in it."""
    within = {id(n) for n in subtrees(node)}
    found: list[ast.AST] = []
    for n in _in_order(statement):
        if n is node:
            break
        if id(n) not in within:
            found.append(n)
    return found


def _in_order(node: ast.AST) -> list[ast.AST]:
    parts = [node.value, *node.targets] if isinstance(node, ast.Assign) else children(node)
    return [*(n for child in parts for n in _in_order(child)), node]


def is_harmless(call: ast.Call, called: object, depth: int = 0) -> bool:
    """Whether a call of a known function reads alone."""
    if any(k.arg in (None, "out") for k in call.keywords):
        return False
    if isinstance(called, type) and issubclass(called, BaseException):
        return True
    if isinstance(called, type | types.BuiltinFunctionType) and called in _BUILTINS:
        return True
    module = getattr(called, "__module__", None) or ("numpy" if hasattr(called, "nargs") else "")  # of its ufuncs
    if module in _MODULES:
        return getattr(called, "__name__", "at") not in _WRITING
    if isinstance(called, types.FunctionType) and not unreadable(called) and (found := method_of(called)):
        return effect_of(None, Method(found.node, found.outer, "static"), lambda _: None, depth + 1) is Effect.NOTHING
    return False


def effect_of(kind: PlainClass | None, method: Method | None, resolve: Resolve, depth: int = 0) -> Effect:
    """What a method of a class, or a function, may change; `resolve` gives what names in the function around stand for,
    for a class that is defined there."""
    if method is None or depth > _DEEPEST or method.kind in ("class", "function"):
        return Effect.BOTH
    node, outer = method.node, method.outer
    owner = node.args.args[0].arg if node.args.args and method.kind != "static" else ""
    parameters = {a.arg for a in subtrees(node.args) if isinstance(a, ast.arg)}

    def value(expr: ast.expr) -> object:
        if outer is None:
            return resolve(expr)
        match expr:
            case ast.Name(id=name):
                return outer.get(name, getattr(builtins, name, None))
            case ast.Attribute(inner, attr):
                return getattr(value(inner), attr, None)
        return None

    def effect(n: ast.AST) -> Effect:
        match n:
            case ast.Attribute(ast.Name(id=name), attr) if name == owner:
                if not isinstance(n.ctx, ast.Load):
                    return Effect.OWN_FIELDS
                inner = kind.method(attr) if kind else None
                return effect_of(kind, inner, resolve, depth + 1) if inner is not None else Effect.NOTHING
            case ast.AugAssign(ast.Attribute(ast.Name(id=name), attr)) if name == owner:  # of an array it is in place
                return Effect.OWN_FIELDS if _starts_as(kind, attr, ast.Constant) else Effect.BOTH
            case ast.AugAssign(ast.Name(id=name)):
                return Effect.OTHERS if name in parameters else Effect.NOTHING
            case ast.Subscript(ast.Attribute(ast.Name(id=name)), ctx=ast.Store() | ast.Del()) if name == owner:
                return Effect.BOTH
            case ast.Subscript() | ast.Attribute():
                return Effect.NOTHING if isinstance(n.ctx, ast.Load) else Effect.OTHERS
            case ast.Yield() | ast.AugAssign():
                return Effect.OTHERS
            case ast.Call(ast.Attribute(ast.Attribute(ast.Name(id=name), held), attr)) if name == owner:
                own = attr in CHANGING_METHODS and _starts_as(kind, held, ast.List)
                return Effect.OWN_FIELDS if own else Effect.BOTH
            case ast.Call(ast.Attribute(ast.Name(id=name), attr)) if name == owner and kind and kind.method(attr):
                return Effect.NOTHING  # beyond that of the attribute
            case ast.Call():
                return Effect.NOTHING if is_harmless(n, value(n.func), depth) else Effect.OTHERS
        return Effect.NOTHING

    return reduce(or_, map(effect, subtrees(node)), Effect.NOTHING)


def _starts_as(kind: PlainClass | None, field: str, form: type[ast.expr]) -> bool:
    """Whether all that the constructor sets a field to has a form: it is a number, or a list that nobody else has."""
    if kind is None:
        return False
    if kind.parameters is not None:
        return isinstance(dict(kind.parameters).get(field), form) and form is ast.Constant
    init = kind.method("__init__")
    if init is None:
        return isinstance(kind.constants.get(field), form)
    values = [s.value for s in subtrees(init.node) if isinstance(s, ast.Assign)
              and any(isinstance(t, ast.Attribute) and t.attr == field for t in s.targets)]  # fmt: skip
    return bool(values) and all(isinstance(v, form) for v in values)


def may_read_arrays(node: ast.AST, function: ast.FunctionDef, left_out: set[int]) -> bool:
    """Whether an expression in a function may have read elements of arrays or lists; nodes `left_out` are aside."""
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp):
        names = {n.id for n in subtrees(node) if isinstance(n, ast.Name) and id(n) not in left_out}
        return not all(_is_number(function, name) for name in names)
    return isinstance(node, ast.Call | ast.Subscript | ast.Attribute | ast.JoinedStr | ast.ListComp)


def _is_number(function: ast.FunctionDef, name: str) -> bool:
    """Whether a name is bound to a number, and to nothing that has another name."""
    bound: list[ast.expr] = []
    for s in subtrees(function):
        match s:
            case ast.Assign(targets, value) if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                bound.append(value)
            case ast.For(ast.Name(id=target), ast.Call(ast.Name(id="range"))) if target == name:
                bound.append(ast.Constant(0))
    known = len(bound) == stored_names(function.body, added=False).count(name)
    fresh = all(isinstance(v, ast.Constant | ast.BinOp | ast.UnaryOp) for v in bound)
    return known and fresh and any(isinstance(v, ast.Constant) for v in bound)
