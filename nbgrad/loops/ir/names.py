"""Names: new ones, and those of functions in the code that is written."""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import keyword
import math
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .statements import subtrees

__all__ = ["FUNCTION_NAMES", "INTEGERS", "RESERVED", "Import", "Names", "all_names", "bound_to", "first_name", "known",
           "normal", "outside_names"]  # fmt: skip

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
#: What generated code means by these names, wherever they are: no variable of it is called so.
RESERVED = {
    *("np", "math", "njit", "prange", "grown", "plus", "ahead", "in_large_pages", "OutOfRange", "outside"),
    *("range", "len", "abs", "min", "max", "int", "float", "bool", "round", "pow"),
    *(n for n, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)),
}
#: What is not given to anything new: readers would take it for something else, or it is no name.
_MISLEADING = {*RESERVED, *dir(builtins), *keyword.kwlist, *keyword.softkwlist}
_MODULES = {"np": np, "math": math}


def first_name(node: ast.expr) -> str:
    """``a`` of ``a.b.c``; empty where that begins with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def known(function: object, text: str) -> ast.Name:
    """A node that is bound to a function whatever its name is bound to where it is put; `text` is for messages."""
    node = ast.Name(text, ast.Load())
    node.function = function  # type: ignore[attr-defined]
    return node


def bound_to(node: ast.expr) -> object:
    """The function of such a node; None for others."""
    return getattr(node, "function", None)


class Import(NamedTuple):
    """A function that a generated file imports: what it is called where it comes from, and, of a primitive, what in the
    function it is called for."""

    name: str
    function: object
    meaning: object


class Names:
    """All names of a function and of the code that is made of it: what is new gets one that nothing else has.

    Attributes
    ----------
    taken : set of str
        The names that are in use: variables and parameters, what the function and those lowered into it read from
        outside, what was made, and all that Python and generated code mean something by.
    outside : set of str
        Those of them that only stand for something outside of the function, which may keep its name.
    theirs : set of str
        The names in functions that are being lowered into the one they are called in: nothing else is called so.
    imports : dict
        The functions that the generated file imports, by what they are called in it.
    """

    def __init__(self, taken: Iterable[str], outside: Iterable[str] = ()) -> None:
        self.taken = {*map(normal, taken), *_MISLEADING}
        self.outside = set(outside) - _MISLEADING
        self.theirs: set[str] = set()
        self.imports: dict[str, Import] = {}
        self._last: dict[tuple[str, int, bool], int] = {}  # numbers that were tried

    def copy(self) -> Names:
        """The same names, for one of several files that are made of a function."""
        made = copy.copy(self)
        made.taken, made.outside, made.theirs = set(self.taken), set(self.outside), set(self.theirs)
        made.imports, made._last = dict(self.imports), dict(self._last)
        return made

    def fresh(self, name: str, number: int = 1, plain: bool = True, of_theirs: bool = False) -> str:
        """`name` if that is free, or (always, if it is not to be `plain`) with a number after it, from `number` on."""
        name = normal(name)
        made, k = name, self._last.get((name, number, of_theirs), number)
        if not plain:
            made, k = f"{name}{k}", k + 1
        while made in self.taken or (made in self.theirs and not of_theirs):
            made, k = f"{name}{k}", k + 1
        self._last[name, number, of_theirs] = k
        self.taken.add(made)
        return made

    def keep(self, name: str) -> str:
        """`name` for something from outside, if it is free or stands for something outside anyway; else a new one."""
        name = normal(name)
        if name not in self.outside:
            return self.fresh(name)
        self.outside.remove(name)  # for this, from now on
        return name

    def imported(self, name: str, function: object, meaning: object = None) -> str:
        """What a function that the generated file imports by `name` is called in it."""
        for known_as, found in self.imports.items():
            if found.function is function:
                if meaning is not None and found.meaning is function:
                    self.imports[known_as] = Import(found.name, function, meaning)
                return known_as
        made = name if name in RESERVED and meaning is None else self.keep(name)
        self.imports[made] = Import(name, function, meaning or function)
        return made

    def resolve(self, node: ast.expr) -> object:
        """The function that a name, or an attribute of a module, stands for in lowered code."""
        if isinstance(node, ast.Name):
            found = self.imports.get(node.id)
            return found.meaning if found else _MODULES.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            return getattr(self.resolve(node.value), node.attr, None)
        return None


def normal(name: str) -> str:
    """A name as Python understands it: in source, different characters may be the same variable (PEP 3131)."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def all_names(tree: ast.AST) -> set[str]:
    """All names of variables and functions in a tree."""
    found: set[str] = set()
    for n in subtrees(tree):
        if isinstance(n, ast.Name):
            found.add(n.id)
        elif isinstance(n, ast.arg):
            found.add(n.arg)
        elif isinstance(n, ast.FunctionDef) and n is not tree:
            found.add(n.name)
    return found


def outside_names(tree: ast.AST) -> set[str]:
    """Those that a function only reads, wherever in it, and so have their meanings from outside."""
    set_here = {n.id for n in subtrees(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    set_here |= {n.arg for n in subtrees(tree) if isinstance(n, ast.arg)}
    set_here |= {n.name for n in subtrees(tree) if isinstance(n, ast.FunctionDef)}
    return all_names(tree) - set_here
