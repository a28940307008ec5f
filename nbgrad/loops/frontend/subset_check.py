"""Refuses what is outside of the subset for any arguments, before anything is lowered."""

from __future__ import annotations

import ast
import functools
import types
from typing import TYPE_CHECKING

import numpy as np

from ...backends.numba.jitclasses import instance_type
from ...backends.numba.wrapped_functions import (
    address_of_c_function,
    is_jitclass,
    is_overloaded,
    kernel_of,
    plain_function,
)
from ..custom_rules import rule_of
from ..runtime.index_errors import outside
from ..runtime.printing import print_values
from ..runtime.products import PRODUCT_ROUTINES
from ..runtime.tape_memory import in_large_pages
from .captured_values import is_plain_object, unsupported_constant
from .dictionaries import METHODS, READING
from .function_table import DEFINITIONS, check_number, is_known, no_function, row_of
from .library.lists import LIST_METHODS
from .list_vectors import append_item
from .made_classes import class_of
from .messages import STRING_METHODS
from .print_statements import prints
from .syntax import first_name, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["OTHER_UFUNC", "check"]

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Return, ast.Break,
               ast.Continue, ast.Pass, ast.Expr, ast.Assert, ast.Raise, ast.FunctionDef)  # fmt: skip
_EXPRESSIONS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Subscript,
                ast.Call, ast.Attribute, ast.Tuple, ast.Slice, ast.keyword, ast.Lambda, ast.DictComp,
                ast.NamedExpr, ast.Starred, ast.List, ast.Dict, ast.ListComp, ast.GeneratorExp)  # fmt: skip
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv, ast.USub, ast.UAdd, ast.Not, ast.And,
              ast.Or, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.MatMult, ast.BitAnd, ast.BitOr,
              ast.BitXor, ast.Invert, ast.LShift, ast.RShift)  # fmt: skip
_INSTEAD = {
    ast.With: "leave it to the caller (of contexts there are np.errstate that ignores or warns, and "
    "warnings.catch_warnings())",
    ast.List: "use np.array([...]), or fill an array in a loop",
    ast.Dict: "use arrays or separate arguments",
    ast.Set: "use an array",
    ast.JoinedStr: "strings are for the caller",
    ast.Delete: "leave it out",
    ast.Global: "pass and return the value",
    ast.Nonlocal: "pass and return the value",
    ast.Is: "use ==",
    ast.IsNot: "use !=",
    ast.In: "use a tuple, or write a loop",
    ast.NotIn: "use a tuple, or write a loop",
    ast.Import: "import at the beginning of the function, or outside of it",
    ast.ImportFrom: "import at the beginning of the function, or outside of it",
    ast.Starred: "write the items one by one",
    ast.Yield: "fill an array",
    ast.ClassDef: "use numbers, arrays and tuples",
}

#: What ``in`` may have on its right.
_CONTAINERS = ast.Tuple, ast.Name, ast.Subscript, ast.Attribute
_ADVICE = {
    "print": "call it as a statement of its own",
    "np.random": "draw the random numbers before, and pass them as an array, or transform standard ones",
    "random": "draw the random numbers before, and pass them as an array, or transform standard ones",
    "np.linalg": "use solve, inv, det, cholesky, qr, eigh, svd, pinv, lstsq or norm, or write it as loops",
    "nditer": "loop over np.ndindex(a.shape)",
    "split": "take slices, as a[:n]",
    "append": "make an array before, and fill it",
    "sort": "sort before, or gather with an array of indices",
    "complex": "write the real and imaginary parts separately",
    "at": "add in a loop: for k in range(i.size): z[i[k]] += y[k]",
    "dict": "use arrays, or a named tuple",
    "list": "make an array before, and fill it",
    "set": "use an array of flags",
}


#: What to do about a ufunc whose source cannot be found.
OTHER_UFUNC = (
    "its source cannot be read from it: where numba.vectorize or guvectorize made it, call one made without target=, "
    "or the function that it was made of; else give it a rule by nb.primitive"
)

#: What generated code calls; these have no derivatives.
_ROUTINES = in_large_pages, outside, print_values, append_item, *PRODUCT_ROUTINES
_INSTEAD_OF_JITCLASS = "make the instance before, and pass it as an argument, or pass its fields in a named tuple"


