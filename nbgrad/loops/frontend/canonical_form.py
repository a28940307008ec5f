"""Canonicalization: rewrite the syntax tree of a function so that later steps meet one form of what Python can write
in several."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ...backends.numba.wrapped_functions import has_hash, plain_function
from .function_table import DEFINITIONS, is_known
from .structured_control import own_returns, with_location
from .syntax import (
    Transformer,
    all_names,
    assigned_pairs,
    bound_name,
    bound_to,
    copy_tree,
    first_name,
    free_variables,
    subtrees,
)

if TYPE_CHECKING:
    from .source import Source

__all__ = ["AssignmentsInTests", "Lists", "LongerFirst", "OutArguments", "Resolving", "SwapsToTuples"]


class Lists(Transformer):
    """Rewrite lists that do not change as tuples: ``c = [0.5, 2.0]``, where `c` is bound to such, only, and is no index
    and no result of the function that is differentiated; and those that called functions return. Those that are
    indices become arrays."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        nodes = subtrees(node)
        if not any(isinstance(n, ast.List) for n in nodes):
            return node
        unchanged = _unchanged_lists(nodes, [] if self.source.is_called else own_returns(node.body))

        def fixed(target: ast.expr, value: ast.expr) -> ast.expr:
            match target, value:
                case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                    value.elts = [fixed(t, v) for t, v in zip(targets, values, strict=True)]
                case ast.Name(id=name), _ if name in unchanged:
                    return _as_tuple(value)
                case ast.Subscript(), ast.List():
                    return _as_tuple(value)
            return value

        kept = {id(n) for n in own_returns(node.body)} if not self.source.is_called else set()
        for n in nodes:
            if isinstance(n, ast.Subscript):
                n.slice = _with_arrays(n.slice)
            match n:
                case ast.Assign(targets=[target]):
                    n.value = fixed(target, n.value)
                case ast.Subscript(value=ast.List() as made):
                    n.value = _as_tuple(made)
                case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.List() as made]):
                    n.comparators = [_as_tuple(made)]
                case ast.For() | ast.comprehension():
                    n.iter = _as_tuple(n.iter) if isinstance(n.iter, ast.BinOp) else n.iter
                case ast.Return(value=ast.expr() as value) if id(n) not in kept:
                    n.value = _as_tuple(value)
                case ast.Return(value=ast.List() as value):
                    n.value = _as_tuple(value)
        return node


def _with_arrays(index: ast.expr) -> ast.expr:
    """An index with arrays in place of lists: ``m[[0, 2], :]`` takes rows."""
    match index:
        case ast.Tuple(elts=parts):
            index.elts = [_with_arrays(p) if isinstance(p, ast.List) else p for p in parts]
        case ast.List():
            array = with_location(ast.Call(bound_name(np.array, "np.array"), [index], []), index)
            array.written = index
            return array
    return index


def _unchanged_lists(nodes: list[ast.AST], results: list[ast.Return]) -> set[str]:
    """The names that are bound to new lists alone, which are no results, no indices, and have no methods called."""
    stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    stored.update(n.arg for n in subtrees(nodes[0].args) if isinstance(n, ast.arg))  # type: ignore[attr-defined]
    made: Counter[str] = Counter()
    displays: set[str] = set()
    other = [e for n in results if n.value is not None for e in _results(n.value)]
    for n in nodes:
        match n:
            case ast.Assign(targets=targets):
                pairs = [p for t in targets for p in assigned_pairs(t, n.value)]
                made.update(t.id for t, value in pairs if isinstance(t, ast.Name) and _is_list(value))
                displays |= {t.id for t, value in pairs if isinstance(t, ast.Name) and _has_display(value)}
            case ast.Attribute(value=ast.Name(), attr="index" | "count"):
                pass
            case ast.Attribute(value=ast.Name() as owner) | ast.Subscript(value=ast.Name() as owner, ctx=ast.Del()):
                other.append(owner)
            case ast.Subscript(slice=index):
                other.append(index)
            case ast.Call(func=ast.Name("isinstance" | "type")):
                other.append(n)
    excluded = {m.id for n in other for m in subtrees(n) if isinstance(m, ast.Name)}
    return {name for name in displays - excluded if made[name] == stored[name]}


def _results(value: ast.expr) -> list[ast.AST]:
    """The names among what is returned."""
    match value:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return [e for item in items for e in _results(item)]
        case ast.IfExp(body=first, orelse=second):
            return [*_results(first), *_results(second)]
    return [value] if isinstance(value, ast.Name) else []


def _is_list(value: ast.expr) -> bool:
    return isinstance(value, ast.ListComp) or _has_display(value)


def _has_display(value: ast.expr) -> bool:
    """Whether a list is written out, perhaps repeated or joined to others."""
    match value:
        case ast.List(elts=items):
            return bool(items)
        case ast.BinOp(op=ast.Add() | ast.Mult(), left=left, right=right):
            return _has_display(left) or _has_display(right)
    return False


