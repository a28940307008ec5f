"""Instances of Python's own classes that a function makes: ``p = Pid(kp, ki)`` becomes variables for its fields.

``p.kp`` is the variable ``p_kp``, and a call of a method its statements, in which the fields of the instance are these
variables. That is where the instance has one name and is used by its fields and methods alone; else nothing is changed.
"""

from __future__ import annotations

import ast
import builtins
import types
from typing import TYPE_CHECKING, Any

from ..ir.names import Names
from .canonical_form import Resolving
from .captured_values import CapturedSnapshot, ClassSnapshot
from .evaluated_once import EvaluatedOnce
from .harmless_calls import Effect, effect_of, evaluated_before, is_harmless, may_read_arrays
from .instance_names import NamedInstances, WithoutClasses, shared_names, without_aliases
from .known_iterables import constant_node
from .made_classes import Method, MethodOf, PlainClass, class_in, class_of, defaults_of, method_of, unreadable
from .method_bodies import OtherUse, WithOuterNames, with_result
from .structured_control import own_returns, with_location
from .syntax import (
    Replaced,
    Transformer,
    all_names,
    bound_name,
    copy_tree,
    free_variables,
    own_nodes,
    stored_names,
    subtrees,
)

if TYPE_CHECKING:
    from .source import Source

__all__ = ["MadeInstances"]

_DEEPEST = 12


