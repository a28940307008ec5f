"""Conditional expressions: ``a if test else b``, ``and`` and ``or``.

Statements that an operand needs go into a branch, so they run only if Python would evaluate the operand.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..ir.statements import Assign, Block, Check, If, Store, walk
from ..ir.terms import FALSE, ONE, TRUE, ZERO, Compare, Logical, Select, Term, Unary, Variable
from .array_expressions import (
    ArrayExpr,
    Elementwise,
    Leaf,
    Op,
    Scalar,
    SelectExpr,
    Static,
    TupleExpr,
    combine,
    copy_of_values,
    leaves,
)
from .element_kinds import refuse_rounding
from .mod_ref import modified_arrays
from .partial_evaluation import deciding_parameters, static_truth
from .records import refuse_record
from .scope import UNCERTAIN
from .static_values import is_text
from .syntax import subtrees, unparse
from .varying_lengths import lengths_are_set_in, with_lengths
from .views import View

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["evaluate_first", "lower_boolean", "lower_conditional", "truth"]


_T = TypeVar("_T")


def _conditionally(low: Expressions, lower: Callable[[ast.expr], _T], node: ast.expr) -> tuple[_T, Block]:
    """An operand that is evaluated conditionally, and the statements that it needs."""
    saved, low.out = low.out, []
    with low.nested_block():
        lowered = lower(node)
    before, low.out = low.out, saved
    return lowered, before


def _scalar_operand(low: Expressions, node: ast.expr) -> Term:
    tree = low.tree(node)
    if not isinstance(tree, Scalar):
        raise low.source.refuse(node, "'and' and 'or' with arrays", "write & and |, or statements")
    return tree.term


def truth(low: Expressions, node: ast.expr) -> Term:
    """Lower a test: of a list whether it has items, of an array its only element, as in NumPy."""
    if isinstance(node, ast.BoolOp):
        return lower_boolean(low, node, truth).term
    tree = low.tree(node)
    if isinstance(tree, Scalar):
        return tree.term
    if isinstance(tree, TupleExpr):
        return TRUE if tree.items else FALSE
    view = low.view_of(tree, node)
    if low.is_list(tree):
        return Compare((">",), (low.shape(view)[0], ZERO))
    for n in low.shape(view):
        if n is not ONE:
            what = f"{low.source.name}: the array {unparse(node)}, which has not one element, as a test"
            low.emit(Check(Compare(("!=",), (n, ONE)), f"{what}; use np.any or np.all", "ValueError"))
    return view.at([ZERO] * view.rank)


def lower_boolean(
    low: Expressions, node: ast.BoolOp, lower: Callable[[Expressions, ast.expr], Term] = _scalar_operand
) -> Scalar:
    """Lower ``a and b`` or ``a or b``, whose operands `lower` makes terms of; statements that `b` needs go into a
    branch."""
    op = "and" if isinstance(node.op, ast.And) else "or"
    first, *others = _undecided(low, node)
    result = lower(low, first)
    for operand in others:
        value, before = _conditionally(low, partial(lower, low), operand)
        if before:
            name = Variable(low.fresh_scalar("truth", result, final=False))
            low.out.append(If(name if op == "and" else Unary("not", name), [*before, Assign(name.name, value)], []))
            result = name
        else:
            operands = result.operands if isinstance(result, Logical) and result.op == op else (result,)
            result = Logical(op, (*operands, value))
    return Scalar(result)


def _undecided(low: Expressions, node: ast.BoolOp) -> list[ast.expr]:
    """The operands whose outcome is not known, up to the first that decides, or the last: ``mask is not None and
    mask[i]`` without a mask is False."""
    decides, kept = isinstance(node.op, ast.Or), list[ast.expr]()
    for operand in node.values:
        holds = static_truth(low, operand)
        if holds is None or holds is decides or operand is node.values[-1]:
            kept.append(operand)
        if holds is decides:
            break
    return kept


def evaluate_first(low: Expressions, test: ast.expr, outcome: bool) -> None:
    """Lower what Python evaluates of a test before the operand that decides it: indices may be out of range there."""
    if not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.Or) is not outcome:
        return
    first = next(k for k, operand in enumerate(test.values) if static_truth(low, operand) is outcome)
    before = [operand for operand in test.values[:first] if static_truth(low, operand) is None]
    if any(isinstance(n, ast.Subscript) for operand in before for n in subtrees(operand)):
        condition = ast.copy_location(ast.BoolOp(test.op, before), test) if len(before) > 1 else before[0]
        low.out.append(If(truth(low, condition), [], []))


def lower_conditional(low: Expressions, node: ast.IfExp) -> ArrayExpr:
    """Lower ``a if test else b``; statements that the operands need go into branches."""
    decision = static_truth(low, node.test)
    if decision is not None:
        evaluate_first(low, node.test, decision)
        return low.tree_or_static(node.body if decision else node.orelse)
    test = truth(low, node.test)
    deciding = deciding_parameters(low, test)
    low.shared.may_decide |= deciding
    first, before = _conditionally(low, low.tree_or_static, node.body)
    second, other = _conditionally(low, low.tree_or_static, node.orelse)
    if Static(None) in (first, second) and first != second:
        _hold_none_in_flag(low, node)
    if isinstance(first, Scalar) and isinstance(second, Scalar) and (before or other):
        name = low.names.fresh("choice")
        low.lowered_function.ranks[name] = 0
        here, there = (Assign(name, tree.term) for tree in (first, second))
        low.out.append(If(test, [*before, here], [*other, there]))
        return Scalar(Variable(name))
    if deciding and first.rank == second.rank > 1 and Elementwise(low, node).has_other_lengths(first, second):
        low.lowered_function.deciding |= deciding
    if not isinstance(first, Scalar):
        test = low.name_or_constant(test)
    arrays = first.rank and first.rank == second.rank
    apart = arrays and (_has_broadcast(first, second) or lengths_are_set_in(low, node, first, second))
    if arrays and _has_broadcast(first, second):
        both = zip(*(Elementwise(low, node).lengths(t) for t in (first, second)), strict=True)
        if any((a is ONE) != (b is ONE) for a, b in both):
            low.shared.may_decide |= test.named
            raise _other_lengths(low, node)
    if apart and _copied(low, node, first, second):
        return _either(low, node, test, (first, before), (second, other))
    if before or other:
        low.out.append(If(test, before, other))
    return _selection(low, node, test, first, second)


def _hold_none_in_flag(low: Any, node: ast.IfExp) -> None:
    """Lower again with a flag for the name in ``name = a if test else None``, if that is the statement."""
    statements, k = low.block_position
    match statements[k]:
        case ast.Assign([ast.Name(id=name)]) if node is low.root_expression:
            low.hold_none_in_flag(name)


def _either(low: Expressions, node: ast.IfExp, test: Term, *branches: tuple[ArrayExpr, Block]) -> Leaf:
    """A new array, which two branches fill, each with its lengths."""
    name, saved, blocks = low.names.fresh("choice"), low.out, list[Block]()
    both = zip(*(Elementwise(low, node).lengths(tree) for tree, _ in branches), strict=True)
    low.shared.varying_axes[name] = {d for d, lengths in enumerate(both) if set(lengths) != {ONE}}
    for tree, before in branches:
        low.out = before
        with low.nested_block():
            loops = Elementwise(low, node)
            if blocks:
                refuse_rounding(low, node, name, tree)
                loops.store(with_lengths(low, node, name, loops.lengths(tree)), tree)
                low.lowered_function.rebinding_stores += [(t, node) for t in walk(low.out) if isinstance(t, Store)]
            else:
                loops.materialise(copy_of_values(tree), name)
        blocks.append(low.out)
    low.out = saved
    low.out.append(If(test, *blocks))
    return Leaf(low.whole_view(name), True)


def _selection(low: Expressions, node: ast.IfExp, test: Term, first: ArrayExpr, second: ArrayExpr) -> ArrayExpr:
    """Select between two lowered operands.

    A name bound to the result gets a copy, where Python would alias one of the arrays; so it is refused if these may be
    written.
    """
    if isinstance(first, Static) and isinstance(second, Static):
        if first == second:
            return first
        if is_text(first) and is_text(second):
            return Static(UNCERTAIN)
    refuse_record(low, node, first)
    refuse_record(low, node, second)
    if isinstance(first, TupleExpr) and isinstance(second, TupleExpr) and len(first.items) == len(second.items):
        pairs = zip(first.items, second.items, strict=True)
        return TupleExpr([_selection(low, node, test, a, b) for a, b in pairs], first.tuple_class)
    if (
        isinstance(first, TupleExpr | Static)
        or isinstance(second, TupleExpr | Static)
        or first.rank != second.rank
        or _has_broadcast(first, second)
    ):
        raise low.source.refuse(
            node, f"values of different forms in {unparse(node)}", "give numbers, or arrays with as many axes, in both"
        )
    if first.rank and low.would_broadcast(node, first, second):
        low.shared.may_decide |= test.named
        raise _other_lengths(low, node)
    low.lowered_function.choices.add(test)
    selected = combine(partial(Select, test), [first, second])
    if not isinstance(selected, Op):
        return selected
    aliased = _aliased(node, first, second)
    copied = _copied(low, node, first, second)
    what = "a name for one array or another, where one may be written in place,"
    instead = "copy them: a.copy() if c else b.copy(), or test a bool that is an argument"
    refusal = None if copied else low.source.refuse(node, what, instead)
    chosen = frozenset(low.storage_of(view.name) for view, operand in aliased if not _last_use(low, node, operand))
    return SelectExpr(selected.build, selected.args, refusal=refusal, chosen=chosen)


def _other_lengths(low: Expressions, node: ast.IfExp) -> Exception:
    what = f"arrays in {unparse(node)}, of which one has an axis of length 1 where that of the other may be longer"
    return low.source.refuse(node, what, "write statements, with a name for each")


def _has_broadcast(*trees: ArrayExpr) -> bool:
    """Whether an array in these stands for one with more axes."""
    return any(isinstance(t, Leaf) and None in t.view.order for tree in trees for t in leaves(tree))


def _aliased(node: ast.IfExp, first: ArrayExpr, second: ArrayExpr) -> list[tuple[View, ast.expr]]:
    operands = (first, node.body), (second, node.orelse)
    return [(t.view, operand) for t, operand in operands if isinstance(t, Leaf) and not t.fresh]


def _copied(low: Expressions, node: ast.IfExp, first: ArrayExpr, second: ArrayExpr) -> bool:
    """Whether a copy of one of these arrays is as good as the array."""
    aliased = _aliased(node, first, second)
    return all(_never_written(low, view) or _last_use(low, node, operand) for view, operand in aliased)


def _last_use(low: Expressions, node: ast.IfExp, operand: ast.expr) -> bool:
    """Whether the array `operand` is not used after ``name = node``, so that nobody sees what is written."""
    return low.root_expression is node and low.transfers_ownership("", operand)  # type: ignore[attr-defined]


def _never_written(low: Expressions, view: View) -> bool:
    """Whether the elements of `view` never change while the function runs, nor through what it returns."""
    root = low.storage_of(view.name)
    names = {n for n, v in low.arrays.items() if low.storage_of(v.name) == root}
    owned = not low.inlined or root in low.owners.values()
    return owned and not names & modified_arrays(low.source, low.source.node)
