"""Type inference: the kind of each variable (float, int or bool), as far as allocating storage for it requires.

Also checks what depends on kinds: operators, indices, loop bounds, and integers to negative powers.
"""

from __future__ import annotations

import ast
import math

import numpy as np
from numba.core.errors import NumbaError

from ...errors import TraceError
from ..custom_rules import Kind
from .affine import axis_indices
from .integer_powers import guard_powers
from .names import INTEGERS, bound_name
from .statements import Alloc, Assign, Call, Function, Like, Loop, Statement, Store, children, parse, unparse, walk

__all__ = ["ZEROS", "infer", "kind_of", "kinds_of"]

_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_ORDER = ["bool", "int", "float"]
#: Code for zero.
ZEROS = {"float": "0.0", "int": "0", "bool": "False"}
_INTEGERS = (int, len, math.floor, math.ceil, math.trunc, *INTEGERS)
_TRUTH = (bool, math.isnan, math.isinf, math.isfinite, np.isnan, np.isinf, np.isfinite, np.signbit, np.bool_)
_WIDEST = (abs, min, max, pow, np.abs, np.maximum, np.minimum, np.square, np.sign)


def infer(f: Function) -> None:
    """Fill in the kinds of the scalars in `f`, and of arrays whose kind is that of what is stored into them.

    A name that is assigned several kinds gets the widest. Also makes allocations explicit and checks the types.
    """
    allocations = [s for s in walk(f.body) if isinstance(s, Alloc)]
    for s in allocations:
        if not s.kind:
            f.kinds[s.name] = "bool"
    open_arrays = {s.name for s in allocations if not s.kind}
    assignments = [
        s for s in walk(f.body) if isinstance(s, Assign) or (isinstance(s, Store) and s.array in open_arrays)
    ]
    grew = True
    while grew or _infer_call_results(f):
        grew = False
        for s in allocations:
            if isinstance(s.kind, Like):
                f.kinds[s.name] = f.kinds[s.kind.name]
        for t in assignments:
            name = t.array if isinstance(t, Store) else t.name
            widest = max(kind_of(t.value, f), f.kinds.get(name, "bool"), key=_ORDER.index)
            if f.kinds.get(name) != widest:
                f.kinds[name] = widest
                grew = True
    for name, values, error in f.assumed_kinds:
        if max((kind_of(v, f) for v in values), key=_ORDER.index) != f.kinds[name]:
            raise error
    for name, value, error in f.refilled_arrays:
        if _ORDER.index(kind_of(value, f)) > _ORDER.index(f.kinds[name]):
            raise error
    for s, dtype in [(s, _dtype(s, {s.name: s for s in allocations}, f)) for s in allocations]:
        s.value = parse(f"np.empty({unparse(s.value.args[0])}, {dtype})")  # type: ignore[attr-defined]
        s.kind = f.kinds[s.name]
    for every in walk(f.body):
        for part in ("value", "test", "index"):
            node = getattr(every, part, None)
            if isinstance(node, ast.expr):
                _check_operators(node, every, f, part == "value")
        if isinstance(every, Loop) and every.index:
            _require_integers([every.start, every.stop, every.step], every, f)
            for part in ("start", "stop", "step"):  # Numba has ranges over bools, but no differences and no max
                if kind_of(bound := getattr(every, part), f) == "bool":
                    setattr(every, part, ast.Call(bound_name(int, "int"), [bound], []))
        elif isinstance(every, Store):
            _require_integers(axis_indices(every.index), every, f)
    guard_powers(f, lambda n: kind_of(n, f) == "float")


def _dtype(s: Alloc, allocations: dict[str, Alloc], f: Function) -> str:
    """Code for the dtype of an array; for one like another array, which may be allocated later, that of the other."""
    other = s.kind.name if isinstance(s.kind, Like) else ""
    if other in allocations:
        return _dtype(allocations[other], allocations, f)
    if not s.kind and f.kinds[s.name] != "float":
        return {"int": "np.int64", "bool": "np.bool_"}[f.kinds[s.name]]
    return unparse(s.value.args[1])  # type: ignore[attr-defined]


