"""Partial evaluation: decide tests whose outcome ranks, strings and constants determine, so that only one branch is
lowered."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.affine import offset
from ..ir.terms import Compare, Logical, Term, Unary, Variable
from ..runtime.products import large_product, large_triangle
from .array_expressions import ArrayExpr, Static
from .captured_objects import captured_attribute, captured_object
from .classes import is_instance
from .dictionaries import dictionary_of, known_key
from .element_types import element_type
from .function_table import holds_bools, holds_floats
from .messages import Message
from .operator_functions import are_bools
from .static_values import static_item, string_method
from .syntax import bound_to
from .views import NUMBERS

if TYPE_CHECKING:
    from .scope import Scope

__all__ = ["deciding_parameters", "is_none", "parameters_in", "static_truth"]

_COMPARE = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
            ast.Gt: operator.gt, ast.GtE: operator.ge}  # fmt: skip


_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
               ast.Mod: operator.mod}  # fmt: skip


def static_truth(low: Scope, node: ast.expr) -> bool | None:
    """The outcome of a test if it is known at compile time, else None. Known are ranks, integers that never change,
    strings and None, and scalars from outside. (Numba prunes such branches, too: nothing may rely on what they define.)
    """
    match node:
        case ast.BoolOp():
            outcomes = [static_truth(low, v) for v in node.values]
            absorbing = isinstance(node.op, ast.Or)
            return absorbing if absorbing in outcomes else None if None in outcomes else not absorbing
        case ast.UnaryOp(op=ast.Not()):
            inner = static_truth(low, node.operand)
            return None if inner is None else not inner
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ) if _is_outside(low, node.left):
            return (low.source.outer_values[name] is None) == isinstance(op, ast.Is)
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            value = _constant(low, left)
            not_none = (
                isinstance(left, ast.Name)
                and (low.string_of(left.id) is None or dictionary_of(low, left) is not None)
                and (low.is_local_name(left.id) or left.id in low.functions)
            )
            return (
                isinstance(op, ast.IsNot)
                if not_none
                else None
                if value is _UNKNOWN
                else (value is None) == isinstance(op, ast.Is)
            )
        case ast.Compare(left, [ast.Is() | ast.IsNot() as op], [ast.Constant(bool() as wanted)]):
            value = _constant(low, left)
            return None if value is _UNKNOWN else (value is wanted) == isinstance(op, ast.Is)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple(elts=elements)]):
            value, *others = (_constant(low, n) for n in (left, *elements))
            return None if _UNKNOWN in (value, *others) else (value in others) == isinstance(op, ast.In)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[right]) if (
            held := dictionary_of(low, right)
        ) is not None:
            key = _constant(low, left)
            return None if key is _UNKNOWN else (key in held.items) == isinstance(op, ast.In)
        case ast.Name() if (held := dictionary_of(low, node)) is not None:
            return bool(held.items)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            a, b = _constant(low, left), _constant(low, right)
            numbers = isinstance(a, int | float) and isinstance(b, int | float)
            comparable = numbers or (type(a) is type(b) and a is not None)
            if a is _UNKNOWN or b is _UNKNOWN or not (comparable or isinstance(op, ast.Eq | ast.NotEq)):
                return None
            return _COMPARE[type(op)](a, b)
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Constant():
            value = _constant(low, node)
            return bool(value) if isinstance(value, bool | int | float | str | None) else None
        case ast.Call(args=[ast.Name() as name, kind]) if low.function_of(node.func) is isinstance:
            return is_instance(low, name, kind)
        case ast.Call() if low.function_of(node.func) in (large_product, large_triangle):
            return False  # in generated code: the loops beside the call of BLAS are what is differentiated
        case ast.Call(args=[only]) if low.function_of(node.func) is holds_bools:
            return _holds_bools(low, node, only)
        case ast.Call(args=[only]) if low.function_of(node.func) is holds_floats:
            return not _holds_bools(low, node, only) and _kind(low, only) != "int"
        case ast.Call():
            value = _constant(low, node)
            return None if value is _UNKNOWN else bool(value)
    return None


def _is_outside(low: Scope, name: ast.expr) -> bool:
    """Whether this is a name of the module or of a function around, with a value from when `adjoint` was called."""
    return (
        isinstance(name, ast.Name)
        and not low.is_local_name(name.id)
        and bound_to(name) is None
        and name.id in low.source.outer_values
    )


_UNKNOWN = object()


def _constant(low: Scope, node: ast.expr) -> Any:
    """The value of an expression at compile time, or `_UNKNOWN`."""
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return _UNKNOWN if isinstance(value, Message) else value
        case ast.UnaryOp(op=ast.USub()):
            inner = _constant(low, node.operand)
            return -inner if isinstance(inner, int | float) else _UNKNOWN
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            a, b = _constant(low, left), _constant(low, right)
            if type(a) is not int or type(b) is not int or (b == 0 and isinstance(op, ast.FloorDiv | ast.Mod)):
                return _UNKNOWN
            return _ARITHMETIC[type(op)](a, b)
        case ast.Call() if (value := string_method(low, node)) is not None:
            return value
        case ast.Call(ast.Attribute(owner, "get"), [key, *default], []) if (
            held := dictionary_of(low, owner)
        ) is not None:
            known = known_key(low, key)
            if known is None:
                return _UNKNOWN
            if known not in held.items:
                return _constant(low, default[0]) if default else None
            return _known_text(tree) if isinstance(tree := held.items[known], Static) else _UNKNOWN
        case ast.Attribute(value=owner, attr="kind") if (typed := element_type(low, owner)) is not None:  # type: ignore[arg-type]
            unsigned = typed.array in low.lowered_function.unsigned
            return "u" if unsigned else {float: "f", int: "i", bool: "b"}.get(typed.cast, _UNKNOWN)  # type: ignore[call-overload]
        case ast.Attribute(attr="ndim"):
            return _rank(low, node.value)
        case ast.Call(args=[only]) if low.function_of(node.func) is np.ndim:
            return _rank(low, only)
        case ast.Call(args=[only]) if low.function_of(node.func) is np.isscalar:
            rank = _rank(low, only)
            return rank if rank is _UNKNOWN else rank == 0
        case ast.Call(args=[ast.Attribute(value=owner, attr="shape")]) if low.function_of(node.func) is len:
            return _rank(low, owner)
        case ast.Call(args=[only]) if (held := dictionary_of(low, only)) and low.function_of(node.func) is len:
            return len(held.items)
        case ast.Call(args=[ast.Name() as name]) if low.plain_tuple(name) and low.function_of(node.func) is len:
            return len(low.plain_tuple(name).items)  # type: ignore[union-attr]
        case ast.Name() if (text := low.string_of(node.id)) is not None:
            return _known_text(text)
        case ast.Attribute(value=owner, attr=name) if (captured := captured_object(low, owner)) is not None:
            found = captured_attribute(captured, name)
            return found if isinstance(found, (*NUMBERS, str, type(None))) else _UNKNOWN
        case ast.Attribute() | ast.Subscript() if (item := static_item(low, node)) is not None:
            return _known_text(item)
        case ast.Name() if low.is_local_name(node.id) and low.array(node) is None:
            integer = low.shared.known_integers.get(low.local(node))
            base, k = (None, _UNKNOWN) if integer is None else offset(integer)
            return k if base is None else _UNKNOWN
        case ast.Name() | ast.Attribute():
            outer = low.resolve(node)
            return (
                outer.item()
                if isinstance(outer, np.generic)
                else outer
                if isinstance(outer, (*NUMBERS, str))
                else _UNKNOWN
            )
    return _UNKNOWN


def _holds_bools(low: Scope, node: ast.expr, array: ast.expr) -> bool:
    """Whether an array holds bools; what does here and does not there is refused when all kinds are known."""
    return are_bools(low, node, "kind", [_tree(low, array)])  # type: ignore[arg-type]


def _kind(low: Scope, array: ast.expr) -> str:
    return low.kind_of_tree(_tree(low, array))


def _tree(low: Scope, array: ast.expr) -> ArrayExpr:
    saved, low.out = low.out, []  # only the kind is needed
    tree = low.array_like(array)  # type: ignore[attr-defined]
    low.out = saved
    return tree


def _known_text(static: Static) -> Any:
    """The value of a string, bool or None; `_UNKNOWN` for a message, which has values in it, and for functions."""
    value = static.value
    return value if isinstance(value, str | bool | None) and not isinstance(value, Message) else _UNKNOWN


def _rank(low: Scope, node: ast.expr) -> Any:
    """The rank of an array or scalar, or `_UNKNOWN`."""
    view = low.array(node)
    if view is not None:
        return view.rank
    scalar = isinstance(node, ast.Name) and low.is_local_name(node.id) and low.tuple_of(node) is None
    return 0 if scalar else _UNKNOWN


def deciding_parameters(low: Scope, test: Term) -> frozenset[str]:
    """The parameters, by the user's names, that alone decide a test: bools, and integers that are or are not equal to
    constants, as an axis or a mode; none if it depends on anything else. Other comparisons are those of sizes."""
    if isinstance(test, Unary | Logical):
        parts = [deciding_parameters(low, t) for t in test.operands]
        return frozenset().union(*parts) if all(parts) else frozenset()
    equal = isinstance(test, Compare) and set(test.ops) <= {"==", "!="}
    operands, kinds = (test.operands, ("int", "bool")) if equal else ((test,), ("bool",))
    if len(test.named) > 1 or not all(isinstance(t, Variable) or not t.named for t in operands):
        return frozenset()
    return parameters_in(low, test, kinds)


def parameters_in(low: Scope, term: Term, kinds: tuple[str, ...]) -> frozenset[str]:
    """The parameters of these kinds, by the user's names, that are in a term."""
    f, names = low.lowered_function, set(filter(low.is_constant_scalar, term.named))
    return frozenset(p for p, n in f.renamed_parameters.items() if n in names and f.kinds[n] in kinds)


def is_none(low: Scope, node: ast.expr | None) -> bool:
    """Whether an argument is left out, or is known to be None."""
    return node is None or _constant(low, node) is None
