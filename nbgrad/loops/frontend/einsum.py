"""``np.einsum``, ``np.tensordot``, and products of stacks of matrices, as loops over the indices."""

from __future__ import annotations

import ast
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from ..ir.terms import ONE, Binary
from .array_expressions import ArrayExpr, AxisLoop, Leaf, Op, Scalar, TupleExpr, combine
from .function_table import MANY, lowers
from .known_integers import integer_of
from .products import Products, or_of_ands
from .syntax import unparse
from .views import raw_length

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["is_view", "product_of_stacks"]


@lowers(np.einsum, arguments=(2, MANY), keywords=True)
def _einsum(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    match node.args[0]:
        case ast.Constant(value=str() as text):
            pass
        case _:
            raise low.source.refuse(node, f"subscripts that are no string in {unparse(node)}", "write them as a string")
    terms, output = _subscripts(text)
    letters = "".join(terms)
    wrong = not (letters + output).isalpha() or len(set(output)) < len(output) or not set(output) <= set(letters)
    if wrong or len(terms) != len(node.args) - 1:
        what = f"the subscripts '{text}' for {len(node.args) - 1} arrays"
        raise low.source.refuse(node, what, "give each axis a letter, as in 'ij,jk->ik'")
    if others := {k.arg for k in node.keywords} - {"optimize"}:  # the order of summation is ours
        raise low.source.refuse(node, f"{', '.join(sorted(map(str, others)))} in {unparse(node)}", "leave it out")
    trees = [*map(low.array_like, node.args[1:])]
    result = or_of_ands(low, node, _contraction(low, node, trees, terms, output, hint), *trees)
    if isinstance(result, Leaf):  # NumPy chooses it
        low.shared.memory_orders[result.view.name] = None
    return result


def _subscripts(text: str) -> tuple[list[str], str]:
    """The subscripts of the operands and of the result."""
    inputs, arrow, output = text.replace(" ", "").partition("->")
    letters = "".join(inputs.split(","))
    return inputs.split(","), output if arrow else "".join(sorted(c for c in set(letters) if letters.count(c) == 1))


def is_view(node: ast.Call) -> bool:
    """Whether NumPy returns a view from this call of ``np.einsum``: nothing is summed, as in ``'ij->ji'``."""
    match node.args:
        case [ast.Constant(value=str() as text), _]:
            (letters, *_), output = _subscripts(text)
            return set(letters) == set(output)
    return False


@lowers(np.inner, arguments=(2, 2))
def _inner(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    trees = [*map(low.array_like, node.args)]
    a, b = (t.rank for t in trees)
    if not (1 <= a <= 2 and 1 <= b <= 2):
        raise low.source.refuse(node, f"the product {unparse(node)}", "use vectors and matrices")
    left, right = "ik"[2 - a :], "jk"[2 - b :]
    product = _contraction(low, node, trees, [left, right], left[:-1] + right[:-1], hint, "k")
    return or_of_ands(low, node, product, *trees)


@lowers(np.tensordot, arguments=(2, 3), keywords=True)
def _tensordot(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """The sum of products along pairs of axes: those that are given, or as many as are given, from the middle."""
    trees = [low.array_like(a) for a in node.args[:2]]
    given = [*node.args[2:], *(k.value for k in node.keywords if k.arg == "axes")]
    if len(given) > 1 or len(node.args) + len(node.keywords) != 2 + len(given):
        raise low.source.refuse(node, f"the call {unparse(node)}", "give it two arrays, and perhaps axes")
    first, second = (t.rank for t in trees)
    pairs = _pairs_of_axes(low, node, given[0] if given else ast.Constant(2), first)
    if (
        len(pairs) != 2
        or len(pairs[0]) != len(pairs[1])
        or any(
            not all(-rank <= a < rank for a in axes) or len({a % rank for a in axes}) < len(axes)
            for rank, axes in zip((first, second), pairs, strict=True)
        )
    ):
        what = f"the axes in {unparse(node)}, of arrays with {first} and {second} axes"
        raise low.source.refuse(node, what, "give a number, or as many axes of both, each once")
    if not (first and second):
        return combine(partial(Binary, "*"), trees)
    left, right = _LETTERS[:first], list(_LETTERS[first : first + second])
    for a, b in zip(*pairs, strict=True):
        right[b % second] = left[a % first]
    both = set(left) & set(right)
    output = "".join([c for c in (*left, *right) if c not in both])
    product = _contraction(low, node, trees, [left, "".join(right)], output, hint, "".join(sorted(both)))
    return or_of_ands(low, node, product, *trees)


_LETTERS = "abcdefghijklmnop"


def _pairs_of_axes(low: Calls, node: ast.Call, axes: ast.expr, rank: int) -> list[list[int]]:
    """The axes of both arrays in ``axes=``, which is a number, two numbers, or two lists of them."""

    def number(tree: ArrayExpr) -> int:
        found = integer_of(low, tree.term) if isinstance(tree, Scalar) else None
        if found is None:
            what = f"the axes in {unparse(node)}, which are no constants"
            raise low.source.refuse(node, what, "give a number, or two lists of numbers")
        return found

    tree = low.tree(axes)
    if not isinstance(tree, TupleExpr):
        count = number(tree)
        return [list(range(rank - count, rank)), list(range(count))]
    return [[*map(number, t.items)] if isinstance(t, TupleExpr) else [number(t)] for t in tree.items]


def product_of_stacks(low: Calls, node: ast.expr, trees: list[ArrayExpr], hint: str) -> ArrayExpr:
    """``a @ b``, where one is a stack of matrices."""
    a, b = (t.rank for t in trees)
    stacks = "abcdefgh"[: max(a, b) - 2]
    left = stacks[len(stacks) - (a - 2) :] + "ik" if a > 1 else "k"
    right = stacks[len(stacks) - (b - 2) :] + "kj" if b > 1 else "k"
    return _contraction(low, node, trees, [left, right], stacks + "i" * (a > 1) + "j" * (b > 1), hint, "k")


def _contraction(
    low: Calls, node: ast.expr, trees: list[ArrayExpr], inputs: list[str], output: str, hint: str, matching: str = ""
) -> ArrayExpr:
    """The sum of products over all letters that are not in the output; axes of the letters in `matching` do not
    broadcast."""
    lowered = Products(low, node)
    operands = [Leaf(low.view_of(t, node)) for t in trees]
    for operand, letters in zip(operands, inputs, strict=True):
        if operand.rank != len(letters):
            what = f"the subscripts '{letters}' for an array with {operand.rank} axes in {unparse(node)}"
            raise low.source.refuse(node, what, "give each of its axes a letter")
    pairs = [*zip(operands, inputs, strict=True)]
    loops: dict[str, AxisLoop] = {}
    for x, letters in pairs[::-1]:
        for d, c in enumerate(letters):
            if c not in loops or raw_length(x.view.axis(d)) is not ONE:  # which broadcasts
                loops[c] = lowered.loops.axis_loop(x.view.axis(d))
    for c in matching:
        left, right = (x for x, letters in pairs if c in letters)
        lowered.require_equal_axes(left, inputs[0].index(c), right, inputs[1].index(c))
    elements = [lowered.loops.element(x, [loops[c] for c in letters]) for x, letters in pairs]
    term = reduce(partial(Binary, "*"), elements)
    inner = [loop for c, loop in loops.items() if c not in output]
    if not output:
        return Scalar(lowered.dot(term, inner))
    both = Op(lambda *e: reduce(partial(Binary, "*"), e), [*operands])
    return lowered.array_of(both, [loops[c] for c in output], hint, lambda: lowered.dot(term, inner) if inner else term)
