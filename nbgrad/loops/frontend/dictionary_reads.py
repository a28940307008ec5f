"""Reads of dictionaries that change, as variables: the expressions of :mod:`.filled_dictionaries`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..ir.names import Names
from .dictionary_states import Held, State
from .evaluated_once import uncertain_parts
from .key_strings import chosen, is_get, string_bindings
from .known_iterables import UNKNOWN, KnownIterables, constant_node
from .structured_control import with_location
from .syntax import all_names, bound_name, copy_tree, number_node, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["DictionaryReads", "Facts", "GivenUp", "Learned"]

_READERS = (len, sum, min, max, list, tuple, sorted, enumerate, zip, dict, any, all, reversed)


class GivenUp(Exception):
    """A dictionary cannot be followed."""

    def __init__(self, name: str) -> None:
        self.name = name


class Learned(Exception):
    """Something was found out that statements before depend on."""


@dataclass
class Facts:
    """What is found out of a function, whose interpretation begins again then: the keys that each dictionary ever has;
    those with a flag beside; what variables hold at first; the strings that names may be; and the keys taken out."""

    keys: dict[str, dict[Hashable, None]] = field(default_factory=dict)
    flags: dict[tuple[str, Hashable], None] = field(default_factory=dict)
    initial: dict[tuple[str, Hashable], ast.expr] = field(default_factory=dict)
    strings: dict[str, dict[str, None]] = field(default_factory=dict)
    taken: dict[tuple[str, Hashable], None] = field(default_factory=dict)

    def note(self, held: dict, key: Hashable, value: object = None) -> None:
        if key not in held:
            held[key] = value
            raise Learned


class DictionaryReads(KnownIterables):
    """Reads expressions of one function, of whose dictionaries it follows those in `names`; `state` is that before the
    statement, `before` what is to be done before it, and `after` after it."""

    def __init__(self, source: Source, node: ast.FunctionDef, names: set[str], outside: set[str], facts: Facts) -> None:
        super().__init__(source, node, outside)
        self.node, self.names, self.facts = node, set(names), facts
        self.fresh = Names({*all_names(node), *names})
        self.state: State = {}
        self.before: list[ast.stmt] = []
        self.after: list[ast.stmt] = []
        self.roots: dict[str, str] = {}  # of what is followed because another dictionary is
        self.variables: dict[tuple[str, Hashable], str] = {}
        self.flags: dict[tuple[str, Hashable], str] = {}
        self.factories: dict[str, Callable[[], ast.expr]] = {}
        self.certain = True  # what is read is evaluated, once
        self.inside = False  # a nested function
        self.bindings = string_bindings(node)

    # What is known.

    def owner(self, node: ast.expr) -> str:
        """The dictionary that a name, or an item of another one, is; "" for others."""
        match node:
            case ast.Name(id=name) if name in self.names:
                return name
            case ast.Subscript(value, key) if name := self.owner(value):
                known = self.value(key)
                if known in self.held(name).keys and (item := self.variable(name, known)) in self.names:
                    return item
        return ""

    def follow(self, name: str, of: str) -> None:
        """Follow a dictionary that is an item of another one, or takes its place."""
        self.names.add(name)
        self.roots[name] = self.roots.get(of, of)

    def held(self, name: str) -> Held:
        if self.state is None or name not in self.state:
            self.give_up(name)
        return self.state[name]

    def hold(self, name: str, held: Held) -> None:
        assert self.state is not None
        self.state = {**self.state, name: held}

    def give_up(self, name: str) -> NoReturn:
        raise GivenUp(self.roots.get(name, name))

    def variable(self, name: str, key: Hashable) -> str:
        """The variable of an item."""
        self.facts.note(self.facts.keys.setdefault(name, {}), key)
        if (name, key) not in self.variables:
            self.variables[name, key] = self.fresh.fresh(re.sub(r"\W", "_", f"{name}_{key}"))
        return self.variables[name, key]

    def flag(self, name: str, key: Hashable) -> str:
        """The flag that says whether there is an item."""
        self.facts.note(self.facts.flags, (name, key))
        if (name, key) not in self.flags:
            self.flags[name, key] = self.fresh.fresh(f"{self.variable(name, key)}_is_set")
        return self.flags[name, key]

    def flag_set(self, name: str, key: Hashable, value: bool) -> ast.stmt:
        return ast.Assign([ast.Name(self.flag(name, key), ast.Store())], ast.Constant(value))

    def strings(self, node: ast.expr) -> list[str]:
        """The strings that a name may be when the function runs; none if they are not known."""
        if not isinstance(node, ast.Name) or node.id not in self.bindings:
            return []
        return list(dict.fromkeys([*self.bindings[node.id], *self.facts.strings.get(node.id, {})]))

    # Items that are set.

    def put(self, name: str, key: Hashable) -> str:
        """The variable of an item that is set."""
        held = self.held(name)
        if held.shared or self.inside or not self.certain:
            self.give_up(name)
        self.hold(name, held.with_key(key))
        if (name, key) in self.facts.flags:
            self.after = [*self.after, self.flag_set(name, key, True)]
        return self.variable(name, key)

    # Expressions.

    def generic(self, node: Any) -> Any:
        """Read all that is in a node."""
        later = uncertain_parts(node)

        def done(value: Any) -> Any:
            if not isinstance(value, ast.AST):
                return value
            return self.perhaps(value) if any(value is n for n in later) else self.read(value)

        for name in node._fields:
            value = getattr(node, name, None)
            setattr(node, name, list(map(done, value)) if isinstance(value, list) else done(value))
        return node

    def perhaps(self, node: Any) -> Any:
        """Read what is evaluated later, several times, or not at all."""
        above, self.certain = self.certain, False
        done = self.read(node)
        self.certain = above
        return done

    def read(self, node: Any) -> Any:
        """The expression in place of this one."""
        done = self._read(node)
        return done if done is node or hasattr(done, "lineno") else with_location(done, node)

    def _read(self, node: Any) -> Any:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in self.names:
                return self.whole(name, changes=True)
            case ast.Subscript(value, key, ast.Load()) if name := self.owner(value):
                item = self.item(name, self.read(key))
                held = item.id if isinstance(item, ast.Name) else ""
                return self.whole(held, changes=True) if held in self.names else item
            case ast.Call(ast.Attribute(value, method), args, keywords) if name := self.owner(value):
                if keywords:
                    self.give_up(name)
                return self.called_method(name, method, [self.read(a) for a in args])
            case ast.Call(function, [value], [ast.keyword("key", key), *_]) if is_get(key, self.owner(value)):
                if (found := self.sorted_keys(node, self.owner(value))) is not None:
                    return found
                self.give_up(self.owner(value))
            case ast.Call(function, args, keywords) if self.called(function) in _READERS:
                counted = self.called(function) is len and len(args) == 1
                if counted and (name := self.owner(args[0])):
                    return ast.Constant(len(self.complete(name).keys))
                if self.called(function) is dict:
                    node.args = [self.copied(owner) if (owner := self.owner(a)) else self.read(a) for a in args]
                else:
                    node.args = [self.iterable(a) for a in args]
                for k in keywords:
                    k.value = self.read(k.value)
                return node
            case ast.keyword(None, value) if name := self.owner(value):
                node.value = self.whole(name)
                return node
            case ast.Return(value=ast.Name() | ast.Tuple() as value):
                if isinstance(value, ast.Tuple):
                    value.elts = [self.kept(v) for v in value.elts]
                else:
                    node.value = self.kept(value)
                return node
            case ast.Compare(left, [ast.In() | ast.NotIn() as op], [right]) if name := self.owner(right):
                return self.membership(self.read(left), op, name)
            case ast.Subscript(value) if name := self.owner(value):  # which is set
                self.give_up(name)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                if (holds := self.value(test)) is not UNKNOWN:
                    return self.read(body if holds else orelse)
                node.test = self.read(test)
                node.body, node.orelse = self.perhaps(node.body), self.perhaps(node.orelse)
                return node
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp():
                above = self.certain
                for g in node.generators:
                    g.iter = self.iterable(g.iter)
                    self.certain = False
                    g.ifs = [self.read(test) for test in g.ifs]
                for part in ("elt", "key", "value"):
                    if hasattr(node, part):
                        setattr(node, part, self.read(getattr(node, part)))
                self.certain = above
                return node
            case ast.Lambda():
                return self.nested(node)
        return self.generic(node)

    def kept(self, node: ast.expr) -> Any:
        """What is read as a whole where nothing changes it later."""
        name = self.owner(node)
        return with_location(self.whole(name), node) if name else self.read(node)

    def iterable(self, node: ast.expr) -> Any:
        """What is read item by item: of a dictionary, the keys."""
        if name := self.owner(node):
            return with_location(self.part(name, "keys"), node)
        match node:
            case ast.Call(ast.Attribute(value, "keys" | "values" | "items" as part), [], []):
                if name := self.owner(value):
                    return with_location(self.part(name, part), node)
            case ast.Call(function, args, []) if self.called(function) in (enumerate, zip, reversed):
                node.args = [self.iterable(a) for a in args]
                return node
        return self.read(node)

    def nested(self, node: ast.Lambda | ast.FunctionDef) -> Any:
        """A function in this one: it reads the items that there are, of dictionaries that get no others."""
        node.args.defaults = [self.read(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.read(d) for d in node.args.kw_defaults]
        above = self.names, self.inside, self.certain
        hidden = {a.arg for a in subtrees(node.args) if isinstance(a, ast.arg)}
        self.names, self.inside, self.certain = self.names - hidden, True, False
        if isinstance(node, ast.Lambda):
            node.body = self.read(node.body)
        else:
            node.body = [self.generic(t) for t in node.body]
        self.names, self.inside, self.certain = above
        return node

    def complete(self, name: str) -> Held:
        """What is held, if all keys are known."""
        held = self.held(name)
        if not held.complete or (self.inside and set(held.keys) != set(self.facts.keys.get(name, ()))):
            self.give_up(name)
        return held

    def _items(self, node: ast.expr) -> list[ast.expr] | None:
        part = "keys"
        match node:
            case ast.Call(ast.Attribute(value, "keys" | "values" | "items" as part), [], []):
                name = self.owner(value)
            case _:
                name = self.owner(node)
        if name:
            return self.part(name, part).elts if self.held(name).complete else None  # type: ignore[attr-defined]
        return super()._items(node)

    def whole(self, name: str, changes: bool = False) -> ast.expr:
        """A dictionary as a display of its items; `changes`: where it may be kept, so that it must not change later."""
        held = self.complete(name)
        if changes:
            self.hold(name, Held(held.keys, held.may, held.ordered, shared=True))
        keys, names = [constant_node(k) for k in held.keys], [self.variable(name, k) for k in held.keys]
        values = [self.whole(n, changes) if n in self.names else ast.Name(n, ast.Load()) for n in names]
        display = ast.Dict(keys, values)
        display.shared = changes  # type: ignore[attr-defined]
        return display

    def item(self, name: str, key: ast.expr) -> ast.expr:
        """What ``d[key]`` is where it is read."""
        known, held = self.value(key), self.held(name)
        if isinstance(key, ast.IfExp):
            return ast.IfExp(key.test, self.item(name, key.body), self.item(name, key.orelse))
        if known is UNKNOWN and (strings := self.strings(key)):
            items = [self.item(name, ast.Constant(v)) for v in strings]
            if not all(v in held.keys or name in self.factories for v in strings):
                self.give_up(name)
            return chosen(key, strings, items)
        if known is UNKNOWN:
            return ast.Subscript(self.whole(name), key, ast.Load())
        if known in held.keys:
            return ast.Name(self.variable(name, known), ast.Load())
        if name in self.factories:
            return self.put_in(name, known, self.factories[name]())
        if known not in held.may or not self.certain:
            self.give_up(name)
        error = ast.Call(bound_name(KeyError, "KeyError"), [ast.Constant(str(known))], [])
        absent = ast.UnaryOp(ast.Not(), ast.Name(self.flag(name, known), ast.Load()))
        self.before.append(ast.If(absent, [ast.Raise(error)], []))
        return ast.Name(self.variable(name, known), ast.Load())

    def put_in(self, name: str, key: Hashable, value: ast.expr) -> ast.expr:
        """An item that is put in where there is none yet: its variable holds `value` until it is set."""
        held = self.held(name)
        if held.shared or self.inside or (name, key) in self.facts.taken:
            self.give_up(name)
        if name not in self.factories:
            self.facts.note(self.facts.initial, (name, key), value)
            if ast.dump(self.facts.initial[name, key]) != ast.dump(value):
                self.give_up(name)
        self.hold(name, held.with_key(key) if self.certain else held.with_possible_key(key))
        if (name, key) in self.facts.flags:
            if not self.certain:
                self.give_up(name)
            self.before.append(self.flag_set(name, key, True))
        return ast.Name(self.variable(name, key), ast.Load())

    def membership(self, key: ast.expr, op: ast.cmpop, name: str) -> ast.expr:
        """``key in d``."""
        known, held = self.value(key), self.held(name)
        if known is UNKNOWN:
            if not held.complete or self.inside:
                self.give_up(name)
            keys = [constant_node(k) for k in held.keys]
            return ast.Compare(key, [op], [ast.Tuple(keys, ast.Load())])  # type: ignore[arg-type]
        if self.inside and known not in held.keys:
            self.give_up(name)
        if known in held.keys or known not in held.may:
            return ast.Constant((known in held.keys) == isinstance(op, ast.In))
        flag = ast.Name(self.flag(name, known), ast.Load())
        return flag if isinstance(op, ast.In) else ast.UnaryOp(ast.Not(), flag)

    def called_method(self, name: str, method: str, args: list[ast.expr]) -> ast.expr:
        """What a method of a dictionary gives."""
        held = self.held(name)
        match method, args:
            case "copy", []:
                return self.copied(name)
            case "keys" | "values" | "items", []:  # which show later changes, too
                self.hold(name, replace(self.complete(name), shared=True))
                return self.part(name, method)
            case "get" | "setdefault" | "pop", [_, default] if _has_effects(default):
                self.give_up(name)
            case "get", [key, *default] if len(default) < 2:
                return self.gotten(name, key, default[0] if default else ast.Constant(None))
            case "setdefault", [key, value]:
                known = self.value(key)
                if known in held.keys:
                    return ast.Name(self.variable(name, known), ast.Load())
                if known is not UNKNOWN and _is_initial(value):
                    return self.put_in(name, known, value)
                if known is not UNKNOWN and known not in held.may and self.certain:
                    if (name, known) in self.facts.taken:  # perhaps by this statement
                        self.give_up(name)
                    variable = self.put(name, known)
                    self.before.append(ast.Assign([ast.Name(variable, ast.Store())], value))
                    return ast.Name(variable, ast.Load())
            case "pop", [key, *default] if len(default) < 2 and self.certain:
                known = self.value(key)
                if known is not UNKNOWN and known not in held.may and default:
                    return default[0]
                if known in held.keys:
                    self.take(name, known)
                    return ast.Name(self.variable(name, known), ast.Load())
        self.give_up(name)

    def sorted_keys(self, node: ast.Call, name: str) -> ast.expr | None:
        """``max(d, key=d.get)``, ``min`` or ``sorted`` of integers; None for others."""
        held, called = self.complete(name), self.called(node.func)
        backwards = next((k.value for k in node.keywords if k.arg == "reverse"), None)
        plain = len(node.keywords) == 1 or (backwards is not None and called is sorted and len(node.keywords) == 2)
        if not held.keys or not all(type(k) is int for k in held.keys) or not plain or self.inside:
            return None
        array = bound_name(np.array, "np.array")
        keys = ast.Call(array, [ast.List([number_node(k) for k in held.keys], ast.Load())], [])  # type: ignore[arg-type]
        values: list[ast.expr] = [ast.Name(self.variable(name, k), ast.Load()) for k in held.keys]
        if called in (max, min):
            function = np.argmax if called is max else np.argmin
            found = ast.Call(bound_name(function, f"np.{function.__name__}"), [_display(values)], [])
            return ast.Subscript(keys, found, ast.Load())
        if called is not sorted or not isinstance(backwards, ast.Constant | None):
            return None
        if backwards is not None and backwards.value:
            values = [ast.UnaryOp(ast.USub(), v) for v in values]
        stable = [ast.keyword("kind", ast.Constant("stable"))]
        order = ast.Call(bound_name(np.argsort, "np.argsort"), [_display(values)], stable)
        place = self.fresh.fresh("place")
        over = ast.comprehension(ast.Name(place, ast.Store()), order, [], 0)
        return ast.ListComp(ast.Subscript(keys, ast.Name(place, ast.Load()), ast.Load()), [over])

    def take(self, name: str, key: Hashable) -> None:
        """Take an item out."""
        held = self.held(name)
        if held.shared or self.inside or (name, key) in self.facts.initial or name in self.factories:
            self.give_up(name)
        self.facts.note(self.facts.taken, (name, key))
        self.hold(name, held.without_key(key))
        if (name, key) in self.facts.flags:
            self.after = [*self.after, self.flag_set(name, key, False)]

    def part(self, name: str, method: str) -> ast.expr:
        """The keys, values or items, or a copy."""
        display = self.whole(name)
        assert isinstance(display, ast.Dict)
        keys = [k for k in display.keys if k is not None]
        if method == "items":
            pairs = zip(keys, display.values, strict=True)
            return ast.Tuple([ast.Tuple([k, v], ast.Load()) for k, v in pairs], ast.Load())
        return ast.Tuple(keys if method == "keys" else display.values, ast.Load())

    def copied(self, name: str) -> ast.expr:
        """A copy, in which dictionaries are those of the original."""
        display = self.whole(name)
        if any(self.variable(name, k) in self.names for k in self.held(name).keys):
            self.give_up(name)
        return display

    def gotten(self, name: str, key: ast.expr, default: ast.expr) -> ast.expr:
        """``d.get(key, default)``."""
        known, held = self.value(key), self.held(name)
        if known is UNKNOWN and (strings := self.strings(key)):
            return chosen(key, strings, [self.gotten(name, ast.Constant(v), copy_tree(default)) for v in strings])
        if known is UNKNOWN:
            method = ast.Attribute(self.whole(name), "get", ast.Load())
            return ast.Call(method, [key, default], [])
        if known in held.keys:
            return ast.Name(self.variable(name, known), ast.Load())
        if known not in held.may:
            return default if not self.inside else self.give_up(name)
        if (name, known) in self.facts.taken or self.inside:
            self.give_up(name)
        variable = ast.Name(self.variable(name, known), ast.Load())
        if name in self.factories or (name, known) in self.facts.initial or _is_initial(default):
            if name not in self.factories:
                self.facts.initial.setdefault((name, known), default)
            return ast.IfExp(ast.Name(self.flag(name, known), ast.Load()), variable, default)
        self.give_up(name)


def _has_effects(node: ast.expr) -> bool:
    """Whether something may come of an expression but its value."""
    return any(isinstance(n, ast.Call | ast.NamedExpr) for n in subtrees(node))


def _display(values: list[ast.expr]) -> ast.expr:
    """An array of these numbers."""
    return ast.Call(bound_name(np.array, "np.array"), [ast.List(values, ast.Load())], [])


def _is_initial(node: ast.expr) -> bool:
    """Whether it is what a variable may hold before it is set: a number, or an empty list."""
    match node:
        case ast.List(elts=[]) | ast.UnaryOp(ast.USub(), ast.Constant(int() | float())):
            return True
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, bool)
