"""What is better stored than calculated again, and so has a name: calls that take longer than that, and factors that
are made of elements which would have to be stored."""

from __future__ import annotations

import ast
import builtins
import copy
import math

import numpy as np

from .algebra import FUNCTIONS, Algebra
from .ir import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    below,
    elements_in,
    reads,
    unparse,
    walk,
    writes,
)
from .kinds import kind_of

__all__ = ["CHEAP", "costly", "name_calls"]

#: Functions of the table that are a few instructions.
CHEAP = {float, np.float64, np.float32, builtins.abs, math.fabs, np.abs, np.absolute, max, min, np.maximum, np.minimum,
          np.fmax, np.fmin, math.sqrt, np.sqrt, np.square, math.copysign, np.copysign}  # fmt: skip


def costly(node: ast.expr, algebra: Algebra) -> bool:
    """Whether `node` is such a call."""
    if isinstance(node, ast.Call):
        called = algebra.resolve(node.func)
        return called in FUNCTIONS and called not in CHEAP
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not _small(node.right)


def _small(exponent: ast.expr) -> bool:
    """Whether a power is a few products or a root."""
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return isinstance(exponent, ast.Constant) and (isinstance(exponent.value, int) or exponent.value == 0.5)


def name_calls(f: Function, algebra: Algebra, whole: set[Statement]) -> bool:
    """Give such calls in loops names before the statements that they are parts of: derivatives are written with their
    values, which are calculated once, or stored. The values of statements in `whole` have names already. Whether any
    were named."""
    taken = {*f.ranks, *f.parameters, *f.constants, *(n for s in walk(f.body) for n in writes(s))}
    named = [_name(f, s.body, algebra, whole, taken) for s in walk(f.body) if isinstance(s, Loop)]
    return any(named)


def _name(f: Function, block: Block, algebra: Algebra, whole: set[Statement], taken: set[str]) -> bool:
    """The same in a block of a loop."""
    found = False
    for s in list(block):
        for inner in below(s) if isinstance(s, If) else []:
            found |= _name(f, inner, algebra, whole, taken)
        if not isinstance(s, Assign | Store) or writes(s)[0] not in algebra.active:
            continue
        naming = _Naming(f, algebra, taken)
        value = copy.deepcopy(s.value)
        value = naming.generic_visit(value) if s in whole else naming.visit(value)  # type: ignore[assignment]
        if naming.made:
            s.value, found = value, True
            at = block.index(s)
            block[at:at] = naming.made.values()
    return found


class _Naming(ast.NodeTransformer):
    """Replaces such calls by names, where they are surely evaluated; `made` has the new statements, by their texts."""

    def __init__(self, f: Function, algebra: Algebra, taken: set[str]) -> None:
        self.f = f
        self.algebra = algebra
        self.taken = taken
        self.made: dict[str, Assign] = {}
        self.written = {n for s in walk(f.body) if isinstance(s, Store | Swap) for n in writes(s)}

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.Compare | ast.Subscript):
            return node
        made = self.generic_visit(node)
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult):
            made.left, made.right = self.factor(made.left, made.right), self.factor(made.right, made.left)
        return self.name(made) if isinstance(made, ast.expr) and costly(made, self.algebra) else made

    def factor(self, node: ast.expr, other: ast.expr) -> ast.expr:
        """`node`, or a name for it, where it is a sum with elements that are overwritten, and `other` is not made of
        such: its value is less to store than they are."""
        elements = any(elements_in(node, array) for array in self.written & reads(node))
        if not elements or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            return node
        both = self.algebra.depends(node) and self.algebra.depends(other)
        return self.name(node, "sum") if both and not reads(other) & self.written else node

    def name(self, node: ast.expr, called: str = "power") -> ast.Name:
        text = unparse(node)
        if text not in self.made:
            called, count = unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else called, 1
            while f"{called}{count}" in self.taken:
                count += 1
            new = f"{called}{count}"
            self.taken.add(new)
            self.f.ranks[new], self.f.kinds[new] = 0, kind_of(node, self.f)
            if self.algebra.depends(node):
                self.algebra.active.add(new)
            self.made[text] = Assign(new, node)
        return ast.Name(self.made[text].name, ast.Load())
