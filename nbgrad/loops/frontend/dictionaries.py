"""Dictionaries with constant keys: ``**options``, ``{'a': x}`` and ``dict(a=x)``.

Their keys are known when code is generated, so they are no part of it, like strings: what they hold is read by its key,
passed on by ``**``, and asked for by ``in``, ``get`` and ``pop``. They do not change, except that a function may take
items out of its own ``**options``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.statements import Check
from ..ir.terms import Compare, Constant, Logical, integer
from .array_expressions import ArrayExpr, FromFunction, Leaf, Lowered, Op, Scalar, Static, TupleExpr
from .captured_values import MAX_CONSTANT_ELEMENTS
from .known_integers import integer_of
from .messages import Message
from .record_types import is_record
from .rewrites import item_of_dictionary
from .syntax import bound_to, number_node, subtrees, unparse

if TYPE_CHECKING:
    from .calls import Calls
    from .expressions import Expressions
    from .scope import Scope

__all__ = [
    "METHODS",
    "READING",
    "Dictionary",
    "Key",
    "dictionary_display",
    "dictionary_items",
    "dictionary_method",
    "dictionary_of",
    "display_items",
    "item_of",
    "item_of_loop",
    "keyword_items",
    "known_key",
    "lasting",
]  # fmt: skip


#: The most integers that a key is compared with.
_MOST_NUMBERS = 32
#: What a key may be.
Key = str | int | tuple
#: The methods of dictionaries that are known.
METHODS = ("get", "pop", "keys", "values", "items")
#: Those that do not change it.
READING = ("get", "keys", "values", "items")


@dataclass(frozen=True, eq=False)
class Dictionary:
    """What the keys hold: numbers in variables of their own, arrays, and what is known when code is generated."""

    items: dict[Key, ArrayExpr]


def dictionary_of(low: Scope, node: ast.expr) -> Dictionary | None:
    """The dictionary that a name is bound to, or that is an item of another one or of a tuple; None for others."""
    static: object = None
    if isinstance(node, Lowered):
        static = node.lowered_tree
    elif isinstance(node, ast.Subscript):
        static = _known_item(low, node)
    elif isinstance(node, ast.Name) and bound_to(node) is None:
        static = low.string_of(node.id)
    return static.value if isinstance(static, Static) and isinstance(static.value, Dictionary) else None


def _known_item(low: Scope, node: ast.Subscript) -> object:
    """The item of a dictionary, or of a tuple in one or with a name, by a constant; None for other expressions."""
    held = dictionary_of(low, node.value)
    if held is not None:
        return None if (key := known_key(low, node.slice)) is None else held.items.get(key)
    items: object = ()
    if isinstance(node.value, ast.Subscript):
        items = getattr(_known_item(low, node.value), "items", ())
    elif isinstance(node.value, ast.Name) and (pack := low.tuple_of(node.value)) is not None:
        items = pack.items
    match node.slice:
        case ast.Constant(int(k)) if isinstance(items, tuple | list) and -len(items) <= k < len(items):
            return items[k]
    return None


def dictionary_display(low: Expressions, node: ast.expr) -> Static | None:
    """The dictionary that ``{...}`` or ``dict(...)`` makes; None for other expressions."""
    pairs = display_items(low, node)
    if pairs is None:
        return None
    items: dict[Key, ArrayExpr] = {}
    for key, value in pairs:
        if key is None:
            items |= _spread(low, value)
        else:
            items[key] = lasting(low, value, low.tree_or_static(value))
            _require_one_array(low, value, items[key])
    return Static(Dictionary(items))


def display_items(low: Expressions, node: ast.expr) -> list[tuple[Key | None, ast.expr]] | None:
    """The keys and values in ``{...}`` or ``dict(...)``, with None as the key of ``**value``; None for others."""
    match node:
        case ast.Dict(keys=keys, values=values):
            return [(None if k is None else _key(low, node, k), v) for k, v in zip(keys, values, strict=True)]
        case ast.DictComp(generators=[generator]) if not generator.ifs:
            items = low.static_items(low.forwards(generator.iter))  # type: ignore[attr-defined]
            if items is not None:
                pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
                made = low.elements_for(generator, pair, items)  # type: ignore[attr-defined]
                return [(_key(low, node, p.elts[0]), p.elts[1]) for p in made]
        case ast.Call(ast.Name() as function, args, keywords) if low.function_of(function) is dict and len(args) < 2:
            return [*((None, a) for a in args), *((k.arg, k.value) for k in keywords)]
        case ast.Call(ast.Attribute(owner, "copy"), [], []) if dictionary_of(low, owner) is not None:
            return [(None, owner)]
    return None


def _require_one_array(low: Expressions, node: ast.expr, tree: ArrayExpr) -> None:
    """Refuse an array or record whose name may be bound to another one while the dictionary holds it."""
    if not is_record(tree) and (not tree.rank or not isinstance(tree, Leaf) or tree.fresh):
        return
    if isinstance(node, ast.Subscript) and dictionary_of(low, node.value) is not None:  # which does not change
        return
    name = node.id if isinstance(node, ast.Name) else ""
    sets = low.stores.count(name) + (name in low.source.signature.parameters)
    if sets > 1 or not name:
        what = f"{unparse(node)}, {'a record' if is_record(tree) else 'an array'} in a dictionary"
        raise low.source.refuse(node, what, "give it a name that is set once, or pass it as an argument")


def lasting(low: Expressions, node: ast.expr, tree: ArrayExpr) -> ArrayExpr:
    """A value as a dictionary holds it."""
    if isinstance(tree, TupleExpr) and not is_record(tree):
        return TupleExpr([lasting(low, node, t) for t in tree.items], tree.tuple_class)
    number = isinstance(tree, Scalar) and not isinstance(tree.term, Constant)
    return low.evaluate_first(node, tree) if number or isinstance(tree, Op | FromFunction) else tree  # type: ignore[attr-defined]


def _spread(low: Expressions, node: ast.expr) -> dict[Key, ArrayExpr]:
    """What ``**node`` stands for."""
    tree = low.tree_or_static(node) if isinstance(node, ast.Dict | ast.Call | ast.Name | Lowered) else None
    if not isinstance(tree, Static) or not isinstance(tree.value, Dictionary):
        what = f"**{unparse(node)}, whose keys are not known"
        raise low.source.refuse(node, what, "pass a dictionary that is written here, or the arguments one by one")
    return tree.value.items


def keyword_items(low: Calls, node: ast.Call) -> list[ast.keyword]:
    """The keywords of a call, with those that ``**`` stands for."""
    keywords: list[ast.keyword] = []
    for k in node.keywords:
        if k.arg is not None:
            keywords.append(k)
            continue
        for key, tree in _spread(low, k.value).items():
            if not isinstance(key, str):
                raise low.source.refuse(node, f"the key {key} of {unparse(k.value)}", "keywords are strings")
            keywords.append(ast.keyword(key, ast.copy_location(Lowered(tree), k.value)))
    given = [k.arg for k in keywords]
    twice = next((k for k in given if given.count(k) > 1), None)
    if twice is not None:
        raise low.source.refuse(node, f"{twice}, which is given twice in {unparse(node)}", "give it once")
    return keywords


def item_of(low: Expressions, node: ast.Subscript, dictionary: Dictionary) -> ArrayExpr:
    """``options["a"]``."""
    if (numbered := chosen_by_number(low, node, node.slice, dictionary.items)) is not None:
        return low.tree(numbered)
    key = _key(low, node, node.slice)
    if key not in dictionary.items:
        what = f"the key {unparse(node.slice)}, which the dictionary does not have"
        raise low.source.refuse(node, what, _keys(dictionary.items))
    return dictionary.items[key]


def chosen_by_number(low: Expressions, node: ast.expr, key: ast.expr, items: Mapping[Key, object]) -> ast.expr | None:
    """The item of a dictionary of integers whose key is known when the function runs; None for others."""
    numbers = [k for k in items if isinstance(k, int)]
    if not numbers or len(numbers) < len(items) or len(items) > _MOST_NUMBERS:
        return None
    tree = low.tree_or_static(key)
    if not isinstance(tree, Scalar):
        return None
    if (number := integer_of(low, tree.term)) is not None:
        return _item_node(low, node, number, items[number]) if number in items else None
    term = low.name_or_constant(tree.term)
    others = [Compare(("!=",), (term, integer(k))) for k in numbers]
    text = f"{unparse(key)} is no key of the dictionary in '{unparse(node)}'; {_keys(items)}"
    low.emit(Check(Logical("and", tuple(others)) if len(others) > 1 else others[0], text, "KeyError", exact=True))
    *first, made = [_item_node(low, node, k, v) for k, v in items.items()]
    for k, item in reversed(list(zip(numbers, first, strict=False))):
        test = ast.Compare(Lowered(Scalar(term)), [ast.Eq()], [number_node(k)])
        made = ast.IfExp(test, item, made)
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _item_node(low: Expressions, node: ast.expr, key: Key, item: object) -> ast.expr:
    """An item as an expression."""
    return item if isinstance(item, ast.expr) else Lowered(_captured(low, node, key, item))


def dictionary_from_outside(low: Expressions, node: ast.expr) -> dict[Key, object] | None:
    """A dictionary of the module, or of a function around, with strings or integers as keys; None for other
    expressions."""
    if not isinstance(node, ast.Name) or bound_to(node) is not None or low.is_local_name(node.id):
        return None
    value = low.source.outer_values.get(node.id)
    if not isinstance(value, dict) or len(value) > MAX_CONSTANT_ELEMENTS:
        return None
    return value if all(type(k) in (str, int, tuple) for k in value) else None


def _key_tree(key: Key) -> ArrayExpr:
    """A key as a loop over the dictionary has it."""
    if isinstance(key, tuple):
        return TupleExpr(list(map(_key_tree, key)))
    return Static(key) if isinstance(key, str) else Scalar(integer(key))


def _captured(low: Expressions, node: ast.expr, key: Key, item: object) -> ArrayExpr:
    """An item of a dictionary, or one of a dictionary from outside."""
    return item if isinstance(item, ArrayExpr) else low.captured_item(node, f"item_{key}", item)


def _key(low: Expressions, node: ast.expr, key: ast.expr) -> Key:
    """The key that is given in `node`; one that is not known is refused, as it is neither there nor absent."""
    if isinstance(key, ast.Tuple):
        return tuple([_key(low, node, k) for k in key.elts])
    tree = low.tree_or_static(key)
    if isinstance(tree, Static) and isinstance(tree.value, str) and not isinstance(tree.value, Message):
        return tree.value
    if isinstance(tree, Scalar) and low.kind_of_tree(tree) == "int" and (k := integer_of(low, tree.term)) is not None:
        return k
    what = f"the key {unparse(key)} in {unparse(node)}, which is no string or integer that is known"
    raise low.source.refuse(node, what, "write the key, or if and elif for the keys that there are")


def known_key(low: Scope, node: ast.expr) -> Key | None:
    """The string or integer that a key is: one that is written there, or that a name is bound to; None if it is not
    known."""
    value: object = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Tuple):
        keys = tuple([known_key(low, e) for e in node.elts])
        return None if None in keys else keys
    if isinstance(node, ast.Name):
        static = low.string_of(node.id)
        value = low.resolve(node) if static is None else static.value
    return value if type(value) in (str, int) else None  # type: ignore[return-value]


def _keys(items: Collection[Key]) -> str:
    return f"it has {', '.join(map(str, items)) or 'none'}; give it where the dictionary is made"


def dictionary_method(low: Calls, node: ast.Call) -> ArrayExpr | None:
    """``options.get("a", 1.0)``, ``options.pop("a", 1.0)``, ``options.values()`` and ``len(options)``; None for other
    calls."""
    function = node.func
    if (items := dictionary_items(low, node)) is not None:
        return TupleExpr(items)
    if len(node.args) == 1 and (counted := dictionary_of(low, node.args[0])) and low.function_of(function) is len:
        return Scalar(Constant(len(counted.items)))
    dictionary = dictionary_of(low, function.value) if isinstance(function, ast.Attribute) else None
    if dictionary is None or not isinstance(function, ast.Attribute):
        return None
    owner = function.value
    own = low.source.node.args.kwarg
    takes = function.attr == "pop"
    if function.attr not in ("get", "pop") or len(node.args) not in (1, 2) or node.keywords:
        raise low.source.refuse(node, f"the call {unparse(node)} of a dictionary", "use get, pop, in, or an index")
    mine = own is not None and isinstance(owner, ast.Name) and owner.id == own.arg
    if takes and not (mine and low.at_function_level):
        what = f"{unparse(node)}, which changes a dictionary, or in a loop or branch"
        raise low.source.refuse(node, what, "use get, or take it at the beginning")
    key = _key(low, node, node.args[0])
    if key in dictionary.items and any(
        isinstance(n, ast.Call | ast.NamedExpr) for a in node.args[1:] for n in subtrees(a)
    ):
        low.tree_or_static(node.args[1])  # for what comes of it but its value
    if key not in dictionary.items:
        if len(node.args) == 2:
            return low.tree_or_static(node.args[1])
        if takes:
            raise low.source.refuse(node, f"{unparse(node)}, a key that it does not have", _keys(dictionary.items))
        return Static(None)
    if takes and isinstance(owner, ast.Name):
        low.string_bindings[owner.id] = Dictionary({k: t for k, t in dictionary.items.items() if k != key})
    return dictionary.items[key]


def item_of_loop(low: Expressions, node: ast.expr) -> ArrayExpr | None:
    """What ``item_of_dictionary(p.items(), k)`` stands for; None for other expressions."""
    match node:
        case ast.Call(args=[iterable, ast.Constant(int(k))]) if bound_to(node.func) is item_of_dictionary:
            return (dictionary_items(low, iterable) or [])[k]
    return None


def dictionary_items(low: Expressions, node: ast.expr) -> list[ArrayExpr] | None:
    """What a loop over a dictionary, its keys, values or items goes over; None for other expressions."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="keys" | "values" | "items" as part), args=[], keywords=[]):
            pass
        case _:
            owner, part = node, "keys"
    dictionary = dictionary_of(low, owner)
    if dictionary is not None:
        pairs = list(dictionary.items.items())
    elif (outside := dictionary_from_outside(low, owner)) is not None:
        pairs = [(k, Static(None) if part == "keys" else _captured(low, node, k, v)) for k, v in outside.items()]
    else:
        return None
    named = [(_key_tree(k), t) for k, t in pairs]
    if part == "items":
        return [TupleExpr([k, t]) for k, t in named]
    return [k if part == "keys" else t for k, t in named]
