"""Names that hold None until they are set: ``best = None`` before a loop, ``if best is None or v > best:`` in it.

``best = None`` becomes ``best_is_none = True``, other bindings are followed by ``best_is_none = False``, and tests of
whether the name is None read that flag. Before a statement that reads the name where it may be None stands a check, as
Python's operators raise a TypeError there. This is done on demand: what the source alone shows to be None decides
branches when code is generated.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ..ir.names import Names
from .structured_control import always_jumps, flag_assignment, with_location
from .syntax import (
    all_names,
    assigned_pairs,
    bound_name,
    copy_tree,
    first_name,
    own_nodes,
    stored_names,
    subtrees,
)

__all__ = ["may_hold_none", "with_flags"]

#: Functions that have no result for None; others may be passed it.
_OF_VALUES = {"abs", "float", "int", "len", "max", "min", "pow", "range", "round", "sum", "np", "numpy", "math"}
_TESTS = ast.Is, ast.Eq, ast.IsNot, ast.NotEq
_PLAIN = (ast.Expr, ast.AugAssign, ast.Assert, ast.Return, ast.Raise, ast.Pass, ast.Break, ast.Continue)


def may_hold_none(node: ast.FunctionDef, name: str, is_called: bool) -> bool:
    """Whether a function binds a name to None in one place and to values in others, and :func:`with_flags` knows all
    that it does with it; `is_called`: by another function, which may test what is returned."""
    values = [c for n in own_nodes(node) for v in _values(n, name) for c in _choices(v)]
    of_text = any(isinstance(n, ast.Constant) and isinstance(n.value, str) for v in values for n in subtrees(v))
    nones = sum(map(_is_none, values))
    if of_text or not nones or max(stored_names(node.body).count(name), len(values)) == nones:
        return False
    try:
        _Flags(name, name, is_called).function(copy_tree(node))
    except _OtherUse:
        return False
    return True


def with_flags(node: ast.FunctionDef, names: Collection[str], is_called: bool) -> ast.FunctionDef:
    """A copy of a function with a flag beside each of these names."""
    node = copy_tree(node)
    for name in sorted(names):
        node = _Flags(name, Names(all_names(node)).fresh(f"{name}_is_none"), is_called).function(node)
    return node


class _OtherUse(Exception):
    """None may be passed on, or a read cannot be checked where it is made."""


class _Flags:
    """Rewrites what a function does with one name. In the methods, `known` says that it holds a value there."""

    def __init__(self, name: str, flag: str, is_called: bool) -> None:
        self.name, self.flag, self.is_called = name, flag, is_called
        self.must_check = False

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        inner = [n for n in subtrees(node)[1:] if isinstance(n, ast.FunctionDef | ast.Lambda)]
        if self.mentioned(node.args) or any(map(self.mentioned, inner)):
            raise _OtherUse
        node.body, _ = self.block(node.body, False)
        return node

    def mentioned(self, node: ast.AST) -> bool:
        return any(self.name in (getattr(n, "id", ""), getattr(n, "arg", "")) for n in subtrees(node))

    # Statements: what takes their place, and whether the name holds a value after them.

    def block(self, statements: list[ast.stmt], known: bool) -> tuple[list[ast.stmt], bool]:
        done: list[ast.stmt] = []
        for s in statements:
            self.must_check = False
            made, after = self.statement(s, known)
            done += made
            known = after
        return done, known

    def statement(self, s: ast.stmt, known: bool) -> tuple[list[ast.stmt], bool]:
        if isinstance(s, ast.If):
            s.test, then, otherwise = self.test(s.test, known)
            first = self.checks(s)
            s.body, after = self.block(s.body, then)
            s.orelse, instead = self.block(s.orelse, otherwise)
            return [*first, s], (after or _leaves(s.body)) and (instead or _leaves(s.orelse))
        if isinstance(s, ast.For | ast.While):
            return self.loop(s, known)
        if isinstance(s, ast.Assign) and (made := self.written_as_branch(s)) is not None:
            return self.statement(made, known)
        if isinstance(s, ast.Assign) and self.name in stored_names([s]):
            return self.assignment(s, known)
        if isinstance(s, ast.AugAssign) and getattr(s.target, "id", "") == self.name:
            self.expression(s.target, known)
            s.value = self.expression(s.value, known)
            return [*self.checks(s), s], True
        if isinstance(s, ast.Assign):
            s.targets = [self.expression(t, known) for t in s.targets]
            s.value = self.expression(s.value, known, passed_on=True)
        elif isinstance(s, _PLAIN):
            passed_on = not isinstance(s, ast.AugAssign | ast.Assert) and (
                self.is_called or not isinstance(s, ast.Return)
            )
            for field in s._fields:
                if isinstance(part := getattr(s, field, None), ast.expr):
                    setattr(s, field, self.expression(part, known, passed_on))
        elif self.mentioned(s):
            raise _OtherUse
        return [*self.checks(s), s], known

    def checks(self, s: ast.stmt) -> list[ast.stmt]:
        """The check that stands before a statement, if it reads the name where that may be None."""
        if not self.must_check:
            return []
        text = ast.Constant(f"{self.name} is None where a value is expected")
        error = ast.Raise(ast.Call(bound_name(TypeError, "TypeError"), [text], []))
        return [with_location(ast.If(ast.Name(self.flag, ast.Load()), [error], []), s)]

    def written_as_branch(self, s: ast.Assign) -> ast.If | None:
        """``p = a if c else None`` and ``q = a if p is None else p + a`` as a branch; None for other assignments."""
        match s:
            case ast.Assign([ast.Name(id=name)], ast.IfExp(test, first, second)):
                to_none = name == self.name and (_is_none(first) or _is_none(second))
                if to_none or any(map(self.is_test_of_none, subtrees(test))):
                    branches = [[with_location(ast.Assign(copy_tree(s.targets), v), s)] for v in (first, second)]
                    return with_location(ast.If(test, *branches), s)
        return None

    def is_test_of_none(self, node: ast.AST) -> bool:
        match node:
            case ast.Compare(ast.Name(id=name), [op], [other]):
                return name == self.name and _is_none(other) and isinstance(op, _TESTS)
        return False

    def assignment(self, s: ast.Assign, known: bool) -> tuple[list[ast.stmt], bool]:
        """An assignment to the name, and perhaps to others."""
        values = list(_values(s, self.name))
        if len(values) != 1 or stored_names([s]).count(self.name) > 1:
            raise _OtherUse
        (value,) = values
        s.targets = [t if isinstance(t, ast.Name) else self.expression(t, True) for t in s.targets]
        if not _is_none(value):
            s.value = self.expression(s.value, known, passed_on=True)
            return [*self.checks(s), s, flag_assignment(self.flag, False, s)], True
        flag = flag_assignment(self.flag, True, s)
        if isinstance(s.value, ast.Tuple) and len(s.targets) == 1:  # best, at = -np.inf, None
            target = s.targets[0]
            kept = [(t, v) for t, v in zip(target.elts, s.value.elts, strict=True) if v is not value]  # type: ignore[attr-defined]
            if not 0 < len(kept) < len(s.value.elts):
                raise _OtherUse
            target.elts, s.value.elts = map(list, zip(*kept, strict=True))  # type: ignore[attr-defined]
            if len(kept) == 1:
                s.targets, s.value = [kept[0][0]], kept[0][1]
            s.value = self.expression(s.value, known, passed_on=True)
            return [*self.checks(s), s, flag], False
        s.targets = [t for t in s.targets if getattr(t, "id", "") != self.name]  # a = b = None
        return [*([s] if s.targets else []), flag], False

    def loop(self, s: ast.For | ast.While, known: bool) -> tuple[list[ast.stmt], bool]:
        sets_none = any(_is_none(v) or isinstance(v, ast.IfExp) for n in subtrees(s) for v in _values(n, self.name))
        begun = known and not sets_none
        first: list[ast.stmt] = []
        if isinstance(s, ast.While):
            s.test, then, _ = self.test(s.test, begun)
            if self.must_check:
                raise _OtherUse  # before each iteration
            s.body, _ = self.block(s.body, then)
        else:
            s.iter = self.expression(s.iter, known)
            first = self.checks(s)
            if self.name in stored_names([s.target]):
                body, _ = self.block(s.body, True)
                s.body = [flag_assignment(self.flag, False, s), *body]
            else:
                s.body, _ = self.block(s.body, begun)
        s.orelse, after = self.block(s.orelse, begun)
        return [*first, s], after

    # Expressions.

    def test(self, node: ast.expr, known: bool, conditional: bool = False) -> tuple[ast.expr, bool, bool]:
        """A test with the flag, and whether the name holds a value where it is true, and where it is false."""
        match node:
            case ast.Compare() if self.is_test_of_none(node):
                is_none = isinstance(node.ops[0], ast.Is | ast.Eq)
                flag: ast.expr = ast.Name(self.flag, ast.Load())
                made = flag if is_none else ast.UnaryOp(ast.Not(), flag)
                return with_location(made, node), known or not is_none, known or is_none
            case ast.UnaryOp(ast.Not(), operand):
                node.operand, then, otherwise = self.test(operand, known, conditional)
                return node, otherwise, then
            case ast.BoolOp(op, values):
                goes_on, left = known, True
                for k, value in enumerate(values):
                    values[k], then, otherwise = self.test(value, goes_on, conditional or k > 0)
                    goes_on, here = (then, otherwise) if isinstance(op, ast.And) else (otherwise, then)
                    left = left and here
                return (node, goes_on, left) if isinstance(op, ast.And) else (node, left, goes_on)
            case ast.Name(id=name) if name == self.name and not known:
                raise _OtherUse  # None is false, as 0 is
        return self.expression(node, known, conditional=conditional), known, known

    def expression(self, node: ast.expr, known: bool, passed_on: bool = False, conditional: bool = False) -> ast.expr:
        """An expression with the flag. `passed_on`: None would be no error here; `conditional`: it is not always
        evaluated, so that no check may stand before the statement."""
        match node:
            case ast.Name(id=name):
                if name == self.name and not known:
                    if passed_on or conditional:
                        raise _OtherUse
                    self.must_check = True
                return node
            case ast.BoolOp() | ast.Compare() if isinstance(node, ast.BoolOp) or self.is_test_of_none(node):
                return self.test(node, known, conditional)[0]
            case ast.IfExp():
                node.test, then, otherwise = self.test(node.test, known, conditional)
                node.body = self.expression(node.body, then, passed_on, True)
                node.orelse = self.expression(node.orelse, otherwise, passed_on, True)
                return node
            case ast.Call(func=function):
                passed_on = first_name(function) not in _OF_VALUES
            case (
                ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.Starred() | ast.FormattedValue() | ast.keyword()
            ):
                passed_on = not isinstance(getattr(node, "ctx", None), ast.Store)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp() | ast.NamedExpr():
                if self.mentioned(node) and (not known or isinstance(node, ast.NamedExpr)):
                    raise _OtherUse
            case _:
                passed_on = False
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.expr | ast.keyword):
                setattr(node, field, self.expression(value, known, passed_on, conditional))  # type: ignore[arg-type]
            elif isinstance(value, list):
                value[:] = [
                    self.expression(v, known, passed_on, conditional) if isinstance(v, ast.expr | ast.keyword) else v  # type: ignore[arg-type]
                    for v in value
                ]
        return node


def _values(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """What an assignment binds a name to."""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        for t, value in assigned_pairs(target, node.value):  # type: ignore[attr-defined]
            if isinstance(t, ast.Name) and t.id == name:
                yield value


def _choices(node: ast.expr) -> list[ast.expr]:
    """What a conditional expression chooses from."""
    return [*_choices(node.body), *_choices(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _leaves(block: list[ast.stmt]) -> bool:
    """Whether nothing after a block runs in the same iteration, or at all."""
    return always_jumps(block) or (bool(block) and isinstance(block[-1], ast.Raise))
