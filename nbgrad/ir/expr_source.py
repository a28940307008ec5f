"""Print scalar expressions: as Python statements for kernels, and in mathematical notation for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.source_text import constant_source
from .expr import Expr, strip_strong, topological_order

__all__ = ["emit", "expression_code", "pretty"]


def literal(value: float | int, cast: str) -> str:
    return f"{cast}({constant_source(value)})"


def emit(outputs: Sequence[Expr], names: dict[str, str], cast: str) -> tuple[list[str], list[str], list[str], dict]:
    """Python statements that compute `outputs`, each subexpression once.

    Parameters
    ----------
    outputs : sequence of Expr
    names : dict
        The code of each variable.
    cast : str
        Name of the type that constants are cast to, so that a float32 kernel computes in float32.

    Returns
    -------
    constants : list of str
        Statements that belong before the loop.
    body : list of str
        Statements that belong inside it.
    results : list of str
        The code of each output after `body`.
    helpers : dict
        Global names that the statements use.
    """
    constants: list[str] = []
    body: list[str] = []
    helpers: dict[str, object] = {}

    def constant(text: str) -> str:
        constants.append(f"c{len(constants)} = {text}")
        return f"c{len(constants) - 1}"

    def local(text: str) -> str:
        body.append(f"t{len(body)} = {text}")
        return f"t{len(body) - 1}"

    return constants, body, expression_code(outputs, names, cast, local, helpers, constant), helpers


def expression_code(
    outputs: Sequence[Expr],
    names: dict[str, str],
    cast: str,
    local: Callable[[str], str],
    helpers: dict,
    constant: Callable[[str], str] = str,
) -> list[str]:
    """The code of `outputs`, with a local variable for each application of a function.

    Parameters
    ----------
    outputs : sequence of Expr
    names, cast
        As for :func:`emit`.
    local, constant : callable
        Give the variable that holds the value of some code: of an application, of a constant.
    helpers : dict
        Gets the global names that the code uses.
    """
    code: dict[Expr, str] = {}
    for node in topological_order(outputs):
        if node.name is not None:
            code[node] = names[node.name]
        elif node.fn is None:
            code[node] = constant(literal(node.value, cast))  # type: ignore[arg-type]
        else:
            template = node.fn.integer if cast in ("np.int64", "np.uint64") else node.fn.template
            helpers.update(node.fn.helpers)
            code[node] = local(template.format(*(code[a] for a in node.args)))
    return [code[e] for e in outputs]


# For people.

_OPERATORS = {"or": ("or", 1), "and": ("and", 2), "lt": ("<", 4), "le": ("<=", 4), "eq": ("==", 4), "ne": ("!=", 4),
              "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6)}  # fmt: skip


def pretty(e: Expr) -> str:
    """`e` as one would write it: ``g*(1 - y)*(1 + y)``."""
    return _with_precedence(e)[0]


def _with_precedence(e: Expr) -> tuple[str, int]:
    """The string, and the precedence of its outermost operator."""
    e = strip_strong(e)[0]
    if e.fn is None:
        return (e.name, 9) if e.name is not None else (f"{e.value:.10g}", 9 if not repr(e.value).startswith("-") else 5)
    parts = [_with_precedence(a) for a in e.args]
    if e.fn.name in _OPERATORS:
        symbol, level = _OPERATORS[e.fn.name]
        (left, a), (right, b) = parts
        space = "" if level == 6 else " "
        left = f"({left})" if a < level else left
        right = f"({right})" if b < level + (e.fn.name in ("sub", "div")) else right
        return f"{left}{space}{symbol}{space}{right}", level
    if e.fn.name in ("neg", "not"):
        text = f"({parts[0][0]})" if parts[0][1] < 7 else parts[0][0]
        return (f"-{text}" if e.fn.name == "neg" else f"not {text}"), 5 if e.fn.name == "neg" else 3
    name = "where" if e.fn.name == "select" else e.fn.name
    return f"{name}({', '.join(text for text, _ in parts)})", 9
