"""What is changed in the source of a function on demand, when lowering finds that it is needed and begins again.

Loops over tuples of arrays are written out, strings become numbers, live ranges of names are split.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ..ir.names import Names
from .array_expressions import FromFunction, Lowered
from .generators import called_later
from .live_range_splitting import NeedsSplitting, split_live_ranges
from .numbered_strings import StringNumbers, number_strings
from .optional_values import with_flags
from .structured_control import ONCE, assignment, iterations_in_turn, place_of, with_location
from .syntax import (
    Replaced,
    Transformer,
    all_names,
    bound_name,
    copy_tree,
    number_node,
    stored_names,
    subtrees,
    unparse,
)
from .unset_names import SettingBranchFirst

if TYPE_CHECKING:
    from .source import Source

__all__ = [
    "Items",
    "N",
    "Rewrites",
    "can_be_written_out",
    "decided_test",
    "is_range",
    "item_of_dictionary",
    "items_of_loop",
    "rewritten",
    "with_numbers",
]


N = TypeVar("N", bound=ast.AST)


class Zipped(tuple[int | None, ...]):
    """The numbers of items of tuples that a loop goes over beside arrays, for which there is None."""


#: The number of items that a loop is over, or the numbers if it is over a range.
Items = int | list[int] | Zipped


@dataclass
class Rewrites:
    """Names whose live ranges are split; strings that are numbers; the loops that are written out, with their items;
    loops over ranges whose iterations are lowered one by one; lists of arrays, which are tuples; lists and
    comprehensions whose items are rows of an array; tests that are known.

    A loop, comprehension or test is known by where its function is defined, what is known of the arguments, and its
    place there.
    """

    split_names: set[str] = field(default_factory=set)
    strings: StringNumbers = field(default_factory=StringNumbers)
    written_out: dict[tuple, Items] = field(default_factory=dict)
    unrolled: set[tuple] = field(default_factory=set)
    lists_of_arrays: set[tuple] = field(default_factory=set)
    lists_of_rows: set[tuple] = field(default_factory=set)
    decided: dict[tuple, bool] = field(default_factory=dict)
    filled: dict[tuple, tuple[FromFunction, tuple]] = field(default_factory=dict)  # numbers that are arrays
    copied: set[tuple] = field(default_factory=set)  # names that are bound to copies, as a branch alone binds them
    grown: set[tuple] = field(default_factory=set)  # lists that are tuples at first
    returns: set[tuple] = field(default_factory=set)  # functions that return one of two arrays, in branches instead
    optional: set[tuple] = field(default_factory=set)  # names that hold None until they are set, peeled or not

    @property
    def extent(self) -> tuple[int, ...]:
        """How much there is of each."""
        return (
            len(self.split_names),
            len(self.strings.names),
            len(self.written_out),
            len(self.unrolled),
            len(self.lists_of_arrays),
            len(self.lists_of_rows),
            len(self.decided),
            len(self.filled),
            len(self.copied),
            len(self.optional),
            len(self.returns),
            len(self.grown),
        )

    def add(self, asked: NeedsSplitting) -> bool:
        """Add what an attempt asked for; whether it is new."""
        before = self.extent
        if asked.written_out:
            key, items = asked.written_out
            self.written_out[key] = items
        elif asked.list_of_arrays:
            self.lists_of_arrays.add(asked.list_of_arrays)
        elif asked.rows:
            self.lists_of_rows.add(asked.rows)
            for found in (self.decided, self.written_out, self.unrolled):  # by the tuples that they were
                found.clear()
        elif asked.filled:
            key, made, place = asked.filled
            self.filled[key] = made, place
        elif asked.copied:
            self.copied.add(asked.copied)
        elif asked.returns:
            self.returns.add(asked.returns)
        elif asked.grown:
            self.grown.add(asked.grown)
        elif asked.optional:
            self.optional.add(asked.optional)
        elif asked.decided:
            self.decided |= asked.decided
        elif asked.unrolled:
            self.unrolled.add(asked.unrolled)
        else:
            (self.strings.names if asked.numbered else self.split_names).add(asked.name)
        return before != self.extent


def rewritten(
    source: Source,
    rewrites: Rewrites,
    numbered: Collection[str] = (),
    strings: Collection[str] = (),
    context: tuple = (),
) -> Source:
    """A source with what is to be changed; the parameters `numbered` are numbers for strings, and the parameters
    `strings` may become such; `context`: what is known of the arguments."""
    source = copy.copy(source)
    source.string_parameters = {*numbered, *strings}
    source.context = context
    lists, rows, grown = (
        {name for *where, name in found if tuple(where) == source.definition_site}
        for found in (rewrites.lists_of_arrays, rewrites.lists_of_rows, rewrites.grown)
    )
    if lists or rows or grown:
        source.node = source.without_lists(lists - rows, rows, grown)
    known = sorted(
        (name, peeled) for *where, name, peeled in rewrites.optional if tuple(where) == source.definition_site
    )
    optional = dict(known)
    if optional:
        source.node = with_flags(source.node, optional, source.is_called)
        source.node = SettingBranchFirst(source.node).visit(source.node)
    if source.definition_site in rewrites.returns:
        source.node = _ReturnsInBranches().visit(copy_tree(source.node))
    site = (*source.definition_site, context)
    loops = {place: items for (*where, place), items in rewrites.written_out.items() if tuple(where) == site}
    if loops:
        source.node = _WriteOut(loops, Names(all_names(source.node))).visit(copy_tree(source.node))
    decided = {place: holds for (*where, place), holds in rewrites.decided.items() if tuple(where) == site}
    if decided:
        source.node = _Decide(decided, source.node).visit(copy_tree(source.node))
    if numbered or not (rewrites.split_names | rewrites.strings.names).isdisjoint(all_names(source.node)):
        node, source.numbered = number_strings(source, rewrites.strings, numbered)
        source.node, source.earlier_names = split_live_ranges(
            node, rewrites.split_names, set(source.signature.parameters)
        )
    return source


class _ReturnsInBranches(Transformer):
    """Rewrites ``return a if c else b`` as a branch with two returns."""

    def visit_Return(self, s: ast.Return) -> ast.stmt:
        if not isinstance(s.value, ast.IfExp):
            return s
        returns = [[with_location(ast.Return(v), s)] for v in (s.value.body, s.value.orelse)]
        return self.visit(with_location(ast.If(s.value.test, *returns), s))


def can_be_written_out(s: ast.For) -> bool:
    """Whether a loop over a tuple can be written as its iterations: its body leaves the tuple as it is."""
    iterated = {n.id for n in subtrees(s.iter) if isinstance(n, ast.Name)}
    changed = {*stored_names(s.body), *(n.id for n in subtrees(s.target) if isinstance(n, ast.Name))}
    once = place_of(s)[-1:] == (ONCE,)
    return not (s.orelse or once) and (is_range(s.iter) or (_has_items(s.iter) and iterated.isdisjoint(changed)))


def is_range(iterable: ast.expr) -> bool:
    """Whether it is ``range(...)``, as it is written, or the reverse of such."""
    match _reversed(iterable) or iterable:
        case ast.Call(func=ast.Name("range")):
            return True
    return False


def with_numbers(body: list[N], numbers: Mapping[str, int | ast.expr]) -> list[N]:
    """A copy of the body of a loop with these constants in place of names, unless it sets them itself, and not in
    functions that may be called later than this iteration: they read what the names are then."""
    nodes = [n for s in body for n in subtrees(s)]
    own = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)} | {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    body = [copy_tree(s) for s in body]
    replaced = _Numbered({name: k for name, k in numbers.items() if name not in own}, called_later(body))
    return [replaced.visit(s) for s in body]


class _Numbered(Replaced):
    """Replaces names by numbers, but in the bodies of the functions `later`."""

    def __init__(self, names: Mapping[str, int | ast.expr], later: Collection[ast.AST]) -> None:
        super().__init__(names)
        self.later = later

    def visit_Lambda(self, node: ast.Lambda | ast.FunctionDef) -> ast.AST:
        if node not in self.later:
            return self.generic_visit(node)
        node.args = self.visit(node.args)  # defaults are evaluated now
        return node

    visit_FunctionDef = visit_Lambda


def items_of_loop(iterable: object, count: int) -> None:
    """Stands before a loop that is written out: there are `count` items. (Source that is lowered has it, only.)"""


def decided_test(test: object, holds: bool) -> None:
    """Stands for a test that is known, before the branch that it chooses. (Source that is lowered has it, only.)"""


def item_of_dictionary(iterable: object, k: int) -> None:
    """Stands for an item of a loop over ``p.items()`` and the like that is written out."""


def _of_dictionary(iterable: ast.expr) -> bool:
    match iterable:
        case ast.Call(ast.Attribute(ast.Name() | ast.Subscript(), "keys" | "values" | "items"), [], []):
            return True
    return False


class _Decide(Transformer):
    """Leaves of tests that are known the branches that they choose; `decided` has their outcomes by their places."""

    def __init__(self, decided: Mapping[tuple, bool], function: ast.AST) -> None:
        places = Counter(place_of(n) for n in subtrees(function) if isinstance(n, ast.If))
        self.decided = {place: holds for place, holds in decided.items() if places[place] == 1}

    def visit_If(self, s: ast.If) -> ast.AST | list[ast.AST]:
        self.generic_visit(s)
        holds = self.decided.get(place_of(s))
        if holds is None:
            return s
        check = ast.Call(bound_name(decided_test, "decided_test"), [s.test, ast.Constant(holds)], [])
        return [with_location(ast.Expr(check), s), *(s.body if holds else s.orelse)]


def _reversed(iterable: ast.expr) -> ast.expr | None:
    """What ``reversed(...)`` or ``...[::-1]`` is of."""
    match iterable:
        case ast.Call(func=ast.Name("reversed"), args=[inner], keywords=[]):
            return inner
        case ast.Subscript(inner, ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))):
            return inner
    return None


def _has_items(iterable: ast.expr) -> bool:
    """Whether :func:`_item` knows the items of an iterable over tuples, or will once :func:`_named` has named them."""
    inner = _reversed(iterable)
    if inner is not None:
        return isinstance(inner, ast.Name | ast.Attribute | ast.Tuple | ast.List | Lowered)
    match iterable:
        case ast.Call(func=ast.Name("enumerate"), args=[inner], keywords=[]):
            return _has_items(inner)
        case ast.Call(func=ast.Name("zip"), args=operands):  # strict=True was checked before
            return all(map(_has_items, operands))
        case ast.Subscript(slice=ast.Slice(lower=lower, step=None)):
            return lower is None or (isinstance(lower, ast.Constant) and type(lower.value) is int)
        case ast.Subscript(slice=ast.Slice()):
            return False
    plain = isinstance(iterable, ast.Name | ast.Attribute | ast.Subscript | ast.Tuple | ast.List | Lowered)
    return plain or _of_dictionary(iterable)


def _is_stable(node: ast.expr) -> bool:
    """Whether an item may be read in any iteration: it is not computed."""
    match node:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(map(_is_stable, items))
    return isinstance(node, ast.Name | ast.Attribute | ast.Constant) or _of_dictionary(node)


def _named(iterable: ast.expr, names: Names, named: list[tuple[ast.expr, ast.expr]]) -> ast.expr:
    """An iterable with names for the tuples in it that are computed, before the loop: the pairs `named`."""
    match iterable:
        case ast.Call(func=ast.Name("enumerate" | "zip" | "reversed") as function, args=args):
            return ast.Call(function, [_named(a, names, named) for a in args], [])
        case ast.Subscript(whole, index):
            return ast.Subscript(_named(whole, names, named), index, ast.Load())
    if _is_stable(iterable):
        return iterable
    name = names.fresh("items")
    named.append((ast.Name(name, ast.Store()), iterable))
    return ast.Name(name, ast.Load())


class _WriteOut(Transformer):
    """Writes the iterations of loops one by one; `loops` has their number by the place of the loop."""

    def __init__(self, loops: Mapping[tuple, Items], names: Names) -> None:
        self.loops, self.names = loops, names

    def visit_For(self, s: ast.For) -> ast.AST | list[ast.AST]:
        place = place_of(s)
        if place not in self.loops:
            return self.generic_visit(s)
        items = self.loops[place]
        numbers = items if isinstance(items, list) else []
        if isinstance(items, Zipped):
            count = min(n for n in items if n is not None)
        else:
            count = items if isinstance(items, int) else len(items)
        named: list[tuple[ast.expr, ast.expr]] = []
        iterable = _named(s.iter, self.names, named) if not isinstance(items, list) else s.iter
        operands = _zip_of(iterable).args if isinstance(items, Zipped) else [iterable]
        done: list[ast.AST] = [assignment(s, target, value) for target, value in named]
        for operand, number in zip(operands, items if isinstance(items, Zipped) else (count,), strict=True):
            if number is None:
                done.append(_require_items(s, operand, count))
            else:
                arguments = [copy_tree(operand), ast.Constant(number)]
                check = ast.Call(bound_name(items_of_loop, "items_of_loop"), arguments, [])
                done.append(with_location(ast.Expr(check), s))
        iterations: list[list[ast.stmt]] = []
        for k in range(count):
            made = number_node(numbers[k]) if isinstance(items, list) else _item(iterable, k)
            item = with_location(made, s)
            iterations.append([assignment(s, copy_tree(s.target), item)])
            body = with_numbers(s.body, dict(_numbers(s.target, item)))
            for n in (n for t in body for n in subtrees(t) if isinstance(n, ast.For | ast.If)):
                n.place = (*place, k, *place_of(n))  # type: ignore[union-attr]
            for t in body:
                more = self.visit(t)
                iterations[-1] += more if isinstance(more, list) else [more]
        return [*done, *iterations_in_turn(s, iterations, self.names)]


def _zip_of(iterable: ast.expr) -> ast.Call:
    """The zip that a loop is over, perhaps with numbers."""
    assert isinstance(iterable, ast.Call)
    inner = iterable.args[0]
    enumerated = isinstance(iterable.func, ast.Name) and iterable.func.id == "enumerate"
    return inner if enumerated and isinstance(inner, ast.Call) else iterable


def _require_items(s: ast.For, array: ast.expr, count: int) -> ast.stmt:
    """An error if an array has less than `count` items, so that names would have the sizes of other iterations."""
    length = ast.Call(bound_name(len, "len"), [copy_tree(array)], [])
    text = f"a loop over {unparse(s.iter)} ends before the tuples do, whose items have several sizes"
    error = ast.Call(bound_name(ValueError, "ValueError"), [ast.Constant(text)], [])
    return with_location(ast.If(ast.Compare(length, [ast.Lt()], [ast.Constant(count)]), [ast.Raise(error)], []), s)


def _numbers(target: ast.expr, item: ast.expr) -> Iterator[tuple[str, int]]:
    """The names that are bound to integers by ``target = item``."""
    match target, item:
        case ast.Name(id=name), ast.Constant(value=int() as k):
            yield name, k
        case ast.Name(id=name), ast.UnaryOp(ast.USub(), ast.Constant(value=int() as k)):
            yield name, -k
        case ast.Tuple(elts=targets), ast.Tuple(elts=items) if len(targets) == len(items):
            for t, i in zip(targets, items, strict=True):
                yield from _numbers(t, i)


def _item(iterable: ast.expr, k: int) -> ast.expr:
    """An item of an iterable over tuples; number -1 is the last."""
    inner = _reversed(iterable)
    if inner is not None:
        return _item(inner, -1 - k)
    match iterable:
        case ast.Call(func=ast.Name("enumerate"), args=[inner]):
            return ast.Tuple([number_node(k), _item(inner, k)], ast.Load())
        case ast.Call() if _of_dictionary(iterable):
            function = bound_name(item_of_dictionary, "item")
            return ast.Call(function, [copy_tree(iterable), ast.Constant(k)], [])
        case ast.Call(args=operands):  # zip
            return ast.Tuple([_item(x, k) for x in operands], ast.Load())
        case ast.Subscript(value=whole, slice=ast.Slice(lower=lower)):
            first = 0 if lower is None else lower.value  # type: ignore[attr-defined]
            return ast.Subscript(copy_tree(whole), ast.Constant(first + k), ast.Load())
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return copy_tree(items[k])
    return ast.Subscript(copy_tree(iterable), ast.Constant(k), ast.Load())
