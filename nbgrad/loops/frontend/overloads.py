"""Functions of Python for which ``numba.extending.overload`` registered other bodies: calls of these are lowered, not
what Python would run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...backends.numba.wrapped_functions import AmbiguousOverloadError, TypeOf, implementation, is_overloaded
from ..custom_rules import rule_of
from ..ir.terms import Global, Term
from .array_expressions import ArrayExpr, FromFunction, Lowered, Op, Scalar, Static, TupleExpr
from .element_kinds import relied_on_kind
from .function_table import is_known
from .syntax import bound_name, unparse

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["may_be_float32", "with_implementation"]

_ADVICE = "pass numbers, arrays, tuples and None to it, or give what it computes a vjp, by nb.primitive"


def with_implementation(low: Calls, node: ast.Call, called: object) -> ast.Call:
    """A call of the body that the overload of `called` chooses for these arguments; other calls as they are."""
    if is_known(called) or rule_of(called) is not None or not is_overloaded(called):
        return node
    # Names are passed on as they are: what they are bound to may be written.
    arguments = [*node.args, *(k.value for k in node.keywords)]
    trees = [low.tree_or_static(a) for a in arguments]
    given: list[ast.expr] = [
        a if isinstance(a, ast.Name | ast.Constant) else ast.copy_location(Lowered(t), node)
        for a, t in zip(arguments, trees, strict=True)
    ]
    kinds = [_type_of(low, node, a, t) for a, t in zip(arguments, trees, strict=True)]
    count, keys = len(node.args), [str(k.arg) for k in node.keywords]
    try:
        body = implementation(called, kinds[:count], dict(zip(keys, kinds[count:], strict=True)))
    except AmbiguousOverloadError as err:
        raise low.source.refuse(node, f"{unparse(node.func)}, whose @overload {err}", _ADVICE) from None
    except Exception as err:  # whatever the author's function raises for types that it does not take
        raise low.source.refuse(
            node, f"{unparse(node.func)}, whose @overload raises {type(err).__name__}: {err}", _ADVICE
        ) from err
    if body is None:
        raise low.source.refuse(node, f"{unparse(node.func)}, whose @overload has no body for these arguments", _ADVICE)
    missing = set(inspect.signature(body).parameters) ^ set(inspect.signature(called).parameters)  # type: ignore[arg-type]
    if missing:
        raise low.source.refuse(
            node, f"{unparse(node.func)}, whose @overload has a body with other parameters ({min(missing)})", _ADVICE
        )
    keywords = [ast.keyword(k, a) for k, a in zip(keys, given[count:], strict=True)]
    name = ast.copy_location(bound_name(body, unparse(node.func)), node)
    call = ast.copy_location(ast.Call(name, given[:count], keywords), node)
    low.root_expression = call if node is low.root_expression else low.root_expression
    return call


def _type_of(low: Calls, node: ast.Call, argument: ast.expr, tree: ArrayExpr) -> TypeOf:
    if isinstance(tree, TupleExpr):
        return tuple([_type_of(low, node, argument, t) for t in tree.items])
    if isinstance(tree, Static):
        return tree.value if tree.value is None or isinstance(tree.value, str) else _unknown(low, node, argument)
    kind = relied_on_kind(low, tree)
    if not kind or (kind == "float" and may_be_float32(low, tree)):
        return _unknown(low, node, argument)
    return kind, tree.rank if not isinstance(tree, Scalar) else 0


def may_be_float32(low: Calls, tree: ArrayExpr) -> bool:
    """Whether an argument is float32, or may be: any array so far is, and it may be computed from that one."""
    dtypes = [*low.shared.dtypes.values(), *_own_dtypes(tree)]
    return low.shared.float32_arguments or any(isinstance(d, Global) and d.value is np.float32 for d in dtypes)


def _own_dtypes(tree: ArrayExpr) -> Iterator[Term | None]:
    if isinstance(tree, Op | FromFunction):
        yield tree.dtype
    for part in tree.args if isinstance(tree, Op) else ():
        yield from _own_dtypes(part)


def _unknown(low: Calls, node: ast.Call, argument: ast.expr) -> TypeOf:
    raise low.source.refuse(
        node, f"{unparse(node.func)}, which has an @overload, of {unparse(argument)}, whose type is not known", _ADVICE
    )
