"""What NumPy has several spellings for, in the one that is lowered: options of reductions, ``np.r_``, joined lists.

``np.sum(a, where=m)`` becomes ``np.sum(np.where(m, a, 0))``, ``np.max(a, initial=c)`` the maximum of an array with `c`
appended, and ``np.sum(a, dtype=float)`` the sum of ``np.array(a, dtype=float)``.
"""

from __future__ import annotations

import ast

import numpy as np

from .canonical_form import Resolving
from .structured_control import with_location
from .syntax import bound_name, copy_tree, subtrees

__all__ = ["NumpySpellings", "first_value", "r_"]

#: Reductions, and the element that changes nothing; None if there is none.
_REDUCTIONS: dict[str, float | bool | None] = {
    "sum": 0, "prod": 1, "any": False, "all": True, "max": None, "min": None, "amax": None, "amin": None, "mean": None,
    "std": None, "var": None, "cumsum": None, "cumprod": None,
}  # fmt: skip
#: The kinds of dtypes that each may be given; "" stands for none.
_DTYPES: dict[str, tuple[str, ...]] = dict.fromkeys(_REDUCTIONS, ("",)) | {
    **dict.fromkeys(("sum", "prod", "cumsum", "cumprod"), ("", "f", "i")),
    **dict.fromkeys(("mean", "std", "var"), ("", "f")),
}
_JOINS = np.concatenate, np.hstack, np.vstack, np.column_stack, np.stack, np.append
#: What may be evaluated twice.
_REPEATABLE = ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare


def r_(arrays: tuple) -> None:
    """Stands for ``np.r_``: numbers are vectors, and arrays are joined along the first axis."""


def first_value(initial: float, array: object) -> None:
    """Stands for `initial`, which NumPy casts to the kind of the elements of `array`: only floats hold floats."""


