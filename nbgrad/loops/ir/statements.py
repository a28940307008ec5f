"""The statements of the loop IR: what a function of the subset is lowered to.

Expressions are :mod:`.terms`, which :mod:`.algebra` differentiates. Lowering removes slices, jumps, calls of other
functions and tuples; it allocates arrays at the top of the function only, and a name stays bound to the same array
except for :class:`Swap` and :class:`Grow`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...core.source_text import constant_source
from .terms import ONE, Element, Length, Term, reads

if TYPE_CHECKING:
    from ..custom_rules import Rule
    from ..frontend.tuple_arguments import Form
    from .names import Names

__all__ = [
    "Alloc",
    "Assign",
    "Block",
    "Call",
    "Check",
    "Function",
    "Grow",
    "If",
    "InRange",
    "IndexCheck",
    "Like",
    "Loop",
    "Print",
    "ScalarOrigin",
    "Statement",
    "Store",
    "Swap",
    "comma_separated",
    "enclosing_loops",
    "map_terms",
    "mentioned",
    "mentions",
    "names_written",
    "nested_blocks",
    "terms_of",
    "union_over_nested",
    "uses",
    "walk",
    "without_prints",
    "writes",
]  # fmt: skip


@dataclass(eq=False)
class Statement:
    """A statement. `line` is its source line, for comments; empty if it is that of the statement before.
    `source_location` is the location of that line, for errors; empty if it is that of the statement before or around
    it. `test_location` is that of the branch of which a selection was made."""

    line: str = field(default="", kw_only=True)
    source_location: str = field(default="", kw_only=True)
    test_location: str = field(default="", kw_only=True)


class ScalarOrigin(Enum):
    """Why a pass introduced a scalar."""

    FACTOR = "a loop-invariant product"
    BRANCH = "the outcome of a test"
    BOUND = "a bound of a loop"


@dataclass(eq=False)
class Assign(Statement):
    """``name = value``, of scalars; `reassociable`: a sum, ``name + term``, whose additions may be reordered;
    `scalar_origin`: why a pass introduced it, None for assignments of the function."""

    name: str
    value: Term
    reassociable: bool = False
    scalar_origin: ScalarOrigin | None = field(default=None, kw_only=True)


@dataclass(eq=False)
class Store(Statement):
    """``array[index] = value``, of one element."""

    array: str
    index: tuple[Term, ...]
    value: Term

    @property
    def target(self) -> Element:
        return Element(self.array, self.index)


@dataclass(frozen=True)
class Like:
    """The kind of another array, which may not be inferred yet."""

    name: str


@dataclass(eq=False)
class Alloc(Statement):
    """``name = np.empty(shape, dtype)``, a new array."""

    name: str
    shape: tuple[Term, ...]
    dtype: Term
    source: str  # the array whose dtype it takes, or ""
    kind: str | Like  # "float", "int" or "bool"; "": inferred from what is stored into it


@dataclass(eq=False)
class Check(Statement):
    """Raise an error where `test` holds; `exact`: Python raises it there, too, so ``try`` may catch it."""

    test: Term
    message: str
    error: str = "ValueError"
    exact: bool = field(default=False, kw_only=True)

    def code(self) -> list[str]:
        return [f"if {self.test}:", f"    raise {self.error}({constant_source(self.message)})"]


@dataclass(eq=False)
class IndexCheck(Check):
    """An index check: where `test` holds, run a program (the code in `message`, see :mod:`..runtime.index_errors`) that
    finds out whether an index is out of range; `operands` are its arguments, scalars and arrays."""

    operands: list[Term] = field(default_factory=list)

    def code(self) -> list[str]:
        given = comma_separated([*map(str, self.operands)], True)
        return [f"{self.error}({self.test}, {constant_source(self.message)}, ({given}))"]


@dataclass(eq=False)
class Print(IndexCheck):
    """Print `operands`, scalars and arrays, by the program in `message` (:mod:`..runtime.printing`). It is where it was
    in every sweep that computes values, like a check; nothing prints in a reverse sweep."""


@dataclass(eq=False)
class InRange(Statement):
    """`index` must be in range for `what`, a view of an array with `size` elements along that axis; `exact` as in
    :class:`Check`."""

    index: Term
    size: Term
    what: str
    exact: bool = field(default=True, kw_only=True)


@dataclass(eq=False)
class Swap(Statement):
    """``a, b = b, a`` of arrays."""

    first: str
    second: str


@dataclass(eq=False)
class Grow(Statement):
    """``name = grown(name, size)``: extend an array with zeros, along its first axis, to a capacity of at
    least `size`."""

    name: str
    size: Term


@dataclass(eq=False)
class Call(Statement):
    """``results = function(operands)``: a call of a primitive with its own rule, which returns new arrays and scalars.

    `lengths` maps each array among the results to the names of its lengths, one per axis; `operands` are the arguments:
    arrays, prefixes of arrays, scalars, and constants; `function`, `vjp` and `jvp` are the names of
    the primitive and its rules.

    If `value_name` is not empty, the value of the call is bound to that name and copied elementwise into the results,
    which are allocated before and set to zero just before the call. Their old values are therefore stored as if
    statements had overwritten them. `copy_indices` then maps each array to the loop variables for the copy.
    """

    rule: Rule
    function: str
    vjp: str
    results: list[str]
    lengths: dict[str, list[str]]
    operands: list[Term]
    returns_tuple: bool = False  # whether it returns a tuple
    value_name: str = ""
    copy_indices: dict[str, list[str]] = field(default_factory=dict)
    jvp: str = ""

    @property
    def sizes(self) -> list[str]:
        """The names of all lengths of results."""
        return [n for names in self.lengths.values() for n in names]


@dataclass(eq=False)
class If(Statement):
    test: Term
    body: Block
    orelse: Block


@dataclass(eq=False)
class Loop(Statement):
    """``for index in range(start, stop, step)``, or, without an index, ``while test``.

    `exit_flag` is a flag that ends the loop after the iteration that sets it; `trip_counter` is the variable that
    counts the iterations of a loop whose trip count is not known on entry; `values_before_loop` maps scalars that the
    loop changes to the names of their saved values from before the loop; `parallel` marks loops over ``prange``;
    `target` is the loop's target in the source of the function; `over_elements` marks loops over the elements of an
    array expression, which Python evaluates once, even if there are none; `product` marks the outer of three loops that
    are a product of matrices, with indices that are never negative (:mod:`..transforms.matrix_products`).
    """

    index: str
    start: Term
    stop: Term
    step: Term
    test: Term | None
    body: Block
    exit_flag: str = ""
    trip_counter: str = ""
    values_before_loop: dict[str, str] = field(default_factory=dict)
    parallel: bool = False
    target: str = ""
    over_elements: bool = False
    product: bool = False

    @property
    def counts_up(self) -> bool:
        """Whether it is serial, over a range with step 1, and has no other end, counter or saved values."""
        special = self.parallel or self.exit_flag or self.trip_counter or self.values_before_loop
        return bool(self.index) and self.step is ONE and not special


Block = list[Statement]


@dataclass(eq=False)
class Function:
    """A lowered function.

    `ranks` and `kinds` are those of arguments and local variables (rank 0: scalars); `constants` are the values of
    free variables; `names` has all names in use and the imports; `renamed_parameters` maps the parameters of the source
    function to their names here; `results` are the names returned, None for a function that returns nothing, and `form`
    is their nesting in tuples; `options` are for ``njit``.

    `assumed_kinds` lists arrays with the expressions that they are filled from, whose kind must be that of the array;
    the error is raised otherwise. `refilled_arrays` lists arrays that are assigned new elements, whose kind the array
    must be able to hold. `copied_from` maps copies to the names of the arrays that they were made from.
    `single_precision` says that arguments are float32: values recomputed from stored ones may then differ in the last
    digits. `checked` says that indices are checked before use. `compared_lengths` are the pairs of lengths that must be
    equal unless one of them is 1; `unit_axes` the axes of parameters that have length 1 here, as (name, axis).
    `deciding` are the parameters, by the user's names, that decide in which order an array has its axes: unless they
    are constants, only square ones are valid. `may_be_bools` lists places of operators that are others of arrays of
    bools, with elements of the arrays, where kinds were not known yet, and the error if they differ at one place.
    `operations` are all such operators, with whether they were lowered for bools (None: bools have none), and the
    error if that is wrong; `rebinding_stores` the stores by which a name is bound to another array, with what is the
    same for all of one binding; `possible_kinds` the kinds that names may have in NumPy; `relied_on_kinds` the kinds of
    elements that lowering relied on, whether integers that are written there count, and the error if that is wrong;
    `choices` the tests of conditional expressions that choose one of two arrays;
    `reshaped_from` the arrays whose elements arrays of other shapes have.
    """

    name: str
    parameters: list[str]
    body: Block
    results: list[str] | None
    ranks: dict[str, int]
    kinds: dict[str, str]
    constants: dict[str, object]
    where: str
    names: Names
    form: Form = None
    renamed_parameters: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    assumed_kinds: list[tuple[str, list[Term], Exception]] = field(default_factory=list)
    refilled_arrays: list[tuple[str, Term, Exception]] = field(default_factory=list)
    element_writes: set[Statement] = field(default_factory=set)  # into arrays whose kind is that of other stores
    copied_from: dict[str, str] = field(default_factory=dict)
    single_precision: bool = False
    checked: bool = True
    compared_lengths: list[tuple[Term, Term]] = field(default_factory=list)
    unit_axes: frozenset[tuple[str, int]] = frozenset()
    deciding: set[str] = field(default_factory=set)
    may_be_bools: list[tuple[tuple, tuple[Term, ...], Exception]] = field(default_factory=list)
    operations: list[tuple[tuple[Term, ...], bool | None, Exception]] = field(default_factory=list)
    rebinding_stores: list[tuple[Store, object]] = field(default_factory=list)
    possible_kinds: dict[str, frozenset[str]] = field(default_factory=dict)
    relied_on_kinds: list[tuple[Term, str, bool, Callable[[], Exception]]] = field(default_factory=list)
    choices: set[Term] = field(default_factory=set)
    reshaped_from: dict[str, str] = field(default_factory=dict)
    widened: set[str] = field(default_factory=set)  # arrays of floats that are integers when they are made
    accumulators: set[str] = field(default_factory=set)  # of reductions of elements whose kind was not known
    unsigned: set[str] = field(default_factory=set)  # parameters that are arrays of unsigned integers
    lists: set[str] = field(default_factory=set)  # arrays of lists that grow, into which perhaps nothing is put
    set_once: set[str] = field(default_factory=set)  # fresh scalars, used only in the loops where they are set
    rounds_bounds: bool = False  # whether loops take floats as bounds, rounded towards zero, as in Numba
    contiguous: set[str] = field(default_factory=set)  # parameters that must be, for others are copied to be reshaped
    c_ordered: set[str] = field(default_factory=set)  # parameters that must be in C order, for what shares elements
    has_systems: bool = False  # whether functions of np.linalg are called that LAPACK has
    large_systems: bool = False  # whether LAPACK is called for them, instead of loops
    searches: list[str] = field(default_factory=list)  # what loops find by tests alone, as sentences

    def with_user_names(self, text: str) -> str:
        """`text`, with the user's names for the copies that it mentions."""
        said = [f"{n} is {of}" for n, of in self.copied_from.items() if re.search(rf"\b{n}(_|\b)", text)]
        return f"{text} ({', '.join(said)})" if said else text

    @cached_property
    def draws(self) -> bool:
        """Whether random numbers are drawn, so that another run gives other results."""
        return any(isinstance(s, Call) and s.rule.draws for s in walk(self.body))

    @cached_property
    def prints(self) -> bool:
        """Whether anything is printed."""
        return any(isinstance(s, Print) for s in walk(self.body))

    @cached_property
    def compared_axes(self) -> dict[tuple[str, int], list[Term]]:
        """For each axis of a parameter, as (name, axis), the lengths that its length is compared with."""
        found: dict[tuple[str, int], list[Term]] = {}
        for pair in self.compared_lengths:
            for mine, other in (pair, pair[::-1]):
                if isinstance(mine, Length) and mine.array in self.parameters:
                    found.setdefault((mine.array, mine.axis or 0), []).append(other)
        return found

    @cached_property
    def modified_parameters(self) -> list[str]:
        """The array parameters that are modified, directly or after swaps; cached because every call needs it."""
        names = self.moved_with({s.array for s in walk(self.body) if isinstance(s, Store)})
        return [p for p in self.parameters if p in names]

    def moved_with(self, names: set[str]) -> set[str]:
        """These names, and those of the arrays that may be swapped with them, one after another in loops."""
        swaps = [{s.first, s.second} for s in walk(self.body) if isinstance(s, Swap)]
        for _ in swaps:
            names = names.union(*(pair for pair in swaps if pair & names))
        return names


