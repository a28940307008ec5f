"""Names: new ones, and those of functions in the code that is written."""

from __future__ import annotations

import ast
import builtins
import contextlib
import math

import numpy as np

from .ir import subtrees

__all__ = ["FUNCTION_NAMES", "HELPERS", "INTEGERS", "RESERVED", "Names", "all_names", "first_name", "resolve"]

#: What a function is called in generated code.
FUNCTION_NAMES: dict[object, str] = {}
for _module, _prefix in ((np, "np"), (math, "math")):
    for _name in vars(_module):
        with contextlib.suppress(TypeError):  # what has no hash is no function
            FUNCTION_NAMES.setdefault(getattr(_module, _name), f"{_prefix}.{_name}")
FUNCTION_NAMES |= {f: f.__name__ for f in (float, int, bool, abs, min, max, round, len, pow, range)}
FUNCTION_NAMES[np.float64], FUNCTION_NAMES[np.float32] = "np.float64", "np.float32"
#: What casts to integers.
INTEGERS = (np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8)
FUNCTION_NAMES |= {f: f"np.{f.__name__}" for f in INTEGERS}
#: Functions of this library that generated code imports.
HELPERS: dict[str, object] = {}
#: What generated code means by these names.
RESERVED = {
    "np",
    "math",
    "njit",
    "prange",
    "grown",
    "range",
    "len",
    "abs",
    "min",
    "max",
    "int",
    "float",
    "bool",
    "round",
    "pow",
}
_MODULES = {"np": np, "math": math}


def resolve(node: ast.expr) -> object:
    """The function that a name, or an attribute of a module, stands for in lowered code."""
    if isinstance(node, ast.Name):
        return HELPERS.get(node.id) or _MODULES.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        return getattr(resolve(node.value), node.attr, None)
    return None


def first_name(node: ast.expr) -> str:
    """``a`` of ``a.b.c``; empty where that begins with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Names:
    """Names that are not used yet.

    Attributes
    ----------
    theirs : set of str
        The names in functions that are being lowered into the one they are called in: nothing else is called so.
    """

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken | RESERVED
        self.theirs: set[str] = set()

    def fresh(self, name: str, of_theirs: bool = False) -> str:
        made, k = name, 1
        while made in self.taken or (made in self.theirs and not of_theirs):
            made, k = f"{name}{k}", k + 1
        self.taken.add(made)
        return made


def all_names(tree: ast.AST) -> set[str]:
    return {n.id for n in subtrees(tree) if isinstance(n, ast.Name)} | {
        n.arg for n in subtrees(tree) if isinstance(n, ast.arg)
    }