def check(source: Source, within: tuple = ()) -> None:
    """Refuse code that is outside of the subset for any arguments; `within` are the functions that call this one."""
    nodes = subtrees(source.node)
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    local |= {n.name for n in nodes[1:] if isinstance(n, ast.FunctionDef)}
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    listed = {id(a) for n in calls for a in (*n.args, *(k.value for k in n.keywords))}
    listed |= {id(n.iter) for n in nodes if isinstance(n, ast.For | ast.comprehension)}
    listed |= {id(n.elt) for n in nodes if isinstance(n, ast.ListComp | ast.GeneratorExp)}
    listed |= {id(r) for n in nodes if isinstance(n, ast.List | ast.Tuple) and id(n) in listed for r in n.elts}
    listed |= {id(a) for n in calls for a in n.args if isinstance(a, ast.Starred)}
    targets = [t for n in nodes if isinstance(n, ast.Assign) for target in n.targets for t in subtrees(target)]
    listed |= {id(e) for e in targets if isinstance(e, ast.Starred) and isinstance(e.ctx, ast.Store)}
    checks = _Check(source, local, listed, within)
    for statement in source.node.body:
        for node in subtrees(statement):
            checks.node(node)
    source.checked = True


class _Check:
    """Checks single nodes; `listed` are the lists and stars that are allowed where they stand."""

    def __init__(self, source: Source, local: set[str], listed: set[int], within: tuple) -> None:
        self.source = source
        self.local = local
        self.listed = listed
        self.within = within

    def node(self, node: ast.AST) -> None:
        if type(node) is ast.Name:
            self.captured(node, node.id)
            return
        refuse = self.source.refuse
        what, instead = type(node).__name__, _instead(node)
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            raise refuse(node, f"{what} is outside of the subset", instead)
        if isinstance(node, ast.List) and isinstance(node.ctx, ast.Load) and id(node) not in self.listed:
            if not node.elts and self.source.generated:  # where calls in loops store arrays
                what = "a further derivative of a primitive with a vjp of its own, called in a loop"
                raise refuse(node, what, "give it an infer with sizes known before the loop, or leave out its vjp")
            raise refuse(node, "a list", instead)
        if isinstance(node, ast.expr) and (
            not isinstance(node, _EXPRESSIONS) or (isinstance(node, ast.Starred) and id(node) not in self.listed)
        ):
            raise refuse(node, f"{what} is outside of the subset", instead)
        if isinstance(node, ast.Constant) and (wrong := unsupported_constant(node.value)):
            raise refuse(node, *wrong)
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.AugAssign):
            self.operator(node, node.op)
        elif isinstance(node, ast.Compare):
            for op, other in zip(node.ops, node.comparators, strict=True):
                constant = isinstance(other, ast.Constant) and isinstance(other.value, bool | None)
                is_none = isinstance(op, ast.Is | ast.IsNot) and constant
                member = isinstance(op, ast.In | ast.NotIn) and isinstance(other, _CONTAINERS)
                if not is_none and not member:
                    self.operator(node, op)
        elif isinstance(node, ast.FunctionDef) and node.decorator_list:
            raise refuse(node, "a decorator", "leave it out, or define the function outside")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            raise refuse(node, "a generator", "fill an array, and return it")
        elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant | ast.Call):
            raise refuse(node, "an expression without effect", "leave it out, or assign its value")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = self.source.resolve(node.value.func)
            allowed = called in (prints, None) or self.own(node, called) or self.is_local_call(node.value.func)
            if not allowed:
                advice = _advice(ast.unparse(node.value.func)) or "leave it out, or assign its value"
                raise refuse(node, "an expression without effect", advice)
        if isinstance(node, ast.Call):
            self.call(node)

    def captured(self, node: ast.AST, name: str) -> None:
        """Refuse instances from outside, whose fields may change."""
        if name not in self.local and instance_type(self.source.outer_values.get(name)):
            raise self.source.refuse(node, f"{name}, an instance of a jitclass", "pass it as an argument")

    def operator(self, node: ast.AST, op: ast.AST) -> None:
        if not isinstance(op, _OPERATORS):
            raise self.source.refuse(node, f"the operator {type(op).__name__} is outside of the subset", _instead(op))

    def own(self, node: ast.AST, called: object) -> bool:
        """Whether `called` is a function of the user's; if so, check it as well."""
        if isinstance(called, type) and issubclass(called, tuple) and hasattr(called, "_fields"):
            return True
        if called in _ROUTINES:
            return True
        while isinstance(called, functools.partial):
            called = self.source.differentiable(called.func)
            if is_known(called) or rule_of(called) is not None:
                return True
        kernel: object = kernel_of(called)
        plain = plain_function(called) if kernel is None else kernel
        if not isinstance(plain, types.FunctionType) or (plain.__module__ or "").split(".")[0] == "numpy":
            return False
        if plain in self.within or is_overloaded(called):  # the body is chosen by the types of arguments
            return True
        source = self.source.source_of_called(plain, called if kernel is None else plain)
        if not source.checked:
            check(source, (*self.within, plain))
        return True

    def is_local_call(self, node: ast.expr) -> bool:
        """Whether a call is of a local function, or of a method of something local."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return not isinstance(node, ast.Name) or node.id in self.local

    def is_method(self, node: ast.Attribute) -> bool:
        """Whether a function that is called is a method of a local variable, or of an array or string from outside."""
        return self.is_local_call(node) or isinstance(self.source.resolve(node.value), np.ndarray | str)

    def is_type(self, node: ast.expr) -> bool:
        """Whether `node` is ``type(x)`` or ``x.dtype.type``."""
        match node:
            case ast.Attribute(value=ast.Attribute(attr="dtype") | ast.Name() as owner, attr="type"):
                return isinstance(owner, ast.Attribute) or owner.id in self.local
            case ast.Call(func=ast.Name() as function):
                return self.source.resolve(function) is type
        return False

    def number_of_arguments(self, node: ast.Call, called: object) -> None:
        """Check how many arguments by position a function or method of the table gets."""
        if any(isinstance(a, ast.Starred) for a in node.args) or rule_of(called) is not None:
            return
        method = isinstance(node.func, ast.Attribute) and called is None
        row = row_of(getattr(np.ndarray, node.func.attr, None) if method else called)  # type: ignore[attr-defined]
        if row is not None and not (isinstance(node.func, ast.Name) and node.func.id in self.local):
            check_number(self.source, node, len(node.args) + method, row)

    def call(self, node: ast.Call) -> None:
        local = isinstance(node.func, ast.Name) and node.func.id in self.local
        called = None if local else self.source.resolve(node.func)
        if called is not None and (not callable(called) or address_of_c_function(called) is not None):
            raise self.source.refuse(node, *no_function(node, called))
        known = is_known(called) or rule_of(called) is not None
        chosen = isinstance(node.func, ast.Call) and getattr(node.func.func, "attr", "") == "get"  # of a dictionary
        if local or chosen or isinstance(node.func, ast.Subscript) or self.is_type(node.func):
            known = True
        elif isinstance(node.func, ast.Attribute) and self.is_method(node.func):
            name = node.func.attr
            known = (
                name in STRING_METHODS
                or is_known(getattr(np.ndarray, name, None))
                or getattr(np.random.Generator, name, None) in DEFINITIONS
            )
            known = known or name in METHODS or name in LIST_METHODS
            known = known or not any(hasattr(t, name) for t in (np.ndarray, list, str))  # perhaps of a jitclass
        self.number_of_arguments(node, called)
        known = known or (called is dict and len(node.args) < 2)
        known = known or (isinstance(getattr(called, "__self__", None), dict) and node.func.attr in READING)  # type: ignore[attr-defined]
        owner = self.source.resolve(node.func.value) if isinstance(node.func, ast.Attribute) else None
        known = known or (is_plain_object(owner) and first_name(node.func) not in self.local)
        error = isinstance(called, type) and issubclass(called, BaseException)
        if not known and not error and not self.own(node, called):
            text = ast.unparse(node.func)
            name = first_name(node.func)
            self.captured(node, name)
            if name and name not in {*self.source.outer_values, *self.local}:
                raise self.source.refuse(node, f"{name}, which is not defined", "define it before adjoint is called")
            if getattr(called, "vjp", None) is not None:
                raise self.source.refuse(
                    node,
                    f"{text}, a primitive that is not compiled, or whose vjp is not",
                    "compile both with numba.njit, or leave its vjp out, so that its loops are differentiated",
                )
            if class_of(called) is not None:
                what = f"{text}, a class whose instance is used otherwise than by its fields and methods in order,"
                if (line := getattr(node, "other_use", None)) not in (None, node.lineno):
                    what += f" as in line {self.source.first + line}, '{self.source.lines[line - 1].strip()}',"
                instead = "give it one name, and call methods that set fields on lines of their own"
                raise self.source.refuse(node, what, instead)
            raise self.source.refuse(
                node,
                f"{text} has no derivative here",
                _advice(text, called)
                or "write it with functions of the table, or as loops, or give it a rule by nb.primitive",
            )


def _instead(node: ast.AST) -> str:
    """What to write instead of a node outside of the subset."""
    return _INSTEAD.get(type(node), "see the table of the subset")


def _advice(text: str, called: object = None) -> str:
    """What to write instead of the function `called`, written `text`; "" if nothing is known."""
    if isinstance(called, np.ufunc) and getattr(np, called.__name__, None) is not called:
        return OTHER_UFUNC
    if is_jitclass(called):
        return _INSTEAD_OF_JITCLASS
    if isinstance(called, np.vectorize):
        return "make it by numba.vectorize, which needs no first result to know the dtype, or write a loop"
    return next((a for k, a in _ADVICE.items() if f"{text}.".startswith(f"{k}.") or text.endswith(f".{k}")), "")
