"""Arrays that a function makes."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING

import numpy as np

from .ir import Alloc, Assign, Block, Grow, Loop, Store, parse, unparse, walk
from .routines import GROWN
from .subset import ALLOCATE

if TYPE_CHECKING:
    from .lower import Lowering

__all__ = ["Arrays"]


class Arrays:
    """Lowers what makes arrays, into the lowering's output."""

    def __init__(self, lowering: Lowering) -> None:
        self.low = lowering

    def again(self, target: ast.Name, value: ast.expr) -> bool:
        """Whether it is a tape that grows, or ``u = u.copy()`` where that holds for all that follows."""
        low = self.low
        called = low.callee(value) if isinstance(value, ast.Call) else None
        if called is not None and called.__name__ == "grown" and inspect.getsource(called).endswith(GROWN):
            low.emit(Grow(low.local(target)))
            return True
        if not (low.straight and low.out is low.top):
            return False
        copied = isinstance(value, ast.Call) and unparse(value) == f"{target.id}.copy()"
        if not copied or not low.made.ranks.get(low.local(target)):
            return False
        name = low.names.fresh(target.id)
        made = self.make(name, target, value)
        low.rename[target.id] = name
        return made

    def make(self, name: str, target: ast.Name, value: ast.expr) -> bool:
        """Whether `value` makes an array; then it is allocated as `name`."""
        if isinstance(value, ast.Name) and value.id[0] != "=" and self.low.made.ranks.get(self.low.local(value)):
            raise self.low.source.refuse(target, f"a second name for the array {value.id}", f"write {value.id}.copy()")
        if isinstance(value, ast.Name) and value.id[0] == "=" and self.low.made.ranks.get(value.id[1:]):
            raise self.low.source.refuse(
                target, "an array from a function that is called", "pass the array and let it be written"
            )
        if not isinstance(value, ast.Call):
            return False
        called = self.low.source.resolve(value.func)
        method = isinstance(value.func, ast.Attribute) and value.func.attr == "copy" and called is None
        if not method and called not in ALLOCATE:
            return False
        like = ""
        if method or called in (np.copy, np.empty_like, np.zeros_like, np.ones_like):
            given = value.func.value if method else value.args[0]  # type: ignore[attr-defined]
            like = self.low.local(given) if isinstance(given, ast.Name) else ""
            rank = self.low.made.ranks.get(like, 0)
            if not rank or len(value.args) > (0 if method else 1) or value.keywords:
                raise self.low.source.refuse(value, "a copy of this", "copy a whole array, named, with its own dtype")
            shape = [parse(f"{like}.shape[{k}]") for k in range(rank)]
            kind, dtype = self.low.made.kinds[like], f"{like}.dtype"
        else:
            sizes = value.args[0].elts if isinstance(value.args[0], ast.Tuple) else [value.args[0]]
            if isinstance(value.args[0], ast.Attribute) and value.args[0].attr == "shape":
                other = self.low.local(value.args[0].value)  # type: ignore[arg-type]
                sizes = [parse(f"{unparse(value.args[0])}[{k}]") for k in range(self.low.made.ranks[other])]
            shape, rank = [self.low.value(n) for n in sizes], len(sizes)
            kind, dtype = self.dtype(value, 2 if called is np.full else 1)
        copied = method or called is np.copy
        fill = None
        if copied:
            fill = parse(like)
        elif called is np.full:
            fill = self.low.value(value.args[1])
        elif called is not np.empty and called is not np.empty_like:
            number = int(called in (np.ones, np.ones_like))
            fill = ast.Constant(float(number) if kind == "float" else number)
        self.allocate(name, target, shape, kind, dtype, like, fill)
        return True

    def dtype(self, call: ast.Call, position: int) -> tuple[str, str]:
        """The kind of the array that `call` makes, and code for its dtype."""
        given = next((k.value for k in call.keywords if k.arg == "dtype"), None)
        if given is None and len(call.args) > position:
            given = call.args[position]
        if given is None:
            return "float", "np.float64"
        if isinstance(given, ast.Attribute) and given.attr == "dtype":
            like = self.low.local(given.value)  # type: ignore[arg-type]
            return self.low.made.kinds[like], f"{like}.dtype"
        found = self.low.source.resolve(given)
        dtypes: dict[object, object] = {float: np.float64, int: np.int64, bool: np.bool_}
        try:
            found = dtypes.get(found, found)
            letter = np.dtype(found).kind  # type: ignore[call-overload]
            kind = {"f": "float", "i": "int", "u": "int", "b": "bool"}[letter]
        except (TypeError, KeyError):
            raise self.low.source.refuse(
                call, "an array of this dtype", "use float64, float32 or an integer type"
            ) from None
        name = np.dtype(found).name if kind != "bool" else "bool_"  # type: ignore[call-overload]
        return kind, f"np.{name}"

    def allocate(
        self, name: str, node: ast.AST, shape: list, kind: str, dtype: str, like: str, fill: ast.expr | None
    ) -> None:
        """An array `name`, filled; one made inside of a loop or branch is made once, at the top of the function."""
        if name in self.low.made.ranks:
            raise self.low.source.refuse(node, f"{name} is made a second time", "give the new array another name")
        sizes = ", ".join(unparse(n) for n in shape)
        dtype = self.low.dtypes[name] = self.low.dtypes.get(like, dtype) if like else dtype
        text = (
            f"np.empty(({sizes}{',' if len(shape) == 1 else ''}), {dtype})"
            if len(shape) > 1
            else f"np.empty({sizes}, {dtype})"
        )
        made = Alloc(name, parse(text), len(shape), like, kind, shape)
        self.low.made.ranks[name], self.low.made.kinds[name] = len(shape), kind
        sizes_like = {d: unparse(n) for d, n in enumerate(shape) if ".shape[" in unparse(n)[-12:]}
        self.low.shapes[name] = {d: self.low.shapes.get(t.split(".")[0], {}).get(d, t) for d, t in sizes_like.items()}
        if self.low.straight and self.low.out is self.low.top:
            self.low.emit(made)
        else:
            self.at_top(node, made)
        if fill is not None:
            source = fill.id if isinstance(fill, ast.Name) and self.low.made.ranks.get(fill.id) else ""
            self.fill(name, len(shape), source, fill)

    def at_top(self, node: ast.AST, made: Alloc) -> None:
        """Make an array before the statement of the outermost block in which this is, if its size is known there."""
        root = self.low.root
        used = {n.id for n in ast.walk(made.value) if isinstance(n, ast.Name)} - {"np", "max", "min", "len", "range"}
        known = {*self.low.made.parameters, *self.low.made.constants}
        known |= {s.name for s in walk(root.top or []) if isinstance(s, Assign | Alloc)}
        assert root.current is not None and root.top is not None
        stored = {n.id for n in ast.walk(root.current) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        numbers = {n for n in used if not self.low.made.ranks.get(n)}
        if not used <= known or numbers & stored:
            raise self.low.source.refuse(
                node, "a new array in a loop or branch, whose size is not known before it", "make it at the beginning"
            )
        root.top.append(made)
        self.low.hoisted.add(made.name)

    def fill(self, name: str, rank: int, source: str, value: ast.expr) -> None:
        """Loops that set all elements of `name` to `value`, or to those of the array `source`."""
        counters = [self.low.names.fresh(f"k{d}") for d in range(rank)]
        index = (
            ast.Tuple([ast.Name(c, ast.Load()) for c in counters], ast.Load())
            if rank > 1
            else ast.Name(counters[0], ast.Load())
        )
        read: ast.expr = ast.Subscript(ast.Name(source, ast.Load()), index, ast.Load()) if source else value
        line, self.low.line = self.low.line, ""
        inner: Block = [Store(name, index, read)]
        for d, c in reversed(list(enumerate(counters))):
            self.low.made.ranks[c], self.low.made.kinds[c] = 0, "int"
            inner = [Loop(c, ast.Constant(0), parse(f"{name}.shape[{d}]"), ast.Constant(1), None, inner)]
        inner[0].line = line
        self.low.out += inner
