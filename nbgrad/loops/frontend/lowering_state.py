"""The state that the lowering of a function shares with those of the functions that are inlined into it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...backends.numba.wrapped_functions import plain_function
from ..ir.names import Names
from ..ir.statements import Block, Function
from ..ir.terms import DType, Term
from .array_expressions import Order, RowType
from .findings import Findings
from .source import Source, source_of
from .views import View

if TYPE_CHECKING:
    from .exception_handling import Attempt
    from .memory_order import Sharing
    from .unrolling import EnclosingRange

__all__ = ["LoweringState"]


@dataclass
class LoweringState:
    """What has been found so far, and what is asked for."""

    lowered_function: Function
    names: Names
    findings: Findings = field(default_factory=Findings)
    sizes: dict[str, list[Term]] = field(default_factory=dict)  # lengths of arrays, along each axis
    constant_lengths: dict[Term, Term] = field(default_factory=dict)  # of local arrays whose lengths are constants
    element_kinds: dict[str, str] = field(default_factory=dict)  # kinds of local arrays when allocated, "" if not known
    reshaped: dict[str, View] = field(default_factory=dict)  # the view that a reshaped array shares its elements with
    reshaped_copies: dict[str, str] = field(default_factory=dict)  # of what is not contiguous: the call that made it
    copied_at_once: set[str] = field(default_factory=set)  # reshaped parameters that are copied first
    reshaped_groups: dict[str, list[tuple[range, range]]] = field(default_factory=dict)  # see :mod:`.reshaping`
    dtypes: dict[str, Term] = field(default_factory=dict)  # the dtypes of local arrays
    may_be_arguments: set[str] = field(default_factory=set)  # results of functions that return these in one place
    made_by_library: set[str] = field(default_factory=set)  # arrays that NumPy's functions make
    float64_parameters: frozenset[str] = frozenset()  # float64 parameters, where others are float32
    large_systems: bool = False  # whether matrices are large, so that LAPACK is faster than loops
    float32_arguments: bool = False  # whether any argument is float32
    growing: set[str] = field(default_factory=set)  # arrays of lists, whose lengths are capacities that change
    over_allocated: set[str] = field(default_factory=set)  # those of them whose capacity may exceed their length
    varying_axes: dict[str, set[int]] = field(default_factory=dict)  # those that change, for each array
    lengths_when_made: dict[str, list[Term]] = field(default_factory=dict)  # of local arrays
    changing: set[str] = field(default_factory=set)  # the scalars that are such lengths
    places_of_arrays: dict[str, tuple] = field(default_factory=dict)  # where the code creates them
    primitive_results: set[str] = field(default_factory=set)  # results of primitives with custom rules
    ranges: dict[str, tuple[Term, Term]] = field(default_factory=dict)  # of loop variables: minimum, maximum
    positive: list[str] = field(default_factory=list)  # integers that are larger than 0 in this loop
    known_integers: dict[str, Term] = field(default_factory=dict)  # integers as expressions of constants
    memory_orders: dict[str, Order] = field(default_factory=dict)  # of local arrays that are not in C order for certain
    sharings: list[Sharing] = field(default_factory=list)  # what shares elements in C order only
    known_kinds: dict[str, str] = field(default_factory=dict)  # of scalars that one statement sets
    float_scalars: set[str] = field(default_factory=set)  # whose latest value is a float; so is what others merge to
    set_in_loops: set[str] = field(default_factory=set)  # those of them that are set inside loops
    induction_variables: list[str] = field(default_factory=list)  # loop variables in scope
    length_upper_bounds: dict[str, Term] = field(default_factory=dict)  # upper bounds of array lengths
    held_lengths: dict[Term, Term] = field(default_factory=dict)  # lengths of views with branches, as variables
    view_lengths: dict[Term, Term] = field(default_factory=dict)  # from the length of a view to that of its array
    lists: dict[str, int] = field(default_factory=dict)  # arrays that hold the items of a list, and its axes
    holders: set[str] = field(default_factory=set)  # those of them whose items are arrays or lists
    of_tuples: dict[str, RowType] = field(default_factory=dict)  # arrays whose rows are tuples of numbers
    held: set[str] = field(default_factory=set)  # copies of items, until they are put into their places
    read_before: dict[str, Exception] = field(default_factory=dict)  # lists of rows into which nothing was put yet
    read_above: dict[str, Exception] = field(default_factory=dict)  # names read as numbers above of where they are set
    names_read: dict[str, tuple[Source, ast.Name]] = field(default_factory=dict)  # as numbers, where first
    may_be_peeled: list[tuple] = field(default_factory=list)  # those of them that are None until then
    comprehensions: list[tuple] = field(default_factory=list)  # that are being lowered
    read_only_copies: dict[str, frozenset[str]] = field(default_factory=dict)  # and the arrays that they may be of
    decided: dict[tuple, bool | None] = field(default_factory=dict)  # tests that are known; None: otherwise elsewhere
    written: list[str] = field(default_factory=list)  # the arrays that are written, as far as lowering has come
    augmented: set[str] = field(default_factory=set)  # numbers that ``+=`` and the like change
    view_without_axes: Exception | None = None  # see :mod:`.views_without_axes`
    scopes: int = 0  # lowered so far
    recursive_calls: int = 0  # inlined so far
    parallel: bool = False  # whether a loop over prange is being lowered
    ranges_around: list[EnclosingRange] = field(default_factory=list)  # enclosing loops
    may_decide: set[str] = field(default_factory=set)  # parameters that should be constants if lowering fails
    tests_around: list[frozenset[str]] = field(default_factory=list)  # the names in the tests of branches around
    swap_copies_only: bool = False  # whether swaps must leave the caller's arrays in place
    sources: dict[Callable, Source] = field(default_factory=dict)  # of called functions
    attempts: list[Attempt] = field(default_factory=list)  # the bodies of try around what is being lowered
    error_classes: dict[str, type] = field(default_factory=dict)  # of errors that are not Python's, by their names here
    left_out: set[str] = field(default_factory=set)  # names that statements set which are never reached
    top: Block | None = None  # the outermost block
    current: list[ast.stmt] = field(default_factory=list)  # the statement of it that is being lowered, and what follows

    def source_of(self, function: Callable) -> Source:
        """The source of a called function, read once."""
        plain: Any = plain_function(function)
        if plain not in self.sources:
            self.sources[plain] = source_of(function, called=True)
        return self.sources[plain]

    def first_dtype(self, dtype: Term) -> Term:
        """The dtype that an array's dtype was made of: that of an argument, if it is one."""
        seen: set[Term] = set()
        while isinstance(dtype, DType) and dtype not in seen:
            seen.add(dtype)
            dtype = self.dtypes.get(dtype.array, dtype)
        return dtype

    def note_rows(self, array: str, row: RowType | None) -> None:
        """Note that the rows of an array are tuples, if they are: no arithmetic takes them for arrays."""
        if row is not None:
            self.of_tuples[array] = row
            self.lists[array] = self.lowered_function.ranks[array]
