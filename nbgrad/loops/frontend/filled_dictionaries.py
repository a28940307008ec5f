"""Dictionaries that change: ``d = {}`` and ``d["a"] = y`` become variables, ``d_a = y``.

An abstract interpretation of each function follows which keys its dictionaries have (:mod:`.dictionary_states`). Loops
over known items that are keys are written out, a key that is one of several strings is told by branches, and where a
key may be there or not, a flag beside its variable says whether it is. What is read as a whole is a display of the
variables. Of a dictionary that cannot be followed, nothing is changed; others do not change (:mod:`.dictionaries`).
"""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from .canonical_form import Resolving
from .dictionary_candidates import FACTORIES, changing_dictionaries
from .dictionary_reads import DictionaryReads, Facts, GivenUp, Learned
from .dictionary_states import Held, State, joined
from .growing_lists import nested_loops
from .key_strings import is_get, with_constant
from .known_iterables import UNKNOWN, KnownIterables, constant_node
from .rewrites import with_numbers
from .structured_control import assignment, iterations_in_turn, place_of, with_location
from .syntax import (
    all_names,
    bound_name,
    copy_tree,
    free_variables,
    stored_names,
    subtrees,
    unparse,
    with_own_variables,
)

if TYPE_CHECKING:
    from .source import Source

__all__ = ["FilledDictionaries"]


