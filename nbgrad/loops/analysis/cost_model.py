"""Cost model: expressions that are cheaper to store than to recompute, and therefore get a name.

These are expensive calls, and factors computed from elements that would otherwise have to be stored.
"""

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
    duplicate,
    elements_in,
    nested_blocks,
    reads,
    unparse,
    walk,
    writes,
)
from ..ir.type_inference import kind_of

__all__ = ["CHEAP", "SubexpressionNaming", "is_cheap_power", "is_expensive", "name_expensive_values"]

#: Functions of the table that compile to a few instructions.
CHEAP = {float, np.float64, np.float32, builtins.abs, math.fabs, np.abs, np.absolute, max, min, np.maximum, np.minimum,
          np.fmax, np.fmin, math.sqrt, np.sqrt, np.square, math.copysign, np.copysign}  # fmt: skip

#: Expressions that evaluate some of their operands conditionally.
_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Compare)


def is_expensive(node: ast.expr, algebra: Algebra) -> bool:
    """Whether `node` is an expensive call or power."""
    if isinstance(node, ast.Call):
        called = algebra.resolve(node.func)
        return called in FUNCTIONS and called not in CHEAP
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not is_cheap_power(node.right)


def is_cheap_power(exponent: ast.expr) -> bool:
    """Whether a power compiles to a few products or a root."""
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return isinstance(exponent, ast.Constant) and (isinstance(exponent.value, int) or exponent.value == 0.5)


def name_expensive_values(f: Function, algebra: Algebra, whole: set[Statement]) -> bool:
    """Assign expensive calls and factors in loops to names before the statements that contain them.

    Derivatives then use their values, which are computed once or stored. The values of statements in `whole` have names
    already. Returns whether any were named.
    """
    naming = _Calls(f, algebra)
    named = [_name(s.body, naming, whole) for s in walk(f.body) if isinstance(s, Loop)]
    return any(named)


def _name(block: Block, naming: _Calls, whole: set[Statement]) -> bool:
    """The same for a block of a loop."""
    changed = False
    for s in list(block):
        for inner in nested_blocks(s) if isinstance(s, If) else []:
            changed |= _name(inner, naming, whole)
        if not isinstance(s, Assign | Store) or writes(s)[0] not in naming.algebra.active:
            continue
        value, assignments = naming.with_names(s.value, s not in whole)
        if assignments:
            s.value, changed = value, True
            at = block.index(s)
            block[at:at] = assignments
    return changed


class SubexpressionNaming(ast.NodeTransformer):
    """Replaces subexpressions by names, where they are unconditionally evaluated."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.new_assignments: dict[str, Assign] = {}

    def base_name(self, node: ast.expr) -> str:
        """The base of the name for a subexpression; empty for one that stays."""
        raise NotImplementedError

    def with_names(self, node: ast.expr, itself: bool = True) -> tuple[ast.expr, list[Assign]]:
        """A copy of `node` with names, and their assignments, one for each distinct subexpression.

        Without `itself`, `node` as a whole is not replaced.
        """
        self.new_assignments = {}
        value: ast.expr = duplicate(node)  # type: ignore[assignment]
        whole = itself or isinstance(node, _CONDITIONAL)
        value = self.visit(value) if whole else self.name_operands(self.generic_visit(value))  # type: ignore[assignment]
        return value, list(self.new_assignments.values())

    def visit(self, node: ast.AST) -> ast.AST:
        base = self.base_name(node) if isinstance(node, ast.expr) else ""
        if isinstance(node, _CONDITIONAL) or (isinstance(node, ast.Subscript) and not base):
            return node
        result = self.name_operands(self.generic_visit(node))
        return self.name(result, base) if base else result  # type: ignore[arg-type]

    def name_operands(self, node: ast.AST) -> ast.AST:
        """`node`, whose subexpressions have been named, with names for operands that depend on their siblings."""
        return node

    def name(self, node: ast.expr, base: str) -> ast.Name:
        code = unparse(node)
        if code not in self.new_assignments:
            new = self.f.names.fresh(base, plain=False)
            self.f.ranks[new], self.f.kinds[new] = 0, kind_of(node, self.f)
            self.new_assignments[code] = Assign(new, node)
        return ast.Name(self.new_assignments[code].name, ast.Load())


class _Calls(SubexpressionNaming):
    """Replaces expensive calls, and factors whose elements would have to be stored."""

    def __init__(self, f: Function, algebra: Algebra) -> None:
        super().__init__(f)
        self.algebra = algebra
        self.written = {n for s in walk(f.body) if isinstance(s, Store | Swap) for n in writes(s)}

    def base_name(self, node: ast.expr) -> str:
        if not is_expensive(node, self.algebra):
            return ""
        return unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else "power"

    def name_operands(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            node.left, node.right = self.factor(node.left, node.right), self.factor(node.right, node.left)
        return node

    def factor(self, node: ast.expr, other: ast.expr) -> ast.expr:
        """`node`, or a name for it if storing its value takes less memory than storing its elements.

        That is so if it is a sum with elements that are overwritten, and `other` reads no such elements.
        """
        elements = any(elements_in(node, array) for array in self.written & reads(node))
        if not elements or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            return node
        both = self.algebra.depends(node) and self.algebra.depends(other)
        return self.name(node, "sum") if both and not reads(other) & self.written else node

    def name(self, node: ast.expr, base: str) -> ast.Name:
        result = super().name(node, base)
        if self.algebra.depends(node):
            self.algebra.active.add(result.id)
        return result
