"""From a Python function to the statements of :mod:`.ir`; what is outside of the subset is refused."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable

import numba
import numpy as np

from ..errors import TraceError
from .adopted import adopted
from .algebra import FUNCTIONS, PASSIVE
from .jumps import raised

__all__ = ["Source", "check", "source_of"]

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Return, ast.Break,
               ast.Continue, ast.Pass, ast.Expr)  # fmt: skip
_EXPRESSIONS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Subscript,
                ast.Call, ast.Attribute, ast.Tuple, ast.Slice, ast.keyword)  # fmt: skip
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv, ast.USub, ast.UAdd, ast.Not, ast.And,
              ast.Or, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)  # fmt: skip
_INSTEAD = {
    ast.Try: "check with if before",
    ast.With: "leave it to the caller",
    ast.ListComp: "write a loop over range that fills an array",
    ast.GeneratorExp: "write a loop over range",
    ast.List: "use an array",
    ast.Dict: "use arrays or separate arguments",
    ast.Lambda: "define a function with def outside and call it",
    ast.FunctionDef: "define the function outside and call it",
    ast.Raise: "check the arguments in the caller",
    ast.Assert: "check the arguments in the caller",
    ast.JoinedStr: "texts are for the caller",
    ast.NamedExpr: "assign in a statement of its own",
    ast.BitAnd: "write 'and', or integer arithmetic",
    ast.Delete: "leave it out",
    ast.Global: "pass and return the value",
    ast.Nonlocal: "pass and return the value",
    ast.Is: "use ==",
    ast.In: "write a loop",
    ast.MatMult: "write np.dot of vectors, or loops",
}

#: Array functions that the lowering knows.
ALLOCATE = {np.empty, np.zeros, np.ones, np.full, np.empty_like, np.zeros_like, np.ones_like, np.copy}
REDUCE = {np.sum, np.dot, np.mean}


RANGES = {range, numba.prange}  # turns of both run one after the other


class Source:
    """The text and tree of a function, and what the names in it stand for."""

    def __init__(self, function: Callable) -> None:
        plain = getattr(function, "py_func", function)
        if not isinstance(plain, types.FunctionType):
            raise TraceError(f"adjoint: a function defined with def is expected, {function!r} was given")
        self.name = plain.__name__
        self.file = plain.__code__.co_filename
        try:
            lines, self.first = inspect.getsourcelines(plain)
        except (OSError, TypeError) as err:
            raise TraceError(
                f"adjoint: the source of {self.name} cannot be read ({err}); define it in a file or a notebook cell"
            ) from None
        self.lines = textwrap.dedent("".join(lines)).splitlines()
        node = ast.parse("\n".join(self.lines)).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise TraceError(f"adjoint: {self.file}, line {self.first}: write the function with def, not as a lambda")
        self.node = node
        self.first -= 1
        closed = inspect.getclosurevars(plain).nonlocals
        self.module = str(plain.__module__)
        self.outside = {**vars(builtins), **plain.__globals__, **closed}

    def refuse(self, node: ast.AST, what: str, instead: str) -> TraceError:
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1].strip()
        return TraceError(f"adjoint: {self.file}, line {self.first + line}: {what} in '{text}'; {instead}")

    def resolve(self, node: ast.expr) -> object:
        """What a name, or an attribute of a module, stands for; None if that is not known."""
        if isinstance(node, ast.Name):
            return adopted(self.outside.get(node.id), self.module)
        if isinstance(node, ast.Attribute):
            return adopted(getattr(self.resolve(node.value), node.attr, None), self.module)
        return None


def source_of(function: Callable) -> Source:
    """The source of a function, checked."""
    source = Source(function)
    check(source)
    return source


def check(source: Source) -> None:
    """Refuse what is outside of the subset whatever the arguments are."""
    arguments = source.node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise source.refuse(
            source.node, "*args, **kwargs and keyword-only parameters are not supported", "name each parameter"
        )
    for statement in source.node.body:
        nodes = list(ast.walk(statement))
        fine = {n for s in nodes if raised(s) for n in ast.walk(s.body[0])}  # type: ignore[attr-defined]
        for node in nodes:
            if node not in fine:
                _check(source, node)


def _check(source: Source, node: ast.AST) -> None:
    instead = next((text for kind, text in _INSTEAD.items() if isinstance(node, kind)), "see the table of the subset")
    what = type(node).__name__
    if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
        raise source.refuse(node, f"{what} is outside of the subset", instead)
    if isinstance(node, ast.expr) and not isinstance(node, _EXPRESSIONS):
        raise source.refuse(node, f"{what} is outside of the subset", instead)
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.AugAssign):
        _operator(source, node, node.op)
    elif isinstance(node, ast.Compare):
        for op in node.ops:
            _operator(source, node, op)
    elif isinstance(node, ast.For):
        call = node.iter
        if not (isinstance(call, ast.Call) and source.resolve(call.func) in RANGES and not call.keywords):
            raise source.refuse(
                node, "a loop over something else than range", "write for i in range(...) and read x[i]"
            )
        if not isinstance(node.target, ast.Name) or node.orelse:
            raise source.refuse(node, "a loop with several variables or with else", "use one variable, and a flag")
    elif isinstance(node, ast.While) and node.orelse:
        raise source.refuse(node, "while with else", "use a flag")
    elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
        called = isinstance(node.value, ast.Call) and isinstance(source.resolve(node.value.func), types.FunctionType)
        if not called and not hasattr(source.resolve(getattr(node.value, "func", node.value)), "py_func"):
            raise source.refuse(node, "an expression without effect", "leave it out, or assign its value")
    elif isinstance(node, ast.Call):
        _check_call(source, node)


def _operator(source: Source, node: ast.AST, op: ast.AST) -> None:
    if not isinstance(op, _OPERATORS):
        instead = next((text for kind, text in _INSTEAD.items() if isinstance(op, kind)), "see the table of the subset")
        raise source.refuse(node, f"the operator {type(op).__name__} is outside of the subset", instead)


def _check_call(source: Source, node: ast.Call) -> None:
    called = source.resolve(node.func)
    if called is np.where or (
        isinstance(node.func, ast.Attribute) and node.func.attr in ("copy", "sum") and called is None
    ):
        return
    try:
        known = called in FUNCTIONS or called in PASSIVE or called in ALLOCATE or called in REDUCE or called in RANGES
    except TypeError:
        known = False
    if not known and not isinstance(getattr(called, "py_func", called), types.FunctionType):
        raise source.refuse(
            node,
            f"{ast.unparse(node.func)} has no derivative here",
            "write it with functions of the table, or as loops",
        )
    if any(isinstance(a, ast.Starred) for a in node.args):
        raise source.refuse(node, "a call with *", "pass the arguments one by one")