def _infer_call_results(f: Function) -> bool:
    """Give the results of calls the kinds that follow from those of their arguments; whether any changed."""
    changed = False
    for s in walk(f.body):
        if not isinstance(s, Call):
            continue
        try:
            forms = s.rule.result_types(kinds_of(s, f))
            wrong = forms.type_error or ("" if [r for r, _ in forms.results] == [f.ranks[n] for n in s.results] else
                                    "its results have other axes")  # fmt: skip
        except NumbaError as err:
            wrong = str(err).strip().splitlines()[0]
        if wrong:
            raise TraceError(f"adjoint: {f.where}: {s.rule.name} in '{s.line}': {wrong}; pass it other arguments")
        for name, (_, kind) in zip(s.results, forms.results, strict=True):
            changed |= f.kinds[name] != kind
            f.kinds[name] = kind
    return changed


def kinds_of(s: Call, f: Function) -> tuple[Kind, ...]:
    """The ranks and kinds of the arguments of a call."""
    names = [unparse(n.value if isinstance(n, ast.Subscript) else n) for n in s.operands]
    return tuple([(f.ranks.get(name, 0), kind_of(n, f)) for n, name in zip(s.operands, names, strict=True)])


def _check_operators(node: ast.expr, s: Statement, f: Function, value: bool) -> None:
    """Refuse floats as operands of bitwise operators, and of ``and`` and ``or`` where these give a value."""
    bits = isinstance(node, ast.BinOp) and isinstance(node.op, _BITWISE)
    choice = value and isinstance(node, ast.BoolOp)
    operands = [node.left, node.right] if bits else node.values if choice else []  # type: ignore[attr-defined]
    if any(kind_of(n, f) == "float" for n in operands):
        raise TraceError(
            f"adjoint: {f.where}: {'bit operations' if bits else 'and, or'} of floats in '{s.line or unparse(node)}'; "
            + ("use integers" if bits else "write a if ... else b, or compare")
        )
    if isinstance(node, ast.Subscript):
        _require_integers(axis_indices(node.slice), s, f)
    for child in children(node):
        if isinstance(child, ast.expr):
            _check_operators(child, s, f, value and not (isinstance(node, ast.IfExp) and child is node.test))


def _require_integers(nodes: list[ast.expr], s: Statement, f: Function) -> None:
    """Refuse floats as indices and as bounds of loops."""
    for n in nodes:
        if kind_of(n, f) == "float":
            what = f"the float {unparse(n)} where an integer is expected"
            where = f" in '{s.line}'" if s.line else ""
            raise TraceError(f"adjoint: {f.where}: {what}{where}; pass an integer, or write int(...)")


def kind_of(node: ast.expr, f: Function) -> str:
    """The kind of an expression, with the kinds of names known so far."""
    match node:
        case ast.Constant():
            return "bool" if isinstance(node.value, bool) else "int" if isinstance(node.value, int) else "float"
        case ast.Name():
            return f.kinds.get(node.id, "bool")
        case ast.Subscript():
            return f.kinds[node.value.id] if isinstance(node.value, ast.Name) else "int"
        case ast.Attribute():
            return "int" if node.attr in ("size", "ndim") else "float"
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.BoolOp():
            return max((kind_of(v, f) for v in node.values), key=_ORDER.index)
        case ast.UnaryOp():
            return max("int", kind_of(node.operand, f), key=_ORDER.index)
        case ast.BinOp():
            if isinstance(node.op, ast.Div):
                return "float"
            both = max(kind_of(node.left, f), kind_of(node.right, f), key=_ORDER.index)
            logical = isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor)
            return both if logical else max("int", both, key=_ORDER.index)
        case ast.IfExp():
            return max(kind_of(node.body, f), kind_of(node.orelse, f), key=_ORDER.index)
        case ast.Call():
            called = f.names.resolve(node.func)
            if called in _TRUTH:
                return "bool"
            if called in _INTEGERS or (called is round and len(node.args) == 1):
                return "int"
            if called in _WIDEST:
                return max((kind_of(a, f) for a in node.args), key=_ORDER.index)
            return "float"
    return "float"
