"""What is better stored than calculated again, and so has a name: calls that take longer than that, and factors that
are made of elements which would have to be stored."""

from __future__ import annotations

import ast
import builtins
import math

import numpy as np

from ..ir.algebra import FUNCTIONS, Algebra
from ..ir.statements import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    below,
    duplicate,
    elements_in,
    reads,
    unparse,
    walk,
    writes,
)
from ..ir.type_inference import kind_of

__all__ = ["CHEAP", "Naming", "costly", "name_calls", "small"]

#: Functions of the table that are a few instructions.
CHEAP = {float, np.float64, np.float32, builtins.abs, math.fabs, np.abs, np.absolute, max, min, np.maximum, np.minimum,
          np.fmax, np.fmin, math.sqrt, np.sqrt, np.square, math.copysign, np.copysign}  # fmt: skip

#: What evaluates some of its parts only where they count.
_LAZY = (ast.IfExp, ast.BoolOp, ast.Compare)


def costly(node: ast.expr, algebra: Algebra) -> bool:
    """Whether `node` is such a call."""
    if isinstance(node, ast.Call):
        called = algebra.resolve(node.func)
        return called in FUNCTIONS and called not in CHEAP
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not small(node.right)


def small(exponent: ast.expr) -> bool:
    """Whether a power is a few products or a root."""
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return isinstance(exponent, ast.Constant) and (isinstance(exponent.value, int) or exponent.value == 0.5)


def name_calls(f: Function, algebra: Algebra, whole: set[Statement]) -> bool:
    """Give such calls and factors in loops names before the statements that they are parts of: derivatives are written
    with their values, which are calculated once, or stored. The values of statements in `whole` have names already.
    Whether any were named."""
    naming = _Calls(f, algebra)
    named = [_name(s.body, naming, whole) for s in walk(f.body) if isinstance(s, Loop)]
    return any(named)


def _name(block: Block, naming: _Calls, whole: set[Statement]) -> bool:
    """The same in a block of a loop."""
    found = False
    for s in list(block):
        for inner in below(s) if isinstance(s, If) else []:
            found |= _name(inner, naming, whole)
        if not isinstance(s, Assign | Store) or writes(s)[0] not in naming.algebra.active:
            continue
        value, made = naming.named(s.value, s not in whole)
        if made:
            s.value, found = value, True
            at = block.index(s)
            block[at:at] = made
    return found


class Naming(ast.NodeTransformer):
    """Replaces parts of expressions by names, where they are surely evaluated."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.made: dict[str, Assign] = {}

    def wanted(self, node: ast.expr) -> str:
        """What such a part is called; empty for others."""
        raise NotImplementedError

    def named(self, node: ast.expr, itself: bool = True) -> tuple[ast.expr, list[Assign]]:
        """A copy of `node` with names, and what sets them, each part once; without `itself`, `node` stays."""
        self.made = {}
        value: ast.expr = duplicate(node)  # type: ignore[assignment]
        whole = itself or isinstance(node, _LAZY)
        value = self.visit(value) if whole else self.inside(self.generic_visit(value))  # type: ignore[assignment]
        return value, list(self.made.values())

    def visit(self, node: ast.AST) -> ast.AST:
        called = self.wanted(node) if isinstance(node, ast.expr) else ""
        if isinstance(node, _LAZY) or (isinstance(node, ast.Subscript) and not called):
            return node
        made = self.inside(self.generic_visit(node))
        return self.name(made, called) if called else made  # type: ignore[arg-type]

    def inside(self, node: ast.AST) -> ast.AST:
        """`node`, whose parts have got their names, with names for parts that depend on others."""
        return node

    def name(self, node: ast.expr, called: str) -> ast.Name:
        text = unparse(node)
        if text not in self.made:
            new = self.f.names.fresh(called, plain=False)
            self.f.ranks[new], self.f.kinds[new] = 0, kind_of(node, self.f)
            self.made[text] = Assign(new, node)
        return ast.Name(self.made[text].name, ast.Load())


class _Calls(Naming):
    """Replaces such calls, and such factors."""

    def __init__(self, f: Function, algebra: Algebra) -> None:
        super().__init__(f)
        self.algebra = algebra
        self.written = {n for s in walk(f.body) if isinstance(s, Store | Swap) for n in writes(s)}

    def wanted(self, node: ast.expr) -> str:
        if not costly(node, self.algebra):
            return ""
        return unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else "power"

    def inside(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            node.left, node.right = self.factor(node.left, node.right), self.factor(node.right, node.left)
        return node

    def factor(self, node: ast.expr, other: ast.expr) -> ast.expr:
        """`node`, or a name for it, where it is a sum with elements that are overwritten, and `other` is not made of
        such: its value is less to store than they are."""
        elements = any(elements_in(node, array) for array in self.written & reads(node))
        if not elements or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            return node
        both = self.algebra.depends(node) and self.algebra.depends(other)
        return self.name(node, "sum") if both and not reads(other) & self.written else node

    def name(self, node: ast.expr, called: str) -> ast.Name:
        made = super().name(node, called)
        if self.algebra.depends(node):
            self.algebra.active.add(made.id)
        return made
