"""Calls of what ``numba.guvectorize`` and ``numba.stencil`` make of kernels: loops around the kernel, which is inlined.

A call is rewritten as a nested function with these loops, which is inlined in turn.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...backends.numba.wrapped_functions import Generalized, Stencil, kernel_of, wrapped_function
from . import source as sources
from .array_expressions import ArrayExpr, Static
from .generalized_functions import lower_generalized
from .source import Source
from .static_values import static_value
from .stencils import lower_stencil
from .structured_control import with_location
from .subset_check import check
from .syntax import bound_name, unparse

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["lower_wrapped", "output_nodes", "source_of"]


def lower_wrapped(low: Lowering, node: ast.Call, called: object) -> ArrayExpr | None:
    """The result of a call of a function that a decorator made; None for other functions."""
    wrapped = wrapped_function(called)
    if wrapped is None:
        return None
    node = low.expand_starred(node)
    outputs = output_nodes(node, wrapped)
    keywords = [k.arg for k in node.keywords if k.arg != "out"]
    count = len(wrapped.inputs) if isinstance(wrapped, Generalized) else len(node.args)
    if keywords or len(node.args) < count or outputs is None:
        what, instead = f"the call {unparse(node)}", "give it its inputs by position, then its outputs or out="
        raise low.source.refuse(node, what, instead)
    given = [None if _is_none(low, n) else n for n in outputs]
    inputs = node.args[:count]
    if isinstance(wrapped, Stencil):
        return lower_stencil(low, node, wrapped, inputs, given[0] if given else None)
    return lower_generalized(low, node, wrapped, inputs, given)


def output_nodes(node: ast.Call, wrapped: Generalized | Stencil) -> list[ast.expr] | None:
    """The outputs that a call is given; None if it is given too many."""
    out = next((k.value for k in node.keywords if k.arg == "out"), None)
    by_name = list(out.elts) if isinstance(out, ast.Tuple) else [] if out is None else [out]
    if isinstance(wrapped, Stencil):
        return by_name if len(by_name) < 2 else None
    by_position = node.args[len(wrapped.inputs) :]
    outputs = by_name or by_position
    return None if (by_name and by_position) or len(outputs) > len(wrapped.outputs) else outputs


def _is_none(low: Lowering, node: ast.expr) -> bool:
    return static_value(low, node) == Static(None)


def source_of(function: Callable) -> Source:
    """The source of a function to differentiate; it and the functions that it calls are checked."""
    return _call_of_wrapped(function) or sources.source_of(function)


def _call_of_wrapped(function: Callable) -> Source | None:
    """The source of a function that calls what a decorator made of a kernel; None for other functions. Its parameters
    are the inputs, and the outputs, which may be left out."""
    kernel = kernel_of(function)
    if kernel is None:
        return None
    source = Source(kernel)
    source.called_sources[kernel] = copy.copy(source)
    names = list(source.signature.parameters)
    wrapped = wrapped_function(function)
    count = len(wrapped.inputs) if isinstance(wrapped, Generalized) else len(names)
    own = names[:count]
    outputs = names[count:] if isinstance(wrapped, Generalized) else ["out"] if isinstance(wrapped, Stencil) else []
    call = ast.Call(bound_name(function, source.name), [ast.Name(n, ast.Load()) for n in own], [])
    if isinstance(wrapped, Generalized):
        call.args += [ast.Name(n, ast.Load()) for n in outputs]
    elif outputs:
        call.keywords = [ast.keyword("out", ast.Name("out", ast.Load()))]
    arguments = ast.arguments([], [ast.arg(n) for n in (*own, *outputs)], None, [], [], None, [])
    node = with_location(ast.FunctionDef(source.name, arguments, [ast.Return(call)], []), source.node)
    node.col_offset = -1  # it is no call of itself
    source.node = node
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    source.signature = inspect.Signature(
        [*(inspect.Parameter(n, kind) for n in own), *(inspect.Parameter(n, kind, default=None) for n in outputs)]
    )
    check(source.called_sources[kernel], (kernel,))
    source.checked = True
    return source
