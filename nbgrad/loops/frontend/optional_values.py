"""Names that hold None until they are set: ``best = None`` before a loop, ``if best is None or v > best:`` in it.

``best = None`` becomes ``best_is_none = True``, other bindings are followed by ``best_is_none = False``, and tests of
whether the name is None read that flag. Before a statement that reads the name where it may be None stands a check, as
Python's operators raise a TypeError there. This is done on demand: what the source alone shows to be None decides
branches when code is generated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import reduce

from ..ir.names import Names
from .live_range_splitting import is_attempt
from .structured_control import TupleTargets, always_jumps, flag_assignment, with_location
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

__all__ = ["may_hold_none", "names_bound_to", "with_flags"]

#: Functions that have no result for None; others may be passed it.
_OF_VALUES = {
    "abs", "all", "any", "divmod", "enumerate", "float", "int", "len", "list", "math", "max", "min", "np", "numpy",
    "pow", "range", "reversed", "round", "sorted", "sum", "tuple", "zip",
}  # fmt: skip
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
        _Flags(name, name, is_called, False).function(copy_tree(node))
    except _OtherUse:
        return False
    return True


def names_bound_to(node: ast.FunctionDef, name: str) -> list[str]:
    """The names whose values a name gets, as by ``name = other``."""
    values = [c for n in own_nodes(node) for v in _values(n, name) for c in _choices(v)]
    return [v.id for v in values if isinstance(v, ast.Name)]


def with_flags(node: ast.FunctionDef, names: Mapping[str, bool], is_called: bool) -> ast.FunctionDef:
    """A copy of a function with a flag beside each of these names, by whether loops are peeled for it. Names whose uses
    are others once those before have flags keep None; `optional` of the copy has those that do not."""
    done: set[str] = set()
    for name, peeled in sorted(names.items()):
        flag = Names(all_names(node)).fresh(f"{name}_is_none")
        for peels in dict.fromkeys((peeled, False)):
            try:
                made = _Flags(name, flag, is_called, peels).function(copy_tree(node))
            except _OtherUse:
                continue
            node = made
            done.add(name)
            break
    node.optional = done  # type: ignore[attr-defined]
    return node


class _OtherUse(Exception):
    """None may be passed on, or a read cannot be checked where it is made."""


class _State(Enum):
    """What a name holds at some place."""

    NONE = "None"
    VALUE = "a value"
    EITHER = "one of both"

    def or_else(self, other: _State) -> _State:
        return self if self is other else _State.EITHER


class _Flags:
    """Rewrites what a function does with one name. In the methods, `state` says what it holds there."""

    def __init__(self, name: str, flag: str, is_called: bool, peeled: bool) -> None:
        self.name, self.flag, self.is_called, self.peeled = name, flag, is_called, peeled
        self.must_check = False
        self.targets: TupleTargets

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        inner = [n for n in subtrees(node)[1:] if isinstance(n, ast.FunctionDef | ast.Lambda)]
        if self.mentioned(node.args) or any(map(self.mentioned, inner)):
            raise _OtherUse
        self.targets = TupleTargets(node)
        node.body, _ = self.block(node.body, _State.EITHER)
        return node

    def mentioned(self, node: ast.AST) -> bool:
        return any(self.name in (getattr(n, "id", ""), getattr(n, "arg", "")) for n in subtrees(node))

    # Statements: what takes their place, and what the name holds after them.

    def block(self, statements: list[ast.stmt], state: _State) -> tuple[list[ast.stmt], _State]:
        done: list[ast.stmt] = []
        for s in statements:
            self.must_check = False
            made, state = self.statement(s, state)
            done += made
        return done, state

    def statement(self, s: ast.stmt, state: _State) -> tuple[list[ast.stmt], _State]:
        if isinstance(s, ast.If):
            return self.branch(s, state)
        if isinstance(s, ast.For | ast.While):
            return self.loop(s, state)
        if isinstance(s, ast.Assign) and (branch := self.written_as_branch(s)) is not None:
            return self.branch(branch, state)
        if isinstance(s, ast.Assign) and (parts := self.handed_on(s, state)) is not None:
            return self.block(parts, state)
        if isinstance(s, ast.Assign) and self.name in stored_names([s]):
            return self.assignment(s, state)
        if isinstance(s, ast.AugAssign) and getattr(s.target, "id", "") == self.name:
            self.expression(s.target, state)
            s.value = self.expression(s.value, state)
            return self.checked(s, state), _State.VALUE
        if isinstance(s, ast.Assign):
            s.targets = [self.expression(t, state) for t in s.targets]
            s.value = self.expression(s.value, state, passed_on=True)
        elif isinstance(s, _PLAIN):
            strict = isinstance(s, ast.AugAssign | ast.Assert) or (isinstance(s, ast.Return) and not self.is_called)
            for field in s._fields:
                if isinstance(part := getattr(s, field, None), ast.expr):
                    setattr(s, field, self.expression(part, state, not strict))
        elif self.mentioned(s):
            raise _OtherUse
        return self.checked(s, state), state

    def checked(self, s: ast.stmt, state: _State) -> list[ast.stmt]:
        """A statement, after a check if it reads the name where that may be None; an error where it is None."""
        if not self.must_check:
            return [s]
        text = ast.Constant(f"{self.name} is None where a value is expected")
        error: ast.stmt = ast.Raise(ast.Call(bound_name(TypeError, "TypeError"), [text], []))
        if state is _State.NONE:
            return [with_location(error, s)]
        return [with_location(ast.If(ast.Name(self.flag, ast.Load()), [error], []), s), s]

    def branch(self, s: ast.If, state: _State) -> tuple[list[ast.stmt], _State]:
        s.test, then, otherwise = self.test(s.test, state)
        if isinstance(s.test, ast.Constant):
            return self.block(s.body, then) if s.test.value else self.block(s.orelse, otherwise)
        *first, whole = self.checked(s, state)
        if whole is not s:
            return [*first, whole], state
        sets = self.name in stored_names(s.body)
        s.body, after = self.block(s.body, then)
        s.orelse, instead = self.block(s.orelse, otherwise)
        if is_attempt(s):  # an error may leave its body anywhere
            return [*first, s], _State.EITHER if sets else after
        state = instead if _leaves(s.body) else after if _leaves(s.orelse) else after.or_else(instead)
        return [*first, s], state

    def written_as_branch(self, s: ast.Assign) -> ast.If | None:
        """``p = a if c else None`` and ``q = a if p is None else p + a`` as a branch; None for other assignments."""
        match s:
            case ast.Assign([ast.Name(id=name)], ast.IfExp(test, first, second)):
                to_none = name == self.name and (_is_none(first) or _is_none(second))
                if to_none or any(map(self.is_test_of_none, subtrees(test))):
                    branches = [[with_location(ast.Assign(copy_tree(s.targets), v), s)] for v in (first, second)]
                    return with_location(ast.If(test, *branches), s)
        return None

    def handed_on(self, s: ast.Assign, state: _State) -> list[ast.stmt] | None:
        """What ``q = p`` of the name `p` does, or ``q, p = p, x`` one after the other; None for other assignments."""
        match s:
            case ast.Assign([ast.Name(id=other)], ast.Name(id=name)) if name == self.name != other:
                if state is _State.VALUE:
                    return None
                to_none = with_location(ast.Assign(copy_tree(s.targets), ast.Constant(None)), s)
                if state is _State.NONE:
                    return [to_none]
                test = ast.Compare(ast.Name(name, ast.Load()), [ast.Is()], [ast.Constant(None)])
                return [with_location(ast.If(test, [to_none], [s]), s)]
            case ast.Assign([ast.Tuple()], ast.Tuple(elts=values)):
                if any(isinstance(v, ast.Name) and v.id == self.name for v in values):
                    return self.targets.one_by_one(s) or None
        return None

    def is_test_of_none(self, node: ast.AST) -> bool:
        match node:
            case ast.Compare(ast.Name(id=name), [op], [other]):
                return name == self.name and _is_none(other) and isinstance(op, _TESTS)
        return False

    def assignment(self, s: ast.Assign, state: _State) -> tuple[list[ast.stmt], _State]:
        """An assignment to the name, and perhaps to others."""
        values = list(_values(s, self.name))
        if len(values) != 1 or stored_names([s]).count(self.name) > 1:
            raise _OtherUse
        (value,) = values
        s.targets = [t if isinstance(t, ast.Name) else self.expression(t, _State.VALUE) for t in s.targets]
        if not _is_none(value):
            s.value = self.expression(s.value, state, passed_on=True)
            return [*self.checked(s, state), flag_assignment(self.flag, False, s)], _State.VALUE
        flag = flag_assignment(self.flag, True, s)
        if isinstance(s.value, ast.Tuple) and len(s.targets) == 1:  # best, at = -np.inf, None
            target = s.targets[0]
            kept = [(t, v) for t, v in zip(target.elts, s.value.elts, strict=True) if v is not value]  # type: ignore[attr-defined]
            if not 0 < len(kept) < len(s.value.elts):
                raise _OtherUse
            target.elts, s.value.elts = map(list, zip(*kept, strict=True))  # type: ignore[attr-defined]
            if len(kept) == 1:
                s.targets, s.value = [kept[0][0]], kept[0][1]
            s.value = self.expression(s.value, state, passed_on=True)
            return [*self.checked(s, state), flag], _State.NONE
        s.targets = [t for t in s.targets if getattr(t, "id", "") != self.name]  # a = b = None
        return [*([s] if s.targets else []), flag], _State.NONE

    def loop(self, s: ast.For | ast.While, state: _State) -> tuple[list[ast.stmt], _State]:
        set_in = self.name in stored_names([s])
        sets_none = any(_is_none(v) or isinstance(v, ast.IfExp) for n in subtrees(s) for v in _values(n, self.name))
        begun = state if not set_in or (state is _State.VALUE and not sets_none) else _State.EITHER
        first: list[ast.stmt] = []
        if isinstance(s, ast.While):
            s.test, then, _ = self.test(s.test, begun)
            if self.must_check:
                raise _OtherUse  # before each iteration
            s.body = self.iteration(s, then)
        else:
            s.iter = self.expression(s.iter, state)
            *first, whole = self.checked(s, state)
            if whole is not s:
                return [*first, whole], state
            if self.name in stored_names([s.target]):
                body, _ = self.block(s.body, _State.VALUE)
                s.body = [flag_assignment(self.flag, False, s), *body]
            else:
                s.body = self.iteration(s, begun)
        s.orelse, after = self.block(s.orelse, begun)
        return [*first, s], after

    def iteration(self, s: ast.For | ast.While, state: _State) -> list[ast.stmt]:
        """The body of a loop; where it is `peeled`, one for each of what the name holds, so that what sets an array
        stands above of what reads it."""
        if state is not _State.EITHER or not self.peeled:
            return self.block(s.body, state)[0]
        bodies = [self.block(copy_tree(s.body), held)[0] for held in (_State.NONE, _State.VALUE)]
        return [with_location(ast.If(ast.Name(self.flag, ast.Load()), *bodies), s)]

    # Expressions.

    def test(self, node: ast.expr, state: _State, conditional: bool = False) -> tuple[ast.expr, _State, _State]:
        """A test with the flag, and what the name holds where it is true, and where it is false."""
        match node:
            case ast.Compare() if self.is_test_of_none(node):
                is_none = isinstance(node.ops[0], ast.Is | ast.Eq)
                made: ast.expr = ast.Name(self.flag, ast.Load())
                if state is not _State.EITHER:
                    made = ast.Constant((state is _State.NONE) is is_none)
                elif not is_none:
                    made = ast.UnaryOp(ast.Not(), made)
                outcomes = (_State.NONE, _State.VALUE) if is_none else (_State.VALUE, _State.NONE)
                return with_location(made, node), *outcomes
            case ast.UnaryOp(ast.Not(), operand):
                inner, then, otherwise = self.test(operand, state, conditional)
                node.operand = inner
                known = isinstance(inner, ast.Constant) and isinstance(inner.value, bool)
                negated = ast.copy_location(ast.Constant(not inner.value), node) if known else node  # type: ignore[attr-defined]
                return negated, otherwise, then
            case ast.BoolOp():
                return self.several_tests(node, state, conditional)
            case ast.Name(id=name) if name == self.name and state is not _State.VALUE:
                raise _OtherUse  # None is false, as 0 is
        return self.expression(node, state, conditional=conditional), state, state

    def several_tests(self, node: ast.BoolOp, state: _State, conditional: bool) -> tuple[ast.expr, _State, _State]:
        """``and`` and ``or``, without the operands whose outcome the state tells."""
        decides, goes_on, left = isinstance(node.op, ast.Or), state, list[_State]()
        kept: list[ast.expr] = []
        for value in node.values:
            made, then, otherwise = self.test(value, goes_on, conditional or bool(kept))
            known = isinstance(made, ast.Constant) and isinstance(made.value, bool)
            goes_on, here = (otherwise, then) if decides else (then, otherwise)
            if known and made.value is not decides:  # type: ignore[attr-defined]
                continue
            kept.append(made)
            left.append(here)
            if known:
                goes_on = left[-1]  # it is not reached
                break
        if not kept:
            return ast.copy_location(ast.Constant(not decides), node), goes_on, goes_on
        reached = reduce(_State.or_else, left)
        made = kept[0] if len(kept) == 1 else ast.copy_location(ast.BoolOp(node.op, kept), node)
        return (made, reached, goes_on) if decides else (made, goes_on, reached)

    def expression(self, node: ast.expr, state: _State, passed_on: bool = False, conditional: bool = False) -> ast.expr:
        """An expression with the flag. `passed_on`: None would be no error here; `conditional`: it is not always
        evaluated, so that no check may stand before the statement."""
        match node:
            case ast.Name(id=name):
                if name == self.name and state is not _State.VALUE:
                    if passed_on or conditional:
                        raise _OtherUse
                    self.must_check = True
                return node
            case ast.BoolOp() | ast.Compare() if isinstance(node, ast.BoolOp) or self.is_test_of_none(node):
                return self.test(node, state, conditional)[0]
            case ast.IfExp():
                node.test, then, otherwise = self.test(node.test, state, conditional)
                if isinstance(node.test, ast.Constant):
                    chosen, held = (node.body, then) if node.test.value else (node.orelse, otherwise)
                    return self.expression(chosen, held, passed_on, conditional)
                node.body = self.expression(node.body, then, passed_on, True)
                node.orelse = self.expression(node.orelse, otherwise, passed_on, True)
                return node
            case ast.Call(func=function):
                passed_on = first_name(function) not in _OF_VALUES
            case (
                ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.Starred() | ast.FormattedValue() | ast.keyword()
            ):
                passed_on = not isinstance(getattr(node, "ctx", None), ast.Store)
            case ast.ListComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
                first.iter = self.expression(first.iter, state, False, conditional)  # which is evaluated once, before
                parts = [n for n in subtrees(node) if n not in subtrees(first.iter)]
                if state is _State.VALUE and not any(map(self.is_test_of_none, parts)):
                    return node
                if any(isinstance(n, ast.Name) and n.id == self.name for n in parts):
                    raise _OtherUse
                return node
            case ast.NamedExpr() | ast.SetComp() | ast.DictComp():
                if self.mentioned(node):
                    raise _OtherUse
            case _:
                passed_on = False
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.expr | ast.keyword):
                setattr(node, field, self.expression(value, state, passed_on, conditional))  # type: ignore[arg-type]
            elif isinstance(value, list):
                value[:] = [
                    self.expression(v, state, passed_on, conditional) if isinstance(v, ast.expr | ast.keyword) else v  # type: ignore[arg-type]
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
