"""Array expressions, and the loops that evaluate them element by element."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..ir.affine import distance, minus, offset, plus
from ..ir.names import called
from ..ir.statements import Block, Check, Like, Loop, Store
from ..ir.terms import FALSE, MINUS_ONE, ONE, ZERO, Binary, Compare, Constant, DType, Element, Term, Variable, subterms
from .tuple_arguments import Form, fields_of
from .views import Axis, View, add_indices, axis_length, holds_at_most_one, multiply_indices, raw_length

if TYPE_CHECKING:
    from .scope import Scope

__all__ = [
    "ArrayExpr",
    "AxisLoop",
    "Elementwise",
    "FromFunction",
    "Leaf",
    "Lowered",
    "Op",
    "Order",
    "RowType",
    "Scalar",
    "SelectExpr",
    "Static",
    "TupleExpr",
    "all_scalars",
    "combine",
    "copy_of_values",
    "form_of",
    "is_table",
    "leaves",
    "lowered_from",
    "order_of_array",
    "record_order",
    "same_results",
]


#: The parameters that must be in C order in memory so that an array is; None if it is not, or that is not known.
Order = frozenset[str] | None

_C_ORDER: Order = frozenset()


class ArrayExpr:
    """An expression; `rank` is its number of axes, 0 for a scalar."""

    rank: int


@dataclass(eq=False)
class Scalar(ArrayExpr):
    """A lowered scalar."""

    term: Term
    rank = 0


@dataclass(eq=False)
class Leaf(ArrayExpr):
    """An array or a view of one; `fresh`: newly allocated by this expression, so that nothing else can alias it."""

    view: View
    fresh: bool = False
    masked = False  # whether the elements selected by the statement's mask are meant

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.view.rank


@dataclass(eq=False)
class TupleExpr(ArrayExpr):
    """A tuple; `tuple_class` is its type."""

    items: list[ArrayExpr]
    tuple_class: type = tuple
    rank = 0

    @property
    def fields(self) -> tuple[str, ...]:
        return fields_of(self.tuple_class)


@dataclass(frozen=True)
class Static(ArrayExpr):
    """What is known when code is generated, and is no part of it: a string, None, or a function."""

    value: object
    rank = 0


class RowType(NamedTuple):
    """Tuples of numbers that are rows of an array: their type, and how many numbers each has."""

    tuple_class: type
    width: int


@dataclass
class NoItems(TupleExpr):
    """The items of a list into which nothing was put yet, while it is found out what will be."""


@dataclass(eq=False)
class Op(ArrayExpr):
    """An elementwise operation: `build` computes an element from those of `args`; see FromFunction for the others."""

    build: Callable[..., Term]
    args: list[ArrayExpr]
    kind: str | Like = ""
    dtype: Term | None = None
    in_c_order: bool = field(default=False, kw_only=True)  # whatever the order of its operands in memory
    named: Callable[[str], None] | None = field(default=None, kw_only=True)  # is told which array gets the elements

    @property
    def rank(self) -> int:  # type: ignore[override]
        return max(a.rank for a in self.args)


@dataclass(eq=False)
class SelectExpr(Op):
    """A selection between arrays. `refusal`: the error if it is bound to a name.

    Python would alias one of the arrays there, and a copy would not behave the same. Where it is bound nevertheless, it
    stands for the arrays `chosen` from.
    """

    refusal: Exception | None = None
    chosen: frozenset[str] = frozenset()


@dataclass(eq=False)
class FromFunction(ArrayExpr):
    """An array whose elements `build` computes from their positions, counted from 0."""

    sizes: list[Term]
    build: Callable[..., Term] | None  # None: uninitialised
    kind: str | Like = ""  # of the new array, "" for the kind of the elements
    dtype: Term | None = None  # None where the kind is ""
    like: ArrayExpr | None = None  # the array whose order it has in memory, instead of C order

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.sizes)


class Lowered(ast.expr):
    """A syntax node for an expression that is lowered already."""

    def __init__(self, tree: ArrayExpr) -> None:
        super().__init__()
        self.lowered_tree = tree

    def __deepcopy__(self, memo: dict) -> Lowered:
        return self  # nothing changes it


def lowered_from(tree: ArrayExpr, node: ast.expr) -> Lowered:
    """The syntax node of an expression that was lowered, in place of its own, by which messages name it."""
    lowered = ast.copy_location(Lowered(tree), node)
    lowered.written = node  # type: ignore[attr-defined]
    return lowered


def combine(build: Callable[..., Term], args: list[ArrayExpr]) -> ArrayExpr:
    scalars = [a.term for a in args if isinstance(a, Scalar)]
    return Scalar(build(*scalars)) if len(scalars) == len(args) else Op(build, args)


def copy_of_values(
    tree: ArrayExpr,
    kind: str | Like = "",
    dtype: Term | None = None,
    in_c_order: bool = False,
    named: Callable[[str], None] | None = None,
) -> ArrayExpr:
    """The values of `tree`, in memory of their own."""
    return Op(lambda e: e, [tree], kind, dtype, in_c_order=in_c_order, named=named)


def all_scalars(tree: ArrayExpr) -> bool:
    """Whether `tree` is a scalar, or a tuple of scalars or of such tuples."""
    return all(map(all_scalars, tree.items)) if isinstance(tree, TupleExpr) else isinstance(tree, Scalar)


def is_table(tree: TupleExpr) -> bool:
    """Whether a tuple holds scalars, or rows of as many scalars each."""
    rows = [t.items for t in tree.items if isinstance(t, TupleExpr)]
    equal = len({len(r) for r in rows}) <= 1 and len(rows) in (0, len(tree.items))
    return bool(tree.items) and all_scalars(tree) and equal


def order_of(low: Scope, tree: ArrayExpr) -> Order:
    """The order of an array, or of the result of an expression."""
    if tree.rank < 2:
        return _C_ORDER
    if isinstance(tree, Leaf):
        axes = [d for d in tree.view.order if d is not None]
        return order_of_array(low, tree.view.name) if axes == sorted(axes) else None
    if isinstance(tree, FromFunction):
        return _C_ORDER if tree.like is None else order_of(low, tree.like)
    if isinstance(tree, Op) and tree.in_c_order:
        return _C_ORDER
    return _together(*(order_of(low, leaf) for leaf in leaves(tree) if isinstance(leaf, Leaf | FromFunction)))


def order_of_array(low: Scope, name: str) -> Order:
    shared = low.shared
    while name in shared.reshaped:
        name = shared.reshaped[name].name
    return frozenset({name}) if name in low.lowered_function.parameters else shared.memory_orders.get(name, _C_ORDER)


def _together(*orders: Order) -> Order:
    known = [order for order in orders if order is not None]
    return frozenset().union(*known) if len(known) == len(orders) else None


def record_order(low: Scope, name: str, tree: ArrayExpr) -> None:
    """Record that the array `name` gets the elements of `tree`, in its order; it may have had those of others."""
    if isinstance(tree, Op) and tree.named is not None:
        tree.named(name)
    orders = low.shared.memory_orders
    orders[name] = _together(orders.get(name, _C_ORDER), order_of(low, tree))


def form_of(tree: ArrayExpr | None) -> Form:
    """The nesting of tuples in a result."""
    return (tree.tuple_class, tuple(map(form_of, tree.items))) if isinstance(tree, TupleExpr) else None


def same_results(a: ArrayExpr | None, b: ArrayExpr | None) -> bool:
    """Whether two results are the same arrays, and have scalars at the same positions."""
    if a is None or b is None:
        return a is b
    if isinstance(a, Static) or isinstance(b, Static):
        return a == b
    if type(a) is not type(b):
        return False
    if isinstance(a, Leaf | Scalar):
        return isinstance(a, Scalar) or a.view == b.view  # type: ignore[attr-defined]
    x, y = a.items, b.items  # type: ignore[attr-defined]
    return len(x) == len(y) and all(same_results(p, q) for p, q in zip(x, y, strict=True))


def leaves(tree: ArrayExpr) -> list[ArrayExpr]:
    """What an expression is made of, and what is in a tuple and in the tuples in it."""
    parts = tree.args if isinstance(tree, Op) else tree.items if isinstance(tree, TupleExpr) else None
    return [tree] if parts is None else [n for part in parts for n in leaves(part)]


@dataclass
class AxisLoop:
    """A loop over the elements of `axis`."""

    counter: str
    axis: Axis
    size: Term  # the number of iterations; it may be negative where there are none

    def position(self) -> Term:
        """The number of elements before the current one."""
        name = Variable(self.counter)
        if self.axis.step is MINUS_ONE:
            return Binary("-", self.axis.start, name)
        before = minus(name, self.axis.start)
        return before if self.axis.step is ONE else Binary("//", before, self.axis.step)

    def index_along(self, other: Axis) -> Term:
        """The index along `other` of the element at the same position."""
        name = Variable(self.counter)
        mine, start = self.axis.start, other.start
        if self.axis.step is other.step:
            if mine is start:
                return name
            apart = distance(start, mine)
            return add_indices(start, minus(name, mine)) if apart is None else plus(name, apart)
        return add_indices(start, multiply_indices(self.position(), other.step))


class Elementwise:
    """Lowers one statement on arrays to loops, in the lowering's output."""

    def __init__(self, lowering: Scope, node: ast.AST) -> None:
        self.low = lowering
        self.node = node
        self.axis_loops: list[AxisLoop] = []
        self.target: Element | None = None
        self.checked: set[Term] = set()
        self.overlap = False  # an iteration may read elements that another one writes
        self.length_advice = ""  # advice for the error about different lengths
        self.comparing_mask = False  # whether a mask is compared, which is not broadcast
        self.scattered = False  # whether several iterations may write one element

    def loop_over(self, tree: ArrayExpr) -> None:
        """Loop over all elements of `tree`."""
        self.axis_loops = [self.axis_loop(a) for a in self.result_axes(tree)]

    def axis_loop(self, axis: Axis) -> AxisLoop:
        return AxisLoop(self.low.names.fresh("k"), axis, raw_length(axis))

    def result_axes(self, tree: ArrayExpr) -> list[Axis]:
        """For each axis of `tree`, that of the first leaf whose length is not known to be 1, or may be larger."""
        first = [Axis(ZERO, ONE)] * tree.rank
        for leaf in sorted(leaves(tree), key=lambda n: -n.rank):
            for d in range(leaf.rank):
                at, axis = d + tree.rank - leaf.rank, _axis(leaf, d)
                if raw_length(first[at]) is ONE or (holds_at_most_one(first[at]) and not holds_at_most_one(axis)):
                    first[at] = first[at] if raw_length(axis) is ONE else axis
        return first

    def lengths(self, tree: ArrayExpr) -> list[Term]:
        """The length of each axis of `tree`."""
        return [axis_length(a) for a in self.result_axes(tree)]

    def has_other_lengths(self, tree: ArrayExpr, other: ArrayExpr) -> bool:
        """Whether `tree` has other lengths than the `other` one, as far as the source shows them."""
        return self.lengths(tree) != self.lengths(other)

    # Elements.

    def element(self, tree: ArrayExpr, axis_loops: list[AxisLoop] | None = None) -> Term:
        """The element of `tree` at the counters of the loops."""
        axis_loops = self.axis_loops if axis_loops is None else axis_loops
        if isinstance(tree, Scalar):
            return self.invariant_scalar(tree.term)
        if isinstance(tree, Op):
            return tree.build(*[self.element(a, axis_loops) for a in tree.args])
        if tree.rank > len(axis_loops):
            raise self.low.source.refuse(self.node, "more axes than what it is assigned to", "write a loop")
        mine = axis_loops[len(axis_loops) - tree.rank :]
        masks, self.comparing_mask = (
            self.comparing_mask,
            self.comparing_mask or (isinstance(tree, Leaf) and tree.masked),
        )
        single = []
        for d, t in enumerate(mine):
            axis = _axis(tree, d)
            length = raw_length(axis)
            single.append(length is ONE)
            if self.comparing_mask:
                self.require_equal_lengths(length, t.size)
            elif length is not ONE and holds_at_most_one(axis) and not holds_at_most_one(t.axis):
                single[-1] = True
                self.require_equal_lengths(length, ONE)
            elif length is not ONE:
                if length is not t.size:
                    self.low.lowered_function.compared_lengths.append((length, t.size))
                self.require_equal_lengths(length, t.size)
        self.comparing_mask = masks
        if isinstance(tree, FromFunction):
            if tree.build is None:  # uninitialised
                return {"int": ZERO, "bool": FALSE}.get(tree.kind, Constant(0.0))  # type: ignore[arg-type]
            made = tree.build(*[t.position() for t in mine])
            for read in subterms(made):
                if isinstance(read, Element):
                    self.note_overlap(read)
            return made
        assert isinstance(tree, Leaf)
        axes = [tree.view.axis(d) for d in range(tree.rank)]
        element = tree.view.at(
            [a.start if one else t.index_along(a) for a, one, t in zip(axes, single, mine, strict=True)]
        )
        self.note_overlap(element)
        return element

    def invariant_scalar(self, term: Term) -> Term:
        """A loop-invariant scalar; read before the loop if the loop writes the array that it is read from."""
        if self.target is None or self.low.storage_of(self.target.array) not in map(self.low.storage_of, term.reads):
            return term
        return Variable(self.low.fresh_scalar("held", term))

    def require_equal_lengths(self, mine: Term, other: Term) -> None:
        """Require equal lengths: refuse unequal constants, check others at run time."""
        test = Compare(("!=",), (self.nonnegative_length(mine), self.nonnegative_length(other)))
        if test.operands[0] is test.operands[1]:
            return
        if isinstance(mine, Constant) and isinstance(other, Constant) and not self.comparing_mask:
            raise self.low.source.refuse(self.node, "arrays of different lengths", "use arrays of one shape")
        if test not in self.checked:
            self.checked.add(test)
            what = "a mask of another length than the axis" if self.comparing_mask else "arrays of different lengths"
            message = f"{self.low.lowered_function.name}: {what} in '{self.statement_line}'{self.length_advice}"
            self.low.out.append(Check(test, message, "IndexError" if self.comparing_mask else "ValueError"))

    def nonnegative_length(self, length: Term) -> Term:
        """A number of elements, at least 0."""
        return length if self.low.nonnegative(length) else called(max, length, ZERO)

    @property
    def statement_line(self) -> str:
        return self.low.source.lines[getattr(self.node, "lineno", 1) - 1].strip()

    def note_overlap(self, read: Element) -> None:
        """Note whether an iteration may read what another one writes."""
        if self.target is None or self.low.storage_of(read.array) != self.low.storage_of(self.target.array):
            return
        if read.array != self.target.array:  # views of one array under different shapes
            self.overlap = True
            return
        pairs = list(zip(read.index, self.target.index, strict=True))
        disjoint = any(
            self.low.nonnegative(a)
            and self.low.nonnegative(b)
            and (self.low.provably_greater(a, b) or self.low.provably_greater(b, a))
            for a, b in pairs
        ) or any(self.skipped_by_step(a, b) for a, b in pairs)
        self.overlap |= self.scattered or (not disjoint and any(a is not b for a, b in pairs))

    def skipped_by_step(self, a: Term, b: Term) -> bool:
        """Whether the two indices never meet because a loop steps over one of them."""
        (base, p), (other, q) = offset(a), offset(b)
        steps = [offset(t.axis.step) for t in self.axis_loops if base is Variable(t.counter)]
        return base is other and any(s is None and k and (p - q) % k for s, k in steps)

    # Loops.

    def store(self, target: View, tree: ArrayExpr) -> None:
        """Lower ``target[...] = tree``."""
        line, self.low.line = self.low.line, ""
        axes = [target.axis(d) for d in range(target.rank)]
        self.axis_loops = [self.axis_loop(a) for a in axes]
        self.target = target.at([Variable(t.counter) for t in self.axis_loops])
        self.scattered = -1 in target.order
        if isinstance(self.node, ast.Assign) and isinstance(self.node.targets[0], ast.Name):
            self.length_advice = "; in loops and branches a name keeps its shape, use another one"
        uninitialised = isinstance(tree, FromFunction) and tree.build is None
        value = self.element(FromFunction(tree.sizes, lambda *_: ZERO) if uninitialised else tree)  # type: ignore[attr-defined]
        if uninitialised:
            return
        if not self.overlap:
            self.emit_loops([self.store_of(self.target, value)], line)
            return
        # NumPy reads everything before it writes.
        held = self.low.names.fresh("held")
        self.low.allocate(held, self.node, [axis_length(a) for a in axes], Like(target.name),
                          DType(target.name), target.name)  # fmt: skip
        element = Element(held, tuple([t.position() for t in self.axis_loops]))
        self.emit_loops([self.store_of(element, value)], line)
        self.emit_loops([self.store_of(self.target, element)], "")

    @staticmethod
    def store_of(target: Element, value: Term) -> Store:
        """The statement that stores `value` into an element."""
        return Store(target.array, target.index, value)

    def emit_loops(self, inner: Block, line: str, axis_loops: list[AxisLoop] | None = None) -> None:
        self.low.out += self.nest(inner, line, self.axis_loops if axis_loops is None else axis_loops)

    def nest(self, inner: Block, line: str, axis_loops: list[AxisLoop]) -> Block:
        for t in reversed(axis_loops):
            self.low.lowered_function.ranks[t.counter], self.low.lowered_function.kinds[t.counter] = 0, "int"
            inner = [Loop(t.counter, t.axis.start, t.axis.stop, t.axis.step, None, inner, over_elements=True)]
        inner[0].line = line
        return inner

    def materialise(self, tree: ArrayExpr, name: str) -> View:
        """A new array `name` with the elements of `tree`."""
        if isinstance(tree, SelectExpr) and tree.refusal is not None:
            raise tree.refusal
        axes = self.result_axes(tree)
        line, self.low.line = self.low.line, ""
        kind, dtype = (tree.kind, tree.dtype) if isinstance(tree, FromFunction | Op) else ("", None)
        if not kind:
            self.low.shared.element_kinds[name] = self.low.kind_as_it_looks(tree)
        record_order(self.low, name, tree)
        self.low.allocate(name, self.node, [axis_length(a) for a in axes], kind, dtype or self.dtype(tree), "", line)
        view = self.low.whole_view(name)
        if isinstance(tree, FromFunction) and tree.build is None:
            return view
        self.axis_loops = [AxisLoop(self.low.names.fresh("k"), view.axis(d), raw_length(a)) for d, a in enumerate(axes)]
        self.target = view.at([Variable(t.counter) for t in self.axis_loops])
        value = self.element(tree)
        self.emit_loops([self.store_of(self.target, value)], "")
        if isinstance(tree, SelectExpr):
            self.low.note_standing(name, tree.chosen)  # type: ignore[attr-defined]
        return view

    def dtype(self, *trees: ArrayExpr) -> Term:
        """The dtype of a new array of floats computed from `tree`."""
        return self.low.dtype_of_floats_in(*trees)


def _axis(leaf: ArrayExpr, d: int) -> Axis:
    if isinstance(leaf, FromFunction):
        return Axis(ZERO, leaf.sizes[d])
    assert isinstance(leaf, Leaf)
    return leaf.view.axis(d)
