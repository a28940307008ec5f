"""``np.einsum``, and products of stacks of matrices, as loops over the indices."""

from __future__ import annotations

import ast
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from ..ir.terms import ONE, Binary
from .array_expressions import ArrayExpr, AxisLoop, Leaf, Op, Scalar
from .function_table import MANY, lowers
from .reductions import Reductions
from .syntax import unparse
from .views import raw_length

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["product_of_stacks"]


@lowers(np.einsum, arguments=(2, MANY), keywords=True)
def _einsum(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    match node.args[0]:
        case ast.Constant(value=str() as text):
            pass
        case _:
            raise low.source.refuse(node, f"subscripts that are no string in {unparse(node)}", "write them as a string")
    inputs, arrow, output = text.replace(" ", "").partition("->")
    terms = inputs.split(",")
    letters = "".join(terms)
    if not arrow:
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    wrong = not (letters + output).isalpha() or len(set(output)) < len(output) or not set(output) <= set(letters)
    if wrong or len(terms) != len(node.args) - 1:
        what = f"the subscripts '{text}' for {len(node.args) - 1} arrays"
        raise low.source.refuse(node, what, "give each axis a letter, as in 'ij,jk->ik'")
    if others := {k.arg for k in node.keywords} - {"optimize"}:  # the order of summation is ours
        raise low.source.refuse(node, f"{', '.join(sorted(map(str, others)))} in {unparse(node)}", "leave it out")
    return _contraction(low, node, [*map(low.tree, node.args[1:])], terms, output, hint)


@lowers(np.inner, arguments=(2, 2))
def _inner(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    trees = [*map(low.tree, node.args)]
    a, b = (t.rank for t in trees)
    if not (1 <= a <= 2 and 1 <= b <= 2):
        raise low.source.refuse(node, f"the product {unparse(node)}", "use vectors and matrices")
    left, right = "ik"[2 - a :], "jk"[2 - b :]
    return _contraction(low, node, trees, [left, right], left[:-1] + right[:-1], hint, "k")


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
    """The sum of products over all letters that are not in the output; `matching` does not broadcast."""
    lowered = Reductions(low, node)
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
    if matching:
        left, right = (x for x, letters in pairs if matching in letters)
        lowered.require_equal_axes(left, inputs[0].index(matching), right, inputs[1].index(matching))
    elements = [lowered.loops.element(x, [loops[c] for c in letters]) for x, letters in pairs]
    term = reduce(partial(Binary, "*"), elements)
    inner = [loop for c, loop in loops.items() if c not in output]
    if not output:
        return Scalar(lowered.dot(term, inner))
    both = Op(lambda *e: e[0], [*operands])
    return lowered.array_of(both, [loops[c] for c in output], hint, lambda: lowered.dot(term, inner) if inner else term)
