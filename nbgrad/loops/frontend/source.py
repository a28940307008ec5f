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
import types
from collections.abc import Callable, Collection, Hashable
from typing import Any, cast

import numpy as np

from ...backends.numba.generated_module import is_generated
from ...backends.numba.jitclasses import instance_type
from ...backends.numba.wrapped_functions import is_jitclass, is_overloaded, kernel_of, uncached
from ...core.source_text import lines_of, parsed
from ...errors import TraceError
from ..custom_rules import adopted, rule_of
from ..ir.names import Names
from ..runtime.index_errors import outside
from ..runtime.printing import print_values
from ..runtime.products import add_product, large_product
from ..runtime.tape_memory import in_large_pages
from .canonical_form import AssignmentsInTests, BuiltinCalls, Lists, LongerFirst, OutArguments, SwapsToTuples
from .captured_values import CapturedSnapshot, as_it_is, attribute_path, captured_attributes, unsupported_constant
from .dictionaries import METHODS
from .exception_handling import TryStatements
from .function_table import DEFINITIONS, check_number, is_known, no_function, row_of
from .generators import check_generators
from .growing_lists import GrowingLists, append_item
from .lists_of_arrays import ListsOfArrays
from .local_imports import take_imports
from .match_statements import MatchStatements
from .messages import Messages
from .print_statements import PrintStatements, prints
from .source_check import lambda_definition, source_changed, source_lines
from .structured_control import LoopElse
from .syntax import all_names, bound_to, first_name, subtrees, too_deep
from .tuple_arguments import StaticArgument

__all__ = ["Source", "source_of"]

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Return, ast.Break,
               ast.Continue, ast.Pass, ast.Expr, ast.Assert, ast.Raise, ast.FunctionDef)  # fmt: skip
_EXPRESSIONS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Subscript,
                ast.Call, ast.Attribute, ast.Tuple, ast.Slice, ast.keyword, ast.Lambda,
                ast.NamedExpr, ast.Starred, ast.List, ast.Dict, ast.ListComp, ast.GeneratorExp)  # fmt: skip
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv, ast.USub, ast.UAdd, ast.Not, ast.And,
              ast.Or, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.MatMult, ast.BitAnd, ast.BitOr,
              ast.BitXor, ast.Invert, ast.LShift, ast.RShift)  # fmt: skip
_INSTEAD = {
    ast.With: "leave it to the caller",
    ast.List: "use np.array([...]), or fill an array in a loop",
    ast.Dict: "use arrays or separate arguments",
    ast.Set: "use an array",
    ast.JoinedStr: "strings are for the caller",
    ast.Delete: "leave it out",
    ast.Global: "pass and return the value",
    ast.Nonlocal: "pass and return the value",
    ast.Is: "use ==",
    ast.IsNot: "use !=",
    ast.In: "use a tuple, or write a loop",
    ast.NotIn: "use a tuple, or write a loop",
    ast.Import: "import at the beginning of the function, or outside of it",
    ast.ImportFrom: "import at the beginning of the function, or outside of it",
    ast.Starred: "write the items one by one",
    ast.Yield: "fill an array",
    ast.ClassDef: "use numbers, arrays and tuples",
}

_ADVICE = {
    "print": "call it as a statement of its own",
    "slice": "write x[a:b]",
    "np.random": "draw the random numbers before, and pass them as an array, or transform standard ones",
    "random": "draw the random numbers before, and pass them as an array, or transform standard ones",
    "np.linalg": "use solve, inv, det, cholesky, qr, eigh, svd, pinv, lstsq or norm, or write it as loops",
    "nditer": "loop over np.ndindex(a.shape)",
    "split": "take slices, as a[:n]",
    "unique": "find them before",
    "append": "make an array before, and fill it",
    "sort": "sort before, or gather with an array of indices",
    "complex": "write the real and imaginary parts separately",
    "at": "add in a loop: for k in range(i.size): z[i[k]] += y[k]",
    "finfo": "set it outside of the function: EPS = np.finfo(np.float64).eps",
    "dict": "use arrays, or a named tuple",
    "list": "make an array before, and fill it",
    "set": "use an array of flags",
}


#: What to do about a ufunc whose source cannot be found.
OTHER_UFUNC = (
    "its source cannot be read from it: where numba.vectorize or guvectorize made it, call one made without target=, "
    "or the function that it was made of; else give it a rule by nb.primitive"
)