class MadeInstances(Resolving):
    """Rewrites each function; `snapshots` is what the methods capture."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.snapshots: list[CapturedSnapshot | ClassSnapshot] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self.outside = self.outside, free_variables(node)
        self.generic_visit(node)
        own = {n.name: c for n in _own_classes(node) if (c := class_in(n))}
        node = NamedInstances(node, lambda value: self.class_called(value, own), self.resolve).visit(node)
        left: set[str] = set()
        shared: set[str] = set()
        while True:
            known = self.instances(node, own)
            shared |= shared_names(node, known)
            if without_aliases(node, known):
                left.clear()
                continue
            made = {name: c for name, c in known.items() if name not in left}
            if not made:
                break
            name, kind = next(iter(made.items()))
            try:
                instance = _Instance(self, copy_tree(node), name, kind, shared - {name})
                node = instance.rewritten()
                self.snapshots += [CapturedSnapshot(f) for f in (*kind.functions, *instance.functions)]
                self.snapshots.append(ClassSnapshot(kind.kinds))
            except OtherUse as use:
                left.add(name)
                for s in subtrees(node):
                    match s:
                        case ast.Assign([ast.Name(id=target)], ast.Call() as call) if target == name:
                            call.other_use = use.line  # type: ignore[attr-defined]
        mentioned = {n.id for n in subtrees(node) if isinstance(n, ast.Name)}
        if own:
            WithoutClasses({n for n in own if n not in mentioned}).visit(node)
        self.outside = around
        return node

    def class_called(self, value: ast.expr, own: dict[str, PlainClass]) -> PlainClass | None:
        """The class that an expression makes an instance of."""
        if not isinstance(value, ast.Call):
            return None
        if isinstance(value.func, ast.Name) and value.func.id in own:
            return own[value.func.id]
        return class_of(self.resolve(value.func))

    def instances(self, node: ast.FunctionDef, own: dict[str, PlainClass]) -> dict[str, PlainClass]:
        """The names of instances, each with its class, in the order in which they are made."""
        made: dict[str, list[PlainClass]] = {}
        for n in (n for s in node.body for n in _in_order(s)):
            match n:
                case ast.Assign([ast.Name(id=name)], value) if (kind := self.class_called(value, own)) is not None:
                    made.setdefault(name, []).append(kind)
        stored = [*stored_names(node.body), *(a.arg for a in subtrees(node.args) if isinstance(a, ast.arg))]
        return {
            name: kinds[0]
            for name, kinds in made.items()
            if stored.count(name) == len(kinds) and len({(k.name, k.functions) for k in kinds}) == 1
        }


def _own_classes(function: ast.FunctionDef) -> list[ast.ClassDef]:
    """The classes that a function defines in any case, before all that mentions them, once."""
    names = [n.name for n in own_nodes(function) if isinstance(n, ast.ClassDef)] + stored_names(function.body)
    mentioned, found = set[str](), []
    for s in function.body:
        if isinstance(s, ast.ClassDef) and names.count(s.name) == 1 and s.name not in mentioned:
            found.append(s)
        mentioned |= {n.id for n in subtrees(s) if isinstance(n, ast.Name)}
    return found


def _in_order(s: ast.stmt) -> list[ast.stmt]:
    """A statement and those in it, in the order of the source."""
    inner = [t for part in ("body", "orelse", "finalbody") for t in getattr(s, part, []) if isinstance(t, ast.stmt)]
    return [s, *(n for t in inner if not isinstance(s, ast.FunctionDef | ast.ClassDef) for n in _in_order(t))]


class _Instance(EvaluatedOnce):
    """Rewrites the statements of one function for one instance."""

    def __init__(
        self, low: MadeInstances, node: ast.FunctionDef, name: str, kind: PlainClass, shared: set[str]
    ) -> None:
        self.low, self.node, self.name, self.kind = low, node, name, kind
        self.shared = shared  # other instances, which this one may hold
        self.fresh = Names(all_names(node))
        self.fields: dict[str, str] = {}
        self.functions: list[types.FunctionType] = []  # that are given the instance
        self.before: list[ast.stmt] = []
        self.certain = False
        self.depth = 0

    def rewritten(self) -> ast.FunctionDef:
        self.node.body = self.block(self.node.body)
        nodes = subtrees(self.node)
        read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        read |= {n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
        _WithoutUnread(set(self.fields.values()) - read).visit(self.node)
        left = [n.lineno for n in subtrees(self.node) if isinstance(n, ast.Name) and n.id == self.name]
        if left:
            raise OtherUse(min(left))
        return self.node

    def field(self, name: str) -> str:
        """The variable of a field."""
        if name not in self.fields:
            self.fields[name] = self.fresh.fresh(f"{self.name}_{name}")
        return self.fields[name]

    # Statements.

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        depth = self.depth
        for s in statements:
            above, self.before = self.before, []
            try:
                new = self.statement(s)
            except OtherUse as use:
                if use.line is None and not depth:  # deeper ones are lines of methods
                    use.line = s.lineno
                raise
            done += [with_location(t, s) for t in (*self.before, *new)]
            self.before = above
        return done

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        match s:
            case ast.Assign([ast.Name(id=name)], ast.Call() as call) if name == self.name:
                return self.made(s, call)
            case ast.Expr(ast.Call() as call) if (found := self.method_called(call)) is not None:
                self.given_arguments(call)
                statements, _ = self.inlined(found, call, used=False)
                return statements or [ast.Pass()]
            case ast.Assign([ast.Attribute(ast.Name(id=name), attr) as target], v) if (
                name == self.name and self.kind.method(setter := MethodOf(attr, setter=True)) is not None
            ):
                target.attr, target.ctx = setter, ast.Load()
                return self.statement(with_location(ast.Expr(ast.Call(target, [v], [])), s))
            case ast.Expr(v) | ast.Assign([ast.Name()], v) | ast.AugAssign(ast.Name(), _, v) | ast.Return(v) if (
                len(links := self.chained(v)) > 1
            ):  # p.add(1).add(2), where each returns p
                s.value = links[-1]
                return self.block([*(with_location(ast.Expr(link), s) for link in links[:-1]), s])
            case ast.FunctionDef() | ast.ClassDef():
                return [self.generic_visit(s)]
            case ast.If() | ast.For():
                part = "test" if isinstance(s, ast.If) else "iter"
                self.certain = self.may_hoist(getattr(s, part))
                setattr(s, part, self.visit(getattr(s, part)))
                self.certain = False
                if isinstance(s, ast.For):
                    s.target = self.visit(s.target)
            case ast.While():
                s.test = self.visit(s.test)  # functions that it calls are defined before
            case ast.Try():
                for h in s.handlers:
                    h.body = self.block(h.body)
                s.finalbody = self.block(s.finalbody)
            case _:
                self.certain = self.may_hoist(s)
                done = self.generic_visit(s)
                self.certain = False
                return [done]
        s.body, s.orelse = self.block(s.body), self.block(s.orelse)
        return [s]

    def given_arguments(self, call: ast.Call) -> None:
        """Rewrite the arguments of a call that is a statement of its own."""
        given = ast.Tuple([*call.args, *(k.value for k in call.keywords)], ast.Load())
        self.certain = self.may_hoist(given)
        given.elts = [a if self.is_instance(a) else self.visit(a) for a in given.elts]
        self.certain = False
        call.args = given.elts[: len(call.args)]
        for k, value in zip(call.keywords, given.elts[len(call.args) :], strict=True):
            k.value = value

    def chained(self, value: ast.expr | None) -> list[ast.Call]:
        """The calls of methods in a chain, all but the last of which return the instance."""
        match value:
            case ast.Call(ast.Attribute(ast.Call() as before, attr)):
                links = self.chained(before)
                if links and (found := self.method_called(links[-1])) is not None and found.returns_itself:
                    instance = ast.Attribute(ast.Name(self.name, ast.Load()), attr, ast.Load())
                    return [*links, with_location(ast.Call(instance, value.args, value.keywords), value)]
            case ast.Call() if self.method_called(value) is not None:
                return [value]
        return []

    def may_hoist(self, s: ast.AST) -> bool:
        """Whether methods may be called before a statement: it reads no field beside them, or they set none."""
        calls = [n for n in subtrees(s) if isinstance(n, ast.Call) and self.method_called(n) is not None]
        owners = {id(p) for n in calls for p in (n.func, getattr(n.func, "value", None), *n.args)}
        owners |= {id(k.value) for n in calls for k in n.keywords}
        called = {id(n.func) for n in calls}
        properties = [n for n in subtrees(s) if isinstance(n, ast.Attribute) and self.is_instance(n.value)
                      and id(n) not in called and self.kind.method(n.attr) is not None]  # fmt: skip
        owners |= {id(n.value) for n in properties}
        nodes = subtrees(s)
        reads = [n for n in nodes if isinstance(n, ast.Name) and n.id == self.name and id(n) not in owners]
        reads += [n for n in nodes if isinstance(n, ast.Name) and n.id in self.shared]
        of_methods = [(n, self.method_called(n)) for n in calls] + [(p, self.kind.method(p.attr)) for p in properties]
        moved = {id(m) for n, _ in of_methods for m in subtrees(n)}
        for n, method in of_methods:
            before = [m for m in evaluated_before(s, n) if id(m) not in moved]
            if not all(is_harmless(m, self.low.resolve(m.func)) for m in before if isinstance(m, ast.Call)):
                return False
            if Effect.OTHERS in self.effect(method) and any(may_read_arrays(m, self.node, moved) for m in before):
                return False
        return not reads or not any(Effect.OWN_FIELDS in self.effect(m) for _, m in of_methods)

    def effect(self, method: Method | None) -> Effect:
        return effect_of(self.kind, method, self.low.resolve)

    # Instances and their methods.

    def made(self, s: ast.stmt, call: ast.Call) -> list[ast.stmt]:
        """The statements that set the fields of a new instance."""
        self.given_arguments(call)
        done: list[ast.stmt] = []
        call.args = [self.held(a, done) for a in call.args]
        for k in call.keywords:
            k.value = self.held(k.value, done)
        done += [
            ast.Assign([ast.Name(self.field(n), ast.Store())], copy_tree(v)) for n, v in self.kind.constants.items()
        ]
        if self.kind.parameters is not None:
            given = self.arguments(call, [p for p, _ in self.kind.parameters], dict(self.kind.parameters))
            done += [ast.Assign([ast.Name(self.field(n), ast.Store())], v) for n, v in given.items()]
            init = self.kind.method("__post_init__")
            call = ast.copy_location(ast.Call(call.func, [], []), call)
        else:
            init = self.kind.method("__init__")
            if init is None and (call.args or call.keywords):
                raise OtherUse
        if init is not None:
            statements, _ = self.inlined(init, call)
            done += statements
        return done or [ast.Pass()]

    def held(self, value: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """An argument of a constructor, as a name if it may read fields of an earlier instance: ``p = P(1, p.a)``."""
        fields = set(self.fields.values())
        if not fields or not any(isinstance(n, ast.Call) or getattr(n, "id", "") in fields for n in subtrees(value)):
            return value
        before.append(ast.Assign([ast.Name(self.fresh.fresh("argument"), ast.Store())], value))
        return ast.Name(before[-1].targets[0].id, ast.Load())  # type: ignore[attr-defined]

    def arguments(self, call: ast.Call, names: list[str], defaults: dict[str, ast.expr | None]) -> dict[str, ast.expr]:
        """The argument for each parameter."""
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            raise OtherUse
        if len(call.args) > len(names):
            raise OtherUse
        given: dict[str, ast.expr] = dict(zip(names, call.args, strict=False))
        for k in call.keywords:
            if k.arg in given or k.arg not in {*names, *defaults}:
                raise OtherUse
            given[str(k.arg)] = k.value
        missing = [n for n in {*names, *defaults} if n not in given and defaults.get(n) is None]
        if missing:
            raise OtherUse
        return {n: given[n] if n in given else copy_tree(defaults[n]) for n in dict.fromkeys([*names, *defaults])}

    def method_called(self, call: ast.Call) -> Method | None:
        """The method of the instance that is called; None for other calls."""
        match call.func:
            case ast.Attribute(ast.Name(id=name), attr) if name == self.name:
                found = self.kind.method(attr)
                return found if found is not None and found.kind != "property" else None
            case ast.Name(id=name) if name == self.name:
                if (found := self.kind.method("__call__")) is None:
                    raise OtherUse
                return found
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(isinstance(a, ast.Name) and a.id == self.name for a in given):
            called = self.low.resolve(call.func)
            found = method_of(called) if isinstance(called, types.FunctionType) else None
            if found is not None and not unreadable(called):  # type: ignore[arg-type]
                self.functions.append(called)  # type: ignore[arg-type]
                return Method(found.node, found.outer, "function")
        return None

    def inlined(self, method: Method, call: ast.Call, used: bool = True) -> tuple[list[ast.stmt], ast.expr]:
        """The statements of a method for these arguments, and its result, if that is `used`."""
        self.depth += 1
        if self.depth > _DEEPEST or method.kind == "class":
            raise OtherUse
        node = copy_tree(method.node)
        a = node.args
        other = any(isinstance(n, ast.Yield | ast.Nonlocal | ast.Global) for n in subtrees(node))
        if other or a.vararg or a.kwarg or a.posonlyargs:
            raise OtherUse
        names = [p.arg for p in a.args]
        owner = "" if method.kind in ("static", "function") else names[0]
        names = names[1:] if owner else names
        given = self.arguments(call, names, defaults_of(a))
        body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        stored = set(stored_names(body))
        body = self.with_outer_names(body, method, {owner, *given, *stored})
        replaced: dict[str, str | int | ast.expr] = {}
        first: list[ast.stmt] = []
        for n, value in given.items():
            if isinstance(value, ast.Name) and value.id == self.name and n not in stored:
                replaced[n] = self.name
                continue
            plain = isinstance(value, ast.Constant) or hasattr(value, "function") or self.is_function(value)
            if plain and n not in stored:
                replaced[n] = value
                continue
            replaced[n] = self.fresh.fresh(n)
            first.append(ast.Assign([ast.Name(replaced[n], ast.Store())], value))  # type: ignore[arg-type]
        for n in sorted(stored - {owner}):
            replaced.setdefault(n, self.fresh.fresh(n))
        if owner in stored:
            raise OtherUse
        body = [Replaced(replaced).visit(s) for s in body]
        for inner in (n for s in body for n in subtrees(s)):
            inner.__dict__.pop("lineno", None)  # that of the class, elsewhere
        body = [with_location(s, call) for s in body]
        if owner:  # the instance by its own name
            body = [Replaced({owner: self.name}).visit(s) for s in body]
        result = self.fresh.fresh("result")
        returns = own_returns(body)
        for s in returns:
            if not used and isinstance(s.value, ast.Name) and s.value.id == self.name:  # as in p.add(1).add(2)
                s.value = None
        if returns:
            body = with_result(body, result)
        above, self.before, certain = self.before, [], self.certain
        body = [*first, *self.block(body)]
        self.before, self.certain = above, certain
        self.depth -= 1
        return body, ast.Name(result, ast.Load()) if returns else ast.Constant(None)

    def is_function(self, value: ast.expr) -> bool:
        """Whether an argument is a function from outside."""
        return isinstance(value, ast.Name | ast.Attribute) and callable(self.low.resolve(value))

    def with_outer_names(self, body: list[ast.stmt], method: Method, own: set[str]) -> list[ast.stmt]:
        """The body of a method with what its names from outside stand for."""
        if method.outer is None:
            return body
        replaced: dict[str, ast.expr] = {}
        nodes = [n for s in body for n in subtrees(s)]
        free = {n.id for n in nodes if isinstance(n, ast.Name)} - own
        bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # of comprehensions
        bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        for name in free:
            value = method.outer.get(name, getattr(builtins, name, OtherUse))
            if value is OtherUse and name in bound:
                continue
            if value is OtherUse:
                raise OtherUse  # not defined; in the function around it may be
            if self.low.source.outer_values.get(name) is value and name in self.low.outside:
                continue
            if callable(value) or isinstance(value, types.ModuleType):
                replaced[name] = bound_name(value, name)
            elif (constant := constant_node(value)) is not None:
                replaced[name] = constant
            else:
                raise OtherUse
        return [WithOuterNames(replaced).visit(s) for s in body]

    # Expressions.

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not isinstance(node.value, ast.Name) or node.value.id != self.name:
            return self.generic_visit(node)
        found = self.kind.method(node.attr)
        if found is not None:
            if found.kind != "property" or not isinstance(node.ctx, ast.Load):
                raise OtherUse
            return self.value_of(found, with_location(ast.Call(node, [], []), node))
        if (self.kind.frozen and not isinstance(node.ctx, ast.Load)) or isinstance(node.attr, MethodOf):
            raise OtherUse
        return ast.copy_location(ast.Name(self.field(node.attr), node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        found = self.method_called(node)
        if found is None:
            return self.generic_visit(node)
        node.args = [a if self.is_instance(a) else self.visit(a) for a in node.args]
        for k in node.keywords:
            k.value = k.value if self.is_instance(k.value) else self.visit(k.value)
        return self.value_of(found, node)

    def is_instance(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.name

    def value_of(self, method: Method, node: ast.Call) -> ast.AST:
        """What a call of a method gives: a name, after its statements before; or its expression, where it is one."""
        if self.certain:
            statements, result = self.inlined(method, node)
            self.before += [with_location(t, node) for t in statements]
            return ast.copy_location(result, node)
        if Effect.OWN_FIELDS in self.effect(method):
            raise OtherUse
        return self.called_inside(method, node)

    def called_inside(self, method: Method, node: ast.Call) -> ast.AST:
        """A call of a method that sets no fields, where it is not known how often it is evaluated: of a function that
        reads the fields, which is defined before."""
        names = [p.arg for p in (*method.node.args.args, *method.node.args.kwonlyargs)]
        names = names if method.kind in ("static", "function") else names[1:]
        held = [self.fresh.fresh(n) for n in names]
        given = self.arguments(node, names, defaults_of(method.node.args))
        passed = [ast.keyword(n, ast.Name(h, ast.Load())) for n, h in zip(names, held, strict=True)]
        inner = ast.Call(node.func, [], passed)
        above, self.before, certain, self.certain = self.before, [], self.certain, True
        statements, result = self.inlined(method, with_location(inner, node))
        self.before, self.certain = above, certain
        parameters = ast.arguments([], [ast.arg(h) for h in held], None, [], [], None, [])
        name = self.fresh.fresh(f"{self.name}_{method.node.name}")
        function = ast.FunctionDef(name, parameters, [*statements, ast.Return(result)], [])
        self.before.append(with_location(function, node))
        return with_location(ast.Call(ast.Name(name, ast.Load()), [given[n] for n in names], []), node)

    def visit_ListComp(self, node: Any) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        above, self.certain = self.certain, False
        self.generic_visit(node)
        self.certain = above
        return node

    visit_GeneratorExp = visit_SetComp = visit_DictComp = visit_ListComp


class _WithoutUnread(Transformer):
    """Leaves out fields that nothing reads, where they are new lists, dictionaries or constants."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Assign(self, s: ast.Assign) -> ast.AST:
        match s:
            case ast.Assign([ast.Name(id=name)], ast.List([]) | ast.Dict([]) | ast.Constant()) if name in self.names:
                return ast.copy_location(ast.Pass(), s)
        return s
