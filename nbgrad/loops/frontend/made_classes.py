"""Python's own classes, as their source defines them: methods, fields and constants of the class."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ...backends.numba.wrapped_functions import package_of
from ...core.source_text import parsed
from .known_iterables import constant_node
from .source_check import source_changed, source_lines
from .structured_control import own_returns
from .syntax import Transformer, bound_name, copy_tree, subtrees

__all__ = ["Method", "MethodOf", "PlainClass", "class_in", "class_of", "defaults_of", "method_of", "unreadable"]

#: What is found in classes by their attributes; other objects may have rules of their own for these.
_DESCRIPTORS = (types.FunctionType, property, staticmethod, classmethod, types.GetSetDescriptorType,
                types.MemberDescriptorType)  # fmt: skip
_NEVER = tuple, list, dict, set, str, int, float, BaseException, Enum


@dataclass(frozen=True)
class Method:
    """A method: its tree, the values of the names around it, None for one of a class in the function, and what kind it
    is: ``"method"``, ``"static"``, ``"class"`` or ``"property"``."""

    node: ast.FunctionDef
    outer: dict[str, object] | None
    kind: str = "method"

    @property
    def returns_itself(self) -> bool:
        """Whether it returns its first argument, at its end alone."""
        match own_returns(self.node.body):
            case [ast.Return(ast.Name(id=name)) as last]:
                own = [a.arg for a in self.node.args.args[:1]] if self.kind == "method" else []
                return own == [name] and self.node.body[-1] is last
        return False


class MethodOf(str):
    """The name of a method that is not the one an instance gives: ``super().f``, ``Base.f`` or what sets a property.

    Attributes
    ----------
    name : str
        Its name in the class.
    start : int
        The place, in the order of resolution, of the class where the search begins.
    setter : bool
        Whether it is what sets the property of that name.
    """

    name: str
    start: int
    setter: bool

    def __new__(cls, name: str, start: int = 0, setter: bool = False) -> MethodOf:
        self = super().__new__(cls, f"{start}.{name}{'=' if setter else ''}")  # no attribute of Python is called so
        self.name, self.start, self.setter = name, start, setter
        return self


@dataclass(frozen=True)
class PlainClass:
    """A class.

    Attributes
    ----------
    method : callable
        The method of a name, or of a :class:`MethodOf`; None if there is none.
    constants : dict
        The values of the class that instances have, too.
    parameters : list or None
        Of a data class without a constructor that is written: the fields, with their defaults.
    functions, kinds : tuple
        The functions of its methods, and the classes that have them.
    frozen : bool
        Whether fields cannot be set.
    """

    name: str
    method: Callable[[str], Method | None]
    constants: dict[str, ast.expr]
    parameters: list[tuple[str, ast.expr | None]] | None = None
    functions: tuple[types.FunctionType, ...] = ()
    kinds: tuple[type, ...] = ()
    frozen: bool = False


def class_of(value: object) -> PlainClass | None:
    """A class of Python's own that instances can be made of here; None for other objects."""
    if not isinstance(value, type) or type(value) is not type or issubclass(value, _NEVER):
        return None
    if package_of(value) in ("builtins", "numpy", "numba", "collections") or len(value.__mro__) > 4:
        return None
    if any(hasattr(value, n) for n in ("__getattr__", "__set_name__", "__get__")) or "__new__" in vars(value):
        return None
    if any(hasattr(held, "__get__") and not isinstance(held, _DESCRIPTORS) for c in value.__mro__[:-1]
           for held in vars(c).values() if not isinstance(held, type)):  # fmt: skip
        return None
    functions: list[types.FunctionType] = []
    for c in value.__mro__[:-1]:
        for held in vars(c).values():
            for plain in (getattr(held, "__func__", getattr(held, "fget", held)), getattr(held, "fset", None)):
                if isinstance(plain, types.FunctionType) and not _is_generated(plain):
                    functions.append(plain)
    if any(unreadable(f) for f in functions):
        return None
    frozen = any("__setattr__" in vars(c) for c in value.__mro__[:-1])
    constants: dict[str, ast.expr] = {}
    for c in reversed(value.__mro__[:-1]):
        constants |= {n: node for n, v in vars(c).items() if (node := constant_node(v)) is not None and n[:2] != "__"}
    parameters = None
    if dataclasses.is_dataclass(value) and _is_generated(value.__init__):
        if (parameters := _parameters(value)) is None:
            return None
        for name, _ in parameters:
            constants.pop(name, None)

    def method(name: str) -> Method | None:
        wanted = name if isinstance(name, MethodOf) else MethodOf(name)
        for k, c in enumerate(value.__mro__[:-1]):
            if k >= wanted.start and wanted.name in vars(c):
                held = vars(c)[wanted.name]
                if wanted.setter:
                    held = getattr(held, "fset", None)
                found = method_of(held)
                return found and replace(found, node=_OfClasses(value, k, found).visit(found.node))
        return None

    return PlainClass(value.__name__, method, constants, parameters, tuple(functions), value.__mro__[:-1], frozen)


