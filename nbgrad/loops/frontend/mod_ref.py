"""Which arrays a function may write in place, and not only by giving names to others."""

from __future__ import annotations

import ast
import types
from collections.abc import Hashable, Iterator

import numpy as np

from ..custom_rules import rule_of
from ..ir.names import first_name
from ..ir.statements import subtrees
from .source import KNOWN, LOOPS, Source

__all__ = ["written"]

#: Functions of the subset that may give what they are given, and methods that give new arrays.
_SAME = {*LOOPS, np.asarray, np.ascontiguousarray, np.reshape, np.ravel}
_NEW = {"copy", "sum", "mean", "dot", "astype"}


def written(source: Source, node: ast.FunctionDef) -> set[str]:
    """The names in a function of arrays that are written, and of all that may share elements with them."""
    return _Written(source, node, ()).names()


class _Written:
    def __init__(self, source: Source, node: ast.FunctionDef, within: tuple) -> None:
        self.source = source
        self.within = (*within, source.name)
        self.nodes = [n for part in (node.args, *node.body) for n in subtrees(part)]
        self.local = {n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.local |= {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        self.parameters = {n.arg for n in subtrees(node.args) if isinstance(n, ast.arg)}
        self.inner = {n.name: n for n in self.nodes if isinstance(n, ast.FunctionDef)}

    def names(self) -> set[str]:
        found: set[str] = set()
        groups = []  # names that may share elements
        for n in self.nodes:
            match n:
                case ast.Subscript(ctx=ast.Store()):
                    found |= set(self.shared(n))
                case ast.AugAssign(target=target):
                    found |= set(self.shared(target))
                case ast.Call() if not self.reads(n):
                    found |= {m for part in _parts(n) for m in self.shared(part)}
                case ast.Assign(targets=targets, value=value):
                    pairs = [p for target in targets for p in _pairs(target, value)]
                    groups += [{*self.shared(t), *self.shared(v)} for t, v in pairs if not isinstance(t, ast.Subscript)]
                case ast.For(target=target, iter=over) if not self.new(over):
                    groups.append({*self.shared(target), *(m.id for m in subtrees(over) if isinstance(m, ast.Name))})
        grew = True
        while grew:
            more = found.union(*(g for g in groups if g & found))
            grew, found = more != found, more
        return found

    def shared(self, node: ast.expr) -> Iterator[str]:
        """The names of arrays whose elements an expression, or what is assigned to, may share."""
        match node:
            case ast.Name():
                if not isinstance(self.source.outside.get(node.id), types.ModuleType) or node.id in self.local:
                    yield node.id
            case ast.Attribute(attr="shape" | "size" | "ndim"):
                pass
            case ast.Subscript() | ast.Attribute() | ast.Starred():
                yield from self.shared(node.value)
            case ast.Tuple() | ast.List():
                for e in node.elts:
                    yield from self.shared(e)
            case ast.IfExp():
                yield from self.shared(node.body)
                yield from self.shared(node.orelse)
            case ast.Call() if not self.new(node):
                called = self.called(node)
                returns = called.nodes if called is not None else []
                values = [n.value for n in returns if isinstance(n, ast.Return) and n.value is not None]
                if called is None or any(True for v in values for _ in called.shared(v)):
                    for part in _parts(node):
                        yield from self.shared(part)

    def new(self, node: ast.expr) -> bool:
        """Whether a call gives a new array, or no array."""
        if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in self.local):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _NEW:
            return True
        found = self.resolve(node.func)
        return isinstance(found, Hashable) and (found in KNOWN - _SAME or rule_of(found) is not None)

    def resolve(self, node: ast.expr) -> object:
        """What stands for a function from outside."""
        return None if first_name(node) in self.local else self.source.resolve(node)

    def called(self, call: ast.Call) -> _Written | None:
        """The function that is called, if it is one of the user's and known."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in self.inner and name not in self.within:
            made = _Written(self.source, self.inner[name], self.within)
            made.within = (*made.within, name)
            made.inner, made.local = {**self.inner, **made.inner}, made.local | self.local  # it sees them
            return made
        found = None if name in self.inner else self.resolve(call.func)
        plain = getattr(found, "py_func", found)
        if not isinstance(plain, types.FunctionType) or plain in KNOWN or plain.__name__ in self.within:
            return None
        other = Source(plain)
        return _Written(other, other.node, self.within)

    def reads(self, call: ast.Call) -> bool:
        """Whether a call certainly writes none of its arguments."""
        called = self.called(call)
        if called is not None:
            return not called.names() & called.parameters
        if isinstance(call.func, ast.Name) and (call.func.id in self.local or call.func.id in self.inner):
            return False
        found = self.resolve(call.func)
        if isinstance(call.func, ast.Attribute) and found is None:
            return call.func.attr != "fill"
        known = isinstance(found, Hashable) and (found in KNOWN or rule_of(found) is not None)
        return isinstance(found, type) or known


def _parts(call: ast.Call) -> list[ast.expr]:
    method = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [*method, *call.args, *(k.value for k in call.keywords)]


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(value, ast.IfExp):
        return [*_pairs(target, value.body), *_pairs(target, value.orelse)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [p for t, v in zip(target.elts, value.elts, strict=True) for p in _pairs(t, v)]
    return [(target, value)]