def _as_tuple(value: ast.expr) -> ast.expr:
    """A list as a tuple, also where lists are repeated and joined; an empty list stays."""
    match value:
        case ast.List(elts=items) if items:
            made = ast.copy_location(ast.Tuple([_as_tuple(e) for e in items], ast.Load()), value)
            made.of_list = True  # type: ignore[attr-defined]
            return made
        case ast.BinOp(op=ast.Add() | ast.Mult()) if _has_display(value):
            value.left, value.right = _as_tuple(value.left), _as_tuple(value.right)
    return value


class Resolving(Transformer):
    """Rewrites calls of functions from outside, which local names may hide."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.outside: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self.outside = self.outside, free_variables(node)
        self.generic_visit(node)
        self.outside = around
        return node

    def resolve(self, node: ast.expr) -> object:
        """The value from outside of a name or an attribute of a module; None for local names."""
        known = bound_to(node) is not None or first_name(node) in self.outside
        return self.source.resolve(node) if known else None

    def called(self, node: ast.expr) -> object:
        """The function or class from outside that is called; None for others, as arrays, which compare by elements."""
        found = self.resolve(node)
        return found if callable(found) and has_hash(found) else None


class OutArguments(Resolving):
    """Rewrite ``np.add(a, b, out)`` as ``out[...] = np.add(a, b)``, and ``a.sort()`` as ``a[...] = np.sort(a)``."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if not isinstance(node.value, ast.Call):
            return node
        call = node.value
        called = self.resolve(call.func)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "sort" and called is None and not call.args:
            array = call.func.value
            result = ast.Call(bound_name(np.sort, "np.sort"), [array], call.keywords)
            return with_location(ast.Assign([ast.Subscript(array, ast.Constant(...), ast.Store())], result), node)
        keywords = {k.arg: k.value for k in call.keywords}
        if "out" in keywords and (is_known(called) or called in DEFINITIONS.values()):
            where = keywords.get("where") if isinstance(called, np.ufunc) else None
            others = [k for k in call.keywords if k.arg != "out" and k.value is not where]
            result = ast.Call(call.func, call.args, others)
            if where is not None:
                copyto = bound_name(DEFINITIONS[np.copyto], "np.copyto")
                return with_location(ast.Expr(ast.Call(copyto, [keywords["out"], result, where], [])), node)
            target = ast.Subscript(keywords["out"], ast.Constant(...), ast.Store())
            return with_location(ast.Assign([target], result), node)
        inputs = called.nin if isinstance(called, np.ufunc) else 2 if called in (np.dot, np.round, np.around) else -2
        operands = [*call.args, *(k.value for k in call.keywords if k.arg == "out")]
        if len(operands) != inputs + 1 or len(operands) < len(call.args) + len(call.keywords):
            return node
        target = ast.Subscript(operands[-1], ast.Constant(...), ast.Store())
        return with_location(ast.Assign([target], ast.Call(call.func, operands[:-1], [])), node)


class AssignmentsInTests(Transformer):
    """Rewrite ``while (x := f(x)) > 0: ...`` as ``while True: x = f(x); if not x > 0: break; ...``.

    That is where the test evaluates ``:=`` first, and its value reads the name. Others are lowered where they stand.
    """

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        if (first := _first_assignment(node.test)) is not None:
            assigned, test = first
            leave = with_location(ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], []), node)
            node.test = ast.copy_location(ast.Constant(True), node)
            node.body = [assigned, leave, *node.body]
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if (first := _first_assignment(node.test)) is None:
            return node
        assigned, node.test = first
        return [assigned, node]


def _first_assignment(node: ast.expr) -> tuple[ast.stmt, ast.expr] | None:
    """The assignment that an expression begins with, if its value reads the name, and the expression without it."""
    match node:
        case ast.NamedExpr(target=ast.Name(id=name) as target, value=value):
            made = with_location(ast.Assign([target], value), node)
            return (made, ast.copy_location(ast.Name(name, ast.Load()), node)) if name in all_names(value) else None
        case ast.Compare(left=inner) | ast.BinOp(left=inner) | ast.UnaryOp(operand=inner):
            field, others = "operand" if isinstance(node, ast.UnaryOp) else "left", None
        case ast.Call(func=ast.Name(), args=[inner, *others]):
            field = "args"
        case _:
            return None
    if (found := _first_assignment(inner)) is None:
        return None
    rest = copy.copy(node)
    setattr(rest, field, found[1] if others is None else [found[1], *others])
    return found[0], rest


