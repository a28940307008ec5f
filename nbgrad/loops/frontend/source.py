"""Source of functions: read, parse and check it against the subset that loops are differentiated in.

A :class:`Source` has the syntax tree of a function in canonical form, and resolves the names that it reads from
outside. Functions that it calls are read and checked as well, so that all of them are of one moment.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import re
import types
from collections.abc import Callable, Collection
from typing import Any, cast

import numpy as np

from ...backends.numba.generated_module import is_generated
from ...backends.numba.jitclasses import instance_type
from ...backends.numba.wrapped_functions import has_hash, plain_function, uncached
from ...core.source_text import identifier, lines_of, parsed
from ...errors import TraceError
from ..custom_rules import adopted
from ..ir.names import Names
from .builtin_calls import BuiltinCalls
from .canonical_form import AssignmentsInTests, Lists, LongerFirst, OutArguments, SwapsToTuples
from .captured_values import CapturedSnapshot, as_it_is, attribute_path, captured_attributes
from .deques import Deques
from .exception_handling import TryStatements
from .filled_dictionaries import FilledDictionaries
from .function_table import DEFINITIONS
from .generators import check_generators
from .growing_lists import GrowingLists
from .iterators import Iterators
from .list_statements import ListStatements
from .lists_of_arrays import ListsOfArrays
from .lists_of_tuples import ListsOfTuples
from .local_imports import take_imports
from .long_expressions import LongExpressions
from .made_instances import MadeInstances
from .match_statements import MatchStatements
from .messages import Messages
from .named_ranges import NamedRanges
from .number_types import numpy_type
from .numpy_spellings import NumpySpellings
from .print_statements import PrintStatements
from .scipy_functions import function_of_numpy, known_ufunc
from .sets import Sets
from .source_check import lambda_definition, source_changed, source_lines
from .structured_control import LoopElse
from .subset_check import OTHER_UFUNC, check
from .syntax import all_names, bound_to, copy_tree, subtrees, too_deep
from .tables import Tables
from .tuple_arguments import Keys, StaticArgument
from .unset_names import SettingBranchFirst
from .warning_contexts import WarningContexts

__all__ = ["Source", "source_of"]

_KINDS = (
    (np.ufunc, f"; {OTHER_UFUNC}"),
    (types.MethodType, "; write it as a function, and pass what it reads of self as arguments"),
    (functools.partial, "; write a def that calls it"),
    (type, "; write a function of numbers and arrays"),
)


class Source:
    """The source lines and syntax tree of a function, and the values of the names that it reads from outside.

    `around`: for a nested function, the lowering whose variables it sees; `options`: the options of ``njit`` that
    generated functions inherit; `called`: the sources of the functions that are called, directly or indirectly.
    """

    checked = False
    enclosing_scope: object = None
    numbered: Collection[str] = ()  # the names that stand for numbers instead of strings
    context: tuple = ()  # what is known of the arguments, where a rewrite depends on it
    earlier_names: dict[str, str] = {}  # noqa: RUF012 (what the user calls names of split live ranges)
    string_parameters: Collection[str] = ()  # parameters that are strings, None, or numbers instead
    packs: dict[str, Packed] = {}  # noqa: RUF012 (parameters that are tuples: the type, and items; and fixed ones)

    def __init__(self, function: Callable, called: dict[Callable, Source] | None = None) -> None:
        self.called_sources = {} if called is None else called
        self.is_called = called is not None  # by the function that is differentiated
        function = uncached(function)
        plain = plain_function(function)
        if not isinstance(plain, types.FunctionType):
            kind = next((text for types_, text in _KINDS if isinstance(plain, types_)), "; if it wraps one, pass that")
            raise TraceError(f"adjoint: a function defined with def is expected, {function!r} was given{kind}")
        self.name = plain.__name__
        self.file = plain.__code__.co_filename
        try:
            lines, self.first = source_lines(plain)  # of a decorated function, the wrapper
        except OSError as err:
            raise TraceError(
                f"adjoint: the source of {self.name} cannot be read ({err}); define it in a file or a notebook cell"
            ) from None
        self.generated = is_generated(plain)
        if not self.generated and source_changed(plain):
            raise TraceError(
                f"adjoint: {self.file}, line {self.first}: the source of {self.name} has changed since it was "
                "defined, and the new one would be differentiated: import the module again (importlib.reload), "
                "run the cell again, or begin a new process"
            )
        found = lambda_definition(plain, "lambda_") if self.name == "<lambda>" else None
        if found is not None:
            lines, self.name, self.first = found[0], "lambda_", 1
        self.lines = lines_of("".join(lines))
        node: ast.stmt = _definition("\n".join(self.lines)) if found is None else found[1]
        if isinstance(node, ast.AsyncFunctionDef):
            raise TraceError(f"adjoint: {self.file}, line {self.first}: {self.name} is async; write a plain def")
        if not isinstance(node, ast.FunctionDef):
            raise TraceError(f"adjoint: {self.file}, line {self.first}: write the function with def")
        self.first -= 1
        self._refuse_deep_nesting(node)  # before it is visited, which takes Python's stack
        node = LongExpressions(Names(all_names(node))).visit(node)  # first, since visits are recursive as well
        node = cast(ast.FunctionDef, MatchStatements(self, node).visit(node))
        self._refuse_deep_nesting(node)  # each case is a branch now
        captured = inspect.getclosurevars(plain).nonlocals
        self.module = str(plain.__module__)
        self.outer_values = {**vars(builtins), **plain.__globals__, **captured}
        self.outer_values |= take_imports(self, node, str(plain.__globals__.get("__package__") or ""))
        self.outer_attributes: dict[tuple[str, ...], object] = {}
        node = WarningContexts(self).visit(node)
        instances = MadeInstances(self)
        node = instances.visit(node)
        self.method_snapshots = instances.snapshots
        self.outer_values |= {n: as_it_is(self.outer_values[n]) for n in all_names(node) if n in self.outer_values}
        self.outer_attributes = captured_attributes(node, self.outer_values)
        self.captured_snapshot = CapturedSnapshot(plain)
        self.signature = inspect.signature(plain, follow_wrapped=False)
        self.compiled, njit_options = plain is not function, getattr(function, "targetoptions", {})  # by Numba
        self.divides_as_numpy = njit_options.get("error_model") == "numpy"
        node = Iterators(self, Names(all_names(node))).visit(Deques(self).visit(node))
        node = check_generators(self, BuiltinCalls(self, Names(all_names(node))).visit(node))
        node = ListsOfTuples(self).visit(node)
        node = FilledDictionaries(self).visit(NamedRanges().visit(Tables().visit(NumpySpellings(self).visit(node))))
        node = ListStatements().visit(Sets(self).visit(node))
        node = SwapsToTuples().visit(Messages(self).visit(PrintStatements(self).visit(node)))
        self.with_lists: ast.FunctionDef | None = LongerFirst(self).visit(node)
        self.node = self.without_lists(())
        self.options = {k: njit_options[k] for k in ("fastmath", "boundscheck") if njit_options.get(k)}

    def without_lists(
        self, tuples: Collection[str], rows: Collection[str] = (), grown: Collection[str] = ()
    ) -> ast.FunctionDef:
        """The function with vectors for lists that grow, those named in `grown` among them, arrays for those named in
        `rows`, and tuples for those named in `tuples`, in canonical form."""
        assert self.with_lists is not None
        node = GrowingLists(self, rows, grown).visit(ListsOfArrays(self, tuples).visit(copy_tree(self.with_lists)))
        node = SettingBranchFirst(node).visit(node)
        node = AssignmentsInTests().visit(LoopElse(Names(all_names(node))).visit(Lists(self).visit(node)))
        return OutArguments(self).visit(TryStatements(self, Names(all_names(node))).visit(node))

    def _refuse_deep_nesting(self, node: ast.FunctionDef) -> None:
        if deep := too_deep(node):
            at = f"{self.file}, line {self.first + deep.lineno}"
            what = "too many branches and loops around this (each elif, and each case, counts as one)"
            raise TraceError(f"adjoint: {at}: {what}; choose by an index into an array, or in a loop")

    def inner(
        self, name: str, node: ast.FunctionDef | ast.Lambda, around: object, evaluated: Callable[[ast.expr], ast.expr]
    ) -> Source:
        """The source of a function that is nested in this one; its defaults are `evaluated` where it is defined."""
        source = copy.copy(self)
        body: list[ast.stmt]
        body = node.body if isinstance(node, ast.FunctionDef) else [ast.copy_location(ast.Return(node.body), node)]
        function = ast.FunctionDef(name, node.args, body, [])
        source.node, source.with_lists = ast.copy_location(function, node), self._as_written(node)
        source.name, source.enclosing_scope = name, around
        kinds, empty = inspect.Parameter, inspect.Parameter.empty
        positional = [*node.args.posonlyargs, *node.args.args]
        defaults = [None] * (len(positional) - len(node.args.defaults)) + list(node.args.defaults)
        groups: list[tuple[list[ast.arg], Any, list]] = [
            (positional, kinds.POSITIONAL_OR_KEYWORD, defaults),
            ([node.args.vararg] if node.args.vararg else [], kinds.VAR_POSITIONAL, [None]),
            (node.args.kwonlyargs, kinds.KEYWORD_ONLY, node.args.kw_defaults),
            ([node.args.kwarg] if node.args.kwarg else [], kinds.VAR_KEYWORD, [None]),
        ]
        source.signature = inspect.Signature(
            [
                kinds(a.arg, kind, default=empty if d is None else evaluated(d))
                for names, kind, values in groups
                for a, d in zip(names, values, strict=False)
            ]
        )
        return source

    def _as_written(self, node: ast.AST) -> ast.FunctionDef | None:
        """A nested function as it was before its lists were rewritten; None for a lambda."""
        for n in subtrees(self.with_lists) if self.with_lists is not None else ():
            if isinstance(n, ast.FunctionDef) and (n.lineno, n.col_offset) == (node.lineno, node.col_offset):  # type: ignore[attr-defined]
                return n
        return None

    def source_of_called(self, plain: Callable, called: Any) -> Source:
        """The source of a function that is `called`, read once; `plain` is what Numba compiled."""
        if plain not in self.called_sources:
            self.called_sources[plain] = source = Source(called, self.called_sources)
            defaults = [p.replace(default=as_it_is(p.default)) for p in source.signature.parameters.values()]
            source.signature = source.signature.replace(parameters=defaults)
        return self.called_sources[plain]

    def with_callees(self) -> list[Source]:
        """This source and those of all called functions."""
        return [self, *self.called_sources.values()]

    def current(self) -> bool:
        """Whether all names from outside still have the values that they had when the source was read."""
        snapshots = [x for s in self.with_callees() for x in (s.captured_snapshot, *s.method_snapshots)]
        return all(x.still_current() for x in snapshots)

    @property
    def definition_site(self) -> tuple[str, str, int, int]:
        """The name of the function, and where it is defined."""
        return self.name, self.file, self.first + self.node.lineno, self.node.col_offset

    def with_flat_tuples(self, forms: tuple) -> Source:
        """This source with a parameter per item of each tuple argument; `forms` are the forms of the arguments. If it
        has such parameters already, some of them become constants."""
        source, free = copy.copy(self), Names(all_names(self.node))

        def named(name: str, form: Any) -> Packed:
            if form is None or isinstance(form, StaticArgument):
                return form or name
            keys = [identifier(k) for k in form[0]] if isinstance(form[0], Keys) else ()
            labels = keys or getattr(form[0], "_fields", ()) or range(len(form[1]))
            inner = zip(labels, form[1], strict=True)
            return [
                form[0],
                *(named(free.fresh(f"{name}_{k}") if f is None else f"{name}_{k}", f) for k, f in inner),
            ]

        packs = {p: named(p, f) for p, f in zip(self.signature.parameters, forms, strict=True)}

        def renewed(pack: Packed) -> Packed:
            if isinstance(pack, list):
                return [pack[0], *map(renewed, pack[1:])]
            return packs[pack] if isinstance(pack, str) else pack

        source.packs = {p: renewed(pack) for p, pack in self.packs.items()} or packs
        flat = [n for p in source.packs.values() for n in _flat(p)]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        source.signature = inspect.Signature([inspect.Parameter(n, kind) for n in flat])
        return source

    def line_of(self, node: ast.AST) -> str:
        """The file, line and text of a statement, for errors raised in generated code."""
        line = getattr(node, "lineno", 1)
        return f"{self.file}, line {self.first + line}: {self.lines[line - 1].strip()}"

    def refuse(self, node: ast.AST, what: str, instead: str) -> TraceError:
        """The error for `what` is outside of the subset at `node`, with what to write `instead`."""
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1].strip()
        what = " ".join(what.split())  # nodes that are lowered already unparse to nothing
        for name, earlier in self.earlier_names.items():
            what, instead = (re.sub(rf"\b{name}\b", earlier, words) for words in (what, instead))
        error = TraceError(f"adjoint: {self.file}, line {self.first + line}: {what} in '{text}'; {instead}")
        error.said = what, instead  # type: ignore[attr-defined]
        return error

    def resolve(self, node: ast.expr) -> object:
        """The value of a name or an attribute of a module; None if it is not known."""
        if isinstance(node, ast.Name):
            return self.differentiable(bound_to(node) or self.outer_values.get(node.id))
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            if instance_type(owner):
                return None
            path = attribute_path(node)
            found = self.outer_attributes[path] if path in self.outer_attributes else getattr(owner, node.attr, None)
            return None if isinstance(owner, np.ndarray | str) and callable(found) else self.differentiable(found)
        return None

    def differentiable(self, value: object) -> object:
        """What is lowered where `value` is called: a definition, a primitive whose rule is known; else the value."""
        value = function_of_numpy(uncached(numpy_type(value)))
        value = known_ufunc(adopted(value, self.generated))
        return DEFINITIONS.get(value, value) if callable(value) and has_hash(value) else value


Packed = str | list | StaticArgument


def _flat(pack: Packed) -> list[str]:
    """The names of the scalars and arrays in a parameter."""
    if isinstance(pack, list):
        return [n for part in pack[1:] for n in _flat(part)]
    return [pack] if isinstance(pack, str) else []


def _definition(text: str) -> ast.stmt:
    """The first statement of source code that may be indented. It is wrapped, not dedented: lines in strings and after
    form feeds may be less indented."""
    indented = text.lstrip("\f")[:1] in (" ", "\t")
    try:
        (whole,) = parsed(f"if True:\n{text}" if indented else text).body
    except (SyntaxError, ValueError):  # a fragment of a statement
        return ast.Pass()
    if not indented:
        return whole
    ast.increment_lineno(whole, -1)
    return whole.body[0]


def source_of(function: Callable, called: bool = False) -> Source:
    """The source of a function, which another one may have `called`; it and those that it calls are checked."""
    source = Source(function)
    if source.node.args.kwarg and not called:
        what = f"**{source.node.args.kwarg.arg} of the function that is differentiated"
        raise source.refuse(source.node, what, "name each parameter, or differentiate a function that calls it")
    check(source, (plain_function(function),))
    return source
