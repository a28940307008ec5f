"""Declaring elementwise operators: :func:`unary`, :func:`parametric` and :func:`binary` each do it in one statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core import dtypes
from ..errors import AttrError, DTypeError
from ..ir.expr import Expr, as_expr, substitute, var
from ..ir.expr_source import pretty
from .cast import cast
from .documentation import wrapped
from .elementwise import Elementwise, derived, fast_binary
from .entry import Entry, as_array, store_out
from .samples import Input, Sample, sample_table

__all__ = ["binary", "parametric", "scalar_forms", "unary"]


def _document(call: Callable, name: str, doc: str) -> None:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc


def unary_call(op: Elementwise) -> Callable:
    """The public function of a one-operand elementwise operator."""
    apply = op.apply1

    def call(data, out=None, name=None, **unknown):
        if unknown:
            raise _unknown(op.name, unknown, ("data",))
        if out is None and data.__class__ is NDArray:
            return apply(data)
        return store_out(apply(as_array(data, op.name)), out, op.name)

    return call


def _unknown(op: str, unknown, operands: Sequence[str]) -> TypeError:
    known = ", ".join((*operands, "out", "name"))
    return TypeError(f"{op}: keyword {next(iter(unknown))!r} is unknown; its arguments are {known}")


def unary(
    name: str,
    expr: Expr,
    doc: str,
    *,
    aliases: Sequence[str] = (),
    ints: bool = False,
    domain: tuple[float, float] = (-2.0, 2.0),
    method: bool = True,
    reference: Callable | str | None = None,
    ulp: float = 1,
    differentiable: bool = True,
    truth: bool = False,
) -> Callable:
    """Declare an elementwise operator of one array: `expr` in the variable ``x``.

    Parameters
    ----------
    name : str
    expr : Expr
    doc : str
        A sentence; the parts common to all such operators are added.
    aliases : sequence of str
    ints : bool
        Whether integers stay integers (otherwise they become the default float dtype).
    domain : (float, float)
        Where tests sample, away from kinks and poles.
    method : bool
        Whether NDArrays have it as a method.
    reference : callable or str, optional
        The same function in NumPy or SciPy, for tests (default: ``numpy.<name>``).
    ulp : float
        The largest deviation of the result from it, in units in the last place.
    differentiable : bool
        False for functions that are constant wherever they have a derivative.
    truth : bool
        Whether results are truth values, which have no derivative.
    """
    op = Elementwise(name, substitute(expr, {var("x"): var("x0")}), 1, ints=ints, truth=truth)
    call = unary_call(op)
    _document(call, name, _elementwise_doc(op, doc, ("data",)))
    rows = ([Input((5,), *domain)],)
    samples = _samples(reference or f"numpy.{name}", rows, [Input((3, 50), *domain)], ints=ints, ulp=ulp)
    Entry(
        name,
        aliases,
        call,
        method=method,
        rule=op,
        samples=samples,
        differentiable=differentiable and not truth,
        formula=repr(expr),
    )
    return call


def parametric(
    name: str,
    expr: Expr,
    doc: str,
    params: dict[str, Any],
    *,
    examples: Sequence[dict],
    aliases: Sequence[str] = (),
    ints: bool = False,
    domain: tuple[float, float] = (-2.0, 2.0),
    method: bool = True,
    reference: Callable | str | None = None,
    ulp: float = 1,
) -> Callable:
    """Declare an elementwise operator of one array ``x`` and scalar parameters, which are not differentiated.

    Parameters
    ----------
    params : dict
        Names (variables in `expr`) and defaults; ``None`` means required.
    examples : sequence of dict
        Parameters for tests.
    name, expr, doc, aliases, ints, domain, method, reference, ulp
        As for :func:`unary`.
    """
    names = tuple(params)
    known = ", ".join(("data", *names, "out", "name"))
    symbols = {var("x"): var("x0")} | {var(p): var(f"s{k}") for k, p in enumerate(names)}
    op = Elementwise(name, substitute(expr, symbols), 1, len(names), ints=ints)

    def call(data, *args, out=None, name=None, **kwargs):
        x = as_array(data, op.name)
        values = dict(zip(names, args))
        for key, value in kwargs.items():
            if key not in params or key in values:
                raise TypeError(f"{op.name}: keyword {key!r} is unknown or given twice; its arguments are {known}")
            values[key] = value
        scalars = [values.get(p, default) for p, default in params.items()]
        if len(args) > len(names) or any(not _is_number(s) for s in scalars):
            raise AttrError(f"{op.name}: needs numbers for {', '.join(names)}; got {dict(zip(names, scalars))}")
        if not x._kind.dtype.is_float and not (ints and all(float(s).is_integer() for s in scalars)):
            x = cast(x, x._kind.as_float())
        number: Callable = float if x._kind.dtype.is_float else int
        return store_out(op.apply1(x, tuple(map(number, scalars))), out, op.name)

    _document(call, name, _elementwise_doc(op, doc, ("data",), params))
    rows = [[Input((5,), *domain), example] for example in examples]
    many = [Input((3, 50), *domain), examples[0]]
    samples = _samples(reference, rows, many, ints=ints, ulp=ulp)
    Entry(name, aliases, call, method=method, rule=op, samples=samples, params=names, formula=repr(expr))
    return call


def _samples(reference, rows: Sequence, many: Sequence, ints: bool, ulp: float) -> tuple[Sample, ...]:
    """Samples: a few elements for derivatives, and many for values."""
    options = {"ulp": ulp, "result": "same" if ints else "float"}
    return sample_table(reference, *rows, **options) + sample_table(reference, many, order=0, **options)


def _elementwise_doc(op: Elementwise, doc: str, operands: Sequence[str], params: dict[str, Any] | None = None) -> str:
    """The docstring: `doc`, the arguments, and formula and gradient from the table of scalar functions."""
    params = params or {}
    letters = ("x",) if len(operands) == 1 else ("a", "b")
    names = {var(v): var(letter) for v, letter in zip(op.operands, letters)}
    names |= {var(v): var(param) for v, param in zip(op.params, params)}
    summary, *more = doc.split("\n\n", 1)
    lines = ["\n\n".join([wrapped(summary), *more]), "", "Parameters", "----------"]
    if len(operands) == 1:
        lines += ["data : NDArray", "    x, of any shape."]
    else:
        lines += [f"{', '.join(operands)} : NDArray or number"]
        lines += ["    a and b; shapes broadcast, and dtypes are promoted, as in NumPy."]
    lines += [f"{p} : float\n    {'Required.' if d is None else f'Default {d}.'}" for p, d in params.items()]
    lines += ["", "Returns", "-------", "NDArray"]
    formula = pretty(substitute(op.expr, names))
    shape = "Shape of `data`" if len(operands) == 1 else "The broadcast shape"
    cases = formula.count("where")  # with several cases the sentence is clearer
    text = f"{shape}; y = ``{formula}`` of each element." if cases < 2 else f"{shape}."
    lines += [wrapped("    " + text).replace("\n", "\n    ")]
    if len(operands) > 1:
        lines += ["", "Raises", "------", "DTypeError", "    If neither operand is an NDArray."]
        lines += ["ShapeError", "    If the shapes do not broadcast."]
    gradients = [pretty(substitute(op.cotangent(k), names)) for k in range(len(operands))]
    if gradients != ["0"] * len(operands) and max(e.count("where") for e in gradients) < 2:
        shown = [f"``{e}``" + (f" for `{name}`" if len(operands) > 1 else "") for e, name in zip(gradients, operands)]
        lines += ["", "Notes", "-----", wrapped(f"Gradient: {' and '.join(shown)}.")]
    return "\n".join(lines)


_NUMBERS = (int, float, np.number, np.bool_)


def _is_number(x) -> bool:
    return isinstance(x, _NUMBERS)


def _identifier(name: str) -> str:
    return name.replace("-", "m").replace(".", "_")


def binary_call(op: Elementwise, left: Callable, right: Callable) -> Callable:
    """The public function of a two-operand elementwise operator.

    ``right(s)`` returns the one-array operator (and scalars) for ``array op s``; ``left(s)`` for ``s op array``.
    """

    def otherwise(lhs, rhs, out):
        if out is not None:
            return store_out(call(lhs, rhs), out, op.name)
        if lhs.__class__ is NDArray and (rhs.__class__ is float or rhs.__class__ is int):
            return _with_scalar(right, lhs, rhs)
        if rhs.__class__ is NDArray and (lhs.__class__ is float or lhs.__class__ is int):
            return _with_scalar(left, rhs, lhs)
        return _mixed(op, left, right, lhs, rhs)

    call = fast_binary(op, otherwise)
    return call


def _mixed(op: Elementwise, left: Callable, right: Callable, lhs, rhs):
    if _is_number(lhs) and _is_number(rhs):
        return op.apply((from_value(lhs), from_value(rhs))).item()
    if isinstance(lhs, NDArray):
        if _is_number(rhs):
            return _with_scalar(right, lhs, rhs)
        return op.apply((lhs, _operand(rhs, lhs, op.name)))
    if isinstance(rhs, NDArray):
        if _is_number(lhs):
            return _with_scalar(left, rhs, lhs)
        return op.apply((_operand(lhs, rhs, op.name), rhs))
    raise DTypeError(f"{op.name}: type {type(lhs)} and {type(rhs)} not supported; one operand must be an NDArray")


def _operand(value, like: NDArray, op: str) -> NDArray:
    if isinstance(value, NDArray):
        return value
    if isinstance(value, np.ndarray):
        return from_value(value, like=like._kind)
    if isinstance(value, list | tuple):  # lists take the array's dtype, except that floats stay floats beside integers
        x = from_value(value, like=like._kind, dtype="float64")
        whole = not like._kind.dtype.is_float and not (x._view() % 1).any()
        kind = like._kind if whole else like._kind.as_float()
        return cast(x, kind)
    instead = "x.to_numpy()" if dtypes.convertible(value) else "an NDArray, a NumPy array or a number"
    raise DTypeError(f"{op}: type {type(value)} not supported; use {instead}")


def _with_scalar(choose: Callable, x: NDArray, s):
    value = s.item() if isinstance(s, np.generic) else s
    if x._kind.dtype.is_float:
        op, scalars = choose(float(value))
        return op.apply1(x, scalars)
    if isinstance(value, float):
        x = cast(x, x._kind.as_float())
    else:
        value = int(value)
        if not -(2**63) <= value < 2**63:
            raise DTypeError(f"scalar {value} does not fit an integer array's 64-bit arithmetic")
    op, scalars = choose(value)
    if not op.ints and not x._kind.dtype.is_float:
        x = cast(x, x._kind.as_float())
        scalars = tuple(map(float, scalars))
    return op.apply1(x, scalars)


def scalar_forms(
    op: Elementwise, special_left: dict[float, Expr] | None = None, special: dict[float, Expr] | None = None
) -> tuple[Callable, Callable]:
    """``left(s)`` and ``right(s)`` for a two-operand operator: the one-array operator (and scalars) of ``s op array``
    and of ``array op s``. The tables have better expressions for particular scalars, in the other operand."""
    x0, x1, s0, name = var("x0"), var("x1"), var("s0"), op.name
    by_right = derived(f"{name}_scalar", substitute(op.expr, {x1: s0}), 1, 1, op.ints, op.truth)
    by_left = derived(f"r{name}_scalar", substitute(op.expr, {x0: s0, x1: x0}), 1, 1, op.ints, op.truth)

    def particular(prefix: str, table: dict[float, Expr] | None, x: Expr) -> dict:
        return {
            value: derived(_identifier(f"{prefix}_{value}"), substitute(as_expr(e), {x: x0}), 1, 0, op.ints)
            for value, e in (table or {}).items()
        }

    specials, specials_left = particular(name, special, var("a")), particular(f"r{name}", special_left, var("b"))

    def right(s):
        special_op = specials.get(s) if specials and (s > 0 or isinstance(s, float)) else None
        return (by_right, (s,)) if special_op is None else (special_op, ())

    def left(s):
        special_op = specials_left.get(s)
        return (by_left, (s,)) if special_op is None else (special_op, ())

    return left, right


def binary(
    name: str,
    expr: Expr,
    doc: str,
    *,
    aliases: Sequence[str] = (),
    ints: bool = True,
    domain: tuple[tuple[float, float], tuple[float, float]] = ((-2.0, 2.0), (-2.0, 2.0)),
    method: bool = False,
    reference: Callable | str | None = None,
    ulp: float = 1,
    differentiable: bool = True,
    special: dict[float, Expr] | None = None,
    special_left: dict[float, Expr] | None = None,
    truth: bool = False,
) -> Callable:
    """Declare an elementwise operator of two arrays, or an array and a scalar: `expr` in ``a`` and ``b``.

    Parameters
    ----------
    name, expr, doc, aliases, ints, domain, method, reference, ulp, differentiable, truth
        As for :func:`unary`; `domain` has one range per operand.
    special : dict, optional
        Better expressions in ``a`` for particular scalars ``b`` (x**2).
    special_left : dict, optional
        Better expressions in ``b`` for particular scalars ``a``.
    """
    a, b = var("a"), var("b")
    op = Elementwise(name, substitute(expr, {a: var("x0"), b: var("x1")}), 2, ints=ints, truth=truth)
    left, right = scalar_forms(op, special_left, special)
    operator = binary_call(op, left, right)

    def call(lhs, rhs, out=None, name=None, **unknown):
        if unknown:
            raise _unknown(op.name, unknown, ("lhs", "rhs"))
        return operator(lhs, rhs, out)

    _document(call, name, _elementwise_doc(op, doc, ("lhs", "rhs")))
    rows = ([Input((3,), *domain[0]), Input((3,), *domain[1])], [Input((2, 1), *domain[0]), Input((2,), *domain[1])])
    many = [Input((3, 50), *domain[0]), Input((50,), *domain[1])]
    samples = _samples(reference or f"numpy.{name}", rows, many, ints=ints, ulp=ulp)
    Entry(
        name,
        aliases,
        call,
        method=method,
        rule=op,
        samples=samples,
        differentiable=differentiable and not truth,
        formula=repr(expr),
        operator=operator,
        scalar_forms=(left, right),
    )
    return call