class SwapsToTuples(Transformer):
    """Rewrite ``t = a; a = b; b = t`` as ``a, b = b, a`` where `t` is not used elsewhere."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        nodes = subtrees(node)
        uses = Counter(n.id for n in nodes if isinstance(n, ast.Name))
        for block in (getattr(n, part, None) for n in nodes for part in ("body", "orelse")):
            k = 0
            while isinstance(block, list) and k + 2 < len(block):
                pairs = [_pair(s) for s in block[k : k + 3]]
                if all(pairs):
                    (t, a), (a2, b), (b2, t2) = pairs  # type: ignore[misc]
                    if (a, b, t) == (a2, b2, t2) and len({a, b, t}) == 3 and uses[t] == 2:
                        names: list[ast.expr] = [ast.Name(n, ast.Store()) for n in (a, b)]
                        values: list[ast.expr] = [ast.Name(n, ast.Load()) for n in (b, a)]
                        swap = ast.Assign([ast.Tuple(names, ast.Store())], ast.Tuple(values, ast.Load()))
                        block[k : k + 3] = [with_location(swap, block[k])]
                k += 1
        return node


class LongerFirst(Transformer):
    """Rewrite ``if len(x) < len(y): x, y = y, x`` before the rest of a function: the rest is in both branches, with the
    arrays by each other's names in one. Arrays of different lengths cannot change places.

    So is the rest in place of ``return f(y, x).T`` in ``def f(x, y): if x < y: return f(y, x).T``, for each result.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        nodes = subtrees(node)
        used = [n.iter if isinstance(n, ast.For | ast.comprehension) else n.value for n in nodes
                if isinstance(n, ast.Subscript | ast.Attribute | ast.For | ast.comprehension)]  # fmt: skip
        arrays = {n.id for n in used if isinstance(n, ast.Name)}
        bound = {n.arg for n in nodes if isinstance(n, ast.arg) and n not in node.args.args}
        lengths: set[str] = set()
        for k, s in enumerate(node.body[:-1]):
            if isinstance(s, ast.Assign) and _reads_length(s.value, lengths):
                lengths |= {n.id for target in s.targets for n in subtrees(target) if isinstance(n, ast.Name)}
            if not isinstance(s, ast.If) or s.orelse:
                continue
            rest = node.body[k + 1 :]
            swaps = [(at, names) for at, t in enumerate(s.body) if (names := _swapped(t)) and names <= arrays - bound]
            if len(swaps) == 1 and _reads_length(s.test, lengths):
                ((at, names),) = swaps
                s.body[at:] = _exchanged([*s.body[at + 1 :], *rest], names)
            elif (called := self.call_of_itself(node, s)) and not bound:
                made, names = called
                results = _exchanged(rest, names)
                for t in own_returns(results):
                    if t.value is not None:
                        t.value = _replaced(s.body[0].value, made, t.value)  # type: ignore[attr-defined]
                s.body[:] = results
            else:
                continue
            s.orelse, node.body[k + 1 :] = rest, []
            return node
        return node

    def call_of_itself(self, node: ast.FunctionDef, s: ast.If) -> tuple[ast.Call, set[str]] | None:
        """The call in ``if x < y: return f(y, x).T`` of the function `node`, and its parameters x and y."""
        match s:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=a), ops=[ast.Lt() | ast.Gt()], comparators=[ast.Name(id=b)]),
                body=[ast.Return(value=ast.expr() as value)],
            ):
                parameters = [p.arg for p in node.args.args]
                exchanged = [{a: b, b: a}.get(p, p) for p in parameters]
                calls = [n for n in subtrees(value) if isinstance(n, ast.Call) and ast.unparse(n.func) == node.name]
                found = self.source.outer_values.get(node.name)
                code = getattr(plain_function(found), "__code__", None)
                itself = code and (code.co_filename, code.co_firstlineno - 1) == (self.source.file, self.source.first)
                if itself and [ast.unparse(n) for n in calls] == [f"{node.name}({', '.join(exchanged)})"]:
                    return calls[0], {a, b}
        return None


def _exchanged(block: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """A copy of statements in which two names stand for each other."""
    a, b = names
    block = copy_tree(block)
    for n in (n for t in block for n in subtrees(t) if isinstance(n, ast.Name)):
        n.id = {a: b, b: a}.get(n.id, n.id)
    return block


def _replaced(node: ast.expr, old: ast.expr, new: ast.expr) -> ast.expr:
    """A copy of `node` with `new` in the place of `old`."""
    if node is old:
        return new
    made = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            setattr(made, field, _replaced(value, old, new))
        elif isinstance(value, list):
            setattr(made, field, [_replaced(v, old, new) if isinstance(v, ast.expr) else v for v in value])
    return made


def _reads_length(node: ast.expr, lengths: set[str]) -> bool:
    """Whether an expression reads a length, of an array or by one of the names in `lengths`."""
    return any(
        (isinstance(n, ast.Attribute) and n.attr in ("shape", "size"))
        or (isinstance(n, ast.Name) and (n.id == "len" or n.id in lengths))
        for n in subtrees(node)
    )


def _swapped(s: ast.stmt) -> set[str]:
    """The two names in ``a, b = b, a``; none in other statements."""
    match s:
        case ast.Assign(
            targets=[ast.Tuple(elts=[ast.Name(id=a), ast.Name(id=b)])],
            value=ast.Tuple(elts=[ast.Name(id=c), ast.Name(id=d)]),
        ) if (a, b) == (d, c):
            return {a, b}
    return set()


def _pair(s: ast.stmt) -> tuple[str, str] | None:
    """The names of ``a = b``; None for other statements."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return (s.targets[0].id, s.value.id) if isinstance(s.value, ast.Name) else None
    return None
