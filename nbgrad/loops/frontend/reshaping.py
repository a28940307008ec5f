"""Arrays under another shape: they have names and lengths of their own while a function is lowered, and are then what
they were made of, at other indices."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.affine import length
from ..ir.statements import Alloc, Check, Function, Like, Store, Swap, parse, unparse, walk
from .views import ZERO, Axis, View, added, size_of

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["contiguous", "reshaped", "resolved"]


def reshaped(low: Expressions, node: ast.expr, view: View, sizes: list[ast.expr]) -> View:
    """`view` with other lengths, of which one may be -1; it shares the elements."""
    if not contiguous(low, view):
        raise low.source.refuse(node, f"{unparse(node)}, of elements that are not side by side", "copy them (.copy())")
    view = low.frozen(view)
    total = _product(low.shape(view))
    texts = [unparse(n) for n in sizes]
    if texts.count("-1") > 1:
        raise low.source.refuse(node, f"{unparse(node)}, with two lengths that are open", "give all lengths but one")
    if "-1" in texts:
        others = _product([n for n, t in zip(sizes, texts, strict=True) if t != "-1"])
        open_one = total if others == "1" else f"({total}) // ({others})"
        sizes = [parse(open_one) if t == "-1" else n for n, t in zip(sizes, texts, strict=True)]
    if _product(sizes) != total:
        message = f"{low.made.name}: {unparse(node)} has another number of elements"
        low.out.append(Check(parse(f"{_product(sizes)} != {total}"), message))
    lengths = [_length(low, n) for n in sizes]
    name = low.names.fresh(f"{view.name}_reshaped")
    made, shared = low.made, low.shared
    made.ranks[name], made.kinds[name] = len(sizes), made.kinds[view.name]
    shared.sizes[name], shared.reshaped[name] = lengths, view
    shared.dtypes[name] = shared.dtypes.get(view.name, f"{view.name}.dtype")
    if view.name in shared.looks:
        shared.looks[name] = shared.looks[view.name]
    return low.all_of(name)


def _length(low: Expressions, node: ast.expr) -> ast.expr:
    """A length by a name, of which it is known what it does not exceed."""
    if isinstance(node, ast.Constant) or length(node):
        return node
    most, made = low.at_most(node), low.simple(node)
    if most is not None and isinstance(made, ast.Name):
        low.shared.most.setdefault(made.id, most)
    return made


def contiguous(low: Expressions, view: View) -> bool:
    """Whether elements lie next to one another: all of an array, or a range along its first axis, or a row."""
    if list(view.order) != sorted(p for p in view.order if p is not None):
        return False
    first = view.order[0]
    steps = all(unparse(view.axis(d).step) == "1" for d in range(view.rank))
    last = range(len(view.parts) - view.rank, len(view.parts))
    whole = [Axis(ZERO, n) for n in low.size(view.name)]
    same = all(_ends(view.parts[p]) == _ends(whole[p]) for p in last if p != first)
    return steps and list(view.order) == list(last) and same


def _ends(part: ast.expr | Axis) -> str:
    return f"{unparse(part.start)}:{unparse(part.stop)}" if isinstance(part, Axis) else ""


def _product(sizes: list[ast.expr]) -> str:
    texts = [t for t in map(unparse, sizes) if t != "1"]
    return " * ".join(t if t.isidentifier() or len(texts) == 1 else f"({t})" for t in texts) or "1"


def resolved(f: Function, views: dict[str, View], sizes: dict[str, list[ast.expr]]) -> str:
    """Put what arrays are made of in their places; the name of one that must not be written, if it is, or ""."""
    exchange = _Elements(views, sizes)
    for s in walk(f.body):
        for part, value in list(vars(s).items()):
            if isinstance(value, ast.expr):
                setattr(s, part, exchange.visit(parse(unparse(value))))
        if isinstance(s, Store) and s.array in views:
            target = exchange.visit(s.target)
            s.array, s.index = target.value.id, target.slice
        if isinstance(s, Alloc):
            s.shape = [exchange.visit(parse(unparse(n))) for n in s.shape]
            s.source = exchange.root(s.source)
            s.kind = Like(exchange.root(s.kind.name)) if isinstance(s.kind, Like) else s.kind
    for name in views:
        del f.ranks[name]
    f.doubtful = [(exchange.root(n), values, error) for n, values, error in f.doubtful]
    given = {exchange.root(n) for n in views} & set(f.parameters)
    written = {n for s in walk(f.body) for n in _written(s)}
    return next(iter(sorted(given & written)), "")


def _written(s: object) -> list[str]:
    return [s.array] if isinstance(s, Store) else [s.first, s.second] if isinstance(s, Swap) else []


class _Elements(ast.NodeTransformer):
    def __init__(self, views: dict[str, View], sizes: dict[str, list[ast.expr]]) -> None:
        self.views, self.sizes = views, sizes

    def root(self, name: str) -> str:
        while name in self.views:
            name = self.views[name].name
        return name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.root(node.id), node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.views:
            return self.generic_visit(node)  # type: ignore[return-value]
        view, sizes = self.views[node.value.id], self.sizes[node.value.id]
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        place = unparse(indices[0])
        for size, i in zip(sizes[1:], indices[1:], strict=True):
            n = unparse(size)
            place = f"({place}) * ({n}) + ({unparse(i)})" if place != "0" else unparse(i)
        found: list[ast.expr] = []
        for d in reversed(range(view.rank)):
            n = unparse(size_of(view.axis(d)))
            at = parse(f"({place}) % ({n})" if d else place)
            found.insert(0, added(view.axis(d).start, at))
            place = f"({place}) // ({n})"
        return self.visit(view.at(found))
