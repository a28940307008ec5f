"""Scopes: what the names of a function are bound to at the point that lowering has reached.

A name is a scalar, an array or a view of one, a tuple, a function, or a string. The scope also collects the facts that
allocations need (constant integers, upper bounds of lengths), since arrays created in loops are allocated once, at the
top of the outermost function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ir.names import RESERVED, called
from ..ir.statements import Alloc, Assign, Block, Like, Statement, walk, writes
from ..ir.statements import Call as CallStatement
from ..ir.terms import (
    ONE,
    ZERO,
    Compare,
    Constant,
    DType,
    Global,
    Length,
    Logical,
    Select,
    Term,
    Variable,
    substitute,
    subterms,
)
from ..ir.type_inference import DTYPES
from .array_expressions import FromFunction, Leaf, Op, Scalar, Static
from .element_kinds import element_kind, relied_on_kind
from .integer_bounds import IntegerBounds, name_of
from .list_vectors import grow_to_size
from .live_range_splitting import NeedsSplitting, VaryingAxis, count_webs
from .lowering_state import LoweringState
from .record_types import RecordType
from .source import Source
from .syntax import bound_to, first_name, stored_names, written_name
from .tuple_arguments import fields_of
from .varying_lengths import largest_lengths
from .views import Axis, View

if TYPE_CHECKING:
    from .array_expressions import ArrayExpr
    from .lowering import Lowering

__all__ = ["Pack", "Scope", "name_of"]


UNCERTAIN = object()  # bound to one of several functions, or perhaps to None


@dataclass(frozen=True)
class Pack:
    """A tuple of type `of`. Its items are names of scalars, views, other tuples, static values, and dotted names
    (``t.0``) of arrays that the tuple owns."""

    items: tuple[str | View | Pack | Static, ...]
    of: type = tuple

    @property
    def fields(self) -> tuple[str, ...]:
        return fields_of(self.of)

    @property
    def names(self) -> set[str]:
        """The names of the scalars in it, and in the tuples in it, and of the arrays that it owns."""
        own = {item for item in self.items if isinstance(item, str)}
        return own.union(*[item.names for item in self.items if isinstance(item, Pack)])


class Scope(IntegerBounds):
    """The names of one function.

    `rename` maps its scalars to their names in the lowered function; those of an inlined function are fresh. `arrays`,
    `tuples` and `functions` hold what the other names are bound to at the point that has been reached;
    `uncertain_arrays` are names whose array is not certain any more, with what to write instead.
    """

    may_differ_by_iteration: Callable[..., None]  # of Unrolling

    def __init__(self, source: Source, shared: LoweringState, outer: Lowering | None, around: Lowering | None) -> None:
        self.source, self.shared = source, shared
        self.lowered_function, self.names = shared.lowered_function, shared.names
        self.outer = outer
        self.enclosing_scope = around  # the scope that encloses a nested function
        self.inlined = outer is not None
        self.as_compiled: bool = source.compiled or (outer is not None and outer.as_compiled)
        self.rename: dict[str, str] = {}
        self.arrays: dict[str, View] = {}
        self.owners: dict[str, str] = {}  # the array that a name owns
        self.tuple_owner: dict[str, str] = {}  # from the dotted names of arrays in tuples to the tuple
        self.tuples: dict[str, Pack] = {}
        self.functions: dict[str, object] = {}
        self.uncertain_arrays: dict[str, str] = {}
        shared.scopes += 1
        self.number = shared.scopes  # of this function among those that are lowered
        self.filled: dict[str, str] = {}  # numbers that are arrays, with the flags that say whether they would be
        self.arrays_before_loops: list[dict[str, View]] = []  # those around, as `arrays` was
        self.string_bindings: dict[str, object] = {}  # parameters bound to a string or to None
        self.scalar_parameters: set[str] = set()  # scalar parameters
        self.swapped_parameters: list[View] = []  # the caller's arrays that are swapped, by index, and
        self.memory_slots: dict[str, str] = {}  # per array, the variable with the index of the memory it would be in
        self.out: Block = []
        self.outermost: Block | None = None  # of this function
        self.line = ""
        arguments = source.node.args
        parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        parameters += [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
        self.stores = stored_names(source.node.body)
        self.locals = {*self.stores, *parameters}
        self.runs_once: bool = outer is None or (outer.runs_once and outer.at_function_level)  # runs at most once

    def split_if_reused(self, name: str) -> None:
        """Lower again with the live ranges of `name` split, if it has several."""
        if name not in self.shared.findings.rewrites.split_names and count_webs(self.source.node, name) > 1:
            raise NeedsSplitting(name)

    @property
    def at_function_level(self) -> bool:
        """Whether the statement being lowered is in no loop or branch of this function."""
        return self.out is self.outermost

    # Emitting statements.

    def emit(self, s: Statement) -> None:
        """Append a statement."""
        s.line, self.line = self.line, ""
        self.out.append(s)

    def assign_scalar(self, name: str, value: Term, final: bool = True) -> None:
        """Set a scalar variable; `final`: it is not set again."""
        self.emit(Assign(name, value))
        floats = self.shared.float_scalars
        (floats.add if element_kind(self, Scalar(value)) == "float" else floats.discard)(name)
        if final:
            self.record_integer(name, value)

    def record_integer(self, name: str, value: Term) -> None:
        """Record the kind of a scalar that is set once; an integer computed from sizes and parameters that never
        change; the upper bound of a length."""
        mine = [n for n in self.stores if self.rename.get(n, "") == name]
        if len(mine) + (name in self.scalar_parameters) > 1 or name in self.shared.induction_variables:
            return
        if kind := element_kind(self, Scalar(value)):
            self.shared.known_kinds[name] = kind
        if kind == "float":
            return
        simple = not any(isinstance(t, Compare | Logical | Select) for t in subterms(value))
        value = self.with_known_integers(value)
        if simple and all(map(self.is_constant_scalar, value.reads)):
            self.shared.known_integers[name] = value
            if not (self.runs_once and self.at_function_level):
                self.shared.set_in_loops.add(name)
        elif self.nonnegative(value):  # perhaps a length
            most = self.constant_upper_bound(value)
            if most is not None:
                self.shared.length_upper_bounds[name] = most

    def signed(self, value: Term) -> Term:
        """An integer as int64, if it may be of an array of unsigned ones: differences of such would wrap around."""
        return called(np.int64, value) if self.lowered_function.unsigned and value.named else value

    def loop_invariant_bound(self, bound: Term) -> Term:
        """A loop bound without the scalars that an enclosing loop sets, to the same value in each iteration."""
        known = self.shared.known_integers
        return substitute(bound, {Variable(n): known[n] for n in bound.reads & self.shared.set_in_loops})

    def is_constant_scalar(self, name: str) -> bool:
        """Whether `name` is a scalar with one value throughout the function."""
        root: Scope = self
        while root.outer is not None:
            root = root.outer
        program = self.lowered_function
        set_again = {root.rename.get(n, n) for n in root.stores}
        parameter = name in program.parameters and not program.ranks.get(name) and name not in set_again
        return parameter or name in program.constants

    def fresh_scalar(self, name: str, value: Term, final: bool = True, of_array: bool = False) -> str:
        """Set a fresh scalar variable and return its name; not `final`: it is set again; `of_array`: it lives as long
        as an array, which a name may be bound to."""
        variable = self.names.fresh(name)
        self.lowered_function.ranks[variable] = 0
        if final and not of_array:
            self.lowered_function.set_once.add(variable)
        self.assign_scalar(variable, value, final)
        return variable

    # Names.

    def local(self, node: ast.Name) -> str:
        """The name in the lowered function of a scalar, or of an array created here."""
        name = node.id
        if name not in self.locals and self.enclosing_scope is not None:
            return self.enclosing_scope.local(node)
        if name not in self.rename:
            taken = self.inlined or name in RESERVED
            self.rename[name] = self.names.fresh(name, of_theirs=True) if taken else name
        return self.rename[name]

    def is_local_name(self, name: str) -> bool:
        """Whether a name is local to this function or one that encloses it."""
        return name in self.locals or (self.enclosing_scope is not None and self.enclosing_scope.is_local_name(name))

    def array(self, node: ast.expr) -> View | None:
        """The array or view that a name is bound to."""
        if not isinstance(node, ast.Name):
            return None
        if node.id not in self.locals:
            return self.enclosing_scope.array(node) if self.enclosing_scope is not None else None
        if node.id in self.uncertain_arrays:
            item = self.user_variable(node.id) != node.id  # of a tuple
            if item:
                self.may_differ_by_iteration(in_ranges=True)
            what = f"the array {written_name(node.id)}, whose name may be bound to another one"
            refused = self.source.refuse(node, what, self.uncertain_arrays[node.id])
            if not item and self.copies_key(node.id) not in self.shared.findings.rewrites.copied:
                refused.deciding = set(self.shared.may_decide)  # type: ignore[attr-defined]
                raise NeedsSplitting("", copied=self.copies_key(node.id), refused=refused)
            raise refused
        return self.arrays.get(node.id)

    def copies_key(self, name: str) -> tuple:
        """A name, as it is known among those that are bound to copies."""
        return (*self.source.definition_site, name)

    def tuple_of(self, node: ast.expr) -> Pack | None:
        if not isinstance(node, ast.Name):
            return None
        if node.id not in self.locals and self.enclosing_scope is not None:
            return self.enclosing_scope.tuple_of(node)
        return self.tuples.get(node.id)

    def plain_tuple(self, node: ast.expr) -> Pack | None:
        """The tuple that a name is bound to; None if that is a structured array or record."""
        pack = self.tuple_of(node)
        return None if pack is None or isinstance(pack.of, RecordType) else pack

    def string_of(self, name: str) -> Static | None:
        """The string or None that a name is bound to, or perhaps bound to; None if it is bound to something else."""
        if name in self.string_bindings:
            return Static(self.string_bindings[name])
        if name not in self.locals and self.enclosing_scope is not None:
            return self.enclosing_scope.string_of(name)
        return None

    def function_of(self, node: ast.expr) -> object:
        """The function that `node` is bound to: from outside, nested, or passed as an argument."""
        if isinstance(node, ast.Name) and bound_to(node) is None:
            function = self.functions.get(node.id)
            if function is UNCERTAIN:
                what = f"the function or type {node.id}, which may be another one"
                raise self.source.refuse(node, what, "use each by its name")
            if function is not None:
                return self.source.differentiable(function)
            if node.id in self.locals:
                return None
            if self.enclosing_scope is not None:
                return self.enclosing_scope.function_of(node)
        return self.resolve(node)

    def resolve(self, node: ast.expr) -> object:
        """The value from outside of a name or an attribute of a module; None for local names."""
        return None if bound_to(node) is None and self.is_local_name(first_name(node)) else self.source.resolve(node)

    def user_variable(self, name: str) -> str:
        """The user's variable: `name` itself, or the tuple whose item it is."""
        return self.tuple_owner.get(name, name)

    def is_tuple_item(self, name: str) -> bool:
        around = self.enclosing_scope
        return name in self.tuple_owner or (around is not None and around.is_tuple_item(name))

    def unbind_static(self, name: str) -> None:
        """A name is about to be bound to something else than a string, None or a function."""
        self.string_bindings.pop(name, None)
        self.functions.pop(name, None)

    def bind(self, name: str, view: View) -> None:
        """Bind a name to an array or view."""
        self.unbind_static(name)
        self.arrays[name] = view
        self.uncertain_arrays.pop(name, None)

    def whole_view(self, name: str) -> View:
        """The view of a whole array."""
        axes = tuple([Axis(ZERO, n) for n in self.size(name)])
        return View(name, axes, tuple(range(len(axes))))

    def size(self, name: str) -> list[Term]:
        """The lengths of an array."""
        if name not in self.shared.sizes:
            rank = self.lowered_function.ranks[name]
            ones = self.lowered_function.unit_axes
            self.shared.sizes[name] = [ONE if (name, d) in ones else Length(name, d) for d in range(rank)]
        return self.shared.sizes[name]

    def storage_of(self, name: str) -> str:
        """The array whose storage `name` shares: itself, unless it was reshaped."""
        while name in self.shared.reshaped:
            name = self.shared.reshaped[name].name
        return name

    def is_whole(self, view: View) -> bool:
        return view.name not in self.shared.reshaped and view.is_whole_array(self.size(view.name))

    # Blocks.

    @contextmanager
    def nested_block(self) -> Iterator[None]:
        """Lower a branch or loop body; afterwards, names that it rebinds are uncertain."""
        before, copies, floats = dict(self.arrays), dict(self.shared.read_only_copies), set(self.shared.float_scalars)
        static = [(names, dict(names)) for names in (self.string_bindings, self.functions)]
        yield
        for names, earlier in static:
            for name in {*earlier, *names}:
                if earlier.get(name, self) is not names.get(name, self):
                    names[name] = UNCERTAIN
        for copy, of in copies.items():
            self.shared.read_only_copies[copy] = of | self.shared.read_only_copies.get(copy, frozenset())
        self.shared.float_scalars &= floats
        for name, view in list(self.arrays.items()):
            if before.get(name) == view:
                continue
            owner = self.owners.get(name)
            if owner is not None and view.name == owner and name not in before:
                continue  # created here; it stays valid
            del self.arrays[name]
            self.uncertain_arrays[name] = (
                "give it this name only where it is used, or write a[:] = ... into an array made before"
            )

    def enter(self, stored: set[str]) -> None:
        """Begin a loop: names that it rebinds to other arrays are uncertain at the start of an iteration."""
        moved = self.arrays_of(stored)
        for name, view in list(self.arrays.items()):
            if self.owners.get(name) != view.name and (
                self.user_variable(name) in stored or self.storage_of(view.name) in moved
            ):
                del self.arrays[name]
                self.uncertain_arrays[name] = "copy it (.copy()), or give it this name in the loop, before it is used"
        for name in stored & set(self.string_bindings):
            self.string_bindings[name] = UNCERTAIN
        for name in stored & set(self.functions):
            self.functions[name] = UNCERTAIN

    def arrays_of(self, names: Container[str]) -> set[str]:
        """The arrays that these names own, and the items of these tuples."""
        return {array for n, array in self.owners.items() if self.user_variable(n) in names}

    def invalidate_views(self, name: str) -> None:
        """Invalidate the views of the array `name`, which is about to hold another array's values."""
        for n, view in list(self.arrays.items()):
            if self.storage_of(view.name) == name and self.owners.get(n) != name:
                del self.arrays[n]
                self.uncertain_arrays[n] = "copy it (.copy()) before the other one changes"

    # Arrays.

    def dtype_of_floats(self, names: Iterable[str], more: Iterable[Term] = ()) -> Term:
        """The dtype of an array computed from these float arrays, and of `more` dtypes. Arguments have one dtype, or it
        is known which of them are float64."""
        dtypes = dict.fromkeys([*(self.shared.dtypes.get(n, DType(n)) for n in names), *more])
        if len(dtypes) > 1:
            dtypes.pop(_FLOAT32, None)
        is_wide: dict[Term, bool] = {
            DType(p): p in self.shared.float64_parameters for p in self.lowered_function.parameters
        }
        if len(dtypes) > 1 and not dtypes.keys() <= is_wide.keys():
            return DTYPES["float"]
        if not dtypes or (len(dtypes) > 1 and any(map(is_wide.get, dtypes))):
            return DTYPES["float"]  # not that of a parameter, whose name may be bound to another one by then
        return next(iter(dtypes))

    def dtype_of_floats_in(self, *trees: ArrayExpr) -> Term:
        """The dtype of a new array of floats computed from these; integers make it float64, as in NumPy."""
        kinds, names, dtypes, stack = self.lowered_function.kinds, list[str](), list[Term](), [*trees]
        while stack:
            t = stack.pop(0)
            if isinstance(t, FromFunction | Op) and t.dtype is not None:
                kind = kinds.get(t.kind.name) if isinstance(t.kind, Like) else t.kind
                dtypes += [] if kind == "bool" else [t.dtype if kind == "float" else DTYPES["float"]]
            elif isinstance(t, Leaf | Op) and t.rank and (kind := element_kind(self, t)) in ("bool", "int"):
                dtypes += [DTYPES["float"]] if kind == "int" else []
            elif isinstance(t, Leaf):
                names.append(t.view.name)
            elif isinstance(t, Op):
                stack[:0] = t.args
        dtypes += [DTYPES["float"] for n in names if kinds[n] == "int"]
        return self.dtype_of_floats([n for n in names if kinds[n] == "float"], dtypes)

    def kind_of_tree(self, tree: ArrayExpr) -> str:
        """The kind of the elements of `tree`, or "" where that is not known yet. What it says is relied on."""
        return relied_on_kind(self, tree)

    def kind_as_it_looks(self, tree: ArrayExpr) -> str:
        return element_kind(self, tree)

    def allocate(
        self,
        name: str,
        node: ast.AST,
        sizes: list[Term],
        kind: str | Like,
        dtype: Term,
        like: str = "",
        line: str = "",
    ) -> None:
        """Allocate an array; one created in a loop or branch is allocated once, at the top of the function.

        `kind` is "" where it follows from what is stored into the array; `dtype` is then its dtype if those are floats.
        """
        looks = self.shared.element_kinds
        if not kind or (isinstance(kind, Like) and kind.name in looks):
            looks.setdefault(name, looks[kind.name] if isinstance(kind, Like) else "")
        dtype = self.shared.dtypes[name] = self.shared.dtypes.get(like, dtype) if like else dtype
        once = self.runs_once and self.at_function_level
        dtype = dtype if once else self.shared.first_dtype(dtype)  # of what may be made later than this
        copied = (self.named_by_user(name),) if isinstance(node, ast.FunctionDef) else ()  # a parameter, or a result
        place = self.shared.places_of_arrays[name] = (*self.place_of(node), *copied)
        varying = self.shared.varying_axes.get(name, set())
        if asked := {d for d in range(len(sizes)) if VaryingAxis(place, d) in self.shared.findings.varying_axes}:
            varying = self.shared.varying_axes[name] = varying | asked
        grows = VaryingAxis(place, 0, grows=True) in self.shared.findings.varying_axes
        known = self.shared.lengths_when_made[name] = [self.with_known_integers(n) for n in sizes]
        for d, n in enumerate(known):
            self.shared.constant_lengths.pop(Length(name, d), None)  # of an array that had the name before
            if isinstance(n, Constant) and d not in varying:
                self.shared.constant_lengths[Length(name, d)] = n
        shape = sizes if once else known
        if not varying and (once or all(map(self.known_before_block, shape))):
            ahead = self.out is not self.shared.top  # in a called function, whose hoisted arrays come before
            self.shared.sizes[name] = [
                n
                if n is ONE  # which broadcasts
                or (isinstance(n, Length) and n.axis is not None)
                or (ahead and self.known_before_block(n))
                else Length(name, d)
                for d, n in enumerate(known)
            ]
        else:
            bounds = largest_lengths(self, node, name, shape, grows)
            if bounds is None:
                return grow_to_size(self, name, self.shared.sizes[name], kind, dtype, like)
            shape = bounds
        certain = [n if once or self.nonnegative(n) else called(max, n, ZERO) for n in shape]
        statement = Alloc(name, tuple(certain), dtype, like, kind)
        guessed = self.lowered_function.kinds[kind.name] if isinstance(kind, Like) else kind or "float"
        self.lowered_function.ranks[name], self.lowered_function.kinds[name] = len(shape), guessed
        if once:
            statement.line = line
            self.out.append(statement)
            return
        assert self.shared.top is not None
        self.shared.top.append(statement)

    call_path: tuple = ()  # the places of the calls by which functions were inlined into one another

    def place_of(self, node: ast.AST) -> tuple:
        """Where the code is, the same each time that lowering begins again; () if that is not known."""
        line = getattr(node, "lineno", None)
        ends = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)  # of ``a + b`` in ``a + b + c``
        return () if line is None else (self.source.definition_site, line, getattr(node, "col_offset", 0), *ends)

    def refuse_unknown_size(self, node: ast.AST, of_primitive: bool = False) -> Exception:
        """The error about a new array that cannot be allocated before the outermost block."""
        return self.source.refuse(
            node,
            "a new array in a loop or branch, whose size is not known before it",
            "make it at the beginning" + of_primitive * ", or give the primitive that it comes from an infer",
        )

    def bound_before_block(self, size: Term) -> Term | None:
        """An upper bound of a size that is known before the outermost block; None if there is none."""
        bound = size if self.known_before_block(size) else self.constant_upper_bound(size)
        return bound if bound is not None and self.known_before_block(bound) else None

    def named_by_user(self, array: str) -> str:
        """The user's name for an array, or for what it is a copy of."""
        return written_name(self.lowered_function.copied_from.get(array, array))

    def known_before_block(self, size: Term) -> bool:
        """Whether a size is known before the statement of the outermost block that is being lowered."""
        before = {*self.lowered_function.parameters, *self.lowered_function.constants}
        before |= {
            n for s in walk(self.shared.top or []) if isinstance(s, Assign | Alloc | CallStatement) for n in writes(s)
        }
        numbers = {n for n in size.named if not self.lowered_function.ranks.get(n)}
        later = {*stored_names(self.shared.current), *self.shared.changing}
        return size.named <= before - self.shared.growing and not numbers & later


_FLOAT32 = Global("np.float32", np.float32)
