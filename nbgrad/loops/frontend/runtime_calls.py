"""Calls of functions of the runtime, which only generated code has: they are the statements that they were."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.statements import IndexCheck, Print
from ..ir.terms import Variable
from ..runtime.index_errors import OUTSIDE_NAME, outside
from ..runtime.printing import PRINT_NAME, print_values
from .array_expressions import Scalar
from .static_values import static_text

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["RUNTIME_CALLS", "lower_runtime_call"]

#: The functions, with the statement that prints as a call of each, and the name of the function there.
RUNTIME_CALLS = {outside: (IndexCheck, OUTSIDE_NAME), print_values: (Print, PRINT_NAME)}


def lower_runtime_call(low: Lowering, call: ast.Call, called: object) -> None:
    """Lower a call of one of them: of a test, a program and its arguments."""
    test, program, given = call.args
    statement, name = RUNTIME_CALLS[called]
    items = low.tuple_items(low.tree(given)) or []
    operands = [t.term if isinstance(t, Scalar) else Variable(low.view_of(t, call, "").name) for t in items]
    low.names.imported(name, called)
    low.emit(statement(low.test(test), static_text(low, program), name, operands))
