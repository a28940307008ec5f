"""Expressions: numbers become those of the result, arrays become :mod:`.array_expressions`."""

from __future__ import annotations

import ast
import math
from functools import partial

import numpy as np

from ...core.source_text import constant
from ..ir.affine import distance
from ..ir.algebra import helper_of
from ..ir.names import FUNCTION_NAMES
from ..ir.statements import Within, parse, unparse
from .advanced_indexing import Picked, inside, look, picked
from .array_expressions import Elementwise, Leaf, Scalar, Several, Tree, combine, copied, numbers
from .captured_values import LARGEST, same_number, unfit
from .conditional_expressions import choice, truth
from .numpy_library import MODULES
from .partial_evaluation import decided
from .scope import UNCERTAIN, Pack, Scope
from .views import NUMBERS, ONE, ZERO, Axis, View, added, compose, count, normal, size_of

__all__ = ["Expressions"]


class Expressions(Scope):
    """Lowers expressions; what they need before goes into the output."""

    hint = ""  # what an array that the next expression makes is to be called

    def call(self, node: ast.Call, hint: str) -> Tree:
        raise NotImplementedError

    def value(self, node: ast.expr) -> ast.expr:
        """A number."""
        found = self.tree(node)
        if not isinstance(found, Scalar):
            what = "tuple" if isinstance(found, Several) else "array"
            raise self.source.refuse(
                node,
                f"the {what} {unparse(node)} where a number is expected",
                "index it, or use np.any, np.all, np.sum",
            )
        return found.node

    def compared(self, node: ast.Compare, parts: list[Tree]) -> Tree:
        """Whether shapes are the same."""
        a, b = (p.items if isinstance(p, Several) else [] for p in parts[:2])
        equal = isinstance(node.ops[0], ast.Eq)
        if len(parts) > 2 or len(a) != len(b) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            raise self.source.refuse(node, f"{unparse(node)}, of tuples", "compare their items")
        pairs = [ast.Compare(x.node, [node.ops[0]], [y.node]) for x, y in zip(a, b, strict=True)
                 if isinstance(x, Scalar) and isinstance(y, Scalar)]  # fmt: skip
        return Scalar(pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And() if equal else ast.Or(), list(pairs)))

    def among(self, node: ast.Compare) -> Scalar:
        """Whether a number is in a tuple."""
        items = self.items_in(self.tree(node.comparators[0]))
        if items is None or not all(isinstance(t, Scalar) for t in items):
            raise self.source.refuse(node, "in of others than tuples of numbers", "write a loop")
        inside = isinstance(node.ops[0], ast.In)
        op = ast.Eq() if inside else ast.NotEq()
        tests: list[ast.expr] = [ast.Compare(self.value(node.left), [op], [t.node]) for t in items]  # type: ignore[attr-defined]
        return Scalar(ast.BoolOp(ast.Or() if inside else ast.And(), [ast.Constant(not inside), *tests]))

    def view(self, node: ast.expr, name: str = "part") -> View:
        """An array: a name or part of one, or a new one with the values of an expression."""
        return self.view_of(self.tree(node), node, name)

    def view_of(self, tree: Tree, node: ast.expr, name: str = "part") -> View:
        if isinstance(tree, Leaf):
            return tree.view
        if tree.rank == 0:
            raise self.source.refuse(node, f"the number {unparse(node)} where an array is expected", "pass an array")
        return Elementwise(self, node).materialise(tree, self.names.fresh(name))

    def simple(self, node: ast.expr) -> ast.expr:
        """`node`, given a name if it is more than a name or a number."""
        if isinstance(node, ast.Name | ast.Constant):
            return node
        return ast.Name(self.number("held", node), ast.Load())

    def tree(self, node: ast.expr) -> Tree:
        hint, self.hint = self.hint, ""
        match node:
            case Done():
                return node.made
            case ast.Constant(value=value) if isinstance(value, NUMBERS):
                return Scalar(ast.Constant(value))
            case ast.Constant(value=complex()):
                raise self.source.refuse(node, "a complex number", "write real and imaginary parts apart")
            case ast.Name():
                return self.name(node)
            case ast.BinOp(op=ast.MatMult()):
                return self.product(node, node.left, node.right, hint)
            case ast.BinOp():
                pair = [self.tree(node.left), self.tree(node.right)]
                if isinstance(node.op, ast.Add) and any(isinstance(p, Several) for p in pair):
                    first, second = map(self.items_in, pair)
                    if first is not None and second is not None:
                        return Several([*first, *second])
                return combine(lambda a, b: ast.BinOp(a, node.op, b), self.no_tuples(node, pair))
            case ast.UnaryOp(op=ast.Invert()):
                given = self.tree(node.operand)  # of truth values in arrays it is "not"
                op = ast.Not() if given.rank and look(self, given) == "bool" else ast.Invert()
                return combine(lambda a: ast.UnaryOp(op, a), [given])
            case ast.UnaryOp():
                return combine(
                    lambda a: normal(ast.UnaryOp(node.op, a)), self.no_tuples(node, [self.tree(node.operand)])
                )
            case ast.BoolOp():
                return truth(self, node)
            case ast.Compare():
                holds = decided(self, node)
                if holds is not None:
                    return Scalar(ast.Constant(holds))
                if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
                    return self.among(node)
                if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
                    raise self.source.refuse(node, "'is' and 'in'", "use ==")
                parts = [self.tree(node.left), *(self.tree(c) for c in node.comparators)]
                if any(isinstance(p, Several) for p in parts):
                    return self.compared(node, parts)
                return combine(lambda first, *rest: ast.Compare(first, node.ops, list(rest)), parts)
            case ast.IfExp():
                return choice(self, node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node, hint)
            case ast.Tuple() | ast.List():
                return Several([self.tree(e) for e in node.elts])
            case ast.ListComp() | ast.GeneratorExp():
                return self.comprehended(node)
            case ast.NamedExpr():
                return Scalar(ast.Name(self.walrus(node), ast.Load()))
        raise self.source.refuse(
            node, f"{unparse(node)} where a number is expected", "use numbers and elements of arrays"
        )

    def no_tuples(self, node: ast.expr, trees: list[Tree]) -> list[Tree]:
        if any(isinstance(t, Several) for t in trees):
            raise self.source.refuse(node, f"a tuple in {unparse(node)}", "use its items, or np.array of it")
        return trees

    def comprehended(self, node: ast.ListComp | ast.GeneratorExp) -> Tree:
        raise NotImplementedError

    def walrus(self, node: ast.NamedExpr) -> str:
        raise self.source.refuse(node, ":= here", "assign in a statement of its own")

    def frozen(self, view: View) -> View:
        raise NotImplementedError

    def look(self, tree: Tree) -> str:
        return look(self, tree)

    def done(self, tree: Tree) -> ast.expr:
        return Done(tree)

    def library(self, called: object, node: ast.expr, *args: Tree) -> Tree:
        raise NotImplementedError

    def product(self, node: ast.expr, a: ast.expr, b: ast.expr, hint: str) -> Tree:
        raise NotImplementedError

    # Names.

    def name(self, node: ast.Name) -> Tree:
        if node.id in self.texts:
            text = self.texts[node.id]
            given = f"the text {constant(text)}" if isinstance(text, str) else "None"
            given = "perhaps None" if text is UNCERTAIN else given
            raise self.source.refuse(
                node, f"{node.id}, which is {given}, as a number or array", "pass one, or test it with if before"
            )
        found = self.array(node)
        if found is not None:
            return Leaf(found)
        pack = self.tuple_of(node)
        if pack is not None:
            return self.several(pack)
        if self.known_here(node.id):
            return Scalar(ast.Name(self.local(node), ast.Load()))
        if node.id not in self.source.outside:
            raise self.source.refuse(node, f"{node.id}, which is not defined", "define it, or pass it as an argument")
        value = self.source.outside[node.id]
        return self.outside(node, node.id, value)

    def outside(self, node: ast.expr, name: str, value: object) -> Tree:
        """A constant of a module or closure."""
        for part in value if isinstance(value, tuple) else [value]:
            if wrong := unfit(part):
                raise self.source.refuse(node, f"{name}, {wrong[0]}", wrong[1])
        if isinstance(value, bool | int | float | np.number | np.bool_):
            return Scalar(ast.Name(self.constant(name, value), ast.Load()))
        if isinstance(value, tuple) and value:
            if isinstance(value[0], tuple) or len({type(v) for v in value}) > 1:
                return self.items_outside(node, name, value)
            value = np.array(value)
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "fiub":
            if value.size > LARGEST:
                raise self.source.refuse(node, f"{name}, an array of {value.size} elements", "pass it as an argument")
            made = self.constant(name, value)
            self.made.ranks[made] = value.ndim
            return Leaf(self.all_of(made))
        raise self.source.refuse(
            node, f"{name} is not a variable, a number, or an array or tuple of numbers", "pass it as an argument"
        )

    def items_outside(self, node: ast.expr, name: str, value: tuple) -> Several:
        items: list[Tree] = []
        for k, v in enumerate(value):
            if isinstance(v, tuple):
                items.append(self.items_outside(node, f"{name}_{k}", v))
            else:
                items.append(Scalar(parse(constant(v))) if type(v) is int else self.outside(node, f"{name}_{k}", v))
        return Several(items, type(value))

    def constant(self, name: str, value: object) -> str:
        """A constant from outside, under its own name where that is free."""
        for known, other in self.made.constants.items():
            if known == name and (other is value or same_number(other, value)):
                return known
        made = self.names.keep(name)
        self.made.constants[made] = value
        self.made.ranks.setdefault(made, 0)
        self.made.kinds[made] = {"b": "bool", "i": "int", "u": "int"}.get(np.asarray(value).dtype.kind, "float")
        return made

    # Attributes.

    def attribute(self, node: ast.Attribute) -> Tree:
        owner = node.value
        if self.tuple_of(_first(owner)) is not None:
            found = self.tree(owner)
            if isinstance(found, Several):
                if node.attr not in found.fields:
                    raise self.source.refuse(node, f"the attribute {unparse(node)}", "index the tuple")
                return found.items[found.fields.index(node.attr)]
        value, module = self.resolve(node), self.resolve(owner)
        if value is None and module is None:
            return self.of_array(node)
        if isinstance(value, bool | int | float | np.number) and (module is math or module is np):
            return Scalar(parse(f"{'math' if module is math else 'np'}.{node.attr}"))
        return self.outside(node, node.attr, value)

    def of_array(self, node: ast.Attribute) -> Tree:
        view = self.view(node.value)
        if node.attr == "T":
            return Leaf(view.transposed)
        if node.attr == "shape":
            return Several([Scalar(n) for n in self.shape(view)])
        if node.attr == "ndim":
            return Scalar(ast.Constant(view.rank))
        if node.attr == "size":
            if self.is_whole(view) and view.name in self.made.parameters:
                return Scalar(ast.Attribute(ast.Name(view.name, ast.Load()), "size", ast.Load()))
            return Scalar(parse(" * ".join(f"({unparse(n)})" for n in self.shape(view))))
        instead = "take ravel() to read" if node.attr == "flat" else "use shape, size, ndim or T, or an argument"
        raise self.source.refuse(node, f"the attribute {unparse(node)}", instead)

    def shape(self, view: View) -> list[ast.expr]:
        return [size_of(view.axis(d)) for d in range(view.rank)]

    def shape_of(self, node: ast.expr) -> list[ast.expr] | None:
        """The numbers in ``a.shape`` and ``np.shape(a)``."""
        if (
            isinstance(node, ast.Attribute) and node.attr == "shape" and self.tuple_of(node.value) is None
        ):  # not a field
            return self.shape(self.view(node.value))
        if isinstance(node, ast.Call) and self.function_of(node.func) is np.shape:
            return self.shape(self.view(node.args[0]))
        return None

    def item(self, item: str | View | Pack) -> Tree:
        if isinstance(item, View):
            return Leaf(item)
        if isinstance(item, Pack):
            return self.several(item)
        found = self.array(ast.Name(item, ast.Load())) if self.is_item(item) else None
        return Scalar(ast.Name(item, ast.Load())) if found is None else Leaf(found)

    def several(self, pack: Pack) -> Several:
        return Several([self.item(i) for i in pack.items], pack.of)

    def items_in(self, tree: Tree) -> list[Tree] | None:
        """The items of a tuple; one of numbers from outside is an array, so that any number can be its index."""
        if isinstance(tree, Leaf) and tree.rank == 1 and tree.view.name in self.made.constants:
            values = np.asarray(self.made.constants[tree.view.name]).tolist()
            return [Scalar(parse(constant(v))) for v in values] if self.is_whole(tree.view) else None
        return tree.items if isinstance(tree, Several) else None

    # Subscripts.

    def subscript(self, node: ast.Subscript) -> Tree:
        sizes = self.shape_of(node.value)
        if isinstance(node.value, ast.Tuple | ast.Call | ast.BinOp | ast.IfExp) or self.in_tuple(node.value) or sizes:
            found = Several([Scalar(n) for n in sizes]) if sizes else self.tree(node.value)
            if isinstance(found, Several):
                return self.item_of(node, found)
            node = ast.copy_location(ast.Subscript(ast.copy_location(Done(found), node), node.slice, node.ctx), node)
        view = self.part(node)
        if isinstance(view, Picked):
            return copied(Leaf(view))
        return Leaf(view) if view.rank else Scalar(view.at([]))

    def in_tuple(self, node: ast.expr) -> bool:
        first = _first(node)
        outside = isinstance(first, ast.Name) and not self.known_here(first.id) and self.source.outside.get(first.id)
        return self.tuple_of(first) is not None or isinstance(outside, tuple)

    def item_of(self, node: ast.Subscript, tree: Several) -> Tree:
        """An item of a tuple, or some. Where the index is not known, a tuple of numbers is made an array."""
        size = len(tree.items)
        if isinstance(node.slice, ast.Slice):
            given = node.slice.lower, node.slice.upper, node.slice.step
            start, stop, step = (e if e is None else distance(self.value(e), ZERO) for e in given)
            if (start is None, stop is None, step is None) == tuple(e is None for e in given):
                return Several(tree.items[start:stop:step])
        else:
            index = self.value(node.slice)
            k = distance(index, ZERO)
            if k is not None and -size <= k < size:
                return tree.items[k]
            if k is None and numbers(tree):
                row = ast.Subscript(Done(Leaf(self.listed(node, tree), True)), Done(Scalar(index)), ast.Load())
                return self.subscript(ast.copy_location(row, node))
        raise self.source.refuse(
            node, f"{unparse(node)}, an index of a tuple that is not one of its {size}", "use an array"
        )

    def listed(self, node: ast.AST, tree: Several) -> View:
        raise NotImplementedError

    def part(self, node: ast.Subscript) -> View:
        """What a subscript selects."""
        view = self.view(node.value)
        given = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        pack = self.tuple_of(node.slice)
        if pack is not None:  # a[index] with a tuple of integers
            given = [Done(self.item(i)) for i in pack.items]
        spread = [k for k, p in enumerate(given) if isinstance(p, ast.Constant) and p.value is Ellipsis]
        used = sum(not _new_axis(p) for p in given) - len(spread)
        if used > view.rank or len(spread) > 1:
            raise self.source.refuse(node, f"{used} indices of an array with {view.rank} axes", "drop some")
        fill: list[ast.expr] = [ast.Slice()] * (view.rank - used)
        given = [*given[: spread[0]], *fill, *given[spread[0] + 1 :]] if spread else [*given, *fill]
        parts, d = list(view.parts), 0
        order: list[int | None] = []
        picks: dict = {}
        for p in given:
            if _new_axis(p):
                order.append(None)
                continue
            place, axis = view.order[d], view.axis(d)
            if isinstance(p, ast.Slice):
                if place is not None:
                    parts[place] = self.sliced(node, axis, p)
                order.append(place)
            elif place is not None:
                found = self.tree(p)
                if isinstance(found, Scalar):
                    parts[place] = self.index(view, place, axis, normal(found.node), node)
                else:
                    index, known = picked(self, node, found, axis)
                    if not known and not self.all_along(view, place, axis):
                        inside(self, node, index, size_of(axis), f"axis {d} of {unparse(node.value)}")
                    order += [-1] * (index.rank if not picks else 0)
                    picks[place] = index, partial(self.index, view, place, axis)
            d += 1
        advanced = [k for k, p in enumerate(given) if not isinstance(p, ast.Slice) and not _new_axis(p)]
        if picks and advanced[-1] - advanced[0] != len(advanced) - 1:  # the axes would come first
            raise self.source.refuse(node, f"indices on both sides of a slice in {unparse(node)}", "write a loop")
        if picks:
            return self.gathered(node, View(view.name, tuple(parts), tuple(order)), picks)
        return View(view.name, tuple(parts), tuple(order))

    def gathered(self, node: ast.Subscript, view: View, picks: dict) -> View:
        indices = [index for index, _ in picks.values()]
        if len({i.rank for i in indices}) > 1 or any(i.name == view.name for i in indices):
            raise self.source.refuse(node, f"these arrays as indices in {unparse(node)}", "write a loop")
        loops = Elementwise(self, node)
        for d in range(indices[0].rank):
            for other in indices[1:]:
                loops.same(count(other.axis(d)), count(indices[0].axis(d)))
        return Picked(view.name, view.parts, view.order, picks)

    def index(self, view: View, place: int, axis: Axis, index: ast.expr, node: ast.Subscript | None = None) -> ast.expr:
        """The index in the array of that in a part of it."""
        if self.all_along(view, place, axis):
            return index
        if node is not None:
            d, what = view.order.index(place), unparse(node.value)
            self.out.append(Within(index, size_of(axis), f"axis {d} of {what}", place=self.place_of(node)))
        if isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant):
            index = added(size_of(axis), index)
        elif not self.nonnegative(index):
            text = f"({unparse(index)})"
            index = parse(f"{text} if {text} >= 0 else {text} + {unparse(size_of(axis))}")
        return compose(axis, index, index, ONE).start

    def all_along(self, view: View, place: int, axis: Axis) -> bool:
        """Whether a part has all elements along an axis of an array, in order."""
        return (
            unparse(axis.start) == "0"
            and unparse(axis.step) == "1"
            and view.name not in self.shared.reshaped
            and view.name not in self.shared.roomy  # -1 is not the last that there is room for
            and unparse(axis.stop) == unparse(self.size(view.name)[place])
        )

    def place_of(self, node: ast.AST) -> str:
        """Where a line of the user's is; "" in functions of the library, where it is the line that calls."""
        return "" if self.source.module in MODULES else self.source.line_of(node)

    def sliced(self, node: ast.Subscript, axis: Axis, part: ast.Slice) -> Axis:
        """A slice, as NumPy understands it: negative ends count from the end, and there are no elements outside. (A
        start past the end and an end before the start need no care: the loop has no turns.)"""
        size = size_of(axis)
        step: ast.expr = ONE if part.step is None else normal(self.value(part.step))
        number = distance(step, ZERO)
        if not number:
            raise self.source.refuse(node, "a slice with a step that is not a constant", "write a loop over range")
        if part.lower is None and part.upper is None and number == 1:
            return axis
        if number < 0:
            last = added(size, ast.Constant(-1))
            start = last if part.lower is None else self.end(part.lower, size, -1, last)
            stop: ast.expr = parse("-1") if part.upper is None else self.end(part.upper, size, -1, None)
        else:
            start = ZERO if part.lower is None else self.end(part.lower, size, 0, None)
            stop = size if part.upper is None else self.end(part.upper, size, 0, size)
        return compose(axis, start, stop, step)

    def end(self, node: ast.expr, size: ast.expr, low: int, high: ast.expr | None) -> ast.expr:
        """One end of a slice of `size` elements, not below `low`, and not above `high` where that matters."""
        value = normal(self.value(node))
        text = unparse(value)
        if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
            found = added(size, value)
            # an end that is too small needs no care either
            return found if high is not None and low == 0 else parse(f"max({unparse(found)}, {low})")
        if isinstance(value, ast.Constant) or self.nonnegative(value):
            return value if high is None or text == unparse(high) else parse(f"min({text}, {unparse(high)})")
        counted = f"max(({text}) if ({text}) >= 0 else ({text}) + {unparse(size)}, {low})"
        return parse(f"min({counted}, {unparse(size if high is None else high)})")

    # Calls with numbers.

    def apply(self, called: object, args: list[Tree]) -> Tree:
        """A function of numbers, or of the elements of arrays."""
        helper = helper_of(called)
        name = self.names.imported(*helper, called) if helper else FUNCTION_NAMES[called]
        return combine(lambda *given: ast.Call(parse(name), list(given), []), args)


class Done(ast.expr):
    """An expression that is lowered already."""

    def __init__(self, made: Tree) -> None:
        super().__init__()
        self.made = made


def _first(node: ast.expr) -> ast.expr:
    """``p`` of ``p.a[0]``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _new_axis(node: ast.expr) -> bool:
    named = isinstance(node, ast.Attribute) and node.attr == "newaxis"
    return named or (isinstance(node, ast.Constant) and node.value is None)
