"""Which dictionaries a function makes and changes."""

from __future__ import annotations

import ast
import collections
from collections.abc import Callable

from .canonical_form import Resolving
from .syntax import own_nodes, stored_names, subtrees

__all__ = ["FACTORIES", "changing_dictionaries"]

_CHANGES = "setdefault", "pop", "update", "clear"
#: What ``defaultdict`` puts in, by what it calls.
FACTORIES: dict[object, Callable[[], ast.expr]] = {
    float: lambda: ast.Constant(0.0), int: lambda: ast.Constant(0), list: lambda: ast.List([], ast.Load()),
}  # fmt: skip


def changing_dictionaries(low: Resolving, node: ast.FunctionDef) -> set[str]:
    """The names of the dictionaries that a function makes, under no other name, and changes or has other keys than
    strings in."""
    made: collections.Counter[str] = collections.Counter()
    changed: set[str] = set()
    for n in own_nodes(node):
        match n:
            case ast.Assign([ast.Name(id=name)], value) if (kind := _kind(low, value)) is not None:
                made[name] += 1
                changed |= {name} if kind or made[name] > 1 else set()
            case ast.Subscript(ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                changed.add(name)
            case ast.Attribute(ast.Name(id=name), method) if method in _CHANGES:
                changed.add(name)
            case ast.keyword("key", ast.Attribute(ast.Name(id=name), "get")):
                changed.add(name)  # whose keys are compared
    stored = [n.id for n in subtrees(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    bound = {n.arg for n in subtrees(node) if isinstance(n, ast.arg)} | set(stored) - set(stored_names(node.body))
    return {name for name, count in made.items() if stored.count(name) == count} & changed - bound


def _kind(low: Resolving, value: ast.expr) -> bool | None:
    """None if an expression makes no dictionary that can be followed, else whether it must be."""
    match value:
        case ast.Dict() if getattr(value, "shared", False):
            return None  # it is another name's, too
        case ast.Dict(keys=keys, values=values):
            holds = any(isinstance(v, ast.List | ast.ListComp | ast.Dict) for v in values)  # what changes itself
            plain = all(isinstance(k, ast.Constant) and type(k.value) is str for k in keys)
            return None if None in keys else holds or not plain
        case ast.DictComp():
            return True
        case ast.Call(function, args, keywords):
            called = low.called(function)
            if called is collections.defaultdict and len(args) == 1 and not keywords:
                return True if low.called(args[0]) in FACTORIES else None
            if called is dict and not args:
                return None if any(k.arg is None for k in keywords) else False
            zipped = called is dict and len(args) == 1 and isinstance(args[0], ast.Call) and not keywords
            return True if zipped and low.called(args[0].func) is zip else None  # type: ignore[attr-defined]
    return None