class NumpySpellings(Resolving):
    """Rewrites calls and subscripts."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """``np.r_[x, 1.0]`` and ``np.c_[x, y]`` as calls of these."""
        self.generic_visit(node)
        called = self.resolve(node.value)
        if called is not np.r_ and called is not np.c_:
            return node
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(p, ast.Slice) and p.upper is None for p in parts):
            return node
        function = bound_name(r_, "np.r_") if called is np.r_ else bound_name(np.column_stack, "np.c_")
        made = ast.Call(function, [ast.Tuple([_as_array(p) for p in parts], ast.Load())], [])
        made.written = copy_tree(node)  # type: ignore[attr-defined]
        return with_location(made, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = self.resolve(node.func)
        if any(called is f for f in _JOINS):
            for display in node.args:
                if isinstance(display, ast.List | ast.Tuple):
                    display.elts = [_with_rows(e) for e in display.elts]
            return node
        options = {k.arg: k.value for k in node.keywords if k.arg in ("where", "initial", "dtype")}
        found = self.reduced(node) if options else None
        if found is None:
            return node
        name, array = found
        kind = self.kind_of(options.get("dtype"))
        made = _Reduction(node, name, array).with_options(options) if kind in _DTYPES[name] else None
        if made is None:
            return node
        made.written = copy_tree(node)  # type: ignore[attr-defined]
        return with_location(made, node)

    def kind_of(self, dtype: ast.expr | None) -> str:
        """The kind of the numbers of a dtype that is written there; "" if there is none, "?" for others."""
        if dtype is None or _is_constant(dtype, None):
            return ""
        value = dtype.value if isinstance(dtype, ast.Constant) else self.resolve(dtype)
        try:
            return np.dtype(value).kind  # type: ignore[call-overload]
        except TypeError:
            return "?"

    def reduced(self, node: ast.Call) -> tuple[str, ast.expr] | None:
        """The name of the reduction that a call is, and the array; None for other calls."""
        called, function = self.resolve(node.func), node.func
        name = getattr(called, "__name__", "")
        if name in _REDUCTIONS and getattr(np, name) is called and node.args:
            return name, node.args[0]
        if called is None and isinstance(function, ast.Attribute) and function.attr in _REDUCTIONS:
            return function.attr, function.value
        return None


class _Reduction:
    """A call of a reduction, by its name, of an array, whose options become expressions."""

    def __init__(self, node: ast.Call, name: str, array: ast.expr) -> None:
        self.name, self.array = name, array
        method = isinstance(node.func, ast.Attribute) and node.func.value is array
        self.function = bound_name(getattr(np, name), f"np.{name}") if method else node.func
        self.others = node.args if method else node.args[1:]
        self.keywords = [k for k in node.keywords if k.arg not in ("where", "initial", "dtype")]

    def of(self, array: ast.expr, name: str = "") -> ast.expr:
        function = bound_name(getattr(np, name), f"np.{name}") if name else self.function
        return ast.Call(function, [array, *map(copy_tree, self.others)], copy_tree(self.keywords))

    def with_options(self, options: dict[str, ast.expr]) -> ast.expr | None:
        """The expression that the call is with these options; None where there is none."""
        dtype, where, initial = (options.get(k) for k in ("dtype", "where", "initial"))
        if dtype is not None and not _is_constant(dtype, None):
            self.array = ast.Call(bound_name(np.array, "np.array"), [self.array], [ast.keyword("dtype", dtype)])
        extremum = self.name in ("max", "min", "amax", "amin")
        if initial is not None:
            initial = ast.Call(bound_name(first_value, "initial"), [initial, copy_tree(self.array)], [])
        if where is not None and not _is_constant(where, True):
            if self.name == "mean" and initial is None:
                return self.mean_where(where)
            other = initial if extremum else ast.Constant(_REDUCTIONS[self.name])
            if other is None or (not extremum and _REDUCTIONS[self.name] is None):
                return None
            self.array = _where(where, self.array, other)
        if initial is None:
            return self.of(self.array)
        if extremum and not self.others and not self.keywords:
            flat = ast.Call(bound_name(np.ravel, "np.ravel"), [self.array], [])
            return self.of(ast.Call(bound_name(np.append, "np.append"), [flat, copy_tree(initial)], []))
        if extremum:
            larger = np.maximum if "max" in self.name else np.minimum
            return ast.Call(bound_name(larger, f"np.{larger.__name__}"), [self.of(self.array), copy_tree(initial)], [])
        if self.name not in ("sum", "prod"):
            return None
        return ast.BinOp(copy_tree(initial), ast.Add() if self.name == "sum" else ast.Mult(), self.of(self.array))

    def mean_where(self, where: ast.expr) -> ast.expr | None:
        """The sum of the elements where a mask holds over their number; NaN if there are none."""
        if not all(isinstance(n, _REPEATABLE) for n in subtrees(self.array)):
            return None
        shape = ast.Call(bound_name(np.shape, "np.shape"), [copy_tree(self.array)], [])
        ones = ast.Call(bound_name(np.ones, "np.ones"), [shape], [])
        count = self.of(_where(copy_tree(where), ones, ast.Constant(0.0)), "sum")
        total = self.of(_where(where, self.array, ast.Constant(0)), "sum")
        return ast.Call(bound_name(np.divide, "np.divide"), [total, count], [])


def _where(mask: ast.expr, array: ast.expr, other: ast.expr) -> ast.expr:
    return ast.Call(bound_name(np.where, "np.where"), [mask, array, copy_tree(other)], [])


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _with_rows(item: ast.expr) -> ast.expr:
    """A list of lists that is joined to arrays as an array."""
    if isinstance(item, ast.List) and any(isinstance(e, ast.List) for e in item.elts):
        return with_location(ast.Call(bound_name(np.array, "np.array"), [item], []), item)
    return item


def _as_array(part: ast.expr) -> ast.expr:
    """A slice in ``np.r_[0:n]`` as the numbers that it stands for."""
    if not isinstance(part, ast.Slice) or part.upper is None:
        return part
    bounds = [part.lower or ast.Constant(0), part.upper, *([part.step] if part.step is not None else [])]
    return with_location(ast.Call(bound_name(np.arange, "np.arange"), bounds, []), part)
