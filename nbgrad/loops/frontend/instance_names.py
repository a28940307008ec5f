"""Names for instances that a function makes, and the classes in it that nothing uses any more."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.names import Names
from .structured_control import with_location
from .syntax import Transformer, all_names, children

if TYPE_CHECKING:
    from .made_classes import PlainClass

__all__ = ["NamedInstances", "WithoutClasses"]


class NamedInstances(Transformer):
    """Gives instances names: ``a, b = C(1), C(2)`` becomes two statements, and ``C(1).f(x)`` a name before."""

    def __init__(self, makes: Callable[[ast.expr], PlainClass | None], names: Names) -> None:
        self.makes, self.names = makes, names

    def visit_Assign(self, s: ast.Assign) -> Any:
        match s:
            case ast.Assign([ast.Tuple(elts=targets)], ast.Tuple(elts=values)) if len(targets) == len(values):
                names = {t.id for t in targets if isinstance(t, ast.Name)}
                apart = len(names) == len(targets) and all(all_names(v).isdisjoint(names) for v in values)
                if apart and any(self.makes(v) for v in values):
                    pairs = zip(targets, values, strict=True)
                    return [with_location(ast.Assign([t], v), s) for t, v in pairs]
            case ast.Assign([ast.Name()], value) if self.makes(value):
                return s
        return self.named(s)

    def named(self, s: Any) -> Any:
        """The instances whose methods a statement calls at once, before it."""
        before: list[ast.stmt] = []
        for n in _evaluated(s):
            match n:
                case ast.Call(ast.Attribute(ast.Call() as made, _)) if self.makes(made):
                    name = self.names.fresh("instance")
                    before.append(with_location(ast.Assign([ast.Name(name, ast.Store())], made), s))
                    n.func.value = ast.copy_location(ast.Name(name, ast.Load()), made)  # type: ignore[attr-defined]
        return [*before, s] if before else s

    visit_Return = visit_AugAssign = visit_Expr = named


def _evaluated(node: ast.AST) -> list[ast.AST]:
    """The nodes of a statement that are evaluated once, in any case."""
    if isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.IfExp | ast.BoolOp):
        return []
    return [node, *(n for child in children(node) for n in _evaluated(child))]


class WithoutClasses(Transformer):
    """Leaves out classes that nothing uses any more."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if node.name in self.names else node