def comma_separated(parts: list[str], several: bool) -> str:
    """Code for `parts` separated by commas; with `several`, a tuple even of one."""
    return f"{', '.join(parts)}{',' * (several and len(parts) == 1)}"


def walk(block: Block) -> Iterator[Statement]:
    """All statements of `block` and of the blocks nested in it, in source order."""
    stack = block[::-1]
    while stack:
        s = stack.pop()
        yield s
        if isinstance(s, If):
            stack += s.orelse[::-1]
            stack += s.body[::-1]
        elif isinstance(s, Loop):
            stack += s.body[::-1]


def nested_blocks(s: Statement) -> list[Block]:
    """The blocks directly in a statement."""
    if isinstance(s, If):
        return [s.body, s.orelse]
    return [s.body] if isinstance(s, Loop) else []


def enclosing_loops(block: Block, loops: tuple[Loop, ...] = ()) -> dict[Statement, tuple[Loop, ...]]:
    """The loops around each statement of a block, the outermost first; `loops` are around the block."""
    found: dict[Statement, tuple[Loop, ...]] = {}
    for s in block:
        found[s] = loops
        for inner in nested_blocks(s):
            found |= enclosing_loops(inner, (*loops, s) if isinstance(s, Loop) else loops)
    return found


def writes(s: Statement) -> list[str]:
    """The names that a statement writes, without the blocks in it."""
    match s:
        case Assign():
            return [s.name]
        case Store():
            return [s.array]
        case Alloc():
            return [s.name]
        case Swap():
            return [s.first, s.second]
        case Call():
            return [*s.results, *s.sizes]
        case Loop() if s.index:
            return [s.index]
    return []