class FilledDictionaries(Resolving):
    """Rewrites each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self.outside = self.outside, free_variables(node)
        self.generic_visit(node)
        left: set[str] = set()
        while names := changing_dictionaries(self, node) - left:
            facts = Facts()
            try:
                while True:
                    try:
                        node = _Interpreter(self.source, copy_tree(node), names, self.outside, facts).function()
                        break
                    except Learned:
                        continue
            except GivenUp as given_up:
                assert given_up.name in names
                left.add(given_up.name)
        self.outside = around
        return node


class _Interpreter(DictionaryReads):
    """Rewrites the statements of one function."""

    def __init__(self, source: Source, node: ast.FunctionDef, names: set[str], outside: set[str], facts: Facts) -> None:
        super().__init__(source, node, names, outside, facts)
        self.jumps: list[list[State]] = []  # the states at the jumps of each enclosing loop
        self.attempts: list[list[State]] = []  # and between the statements of each enclosing try

    def function(self) -> ast.FunctionDef:
        self.node.body = self.block(self.node.body)
        return self.node

    # Statements.

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements in place of these; `state` is that at their end."""
        done: list[ast.stmt] = []
        for s in statements:
            if self.state is None:
                break  # it is never reached
            above, self.before = self.before, []
            new = self.statement(s)
            done += [with_location(t, s) for t in (*self.before, *new)]
            self.before = above
            for states in self.attempts:
                states.append(self.state)
        return done or [ast.copy_location(ast.Pass(), statements[0])] if statements else []

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        chosen = self.with_key_chosen(s) if isinstance(s, ast.Assign | ast.AugAssign | ast.Expr | ast.Delete) else None
        if chosen is not None:
            return self.block([chosen])
        match s:
            case ast.Assign([ast.Name(id=name)], value) if name in self.names:
                return self.made(s, name, value)
            case ast.Assign([ast.Name() as target], ast.Call(function, [ast.Name(id=name)], [ast.keyword("key", key)])):
                extremal = name in self.names and self.called(function) in (min, max) and is_get(key, name)
                if extremal and not all(type(k) is int for k in self.complete(name).keys):
                    return self.extremal_key(s, target, self.called(function) is min, name)
            case ast.Delete(targets=targets):
                return [t for target in targets for t in self.deleted(target)]
            case ast.For():
                return self.loop(s)
            case ast.While():
                return self.repeated(s)
            case ast.If(test=test, body=body, orelse=orelse):
                if (holds := self.value(test)) is not UNKNOWN:
                    return self.block(body if holds else orelse)
                s.test = self.read(test)
                before, states = self.state, []
                for part in ("body", "orelse"):
                    self.state = before
                    setattr(s, part, self.block(getattr(s, part)))
                    states.append(self.state)
                self.state = joined(states)
                return [s]
            case ast.Try():
                return self.attempt(s)
            case ast.FunctionDef():
                return [self.nested(s)]
            case ast.Return() | ast.Raise():
                self.read(s)
                self.state = None
                return [s]
            case ast.Break() | ast.Continue():
                self.jumps[-1].append(self.state)
                self.state = None
                return [s]
            case ast.Expr(ast.Call(ast.Attribute(value, "update" | "clear" as method), args, keywords)):
                if name := self.owner(value):
                    return self.changed(s, name, method, args, keywords)
        return self.simple(s)

    def simple(self, s: ast.stmt) -> list[ast.stmt]:
        """A statement without others in it: values are read before targets are set."""
        match s:
            case ast.Assign(targets=targets, value=value):
                s.value = self.read(value)
                s.targets = [self.target(t) for t in targets]
                match s:
                    case ast.Assign([ast.Name(id=name)], ast.Dict() as made) if name in self.variables.values():
                        if getattr(made, "shared", False):
                            self.give_up(next(d for (d, _), n in self.variables.items() if n == name))
                        (of,) = (d for (d, _), n in self.variables.items() if n == name)
                        self.follow(name, of)
                        flagged, self.after = self.after, []
                        return [*self.made(s, name, made), *flagged]
            case ast.AugAssign(target=ast.Subscript(owner, key) as target) if name := self.owner(owner):
                self.item(name, copy_tree(key))  # which must be there
                s.value, s.target = self.read(s.value), self.target(target)  # type: ignore[assignment]
            case _:
                self.generic(s)
        flagged, self.after = self.after, []
        return [s, *flagged]

    def target(self, node: ast.expr) -> ast.expr:
        """What is set in place of a target."""
        match node:
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                node.elts = [self.target(t) for t in targets]
                return node
            case ast.Subscript(value, key) if name := self.owner(value):
                if (known := self.value(self.read(key))) is UNKNOWN or self.inside:
                    self.give_up(name)
                return ast.copy_location(ast.Name(self.put(name, known), ast.Store()), node)
            case ast.Name(id=name) if name in self.names:
                self.give_up(name)
            case ast.Name():
                return node
        return self.generic(node)

    def with_key_chosen(self, s: ast.stmt) -> ast.stmt | None:
        """A branch for each of the strings that the key of an item that is set may be; None if it is known."""
        for n in subtrees(s):
            match n:
                case ast.Subscript(value, key, ast.Store() | ast.Del()):
                    pass
                case ast.Attribute(ast.Subscript(value, key) as n):
                    pass
                case ast.Call(ast.Attribute(value, "setdefault" | "pop"), [key, *_]):
                    pass
                case _:
                    continue
            if not self.owner(value) or self.value(key) is not UNKNOWN:
                continue
            if isinstance(key, ast.IfExp):
                copies = []
                for part in (key.body, key.orelse):
                    if isinstance(n, ast.Subscript):
                        n.slice = part
                    else:
                        n.args[0] = part
                    copies.append(copy_tree(s))
                return with_location(ast.If(key.test, copies[:1], copies[1:]), s)
            if strings := self.strings(key):
                *others, last = [with_constant(s, key.id, v) for v in strings]  # type: ignore[attr-defined]
                for string, one in reversed(list(zip(strings, others, strict=False))):
                    test = ast.Compare(copy_tree(key), [ast.Eq()], [ast.Constant(string)])
                    last = with_location(ast.If(test, [one], [last]), s)
                return last
        return None

    def extremal_key(self, s: ast.stmt, target: ast.Name, smallest: bool, name: str) -> list[ast.stmt]:
        """``best = min(d, key=d.get)``: the key of the first of the smallest items."""
        held = self.held(name)
        if not held.complete or not held.keys or not all(type(k) is str for k in held.keys):
            self.give_up(name)
        extremum = self.fresh.fresh(f"{name}_{'smallest' if smallest else 'largest'}")
        found: list[ast.stmt] = []
        for key in held.keys:
            self.facts.note(self.facts.strings.setdefault(target.id, {}), key)
            item = ast.Name(self.variable(name, key), ast.Load())
            pair = [
                assignment(s, ast.Name(target.id, ast.Store()), ast.Constant(key)),  # type: ignore[arg-type]
                assignment(s, ast.Name(extremum, ast.Store()), item),
            ]
            test = ast.Compare(item, [ast.Lt() if smallest else ast.Gt()], [ast.Name(extremum, ast.Load())])
            found += [ast.If(test, pair, [])] if found else pair
        return found

    def made(self, s: ast.stmt, name: str, value: ast.expr) -> list[ast.stmt]:
        """The statements in place of ``name = {...}``."""
        match value:
            case ast.Name(id=other) if other in self.names:  # a comprehension that took its place
                return self.made(s, name, self.whole(other))
            case ast.Dict(keys=keys, values=values):
                pairs = []
                for k, v in zip(keys, values, strict=True):
                    key = UNKNOWN if k is None else self.value(self.read(k))
                    if key is UNKNOWN:
                        self.give_up(name)
                    pairs.append((key, self.read(v)))
                return self.begun(s, name, pairs)
            case ast.DictComp():
                return self.comprehension(s, name, value)
            case ast.Call(args=[ast.Call(args=[first, second], keywords=[])]) if self.called(value.func) is dict:
                names = [self.fresh.fresh(n) for n in ("key", "item")]
                k, v = (ast.Name(n, ast.Load()) for n in names)
                target = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
                over = ast.Call(bound_name(zip, "zip"), [first, second], [])
                made = ast.DictComp(k, v, [ast.comprehension(target, over, [], 0)])
                return self.comprehension(s, name, with_location(made, value))
            case ast.Call(args=[]):
                return self.begun(s, name, [(str(k.arg), self.read(k.value)) for k in value.keywords])
            case ast.Call(args=[factory]) if self.called(factory) in FACTORIES:
                self.factories[name] = FACTORIES[self.called(factory)]
                return self.begun(s, name, [])
        self.give_up(name)

    def begun(self, s: ast.stmt, name: str, pairs: list[tuple[Hashable, ast.expr]]) -> list[ast.stmt]:
        """The assignments that make a dictionary of these items."""
        assert self.state is not None
        self.hold(name, Held())
        keys = list(self.facts.keys.get(name, {}))
        given = dict(pairs)
        first: list[ast.stmt] = []
        for key in keys:
            initial = self.facts.initial.get((name, key))
            if key not in given and (name in self.factories or initial is not None):
                value = copy_tree(initial) if initial is not None else self.factories[name]()
                first.append(assignment(s, ast.Name(self.variable(name, key), ast.Store()), value))
            if (name, key) in self.facts.flags:
                first.append(self.flag_set(name, key, key in given))
        if len(pairs) > 1 and any(self.mentions(v, name) for _, v in pairs):  # d = {"a": d["b"], "b": d["a"]}
            held = [(key, self.fresh.fresh("item"), v) for key, v in pairs]
            first += [assignment(s, ast.Name(n, ast.Store()), v) for _, n, v in held]
            pairs = [(key, ast.Name(n, ast.Load())) for key, n, _ in held]
        for key, v in pairs:
            made = ast.Name(self.put(name, key), ast.Store())
            if getattr(v, "shared", False):
                self.give_up(name)
            if isinstance(v, ast.Dict):
                self.follow(made.id, name)
                first += self.made(s, made.id, v)
            else:
                first.append(assignment(s, made, v))
        self.after = []  # the flags are set already
        return first

    def mentions(self, node: ast.AST, name: str) -> bool:
        """Whether an expression reads a variable of a dictionary."""
        own = {v for key, v in self.variables.items() if key[0] == name}
        return any(isinstance(n, ast.Name) and n.id in own for n in subtrees(node))

    def comprehension(self, s: ast.stmt, name: str, value: ast.DictComp) -> list[ast.stmt]:
        """``new = {}``, ``for k in ...: new[k] = v``, ``name = new``."""
        own = with_own_variables(ast.ListComp(ast.Tuple([value.key, value.value], ast.Load()), value.generators),
                                 self.fresh.fresh)  # fmt: skip
        own = with_location(own, value)
        new = self.fresh.fresh(name)
        self.follow(new, name)
        key, item = own.elt.elts
        put = ast.Assign([ast.Subscript(ast.Name(new, ast.Load()), key, ast.Store())], item)
        empty = ast.Assign([ast.Name(new, ast.Store())], ast.Dict([], []))
        taken = ast.Assign([ast.Name(name, ast.Store())], ast.Name(new, ast.Load()))
        statements = [empty, *nested_loops(own.generators, [put]), taken]
        return self.block([with_location(t, s) for t in statements])

    def changed(
        self, s: ast.stmt, name: str, method: str, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> list[ast.stmt]:
        """``name.clear()``, and ``name.update({...})`` as its items."""
        if method == "clear" and not (args or keywords):
            return self.begun(s, name, []) if not self.held(name).shared else self.give_up(name)
        match args:
            case []:
                pairs: list[tuple[ast.expr, ast.expr]] = []
            case [ast.Dict(keys=keys, values=values)] if None not in keys:
                pairs = list(zip(keys, values, strict=True))  # type: ignore[arg-type]
            case _:
                self.give_up(name)
        if any(k.arg is None for k in keywords):
            self.give_up(name)
        pairs += [(ast.Constant(k.arg), k.value) for k in keywords]
        owner = ast.Name(name, ast.Load())
        sets = [ast.Assign([ast.Subscript(owner, k, ast.Store())], v) for k, v in pairs]
        held = {n.id for _, v in pairs for n in subtrees(v) if isinstance(n, ast.Name)}
        if len(sets) > 1 and name in held:
            self.give_up(name)
        return self.block([with_location(t, s) for t in sets])

    def deleted(self, target: ast.expr) -> list[ast.stmt]:
        match target:
            case ast.Subscript(value, key) if name := self.owner(value):
                if (known := self.value(key)) not in self.held(name).keys:
                    self.give_up(name)
                self.take(name, known)
                flagged, self.after = self.after, []
                return flagged or [ast.Pass()]
        return [ast.Delete([self.generic(target)])]

    # Loops, branches and functions.

    def loop(self, s: ast.For) -> list[ast.stmt]:
        required, self.required = self.required, []
        over = self.mentioned(s.iter)
        changed = [n for n in over if self.sets_items(s, n)]
        items = self.items(s.iter) if (changed or self.is_key(s)) and not s.orelse else None
        if changed and items is None:
            self.give_up(changed[0])
        before = {n: self.held(n).may for n in over}
        done = self.looped(s, items, required)
        if self.state is not None and any(self.held(n).may != keys for n, keys in before.items()):
            self.give_up(next(iter(before)))  # Python raises an error where its size changes
        return done

    def mentioned(self, node: ast.expr) -> list[str]:
        """The dictionaries that an expression is made of."""
        return [name for n in subtrees(node) if isinstance(n, ast.Name | ast.Subscript) and (name := self.owner(n))]

    def sets_items(self, s: ast.For, name: str) -> bool:
        """Whether the body of a loop may set items of a dictionary."""
        nodes = [n for t in s.body for n in subtrees(t)]
        stored = [n.value for n in nodes if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)]
        stored += [n.func.value for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        return any(self.owner(n) == name for n in stored)

    def looped(self, s: ast.For, items: list[ast.expr] | None, required: list[tuple[ast.Name, int]]) -> list[ast.stmt]:
        """The statements in place of a loop over these items, if they are known."""
        needs, self.required = self.required, required
        if items is not None and not {n.id for n, _ in needs} & set(stored_names(s.body, added=False)):
            return self.written_out(s, items, needs)
        s.iter = self.iterable(s.iter)
        match s.iter:
            case ast.Call(ast.Name() as function, [ast.Constant(1)], []) if getattr(function, "function", 0) is range:
                self.jumps.append([])  # an iteration of a loop that was written out
                s.body = self.block(s.body)
                self.state = joined([self.state, *self.jumps.pop()])
                return [s]
        return self.repeated(s)

    def is_key(self, s: ast.For) -> bool:
        """Whether a loop counts with what its body takes for a key."""
        counters = {n.id for n in subtrees(s.target) if isinstance(n, ast.Name)}
        nodes = [n for t in s.body for n in subtrees(t)]
        bound = {name for n in nodes if isinstance(n, ast.Assign) and not counters.isdisjoint(all_names(n.value))
                 for name in stored_names([n])}  # fmt: skip
        return any(not (counters | bound).isdisjoint(all_names(k)) for n in nodes for k in self.keys_in(n))

    def keys_in(self, n: ast.AST) -> list[ast.expr]:
        """The keys by which a node reads or sets items."""
        match n:
            case ast.Subscript(value, key) if self.owner(value):
                return [key]
            case ast.Call(ast.Attribute(value), [key, *_]) if self.owner(value):
                return [key]
            case ast.Compare(left, [ast.In() | ast.NotIn()], [ast.Name(id=name)]) if name in self.names:
                return [left]
        return []

    def written_out(self, s: ast.For, items: list[ast.expr], needs: list[tuple[ast.Name, int]]) -> list[ast.stmt]:
        """The iterations of a loop; what is computed of its items is computed before."""
        first: list[ast.stmt] = []
        for operand, count in needs:
            length = ast.Call(bound_name(len, "len"), [copy_tree(operand)], [])
            text = f"a loop over {unparse(s.iter)}: {operand.id} ends before {count} items"
            error = ast.Call(bound_name(ValueError, "ValueError"), [ast.Constant(text)], [])
            first.append(ast.If(ast.Compare(length, [ast.Lt()], [ast.Constant(count)]), [ast.Raise(error)], []))
        moved = set(stored_names(s.body)) | set(stored_names([s.target]))

        def lasting(node: ast.expr) -> ast.expr:
            if isinstance(node, ast.Tuple):
                return ast.Tuple([lasting(e) for e in node.elts], ast.Load())
            plain = self.value(node) is not UNKNOWN or all_names(node).isdisjoint(moved)
            calls = any(isinstance(n, ast.Call | ast.NamedExpr) for n in subtrees(node))
            if plain and not calls:
                return copy_tree(node)
            name = self.fresh.fresh("item")
            first.append(ast.Assign([ast.Name(name, ast.Store())], copy_tree(node)))
            return ast.Name(name, ast.Load())

        iterations = []
        for k, node in enumerate([lasting(e) for e in items]):
            body = with_numbers(s.body, _constants(self, s.target, node))
            for n in (n for t in body for n in subtrees(t) if isinstance(n, ast.For | ast.If)):
                n.place = (*place_of(s), k, *place_of(n))  # type: ignore[union-attr]
            item = assignment(s, copy_tree(s.target), with_location(copy_tree(node), s))
            iterations.append([item, *self.with_named_keys(body)])
        done = [*first, *iterations_in_turn(s, iterations, self.fresh)]
        return self.block([with_location(t, s) for t in done] or [ast.copy_location(ast.Pass(), s)])

    def with_named_keys(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """An iteration with constants in place of the names that it binds to them: ``key = f"x{i}"``."""
        stored = stored_names(body)
        for k, t in enumerate(body):
            match t:
                case ast.Assign([ast.Name(id=name) as target], value) if stored.count(name) == 1:
                    body[k + 1 :] = with_numbers(body[k + 1 :], _constants(self, target, value))
        return body

    def repeated(self, s: ast.For | ast.While) -> list[ast.stmt]:
        """A loop: its body may begin with the keys that there are before it, and at its own end."""
        head, for_ever = self.state, isinstance(s, ast.While) and self.value(s.test) is True
        while True:
            self.state = head
            self.jumps.append([])
            twin = copy_tree(s)
            if isinstance(twin, ast.While):
                above, self.before = self.before, []
                twin.test = self.read(twin.test)
                if self.before:
                    self.give_up(next(n for n in self.names if n in all_names(s)))
                self.before = above
            twin.body = self.block(twin.body)
            left = self.jumps.pop()
            new = joined([head, self.state, *left])
            if new == head:
                break
            head = new
        self.state = head
        twin.orelse = self.block(twin.orelse)
        self.state = joined(left) if for_ever else joined([self.state, *left])
        return [twin]

    def attempt(self, s: ast.Try) -> list[ast.stmt]:
        """A try statement, which errors may leave between any statements of its body."""
        states = [self.state]
        self.attempts.append(states)
        s.body = self.block(s.body)
        self.attempts.pop()
        ends, raised = [self.state], joined(states)
        for handler in s.handlers:
            self.state = raised
            handler.body = self.block(handler.body)
            ends.append(self.state)
        if s.orelse:
            self.state = ends[0]
            s.orelse = self.block(s.orelse)
            ends[0] = self.state
        self.state = joined([*ends, raised]) if s.finalbody else joined(ends)
        s.finalbody = self.block(s.finalbody) if self.state is not None else s.finalbody
        return [s]


def _constants(low: KnownIterables, target: ast.expr, item: ast.expr) -> dict[str, int | ast.expr]:
    """The names that are bound to strings and integers by ``target = item``."""
    match target, item:
        case ast.Name(id=name), _ if type(value := low.value(item)) in (str, int):
            return {name: constant_node(value)}  # type: ignore[dict-item]
        case ast.Tuple(elts=targets), ast.Tuple(elts=items) if len(targets) == len(items):
            pairs = [_constants(low, t, i) for t, i in zip(targets, items, strict=True)]
            return {n: v for found in pairs for n, v in found.items()}
    return {}
