"""Calls of ``print``: strings and how they are put together are known when code is generated, values are operands.

What is printed is what Python prints. The call becomes a program that Python runs
(:mod:`..runtime.printing`), with a parameter for each value.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...core.source_text import constant_source, parsed
from ..ir.statements import Print
from ..ir.terms import TRUE, Term, Variable
from ..runtime.index_errors import SEARCH_FUNCTION
from ..runtime.printing import PRINT_NAME, print_values
from .array_expressions import ArrayExpr, Leaf, Scalar, Static, TupleExpr
from .messages import Message
from .print_statements import parameter
from .static_values import described, static_text
from .syntax import Transformer, unparse

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["lower_print"]


def lower_print(low: Lowering, call: ast.Call) -> None:
    """Lower a call of ``print``."""
    template, *values = call.args
    operands: list[Term] = []
    texts = {parameter(k): _text(low, v, low.tree_or_static(v), operands) for k, v in enumerate(values)}
    printed = ast.unparse(_Filled(texts).visit(parsed(static_text(low, template), "eval")))
    parameters = ", ".join(map(parameter, range(len(operands))))
    low.names.imported(PRINT_NAME, print_values)
    program = f"def {SEARCH_FUNCTION}({parameters}):\n    {printed}\n"
    low.emit(Print(TRUE, program, PRINT_NAME, operands))


def _text(low: Lowering, node: ast.expr, tree: ArrayExpr, operands: list[Term]) -> str:
    """The code of a value in a program, whose parameters are `operands`."""
    if isinstance(tree, Static):
        if not isinstance(tree.value, str | None) or isinstance(tree.value, Message):
            raise low.source.refuse(node, f"print of {described(tree, unparse(node))}", "print strings and numbers")
        return "None" if tree.value is None else constant_source(tree.value)
    if isinstance(tree, TupleExpr):
        items = "".join([f"{_text(low, node, t, operands)}, " for t in tree.items])
        return f"({items})"
    if isinstance(tree, Scalar):
        operands.append(low.name_or_constant(tree.term))
        return parameter(len(operands) - 1)
    view = low.view_of(tree, node)
    if not low.is_whole(view) or view.name in low.shared.over_allocated:
        view = low.copy_of(view, node, low.names.fresh("printed"))
    operands.append(Variable(view.name))
    text = parameter(len(operands) - 1)
    return f"{text}.tolist()" if isinstance(tree, Leaf) and low.is_list(tree) else text


class _Filled(Transformer):
    """Puts the code of values where names stand for them."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return parsed(self.texts.get(node.id, node.id), "eval").body
