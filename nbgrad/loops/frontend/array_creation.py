"""Arrays that a function makes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.affine import distance
from ..ir.statements import Like, Store, parse, unparse
from .array_expressions import Elementwise, Leaf, Made, Op, Scalar, Tree, Turn, copied
from .views import ONE, ZERO, View, added, index_of, size_of, times

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["MAKERS", "Makers"]

_LIKE = {np.empty_like, np.zeros_like, np.ones_like, np.full_like}
#: What makes arrays, with the parameters that it may have here.
_TAKEN: dict[Any, str] = {
    np.empty: "shape dtype", np.zeros: "shape dtype", np.ones: "shape dtype", np.full: "shape fill_value dtype",
    np.empty_like: "prototype dtype", np.zeros_like: "a dtype", np.ones_like: "a dtype",
    np.full_like: "a fill_value dtype", np.copy: "a", np.array: "object dtype", np.asarray: "a dtype",
    np.ascontiguousarray: "a dtype", np.eye: "N M k dtype", np.identity: "n dtype",
    np.arange: "start stop step dtype", np.linspace: "start stop num endpoint",
}  # fmt: skip
#: What puts arrays together: along which axis, by their number of axes, and where those with one axis get another.
_JOINED: dict[Any, tuple[tuple[int, int], tuple | None]] = {
    np.concatenate: ((0, 0), None),
    np.append: ((0, 0), None),
    np.hstack: ((0, 1), None),
    np.vstack: ((0, 0), (None, 0)),
    np.stack: ((0, 0), (None, 0)),
    np.column_stack: ((1, 1), (0, None)),
}
MAKERS = {*_TAKEN, *_JOINED}


class Makers:
    """Lowers calls that make arrays."""

    def __init__(self, lowering: Expressions, node: ast.Call) -> None:
        self.low = lowering
        self.node = node
        self.keywords: dict[str | None, ast.expr] = {k.arg: k.value for k in node.keywords}

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, what, instead)

    def make(self, called: object, hint: str) -> Tree:
        if called in _JOINED:
            return self.joined(called, hint)
        names, args = _TAKEN[called].split(), self.node.args
        by_place = dict(zip(names, args, strict=False))
        if not args + self.node.keywords or len(args) > len(names) or set(self.keywords) - (set(names) - set(by_place)):
            raise self.refuse(f"the call {unparse(self.node)}", f"it may have {', '.join(names)} here")
        self.keywords.update(by_place)
        first = self.keywords.get(names[0])
        if called in (np.eye, np.identity):
            return self.eye(first)
        if called is np.linspace:
            return self.linspace()
        if called is np.arange:
            return self.arange()
        if first is None:
            raise self.refuse(f"the call {unparse(self.node)}", f"give it {names[0]}")
        if called not in (np.copy, np.array, np.asarray, np.ascontiguousarray):
            return self.filled(called, first)
        if isinstance(first, ast.List | ast.Tuple):
            return self.listed(first, hint)
        tree = self.low.tree(first)
        if isinstance(tree, Leaf) and tree.fresh and "dtype" not in self.keywords:
            return tree
        view = self.low.view_of(tree, first)
        if called in (np.asarray, np.ascontiguousarray):
            return Leaf(view)
        return self.converted(Leaf(view), *self.dtype()) if "dtype" in self.keywords else copied(Leaf(view))

    def number(self, name: str, default: ast.expr) -> ast.expr:
        """An argument that is a number."""
        given = self.keywords.get(name)
        return default if given is None else self.low.value(given)

    def eye(self, first: ast.expr | None) -> Tree:
        if first is None:
            raise self.refuse(f"the call {unparse(self.node)}", "give the size")
        n = self.low.value(first)
        sizes, k = [n, self.number("M", n)], self.number("k", ZERO)
        kind, dtype = self.dtype()
        one, zero = (ast.Constant(float(c) if kind in ("", "float") else c) for c in (1, 0))
        return Made(sizes, lambda i, j: ast.IfExp(ast.Compare(added(i, k), [ast.Eq()], [j]), one, zero),
                    kind or "float", dtype or "np.float64")  # fmt: skip

    # Filled with one value.

    def filled(self, called: object, first: ast.expr) -> Tree:
        value: ast.expr | None = None
        if called in (np.full, np.full_like):
            if "fill_value" not in self.keywords:
                raise self.refuse(f"the call {unparse(self.node)}", "give it fill_value")
            value = self.low.value(self.keywords["fill_value"])
        kind, dtype = self.dtype()
        if called in _LIKE:
            view = self.low.view(first)
            sizes = self.low.shape(view)
            if not kind:
                kind, dtype = self.like(view.name)
        else:
            sizes = self.shape(first)
        if not kind:
            kind, dtype = ("float", "np.float64") if value is None else self.certain([value])
        if called in (np.empty, np.empty_like):
            return Made(sizes, None, kind, dtype)
        plain = self.low.made.kinds.get(kind.name) if isinstance(kind, Like) else kind
        if value is None:
            value = ast.Constant(int(called in (np.ones, np.ones_like)))
            if plain == "float":
                value = ast.Constant(float(value.value))  # type: ignore[arg-type]
        elif plain and self.low.look(Scalar(value)) not in (plain, "" if plain == "float" else plain):
            value = ast.Call(parse(plain), [value], [])
        number = value
        return Made(sizes, lambda *_: number, kind, dtype)

    def shape(self, node: ast.expr) -> list[ast.expr]:
        sizes = self.low.shape_of(node)
        if sizes is not None:
            return sizes
        tree = self.low.tree(node)
        parts = self.low.items_in(tree) or [tree]
        return [self.low.value(ast.copy_location(self.low.done(t), node)) for t in parts]

    def dtype(self) -> tuple[str | Like, str]:
        """The kind that is asked for, and code for the dtype; "" if none is."""
        given = self.keywords.get("dtype")
        return ("", "") if given is None else self.dtype_of(given)

    def like(self, name: str) -> tuple[str | Like, str]:
        """The kind and dtype of another array, which may be made later, by a primitive in a loop."""
        ruled = name in self.low.shared.ruled and self.low.made.kinds[name] == "float"
        return Like(name), self.low.shared.dtypes.get(name, f"{name}.dtype") if ruled else f"{name}.dtype"

    def dtype_of(self, given: ast.expr) -> tuple[str | Like, str]:
        if isinstance(given, ast.Attribute) and given.attr == "dtype":
            view = self.low.view(given.value)
            return self.like(view.name)
        found = self.low.resolve(given)
        dtypes: dict[object, object] = {float: np.float64, int: np.int64, bool: np.bool_}
        try:
            found = dtypes.get(found, found)
            letter = np.dtype(found).kind if found is not None else ""  # type: ignore[call-overload]
            kind = {"f": "float", "i": "int", "u": "int", "b": "bool"}[letter]
        except (TypeError, KeyError):
            raise self.refuse("an array of this dtype", "use float64, float32, bool or an integer type") from None
        name = np.dtype(found).name if kind != "bool" else "bool_"  # type: ignore[call-overload]
        if name == "float16":
            raise self.refuse("an array of this dtype", "use float64 or float32")
        return kind, f"np.{name}"

    def known(self, values: list[ast.expr]) -> bool:
        """Whether the kind of an array of `values` is known already."""
        kinds = [self.low.look(Scalar(v)) for v in values]
        return "float" in kinds or "" not in kinds

    def certain(self, values: list[ast.expr]) -> tuple[str, str]:
        if not self.known(values):
            raise self.doubt()
        kinds = {self.low.look(Scalar(v)) for v in values}
        if "float" in kinds:
            return "float", "np.float64"
        return ("bool", "np.bool_") if kinds == {"bool"} else ("int", "np.int64")

    def doubt(self) -> Exception:
        return self.refuse("an array of numbers that may be integers or floats", "give it a dtype")

    def converted(self, tree: Tree, kind: str | Like, dtype: str) -> Tree:
        """`tree` with a dtype: an array of its own."""
        name = kind if kind in ("float", "int", "bool") else None
        made = tree if not isinstance(name, str) else Op(lambda e: ast.Call(parse(name), [e], []), [tree])
        return copied(made, kind, dtype)

    # Filled with several.

    def listed(self, given: ast.List | ast.Tuple, hint: str) -> Tree:
        rows = [r.elts if isinstance(r, ast.List | ast.Tuple) else None for r in given.elts]
        if not rows:
            raise self.refuse("an array without elements", "use np.empty")
        if rows[0] is None:
            values, sizes = [self.low.value(v) for v in given.elts], [len(rows)]
        else:
            if any(r is None or len(r) != len(rows[0]) for r in rows):
                raise self.refuse("rows of different lengths", "use rows of one length")
            values, sizes = [self.low.value(v) for r in rows for v in r or []], [len(rows), len(rows[0])]
        kind, dtype = self.dtype()
        name = hint or self.low.names.fresh("listed")
        if not kind and self.known(values):
            kind, dtype = self.certain(values)
        elif not kind:  # it will be, when all kinds are
            dtype = "np.float64"
            self.low.made.doubtful.append((name, values, self.doubt()))
        line, self.low.line = self.low.line, ""
        self.low.allocate(name, self.node, [ast.Constant(n) for n in sizes], kind, dtype, "", line)
        for k, v in enumerate(values):
            index = str(k) if len(sizes) == 1 else f"({k // sizes[1]}, {k % sizes[1]})"
            self.low.emit(Store(name, parse(index), v))
        return Leaf(self.low.all_of(name), True)

    def joined(self, called: object, hint: str) -> Tree:
        """One array after the other."""
        given, low = self.node.args, self.low
        items = given[:2] if called is np.append else getattr(given[0], "elts", []) if given else []
        axis = self.keywords.get("axis", given[1] if len(given) > 1 and called is not np.append else None)
        trees = [low.tree(e) for e in items]
        pack = low.tuple_of(given[0]) if given and not trees else None
        if pack is not None:
            trees = low.several(pack).items
        if called is np.append:
            trees = [Made([ONE], lambda _, t=t: t.node) if isinstance(t, Scalar) else t for t in trees]
        rank = trees[0].rank if trees else 0
        along, order = _JOINED[called]
        d = along[rank > 1] if axis is None else distance(low.value(axis), ZERO)
        made = int(order is not None and (rank == 1 or called is np.stack))  # axes more
        wrong = (called is np.append and (rank > 1 or axis is not None)) or (called is np.stack and rank != 1)
        wrong = wrong or not rank or any(t.rank != rank for t in trees)
        if wrong or d is None or not -rank - made <= d < rank + made:
            raise self.refuse(f"the call {unparse(self.node)}", "give a tuple of arrays with as many axes, or loop")
        if made and order is not None:
            order = (0, None) if called is np.stack and d % 2 else order
            views = [low.view_of(t, self.node) for t in trees]
            trees = [Leaf(View(v.name, v.parts, tuple(v.order[0] if o == 0 else None for o in order))) for v in views]
        return self.one_after_another(trees, d % (rank + made), hint)

    def one_after_another(self, trees: list[Tree], d: int, hint: str) -> Leaf:
        low, line = self.low, self.low.line
        low.line = ""
        parts: list[tuple[ast.expr, list[Turn], ast.expr]] = []
        start: ast.expr = ZERO
        name = hint or low.names.fresh("joined")
        for tree in trees:
            loops = Elementwise(low, self.node)
            loops.over(tree)
            value = loops.element(tree)
            for mine, first in zip(loops.turns, parts[0][1] if parts else loops.turns, strict=True):
                if mine is not loops.turns[d]:
                    loops.same(mine.size, first.size)
            parts.append((start, loops.turns, value))
            start = added(start, size_of(loops.turns[d].axis))
        sizes = [size_of(t.axis) for t in parts[0][1]]
        sizes[d] = start
        loops = Elementwise(low, self.node)
        low.allocate(name, self.node, sizes, "", loops.dtype(Op(lambda *e: e[0], trees)), "", line)
        for start, turns, value in parts:
            places = [t.position() for t in turns]
            places[d] = added(start, places[d])
            loops.loops([Store(name, index_of(places), value)], "", turns)
        return Leaf(low.all_of(name), True)

    def linspace(self) -> Tree:
        if not {"start", "stop"} <= set(self.keywords):
            raise self.refuse(f"the call {unparse(self.node)}", "give it start and stop")
        first, last, n = (
            self.low.simple(self.number(name, ast.Constant(50))) for name in _TAKEN[np.linspace].split()[:3]
        )
        ends = self.keywords.get("endpoint")
        if ends is not None and unparse(ends) not in ("True", "False"):
            raise self.refuse(f"the call {unparse(self.node)}", "say endpoint=True or endpoint=False")
        parts = n if ends is not None and unparse(ends) == "False" else parse(f"max({unparse(n)} - 1, 1)")
        step = self.low.simple(parse(f"({unparse(last)} - {unparse(first)}) / {unparse(parts)}"))
        return Made([n], lambda k: ast.BinOp(first, ast.Add(), ast.BinOp(k, ast.Mult(), step)), "float", "np.float64")

    def arange(self) -> Tree:
        start, step = self.number("start", ZERO), self.number("step", ast.Constant(1))
        stop = self.keywords.get("stop")
        start, stop = (ZERO, start) if stop is None else (start, self.low.value(stop))
        kind, dtype = self.dtype()
        if not kind:
            kind, dtype = self.certain([start, stop, step])
        a, b, c = unparse(start), unparse(stop), unparse(step)
        size = (
            parse(f"len(range({a}, {b}, {c}))")
            if kind == "int"
            else parse(f"max(int(math.ceil((({b}) - ({a})) / ({c}))), 0)")
        )
        if kind == "int" and (a, c) == ("0", "1"):
            size = stop

        def element(k: ast.expr) -> ast.expr:
            made = times(k, step)
            return made if a == "0" else ast.BinOp(start, ast.Add(), made)

        return Made([size], element, kind, dtype)
