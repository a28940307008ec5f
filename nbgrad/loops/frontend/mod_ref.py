"""Mod/ref analysis: which arrays a function may modify in place (rebinding a name modifies none).

Interprocedural and conservative: names that may share elements are written together, and a call modifies its arguments
unless it is known that it does not.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

import numpy as np

from ...backends.numba.compile import vectorized_function
from ...backends.numba.wrapped_functions import is_overloaded, plain_function, wrapped_function
from ..custom_rules import rule_of
from .function_table import WRITING, is_definition, is_known, row_of
from .list_vectors import append_item
from .source import Source
from .syntax import assigned_pairs, bound_to, first_name, subtrees
from .wrapped_calls import output_nodes

__all__ = ["modified_arrays"]


def modified_arrays(source: Source, node: ast.FunctionDef) -> set[str]:
    """The names of arrays that a function may write, and of all that may share elements with them."""
    return _ModRef(source, node, ()).modified_names()


class _ModRef:
    """The analysis of one function; `within` are the names of those that call it."""

    def __init__(self, source: Source, node: ast.FunctionDef, within: tuple) -> None:
        self.source = source
        self.within = (*within, source.name)
        self.nodes = [n for part in (node.args, *node.body) for n in subtrees(part)]
        self.local = {n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.local |= {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        self.parameters = {n.arg for n in subtrees(node.args) if isinstance(n, ast.arg)}
        self.inner = {n.name: n for n in self.nodes if isinstance(n, ast.FunctionDef)}
        self.containers: set[str] = set()  # names of tuples and lists, which share their elements where they are joined
        while more := {t.id for n in self.nodes if isinstance(n, ast.Assign) and self.is_container(n.value)
                       for t in n.targets if isinstance(t, ast.Name)} - self.containers:  # fmt: skip
            self.containers |= more

    def is_container(self, node: ast.expr) -> bool:
        """Whether an expression is a tuple or list that is made here."""
        match node:
            case ast.Tuple() | ast.List() | ast.ListComp():
                return True
            case ast.BinOp(op=ast.Add() | ast.Mult(), left=left, right=right) | ast.IfExp(body=left, orelse=right):
                return self.is_container(left) or self.is_container(right)
            case ast.Subscript(value, ast.Slice()):
                return self.is_container(value)
            case ast.Name(id=name):
                return name in self.containers
        return False

    def modified_names(self) -> set[str]:
        """The names that may be written: direct writes, closed over sharing."""
        written: set[str] = set()
        groups = []  # names that may share elements
        for n in self.nodes:
            match n:
                case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                    written |= set(self.may_alias(n))
                case ast.AugAssign(target=target):
                    written |= set(self.may_alias(target))
                case ast.Call(args=[of, _, item]) if bound_to(n.func) is append_item:
                    groups.append({*self.may_alias(of), *self.may_alias(item)})
                case ast.Call() if not self.is_read_only_call(n):
                    written |= {m for part in self.written_parts(n) for m in self.may_alias(part)}
                case ast.Assign(targets=targets, value=value):
                    pairs = [p for target in targets for p in _pairs(target, value)]
                    groups += [
                        {*self.may_alias(t), *self.may_alias(v)} for t, v in pairs if not isinstance(t, ast.Subscript)
                    ]
                case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over) if (
                    not self.allocates_result(over)
                ):
                    groups.append({*self.may_alias(target), *(m.id for m in subtrees(over) if isinstance(m, ast.Name))})
        grew = True
        while grew:
            closed = written.union(*(g for g in groups if g & written))
            grew, written = closed != written, closed
        return written

    def may_alias(self, node: ast.expr) -> Iterator[str]:
        """The names of arrays with which an expression, or the target of an assignment, may share elements."""
        match node:
            case ast.Name():
                if not isinstance(self.source.outer_values.get(node.id), types.ModuleType) or node.id in self.local:
                    yield node.id
            case ast.Attribute(attr="shape" | "size" | "ndim"):
                pass
            case ast.Subscript() | ast.Attribute() | ast.Starred():
                yield from self.may_alias(node.value)
            case ast.Tuple() | ast.List():
                for e in node.elts:
                    yield from self.may_alias(e)
            case ast.Dict(values=values):
                for e in values:
                    yield from self.may_alias(e)
            case ast.ListComp() | ast.GeneratorExp():
                yield from self.may_alias(node.elt)
            case ast.NamedExpr():
                yield from self.may_alias(node.value)
            case ast.IfExp():
                yield from self.may_alias(node.body)
                yield from self.may_alias(node.orelse)
            case ast.BinOp() if self.is_container(node):
                yield from self.may_alias(node.left)
                yield from self.may_alias(node.right)
            case ast.Call() if not self.allocates_result(node):
                called = self.analyse_callee(node)
                returns = called.nodes if called is not None else []
                values = [n.value for n in returns if isinstance(n, ast.Return) and n.value is not None]
                if called is None or any(True for v in values for _ in called.may_alias(v)):
                    for part in _parts(node):
                        yield from self.may_alias(part)

    def allocates_result(self, node: ast.expr) -> bool:
        """Whether `node` is a call that returns a new array, or no array."""
        if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in self.local):
            return False
        function = self.function_or_method(node.func)
        row = row_of(function)
        wrapped = wrapped_function(function)
        if wrapped is not None:
            return not output_nodes(node, wrapped)
        known = rule_of(function) is not None or vectorized_function(function) is not None
        return known if row is None else not row.shares

    def resolve(self, node: ast.expr) -> object:
        """The function from outside that a name is bound to; None for local names."""
        return None if first_name(node) in self.local else self.source.resolve(node)

    def function_or_method(self, node: ast.expr) -> object:
        """What a call calls: a function from outside, or a method of arrays; None if that is not known."""
        function = self.resolve(node)
        if function is None and isinstance(node, ast.Attribute):
            return getattr(np.ndarray, node.attr, None)
        return function

    def analyse_callee(self, call: ast.Call) -> _ModRef | None:
        """The analysis of the called function, if it is a known one of the user's."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in self.inner and name not in self.within:
            callee = _ModRef(self.source, self.inner[name], self.within)
            callee.within = (*callee.within, name)
            # A nested function sees the enclosing scope.
            callee.inner, callee.local = {**self.inner, **callee.inner}, callee.local | self.local
            return callee
        function = None if name in self.inner else self.resolve(call.func)
        plain = plain_function(function)
        known = is_known(plain) or rule_of(function) is not None
        if not isinstance(plain, types.FunctionType) or known or plain.__name__ in self.within or is_overloaded(plain):
            return None
        other = self.source.source_of_called(plain, function)
        return _ModRef(other, other.node, self.within)

    def is_read_only_call(self, call: ast.Call) -> bool:
        """Whether a call provably writes none of its arguments."""
        resolved = self.resolve(call.func)
        if is_definition(resolved):
            return resolved not in WRITING
        called = self.analyse_callee(call)
        if called is not None:
            return not called.modified_names() & called.parameters
        if isinstance(call.func, ast.Name) and (call.func.id in self.local or call.func.id in self.inner):
            return False
        function = self.function_or_method(call.func)
        row = row_of(function)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "_replace":
            return True
        known = rule_of(function) is not None or vectorized_function(function) is not None
        return isinstance(function, type) or (known if row is None else not row.writes)

    def written_parts(self, call: ast.Call) -> list[ast.expr]:
        """The operands of a call that it may write."""
        local = isinstance(call.func, ast.Name) and call.func.id in self.local
        wrapped = None if local else wrapped_function(self.function_or_method(call.func))
        starred = any(isinstance(a, ast.Starred) for a in call.args)
        called = None if starred or call.keywords else self.analyse_callee(call)
        if wrapped is None and called is not None and called.source is not self.source:
            modified, names = called.modified_names(), list(called.source.signature.parameters)
            if len(call.args) <= len(names) and not any(
                isinstance(n, ast.FunctionDef | ast.Lambda) for n in called.nodes
            ):
                return [a for n, a in zip(names, call.args, strict=False) if n in modified]
        if wrapped is None or starred:
            return _parts(call)
        kernel = Source(wrapped.kernel)
        modified = _ModRef(kernel, kernel.node, self.within).modified_names()
        inputs = zip(kernel.signature.parameters, call.args, strict=False)
        return [*(a for n, a in inputs if n in modified), *(output_nodes(call, wrapped) or ())]


def _parts(call: ast.Call) -> list[ast.expr]:
    """The operands of a call: the object of a method, and all arguments."""
    method = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [*method, *call.args, *(k.value for k in call.keywords)]


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """An assignment as targets and values, item by item of tuples and for both values of a conditional."""
    pairs = assigned_pairs(target, value)
    chosen = [(t, part) for t, v in pairs if isinstance(v, ast.IfExp) for part in (v.body, v.orelse)]
    return [p for p in pairs if not isinstance(p[1], ast.IfExp)] + [q for t, v in chosen for q in _pairs(t, v)]