#: What generated code calls; these have no derivatives.
_ROUTINES = in_large_pages, outside, print_values, add_product, large_product, append_item
_INSTEAD_OF_JITCLASS = "make the instance before, and pass it as an argument, or pass its fields in a named tuple"
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
    string_parameters: Collection[str] = ()  # parameters that are strings, None, or numbers instead
    packs: dict[str, Packed] = {}  # noqa: RUF012 (parameters that are tuples: the type, and items; and fixed ones)

    def __init__(self, function: Callable, called: dict[Callable, Source] | None = None) -> None:
        self.called_sources = {} if called is None else called
        function = uncached(function)
        plain = getattr(function, "py_func", function)
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
        node = cast(ast.FunctionDef, MatchStatements(self, node).visit(node))
        self._refuse_deep_nesting(node)  # each case is a branch now
        captured = inspect.getclosurevars(plain).nonlocals
        self.module = str(plain.__module__)
        self.outer_values = {**vars(builtins), **plain.__globals__, **captured}
        self.outer_values |= take_imports(self, node, str(plain.__globals__.get("__package__") or ""))
        self.outer_values |= {n: as_it_is(self.outer_values[n]) for n in all_names(node) if n in self.outer_values}
        self.outer_attributes = captured_attributes(node, self.outer_values)
        self.captured_snapshot = CapturedSnapshot(plain)
        self.signature = inspect.signature(plain, follow_wrapped=False)
        self.compiled, njit_options = plain is not function, getattr(function, "targetoptions", {})  # by Numba
        self.divides_as_numpy = njit_options.get("error_model") == "numpy"
        node = check_generators(self, BuiltinCalls(self, Names(all_names(node))).visit(node))
        node = SwapsToTuples().visit(Messages(self).visit(PrintStatements(self).visit(node)))
        self.with_lists: ast.FunctionDef | None = LongerFirst(self).visit(node)
        self.node = self.without_lists(())
        self.options = {k: njit_options[k] for k in ("fastmath", "boundscheck") if njit_options.get(k)}

    def without_lists(self, tuples: Collection[str]) -> ast.FunctionDef:
        """The function with vectors for lists that grow, and tuples for those named in `tuples`, in canonical form."""
        assert self.with_lists is not None
        node = GrowingLists(self).visit(ListsOfArrays(self, tuples).visit(copy.deepcopy(self.with_lists)))
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
        source.node, source.with_lists = ast.copy_location(function, node), None
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

    def with_callees(self) -> list[Source]:
        """This source and those of all called functions."""
        return [self, *self.called_sources.values()]

    def current(self) -> bool:
        """Whether all names from outside still have the values that they had when the source was read."""
        return all(s.captured_snapshot.still_current() for s in self.with_callees())

    @property
    def definition_site(self) -> tuple[str, str, int, int]:
        """The name of the function, and where it is defined."""
        return self.name, self.file, self.first + self.node.lineno, self.node.col_offset

    def with_flat_tuples(self, forms: tuple) -> Source:
        """This source with a parameter per item of each tuple argument; `forms` are the forms of the arguments."""
        source, free = copy.copy(self), Names(all_names(self.node))

        def named(name: str, form: Any) -> Packed:
            if form is None or isinstance(form, StaticArgument):
                return form or name
            labels = getattr(form[0], "_fields", ()) or range(len(form[1]))
            inner = zip(labels, form[1], strict=True)
            return [
                form[0],
                *(named(free.fresh(f"{name}_{k}") if f is None else f"{name}_{k}", f) for k, f in inner),
            ]

        source.packs = {p: named(p, f) for p, f in zip(self.signature.parameters, forms, strict=True)}
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
            return self.differentiable(found)
        return None

    def differentiable(self, value: object) -> object:
        """What is lowered where `value` is called: a definition, a primitive whose rule is known; else the value."""
        value = adopted(uncached(value), self.generated)
        return DEFINITIONS.get(value, value) if callable(value) and isinstance(value, Hashable) else value


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
    check(source, (getattr(function, "py_func", function),))
    return source