def without_prints(block: Block) -> Block:
    """A block without what prints."""
    for s in block:
        if isinstance(s, If):
            s.body, s.orelse = without_prints(s.body), without_prints(s.orelse)
        elif isinstance(s, Loop):
            s.body = without_prints(s.body)
    return [s for s in block if not isinstance(s, Print)]


def terms_of(s: Statement) -> tuple[Term, ...]:
    """The terms in a statement, without the blocks in it."""
    match s:
        case Assign():
            return (s.value,)
        case Store():
            return *s.index, s.value
        case Alloc():
            return *s.shape, s.dtype
        case Grow():
            return (s.size,)
        case Call():
            return tuple(s.operands)
        case IndexCheck():
            return s.test, *s.operands
        case If() | Check():
            return (s.test,)
        case InRange():
            return s.index, s.size
        case Loop():
            return tuple([t for t in (s.start, s.stop, s.step, s.test) if t is not None])
    return ()


def map_terms(s: Statement, function: Callable[[Term], Term]) -> None:
    """Replace each term in a statement, without the blocks in it, by what `function` gives for it."""
    for part in ("value", "index", "test", "start", "stop", "step", "size", "operands", "shape", "dtype"):
        terms: Any = getattr(s, part, None)
        if isinstance(terms, Term):
            setattr(s, part, function(terms))
        elif isinstance(terms, tuple | list):
            setattr(s, part, type(terms)(map(function, terms)))


def uses(s: Statement) -> set[str]:
    """The names whose values a statement reads, without the blocks in it."""
    names = reads(*terms_of(s))
    if isinstance(s, Loop):
        names |= {n for n in (s.exit_flag, s.trip_counter, *s.values_before_loop.values()) if n}
    return names


def mentioned(s: Statement) -> set[str]:
    """The names that a statement reads or writes, without the blocks in it."""
    return {*writes(s), *uses(s)}


def mentions(s: Statement, name: str) -> bool:
    """Whether `name` is among those that `s` mentions, see :func:`mentioned`."""
    return name in writes(s) or name in uses(s)


def union_over_nested(block: Block, of: Callable[[Statement], set[str]]) -> dict[Statement, set[str]]:
    """For each statement, the union of `of` over it and the statements nested in it."""
    names: dict[Statement, set[str]] = {}
    for s in block:
        names[s] = of(s)
        for inner in nested_blocks(s):
            names |= union_over_nested(inner, of)
            names[s] = names[s].union(*(names[t] for t in inner))
    return names


def names_written(loop: Loop) -> set[str]:
    """The names that a loop writes, its own variable included."""
    return {n for s in walk([loop]) for n in writes(s)}
