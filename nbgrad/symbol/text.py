"""Text format of attributes and scalar expressions; reading executes nothing.

Attributes are written as Python literals (``2.0``, ``(1, 0)``, ``None``; a plain word is a string), with calls
such as ``dtype('float64')`` for values without a literal. An expression is written as a sequence of function
applications: in ``mul x0 x1; add $0 2.0`` the second step adds 2 to the result of the first.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..core.context import Context
from ..core.dtypes import DType, as_dtype
from ..core.source_text import parsed
from ..errors import NBGradError
from ..ir import expr
from ..ir.expr import Expr, Fn, const, topological_order, var
from ..kernels import scalar

__all__ = ["NotWritable", "decode", "encode", "read_expr", "write_expr"]


class NotWritable(NBGradError):
    """Raised for the text of a value that could not be written: it can be inspected, not run."""


_WORD = re.compile(r"[A-Za-z_]\w*")
_RESERVED = ("None", "True", "False", "inf", "nan")


def encode(value: Any) -> str:
    """The text of an attribute.

    Examples
    --------
    >>> encode(2.0), encode((1, None)), encode("clip"), encode(slice(0, 3))
    ('2.0', '(1, None)', 'clip', 'slice(0, 3, None)')
    """
    if isinstance(value, str) and _WORD.fullmatch(value) and value not in _RESERVED:
        return value
    return _inner(value)


def _inner(value: Any) -> str:
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) is tuple:
        return f"({', '.join(map(_inner, value))}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"[{', '.join(map(_inner, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{_inner(k)}: {_inner(v)}' for k, v in value.items())}}}"
    if isinstance(value, slice | range):
        parts = (value.start, value.stop, value.step)
        return f"{type(value).__name__}({', '.join(map(_inner, parts))})"
    if isinstance(value, DType) or (isinstance(value, type | np.dtype) and _is_dtype(value)):
        return f"dtype({as_dtype(value).name!r})"
    if isinstance(value, Context):
        return f"context({value.device_type!r}, {value.device_id})"
    if isinstance(value, np.generic) and _is_dtype(value.dtype):
        return f"number({value.dtype.name!r}, {_inner(value.item())})"
    if isinstance(value, np.ndarray) and _is_dtype(value.dtype):
        return f"array({value.dtype.name!r}, {value.shape}, {_inner(value.reshape(-1).tolist())})"
    return f"unwritable({type(value).__name__!r})"


def _is_dtype(value) -> bool:
    try:
        as_dtype(value)
    except NBGradError:
        return False
    return True


def _unwritable(kind):
    raise NotWritable(f"a value of type {kind} could not be written as text")


def _range(*bounds: int) -> range:
    values = range(*bounds)
    if len(values) > _MAX_LENGTH:
        raise ValueError(f"{values} is too long")
    return values


_CALLS: dict[str, Callable] = {
    "slice": slice,
    "range": _range,
    "dtype": as_dtype,
    "context": Context,
    "number": lambda dtype, value: as_dtype(dtype).type(value),
    "array": lambda dtype, shape, values: np.array(values, as_dtype(dtype).np).reshape(shape),
    "unwritable": _unwritable,
}

#: The tokens that a text may contain, and limits: Python's parser is not safe for adversarial input.
_TOKEN = re.compile(
    r"""\s+|(?P<open>[(\[{])|(?P<close>[)\]}])|[,:]|-?(?:(?:\d[\d.]*(?:[eE][-+]?\d+)?|inf|nan)(?![\w.]))|[A-Za-z_]\w*"""
    r"""|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""",
    re.ASCII,
)
_MAX_DEPTH, _MAX_LENGTH = 32, 1 << 24


def _check_tokens(text: str) -> None:
    """Raise, before parsing, for text that :func:`encode` never writes."""
    position = depth = 0
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"{len(text)} characters are too many")
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(f"{text[position : position + 20]!r} is not allowed")
        depth += bool(token["open"]) - bool(token["close"])
        if not 0 <= depth <= _MAX_DEPTH:
            raise ValueError("brackets are nested too deep, or are not closed")
        position = token.end()


def decode(text: str) -> Any:
    """The attribute that :func:`encode` wrote as `text`.

    Raises
    ------
    NotWritable
        If it is the text of a value that could not be written.
    NBGradError
        If it is not a valid text.

    Examples
    --------
    >>> decode("(1, -2.5, inf)"), decode("clip"), decode("dtype('float64')")
    ((1, -2.5, inf), 'clip', float64)
    """
    if _WORD.fullmatch(text) and text not in _RESERVED:
        return text
    try:
        _check_tokens(text)
        return _value(parsed(text.strip(), "eval").body)
    except NotWritable:
        raise
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError, NBGradError) as err:
        raise NBGradError(f"Symbol: attribute text {text[:80]!r} cannot be read: {err}") from None


def _value(tree: ast.AST) -> Any:
    match tree:
        case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float | str):
            if type(value) is int and value >= 1 << 63:
                raise ValueError(f"the integer {str(value)[:30]} is too large")
            return value
        case ast.Name(id="inf"):
            return math.inf
        case ast.Name(id="nan"):
            return math.nan
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Tuple(elts=elements):
            return tuple([_value(e) for e in elements])
        case ast.List(elts=elements):
            return [_value(e) for e in elements]
        case ast.Dict(keys=keys, values=values):
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return _CALLS[name](*[_value(a) for a in args])
    raise ValueError(f"{type(tree).__name__} is not allowed")


# Expressions.


@cache
def functions() -> dict[str, Fn]:
    """Every scalar function by name."""
    by_name: dict[str, Fn] = {}
    for module in (expr, scalar):
        for value in vars(module).values():
            if isinstance(value, Fn) and by_name.setdefault(value.name, value) is not value:
                raise ValueError(f"two scalar functions are called {value.name!r}")
    return by_name


@lru_cache(4096)
def write_expr(e: Expr) -> str | None:
    """The text of an expression; None if it uses a function that is not in :func:`functions`.

    Examples
    --------
    >>> from nbgrad.ir.expr import var
    >>> x = var("x0")
    >>> write_expr(x * x + 1)
    'mul x0 x0; add $0 1'
    """
    names: dict[Expr, str] = {}
    steps: list[str] = []
    for node in topological_order([e]):
        if node.fn is None:
            names[node] = node.name if node.name is not None else _number(node.value)
        elif functions().get(node.fn.name) is not node.fn:
            return None
        else:
            names[node] = f"${len(steps)}"
            steps.append(" ".join([node.fn.name, *[names[a] for a in node.args]]))
    return "; ".join(steps) if steps else names[e]


def _number(value) -> str:
    return repr(float(value)) if isinstance(value, float | np.floating) else repr(int(value))


_VARIABLE = re.compile(r"([xs])(0|[1-9]\d{0,3})")
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_FLOAT = re.compile(r"-?(?:[0-9]{1,30}\.[0-9]{1,30}(?:e[-+]?[0-9]{1,4})?|[0-9]{1,30}e[-+]?[0-9]{1,4}|inf|nan)")
_EARLIER = re.compile(r"\$(0|[1-9][0-9]{0,5})")
_MAX_STEPS = 1 << 14


@lru_cache(4096)
def read_expr(text: str, operands: int, params: int) -> Expr:
    """The expression that :func:`write_expr` wrote, in the variables x0 ... and s0 ...

    Raises
    ------
    NBGradError
        If it is not a valid text, or has other variables.

    Examples
    --------
    >>> read_expr("mul x0 s0; add $0 1.0", operands=1, params=1)
    add(mul(x0, s0), 1.0)
    """
    results: list[Expr] = []

    def operand(word: str) -> Expr:
        if match := _EARLIER.fullmatch(word):
            return results[int(match[1])]
        if match := _VARIABLE.fullmatch(word):
            if int(match[2]) >= (operands if match[1] == "x" else params):
                raise ValueError(f"there is no {word} among {operands} operand(s) and {params} parameter(s)")
            return var(word)
        if _INTEGER.fullmatch(word):
            return const(int(word))
        if not _FLOAT.fullmatch(word):
            raise ValueError(f"{word!r} is neither a number nor a variable")
        return const(float(word))

    try:
        if text.count(";") >= _MAX_STEPS:
            raise ValueError(f"more than {_MAX_STEPS} steps")
        for step in text.split(";"):
            name, *words = step.split()
            fn = functions().get(name)
            if fn is None:
                if words or results:
                    raise ValueError(f"there is no scalar function {name!r}")
                return operand(name)
            if len(words) != _arity(fn):
                raise ValueError(f"{name} takes {_arity(fn)} operand(s), got {len(words)}")
            results.append(fn(*map(operand, words)))
        return results[-1]
    except (ValueError, IndexError, ArithmeticError, TypeError) as err:
        raise NBGradError(f"Symbol: expression {text[:80]!r} cannot be read: {err}") from None


def _arity(fn: Fn) -> int:
    return 1 + max(int(k) for k in re.findall(r"\{(\d+)\}", fn.template))