def check(source: Source, within: tuple = ()) -> None:
    """Refuse code that is outside of the subset for any arguments; `within` are the functions that call this one."""
    nodes = subtrees(source.node)
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    local |= {n.name for n in nodes[1:] if isinstance(n, ast.FunctionDef)}
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    listed = {id(a) for n in calls for a in (*n.args, *(k.value for k in n.keywords))}
    listed |= {id(n.iter) for n in nodes if isinstance(n, ast.For)}
    listed |= {id(r) for n in nodes if isinstance(n, ast.List | ast.Tuple) and id(n) in listed for r in n.elts}
    listed |= {id(a) for n in calls for a in n.args if isinstance(a, ast.Starred)}
    targets = [t for n in nodes if isinstance(n, ast.Assign) for target in n.targets for t in subtrees(target)]
    listed |= {id(e) for e in targets if isinstance(e, ast.Starred) and isinstance(e.ctx, ast.Store)}
    checks = _Check(source, local, listed, within)
    for statement in source.node.body:
        for node in subtrees(statement):
            checks.node(node)
    source.checked = True


class _Check:
    """Checks single nodes; `listed` are the lists and stars that are allowed where they stand."""

    def __init__(self, source: Source, local: set[str], listed: set[int], within: tuple) -> None:
        self.source = source
        self.local = local
        self.listed = listed
        self.within = within

    def node(self, node: ast.AST) -> None:
        if type(node) is ast.Name:
            self.captured(node, node.id)
            return
        refuse = self.source.refuse
        what, instead = type(node).__name__, _instead(node)
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            raise refuse(node, f"{what} is outside of the subset", instead)
        if isinstance(node, ast.List) and isinstance(node.ctx, ast.Load) and id(node) not in self.listed:
            if not node.elts and self.source.generated:  # where calls in loops store arrays
                what = "a further derivative of a primitive with a vjp of its own, called in a loop"
                raise refuse(node, what, "give it an infer with sizes known before the loop, or leave out its vjp")
            raise refuse(node, "a list", instead)
        if isinstance(node, ast.Dict) and not all(
            k is None or (isinstance(k, ast.Constant) and isinstance(k.value, str)) for k in node.keys
        ):
            raise refuse(node, "a dictionary with other keys than strings that are written there", instead)
        if isinstance(node, ast.expr) and (
            not isinstance(node, _EXPRESSIONS) or (isinstance(node, ast.Starred) and id(node) not in self.listed)
        ):
            raise refuse(node, f"{what} is outside of the subset", instead)
        if isinstance(node, ast.Constant) and (wrong := unsupported_constant(node.value)):
            raise refuse(node, *wrong)
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.AugAssign):
            self.operator(node, node.op)
        elif isinstance(node, ast.Compare):
            for op, other in zip(node.ops, node.comparators, strict=True):
                is_none = isinstance(op, ast.Is | ast.IsNot) and isinstance(other, ast.Constant) and other.value is None
                if not is_none and not (isinstance(op, ast.In | ast.NotIn) and isinstance(other, ast.Tuple | ast.Name)):
                    self.operator(node, op)
        elif isinstance(node, ast.FunctionDef) and node.decorator_list:
            raise refuse(node, "a decorator", "leave it out, or define the function outside")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            raise refuse(node, "a generator", "fill an array, and return it")
        elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant | ast.Call):
            raise refuse(node, "an expression without effect", "leave it out, or assign its value")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = self.source.resolve(node.value.func)
            allowed = called in (prints, None) or self.own(node, called) or self.is_local_call(node.value.func)
            if not allowed:
                advice = _advice(ast.unparse(node.value.func)) or "leave it out, or assign its value"
                raise refuse(node, "an expression without effect", advice)
        if isinstance(node, ast.Call):
            self.call(node)

    def captured(self, node: ast.AST, name: str) -> None:
        """Refuse instances from outside, whose fields may change."""
        if name not in self.local and instance_type(self.source.outer_values.get(name)):
            raise self.source.refuse(node, f"{name}, an instance of a jitclass", "pass it as an argument")

    def operator(self, node: ast.AST, op: ast.AST) -> None:
        if not isinstance(op, _OPERATORS):
            raise self.source.refuse(node, f"the operator {type(op).__name__} is outside of the subset", _instead(op))

    def own(self, node: ast.AST, called: object) -> bool:
        """Whether `called` is a function of the user's; if so, check it as well."""
        if isinstance(called, type) and issubclass(called, tuple) and hasattr(called, "_fields"):
            return True
        if called in _ROUTINES:
            return True
        while isinstance(called, functools.partial):
            called = self.source.differentiable(called.func)
            if is_known(called) or rule_of(called) is not None:
                return True
        kernel: object = kernel_of(called)
        plain = getattr(called, "py_func", called) if kernel is None else kernel
        if not isinstance(plain, types.FunctionType) or (plain.__module__ or "").split(".")[0] == "numpy":
            return False
        if plain in self.within or is_overloaded(called):  # the body is chosen by the types of arguments
            return True
        called_sources = self.source.called_sources
        if plain not in called_sources:
            called_sources[plain] = Source(called if kernel is None else plain, called_sources)  # type: ignore[arg-type]
        if not called_sources[plain].checked:
            check(called_sources[plain], (*self.within, plain))
        return True

    def is_local_call(self, node: ast.expr) -> bool:
        """Whether a call is of a local function, or of a method of something local."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return not isinstance(node, ast.Name) or node.id in self.local

    def is_type(self, node: ast.expr) -> bool:
        """Whether `node` is ``type(x)`` or ``x.dtype.type``."""
        match node:
            case ast.Attribute(value=ast.Attribute(attr="dtype") | ast.Name() as owner, attr="type"):
                return isinstance(owner, ast.Attribute) or owner.id in self.local
            case ast.Call(func=ast.Name() as function):
                return self.source.resolve(function) is type
        return False

    def number_of_arguments(self, node: ast.Call, called: object) -> None:
        """Check how many arguments by position a function or method of the table gets."""
        if any(isinstance(a, ast.Starred) for a in node.args) or rule_of(called) is not None:
            return
        method = isinstance(node.func, ast.Attribute) and called is None
        row = row_of(getattr(np.ndarray, node.func.attr, None) if method else called)  # type: ignore[attr-defined]
        if row is not None and not (isinstance(node.func, ast.Name) and node.func.id in self.local):
            check_number(self.source, node, len(node.args) + method, row)

    def call(self, node: ast.Call) -> None:
        local = isinstance(node.func, ast.Name) and node.func.id in self.local
        called = None if local else self.source.resolve(node.func)
        if called is not None and not callable(called):
            raise self.source.refuse(node, *no_function(node, called))
        known = is_known(called) or rule_of(called) is not None
        chosen = isinstance(node.func, ast.Call) and getattr(node.func.func, "attr", "") == "get"  # of a dictionary
        if local or chosen or isinstance(node.func, ast.Subscript) or self.is_type(node.func):
            known = True
        elif isinstance(node.func, ast.Attribute) and self.is_local_call(node.func):
            name = node.func.attr
            known = is_known(getattr(np.ndarray, name, None)) or getattr(np.random.Generator, name, None) in DEFINITIONS
            known = known or name in METHODS
            known = known or not any(hasattr(t, name) for t in (np.ndarray, list, str))  # perhaps of a jitclass
        self.number_of_arguments(node, called)
        known = known or (called is dict and not node.args)
        known = known or (isinstance(getattr(called, "__self__", None), dict) and node.func.attr == "get")  # type: ignore[attr-defined]
        error = isinstance(called, type) and issubclass(called, Exception)
        if not known and not error and not self.own(node, called):
            text = ast.unparse(node.func)
            name = first_name(node.func)
            self.captured(node, name)
            if name and name not in {*self.source.outer_values, *self.local}:
                raise self.source.refuse(node, f"{name}, which is not defined", "define it before adjoint is called")
            if getattr(called, "vjp", None) is not None:
                raise self.source.refuse(
                    node,
                    f"{text}, a primitive that is not compiled, or whose vjp is not",
                    "compile both with numba.njit, or leave its vjp out, so that its loops are differentiated",
                )
            raise self.source.refuse(
                node,
                f"{text} has no derivative here",
                _advice(text, called)
                or "write it with functions of the table, or as loops, or give it a rule by nb.primitive",
            )


def _instead(node: ast.AST) -> str:
    """What to write instead of a node outside of the subset."""
    return _INSTEAD.get(type(node), "see the table of the subset")


def _advice(text: str, called: object = None) -> str:
    """What to write instead of the function `called`, written `text`; "" if nothing is known."""
    if isinstance(called, np.ufunc) and getattr(np, called.__name__, None) is not called:
        return OTHER_UFUNC
    if is_jitclass(called):
        return _INSTEAD_OF_JITCLASS
    return next((a for k, a in _ADVICE.items() if f"{text}.".startswith(f"{k}.") or text.endswith(f".{k}")), "")
