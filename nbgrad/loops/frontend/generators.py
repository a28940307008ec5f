"""Generators: ``(v * v for v in x)`` and ``map(f, x)``, which are evaluated where they are made.

Python evaluates their items when they are read, once. So they may stand where they are read, or be bound to a name that
the next statement reads; others are refused.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .syntax import changed_names, stored_names, subtrees, unparse

if TYPE_CHECKING:
    from .source import Source

__all__ = ["called_later", "check_argument", "check_generators"]

#: Methods that keep what they are given.
_KEEPING = ("append", "insert", "extend", "setdefault", "update", "add")


def check_generators(source: Source, function: ast.FunctionDef) -> ast.FunctionDef:
    """The function; refuse generators in it that are read later than they are made, or twice."""
    nodes = subtrees(function)
    if not any(isinstance(n, ast.GeneratorExp) for n in nodes):
        return function
    allowed = {id(a) for n in nodes for a in _readers(n)}
    named: dict[str, ast.expr] = {}
    uses = Counter(n.id for n in nodes if isinstance(n, ast.Name))
    for n in nodes:
        for block in (getattr(n, name, None) for name in ("body", "orelse", "finalbody")):
            block = block if isinstance(block, list) else []
            for k, s in enumerate(block):
                match s:
                    case ast.Assign([ast.Name(name)], ast.GeneratorExp() as made) if uses[name] == 2:
                        read = {n.id for n in subtrees(made) if isinstance(n, ast.Name)}
                        rest = [
                            t for t in block[k + 1 :] if not _is_constant(t) or not read.isdisjoint(stored_names([t]))
                        ]
                        if rest and name in _read_first(rest[0]):
                            allowed.add(id(made))
                            named[name] = made
    for n in nodes:
        if isinstance(n, ast.GeneratorExp) and id(n) not in allowed:
            raise _refusal(source, n)
        if isinstance(n, ast.For):
            over = named.get(n.iter.id, n.iter) if isinstance(n.iter, ast.Name) else n.iter
            if any(isinstance(m, ast.GeneratorExp | ast.Lambda) for m in subtrees(over)):
                _require_unchanged(source, n, over)
    return function


def _require_unchanged(source: Source, loop: ast.For, made: ast.expr) -> None:
    """Refuse a loop that changes what the generator it goes over reads, which Python evaluates item by item."""
    targets = [g.target for g in subtrees(made) if isinstance(g, ast.comprehension)]
    own = {n.id for t in targets for n in subtrees(t) if isinstance(n, ast.Name)}
    read = {n.id for n in subtrees(made) if isinstance(n, ast.Name)} - own
    if changed := sorted(read & changed_names(loop.body)):
        what = f"{changed[0]}, which the loop over {unparse(made)} changes while it is read"
        raise source.refuse(loop, what, "make a list before the loop, as [...] instead of (...)")


def _is_constant(s: ast.stmt) -> bool:
    """Whether a statement binds names to a constant, which no generator can tell."""
    return isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) and isinstance(s.targets[0], ast.Name)


def _readers(node: ast.AST) -> list[ast.expr]:
    """The expressions whose items a node reads."""
    match node:
        case ast.Call(args=args):
            return [a.value if isinstance(a, ast.Starred) else a for a in args]
        case ast.For(iter=iterable) | ast.comprehension(iter=iterable) | ast.Starred(value=iterable):
            return [iterable]
        case ast.Assign(targets=[ast.Tuple()], value=value) | ast.Compare(comparators=[value]):
            return [value]
        case ast.Expr(value=value):
            return [value]
    return []


def _read_first(s: ast.stmt) -> list[str]:
    """The names that a statement reads before it runs others, and not again and again."""
    match s:
        case ast.For(iter=node) | ast.If(test=node) | ast.Expr(value=node):
            pass
        case ast.Assign(value=node) | ast.AugAssign(value=node) | ast.Return(value=ast.expr() as node):
            pass
        case _:
            return []
    repeated: set[int] = set()
    for n in subtrees(node):
        if isinstance(n, ast.Lambda | ast.ListComp | ast.GeneratorExp):
            once = {id(t) for t in subtrees(n.generators[0].iter)} if not isinstance(n, ast.Lambda) else set()
            repeated |= {id(t) for t in subtrees(n)} - once
    return [n.id for n in subtrees(node) if isinstance(n, ast.Name) and id(n) not in repeated]


def called_later(body: Sequence[ast.AST]) -> set[ast.AST]:
    """The functions defined in the body of a loop that may be called after the iteration that makes them: by all but a
    call, or an argument of one, that comes after them there."""
    made: dict[str, list[ast.AST]] = {}
    used_at_once: set[ast.AST] = set()
    for n in (n for s in body for n in subtrees(s)):
        match n:
            case ast.Call(func=function, args=args) if getattr(function, "attr", "") not in _KEEPING:
                used_at_once |= {function, *args, *(k.value for k in n.keywords)}
            case ast.Assign([ast.Name(name)], ast.Lambda() as function):
                made.setdefault(name, []).append(function)
            case ast.FunctionDef(name=name):
                made.setdefault(name, []).append(n)
    later: set[ast.AST] = set()
    bound = {function for functions in made.values() for function in functions}
    for n in (n for s in body for n in subtrees(s)):
        if isinstance(n, ast.Lambda) and n not in bound and n not in used_at_once:
            later.add(n)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in made:
            functions = made[n.id]
            before = any((n.lineno, n.col_offset) < (f.lineno, f.col_offset) for f in functions)  # type: ignore[attr-defined]
            if n not in used_at_once or before:
                later |= {*functions}
    return later


def check_argument(caller: Source, argument: ast.expr, called: Source, parameter: str) -> None:
    """Refuse a generator as an argument of a function that does not read it first of all, and once."""
    if isinstance(argument, ast.GeneratorExp):
        statements = [s for s in called.node.body if not isinstance(getattr(s, "value", None), ast.Constant)]
        uses = [n for n in subtrees(called.node) if isinstance(n, ast.Name) and n.id == parameter]
        if len(uses) != 1 or not statements or parameter not in _read_first(statements[0]):
            raise _refusal(caller, argument)


def _refusal(source: Source, node: ast.expr) -> Exception:
    what = f"{unparse(node)}, a generator, which is not read where it is made"
    return source.refuse(node, what, "make a list of it: [...]")