class _OfClasses(Transformer):
    """Calls methods of other classes by their places: ``super().f(x)`` and ``Base.f(self, x)`` as ``self.f(x)``, where
    ``f`` is a :class:`MethodOf`."""

    def __init__(self, kind: type, place: int, method: Method) -> None:
        self.classes, self.place, self.outer = kind.__mro__[:-1], place, method.outer or {}
        args = method.node.args.args
        self.owner = args[0].arg if args and method.kind in ("method", "property") else ""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = private_name(node.attr, self.classes[self.place].__name__)
        match node.value:
            case ast.Call(ast.Name(id="super"), [], []) if self.owner and "super" not in self.outer:
                node.value = ast.copy_location(ast.Name(self.owner, ast.Load()), node)
                node.attr = MethodOf(node.attr, self.place + 1)
                return node
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(ast.Name(id=base), attr), [ast.Name(id=given), *others]) if given == self.owner:
                if (kind := self.outer.get(base)) in self.classes:
                    node.func.value.id = given  # type: ignore[attr-defined]
                    node.func.attr = MethodOf(attr, self.classes.index(kind))  # type: ignore[attr-defined]
                    node.args = others
            case ast.Call(ast.Attribute(ast.Name(id=owner), MethodOf() as init), [], []) if owner == self.owner:
                if init.name == "__init__" and not any(init.name in vars(c) for c in self.classes[init.start :]):
                    return ast.copy_location(ast.Constant(None), node)  # that of object
        return node


def private_name(name: str, owner: str) -> str:
    """What Python calls an attribute in the methods of a class: those with two underscores in front are its own."""
    hidden = name.startswith("__") and not name.endswith("__") and owner.strip("_")
    return f"_{owner.lstrip('_')}{name}" if hidden else name


def _is_generated(function: object) -> bool:
    return getattr(getattr(function, "__code__", None), "co_filename", "") == "<string>"


def unreadable(function: types.FunctionType) -> bool:
    """Whether the source of a function cannot be read, or has changed."""
    try:
        source_lines(function)
    except OSError:
        return True
    return source_changed(function)


def _parameters(kind: Any) -> list[tuple[str, ast.expr | None]] | None:
    """The fields that the constructor of a data class sets, with their defaults; None if one cannot be written."""
    found: list[tuple[str, ast.expr | None]] = []
    for f in dataclasses.fields(kind):
        if not f.init or f.kw_only:
            return None
        default: ast.expr | None = None
        if f.default_factory is not dataclasses.MISSING:
            default = ast.List([], ast.Load()) if f.default_factory is list else None
            if default is None:
                return None
        elif f.default is not dataclasses.MISSING and (default := _constant(f.default)) is None:
            return None
        found.append((f.name, default))
    return found


def _constant(value: object) -> ast.expr | None:
    """A default as an expression: a constant, or a function."""
    if callable(value):
        return bound_name(value, getattr(value, "__name__", "function"))
    return constant_node(value)


def method_of(held: object) -> Method | None:
    """A method, as the class holds it, or a function."""
    kind = {staticmethod: "static", classmethod: "class", property: "property"}.get(type(held), "method")
    plain = getattr(held, "__func__", getattr(held, "fget", held))
    if not isinstance(plain, types.FunctionType) or _is_generated(plain):
        return None
    lines, _ = source_lines(plain)
    text = "".join(lines)
    indented = text[:1] in (" ", "\t")
    (whole,) = parsed(f"if True:\n{text}" if indented else text).body
    node = whole.body[0] if indented else whole
    if not isinstance(node, ast.FunctionDef):
        return None
    free = inspect.getclosurevars(plain).nonlocals
    values = inspect.signature(plain).parameters
    node = copy_tree(node)
    given = defaults_of(node.args)
    made = {n: d and _constant(values[n].default) for n, d in given.items()}
    if any(d is not None and made[n] is None for n, d in given.items()):
        return None
    own = [made[a.arg] for a in node.args.kwonlyargs]
    node.args.defaults, node.args.kw_defaults = [d for d in list(made.values())[: len(made) - len(own)] if d], own
    return Method(node, {**plain.__globals__, **free}, kind)


def defaults_of(args: ast.arguments) -> dict[str, ast.expr | None]:
    """The parameters that may be left out or are given by name alone, each with its default, None without one."""
    positional = [*args.posonlyargs, *args.args]
    pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
    return {a.arg: d for a, d in [*pairs, *zip(args.kwonlyargs, args.kw_defaults, strict=True)]}


def class_in(node: ast.ClassDef) -> PlainClass | None:
    """A class that a function defines; None where it is more than methods and constants."""
    methods: dict[str, Method] = {}
    constants: dict[str, ast.expr] = {}
    if node.bases or node.keywords or node.decorator_list:
        return None
    for s in node.body:
        match s:
            case ast.FunctionDef(decorator_list=[]):
                methods[s.name] = Method(s, None)
            case ast.FunctionDef(decorator_list=[ast.Name(id="staticmethod" | "property" as kind)]):
                methods[s.name] = Method(s, None, {"staticmethod": "static"}.get(kind, kind))
            case ast.Assign([ast.Name(id=name)], ast.Constant() | ast.UnaryOp() as value):
                constants[name] = value
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case _:
                return None
    if any(isinstance(n, ast.Name) and n.id == "super" for n in subtrees(node)):
        return None
    given = [d for m in methods.values() for d in defaults_of(m.node.args).values() if d is not None]
    if not all(isinstance(d, ast.Constant) for d in given):
        return None  # they are evaluated where the class is
    for n in subtrees(node):
        if isinstance(n, ast.Attribute):
            n.attr = private_name(n.attr, node.name)
    methods = {private_name(name, node.name): m for name, m in methods.items()}
    return PlainClass(node.name, methods.get, constants)
