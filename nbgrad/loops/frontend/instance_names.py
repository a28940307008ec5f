"""Names for instances that a function makes, and the classes in it that nothing uses any more."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ..ir.names import Names
from .evaluated_once import uncertain_parts
from .harmless_calls import Effect, Resolve, effect_of, evaluated_before, is_harmless
from .structured_control import TupleTargets, with_location
from .syntax import Replaced, Transformer, all_names, children, subtrees

if TYPE_CHECKING:
    from .made_classes import PlainClass

__all__ = ["NamedInstances", "WithoutClasses", "shared_names", "without_aliases"]


def without_aliases(node: ast.FunctionDef, instances: Collection[str]) -> bool:
    """Replace ``r = p`` by `p` itself, an instance that is made once; whether there was such a name."""
    nodes = subtrees(node)
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    stored += [n.arg for n in nodes if isinstance(n, ast.arg)]
    made = {s.targets[0].id for s in node.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)}
    for s in nodes:
        match s:
            case ast.Assign([ast.Name(id=other)], ast.Name(id=name)) if name in instances and name in made:
                if stored.count(name) == stored.count(other) == 1:
                    _Instead(s, [ast.Pass()]).visit(node)
                    Replaced({other: name}).visit(node)
                    return True
            case ast.Assign([ast.Tuple()], ast.Tuple(elts=values)) if any(
                isinstance(v, ast.Name) and v.id in instances for v in values
            ) and (apart := TupleTargets(node).one_by_one(s)):
                _Instead(s, apart).visit(node)
                return True
    return False


class _Instead(Transformer):
    """Puts other statements in the place of one."""

    def __init__(self, statement: ast.Assign, others: list[ast.stmt]) -> None:
        self.statement, self.others = statement, others

    def visit_Assign(self, s: ast.Assign) -> Any:
        return [with_location(t, s) for t in self.others] if s is self.statement else s


def shared_names(node: ast.FunctionDef, instances: Collection[str]) -> set[str]:
    """The instances that are given to others, which may keep them: to constructors and methods."""
    calls = [n for n in subtrees(node) if isinstance(n, ast.Call)]
    given = [a for n in calls for a in (*n.args, *(k.value for k in n.keywords))]
    return {a.id for a in given if isinstance(a, ast.Name) and a.id in instances}


class NamedInstances(Transformer):
    """Gives instances names: ``a, b = C(1), C(2)`` becomes two statements, and ``C(1).f(x)`` a name before."""

    def __init__(
        self, function: ast.FunctionDef, makes: Callable[[ast.expr], PlainClass | None], resolve: Resolve
    ) -> None:
        self.makes, self.resolve = makes, resolve
        self.names, self.targets = Names(all_names(function)), TupleTargets(function)
        self.moved: dict[str, PlainClass] = {}

    def visit_Assign(self, s: ast.Assign) -> Any:
        match s:
            case ast.Assign([ast.Tuple()], ast.Tuple(elts=values)):
                if any(self.makes(v) for v in values) and (apart := self.targets.one_by_one(s)):
                    return apart
            case ast.Assign([ast.Name()], value) if self.makes(value):
                return s
        return self.named(s)

    def named(self, s: Any) -> Any:
        """The instances whose methods or fields a statement reads at once, before it."""
        before: list[ast.stmt] = []
        for n in _evaluated(s):
            match n:
                case ast.Attribute(ast.Call() as made, _) if (kind := self.makes(made)) and self.may_move(
                    s, made, kind
                ):
                    name = self.names.fresh("instance")
                    self.moved[name] = kind
                    before.append(with_location(ast.Assign([ast.Name(name, ast.Store())], made), s))
                    n.value = ast.copy_location(ast.Name(name, ast.Load()), made)
        return [*before, s] if before else s

    visit_Return = visit_AugAssign = visit_Expr = named

    def may_move(self, s: ast.stmt, made: ast.Call, kind: PlainClass) -> bool:
        """Whether an instance may be made before a statement: what the statement evaluates first changes nothing."""
        init = kind.method("__init__" if kind.parameters is None else "__post_init__")
        if init is not None and Effect.OTHERS in effect_of(kind, init, self.resolve):
            return False
        return all(self.is_harmless(n) for n in evaluated_before(s, made) if isinstance(n, ast.Call))

    def is_harmless(self, call: ast.Call) -> bool:
        match call.func:
            case ast.Attribute(ast.Name(id=name), attr) if name in self.moved:
                kind = self.moved[name]
                return Effect.OTHERS not in effect_of(kind, kind.method(attr), self.resolve)
        return is_harmless(call, self.resolve(call.func))


def _evaluated(node: ast.AST) -> list[ast.AST]:
    """The nodes of a statement that are evaluated once, in any case."""
    if uncertain_parts(node):
        return []
    return [node, *(n for child in children(node) for n in _evaluated(child))]


class WithoutClasses(Transformer):
    """Leaves out classes that nothing uses any more."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if node.name in self.names else node
