"""Lowering of calls: functions of the table have a lowering each, other functions are inlined into the caller."""

from __future__ import annotations

import ast
import inspect
import math
import types
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.numba.compile import vectorized_function
from ...backends.numba.wrapped_functions import plain_function
from ..custom_rules import RuleFamily, member, rule_of
from ..ir.functions import FUNCTIONS
from ..ir.names import literal
from ..ir.statements import Store, walk
from ..ir.terms import Constant, Variable
from . import (  # noqa: F401
    array_functions,
    einsum,
    large_systems,
    library,
    operator_functions,
    primitive_calls,
    splits,
    ufunc_methods,
    vectorization,
)
from .array_expressions import ArrayExpr, Leaf, Lowered, Op, Scalar, Static, TupleExpr
from .captured_objects import method_of_captured
from .captured_values import unsupported_constant
from .chosen_items import chosen_item
from .comparisons import require_known
from .dictionaries import Dictionary, dictionary_method, dictionary_of, item_of, item_of_loop, lasting
from .expressions import Expressions
from .function_table import DEFINITIONS, check_number, is_known, no_function, row_of, takes_lists
from .generators import check_argument
from .implicit_errors import check_call, refuse_unknown_errors
from .instances import call_of_method, method
from .known_integers import known_form
from .library.lists import LIST_METHODS
from .library_errors import shown_at_call
from .number_types import is_number_type
from .numbered_strings import error_of_other_use
from .overloads import with_implementation
from .products import Products, or_of_ands
from .record_types import is_record
from .records import copy_of_record, instance_of_method, refuse_record, views_of
from .recursion import constant_argument, ends_recursion, too_deep
from .rewrites import rewritten
from .source import Source
from .starred_arguments import with_items
from .static_values import GeneratorArgument, bind_static, makes_functions, static_value
from .structured_control import with_location
from .syntax import all_names, bound_name, children, owner_of, unparse
from .tuple_arguments import is_static
from .views import NUMBERS

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["Calls"]


class Calls(Expressions):
    """Lowers calls."""

    names_of: Callable[[str], set[str]]  # of Assignments
    within: tuple = ()  # the functions being lowered, each inlined into the one before
    calls_around: tuple = ()  # the calls by which they were, with what is known of the arguments (.recursion)

    def callee(self, node: ast.Call) -> types.FunctionType | Source | None:
        """The called function if it is to be inlined; None for functions of the table."""
        called = method(self, node, instance_of_method(self, node)) or self.function_of(node.func)
        if isinstance(called, Source):
            return called
        if is_known(called) or rule_of(called) is not None:
            return None
        plain = plain_function(called)
        own = isinstance(plain, types.FunctionType) and (plain.__module__ or "").split(".")[0] not in ("numpy", "math")
        return plain if own else None

    def call(self, node: ast.Call, hint: str) -> ArrayExpr:
        """Lower a call in an expression; `hint` is the name for a new array."""
        node = self.method_of_generator(self.with_chosen_function(self.expand_starred(node)))
        if (item := item_of_loop(self, node) or dictionary_method(self, node)) is not None:
            return item
        if (chosen := chosen_item(self, node)) is not None:
            return self.tree_or_static(chosen)
        called = self.function_of(node.func)
        refuse_unknown_errors(self, node, called)
        if self.callee(node) is not None:
            return self.inline_in_expression(node)
        if isinstance(called, type) and issubclass(called, tuple) and hasattr(called, "_fields"):
            arguments = self.arguments(node, inspect.signature(called))
            return TupleExpr([self.tree_or_static(arguments[n]) for n in called._fields], called)
        if (scalar := vectorized_function(called)) is not None:
            return self.vectorized_call(node, scalar)
        if (result := self.wrapped_call(node, called)) is not None:
            return result
        if called is None and isinstance(node.func, ast.Attribute):
            if node.func.attr == "_replace" and not node.args:
                return self.replaced_fields(node, self.tree(node.func.value))
            return self.method(node, node.func, hint)
        if rule_of(called) is not None:
            return self.primitive_call(node, called, hint)
        return self.known_call(node, called, hint)

    def subscript(self, node: ast.Subscript) -> ArrayExpr:
        if (chosen := chosen_item(self, node)) is not None:
            return self.tree_or_static(chosen)
        held = dictionary_of(self, node.value)
        return super().subscript(node) if held is None else item_of(self, node, held)

    def with_chosen_function(self, node: ast.Call) -> ast.Call:
        """A call of ``{"a": f, "b": g}[mode]`` as one of the function that it is; one of a ``functools.partial`` with
        the arguments that this has; one of a function with an overload as one of its body."""
        node = method_of_captured(self, node)
        chosen = chosen_item(self, node.func)
        function = None if chosen is None else static_value(self, chosen)
        called = self.function_of(node.func) if chosen is None else function and function.value
        if chosen is not None and not (callable(called) or isinstance(called, Source)):
            raise self.source.refuse(node, *no_function(node, called))
        if chosen is None and not isinstance(called, partial):
            return with_implementation(self, node, called)
        text, args, given = unparse(node.func), node.args, node.keywords
        while isinstance(called, partial):
            fixed = [self.captured_item(node, self.names.fresh("argument"), a) for a in called.args]
            args = [*(ast.copy_location(Lowered(a), node) for a in fixed), *args]
            for key, a in called.keywords.items():
                if key not in [k.arg for k in given]:
                    tree = self.captured_item(node, key, a)
                    given = [*given, ast.keyword(key, ast.copy_location(Lowered(tree), node))]
            called = self.source.differentiable(called.func)
        name = ast.copy_location(bound_name(called, text), node)
        call = ast.copy_location(ast.Call(name, args, given), node)
        self.root_expression = call if node is self.root_expression else self.root_expression
        return with_implementation(self, call, called)

    def vectorized_call(self, node: ast.Call, scalar: Callable) -> ArrayExpr:
        """A call of a function that ``numba.vectorize`` made of `scalar`."""
        args = self.operands(node, len(inspect.signature(scalar).parameters))
        if not any(a.rank for a in args):
            return self.library(scalar, node, *args)
        if len(args) > len(vectorization.LOOPS):
            what = f"{unparse(node)}, of more than {len(vectorization.LOOPS)} arguments with arrays"
            raise self.source.refuse(node, what, "write a loop")
        return self.library(vectorization.LOOPS[len(args) - 1], node, Static(scalar), *args)

    def replaced_fields(self, node: ast.Call, tree: ArrayExpr) -> TupleExpr:
        """``p._replace(x=...)`` of a named tuple."""
        values = {k.arg: k.value for k in node.keywords}
        if not isinstance(tree, TupleExpr) or not values.keys() <= set(tree.fields):
            raise self.source.refuse(node, f"the call {unparse(node)}", "replace fields of a named tuple, by name")
        items = [self.tree_or_static(values[n]) if n in values else t
                 for n, t in zip(tree.fields, tree.items, strict=True)]  # fmt: skip
        return TupleExpr(items, tree.tuple_class)

    def known_call(self, node: ast.Call, called: object, hint: str) -> ArrayExpr:
        """A call of a function of the table."""
        row = row_of(called)
        if row is None or row.lower is None:
            raise self.source.refuse(node, f"the call {unparse(node)}", "use functions of the table, or write a loop")
        check_number(self.source, node, len(node.args), row)
        if node.keywords and not row.keywords:
            raise self.source.refuse(node, f"keywords in {unparse(node)}", "pass them by position, or write a loop")
        return row.lower(self, node, row.function or called, hint)

    def expand_starred(self, node: ast.Call) -> ast.Call:
        """The call with ``*p`` expanded into items."""
        expanded = with_items(self, node)
        self.root_expression = expanded if node is self.root_expression else self.root_expression
        return expanded

    def method_of_generator(self, node: ast.Call) -> ast.Call:
        """The call of a random generator's method as that of its definition; other calls as they are."""
        function = node.func
        static = static_value(self, function.value) if isinstance(function, ast.Attribute) else None
        if static is None or not isinstance(static.value, GeneratorArgument):
            return node
        assert isinstance(function, ast.Attribute)
        definition = DEFINITIONS.get(getattr(np.random.Generator, function.attr, None))
        if definition is None:
            what = f"the method {unparse(function)} of a random generator"
            raise self.source.refuse(node, what, "use its standard draws, and transform them")
        call = ast.Call(bound_name(definition, unparse(function)),
                        [ast.copy_location(Lowered(static), node), *node.args], node.keywords)  # fmt: skip
        self.root_expression = call if node is self.root_expression else self.root_expression
        return ast.copy_location(call, node)

    def operands(self, node: ast.Call, *numbers: int) -> list[ArrayExpr]:
        """The arguments of a call that must have one of these `numbers` of them."""
        if len(node.args) not in numbers:
            wanted = " or ".join(map(str, numbers))
            raise self.source.refuse(
                node, f"the call {unparse(node)}", f"give it {wanted} argument{'s' * (wanted != '1')}"
            )
        return [self.array_like(a) for a in node.args]

    def array_like(self, node: ast.expr) -> ArrayExpr:
        """An argument that NumPy makes an array: a list or tuple of numbers becomes one."""
        return self.as_array(node, self.tree(node))

    def as_array(self, node: ast.expr, tree: ArrayExpr) -> ArrayExpr:
        refuse_record(self, node, tree)
        if not isinstance(tree, TupleExpr):
            return tree
        if not tree.items:
            empty = ast.Call(bound_name(np.empty, "np.empty"), [ast.Constant(0)], [])
            return self.known_call(with_location(empty, node), np.empty, "")
        view = self.tuple_as_array(node, tree)
        for known in (self.shared.lists, self.shared.of_tuples):
            known.pop(view.name, None)  # it is an array from here on
        return Leaf(view, True)

    def elementwise_call(self, node: ast.Call, args: list[ArrayExpr] | None = None) -> ArrayExpr:
        """A call of a scalar function; `args` are its arguments if they are lowered already."""
        called = self.function_of(node.func)
        if args is None:
            match node.args:
                case [ast.Constant(value=str() as text)] if called is float:
                    return Scalar(literal(self.number_in(node, text)))
            args = (
                self.operands(node, called.nin) if isinstance(called, np.ufunc) else [self.tree(a) for a in node.args]
            )
        if len(args) == 1 and called in (max, min) and isinstance(args[0], TupleExpr):
            args = args[0].items
        if any(isinstance(a, TupleExpr | Static) for a in args):
            best = "; of a minimum, as if d < best: best, at = d, i" if called in (min, max) else ""
            instead = f"use functions of the table, or write a loop{best}"
            raise self.source.refuse(node, f"the call {unparse(node)}", instead)
        if any(a.rank for a in args) and not FUNCTIONS[called].elementwise:
            raise self.source.refuse(node, f"{unparse(node)} of an array", "use NumPy's function")
        args = check_call(self, called, args)
        return self.apply(np.fmod if called is math.fmod else called, args)  # Numba has no math.fmod

    def number_in(self, node: ast.Call, text: str) -> float:
        """The number that ``float("inf")`` is."""
        try:
            return float(text)
        except ValueError:
            raise self.source.refuse(node, f"the call {unparse(node)}", "write a number, or 'inf'") from None

    def primitive_call(self, node: ast.Call, called: object, hint: str) -> ArrayExpr:
        """A call of a primitive with a custom rule."""
        rule = rule_of(called)
        assert rule is not None
        arguments = self.arguments(node, rule.signature)
        args = [self.tree_or_generator(arguments[n]) for n in rule.signature.parameters]
        if isinstance(rule, RuleFamily):
            called, rule = member(rule, tuple([(a.rank, self.kind_of_tree(a) or "float") for a in args]))
        if called in FUNCTIONS and not any(a.rank or isinstance(a, TupleExpr) for a in args):
            return self.apply(called, args)
        results = primitive_calls.lower_primitive_call(self, node, rule, args, hint)
        return TupleExpr(results) if isinstance(results, list) else results

    def tree_or_generator(self, node: ast.expr) -> ArrayExpr:
        static = static_value(self, node)
        return static if static is not None and isinstance(static.value, GeneratorArgument) else self.tree(node)

    def method(self, node: ast.Call, function: ast.Attribute, hint: str) -> ArrayExpr:
        """A call of a method of an array: of the function that it is equal to, with the array first."""
        if (searches := LIST_METHODS.get(function.attr)) is not None and len(node.args) == 1:
            items, value = self.array_like(function.value), self.tree(node.args[0])
            return self.library(searches, node, items, value)
        method = getattr(np.ndarray, function.attr, None)
        if (
            method is np.ndarray.copy
            and self.tuple_of(owner_of(function))
            and is_record(tree := self.tree(function.value))
        ):
            return copy_of_record(self, node, tree)  # type: ignore[arg-type]
        row = row_of(method)
        if row is None or row.lower is None:
            raise self.source.refuse(node, f"the method {unparse(node.func)}", "use functions, or write a loop")
        view = self.array(function.value)
        if view is not None and self.is_list(Leaf(view)):
            raise self.source.refuse(node, f"the method {unparse(node.func)}, of a list", "use np.array of it")
        name = bound_name(method, f"np.{function.attr}")
        call = ast.copy_location(ast.Call(name, [function.value, *node.args], node.keywords), node)
        call.written = node  # type: ignore[attr-defined]
        self.root_expression = call if node is self.root_expression else self.root_expression
        return self.known_call(call, method, hint)

    def product(self, node: ast.expr, a: ast.expr, b: ast.expr, hint: str) -> ArrayExpr:
        trees = [self.tree(a), self.tree(b)]
        if min(t.rank for t in trees) > 0 and max(t.rank for t in trees) > 2:
            return or_of_ands(self, node, einsum.product_of_stacks(self, node, trees, hint), *trees)
        left, right = (ast.copy_location(Lowered(t), e) for t, e in zip(trees, (a, b), strict=True))
        return Products(self, node).product(np.dot, left, right, hint)

    # Inlining.

    def inline_in_expression(self, node: ast.Call) -> ArrayExpr:
        """Inline a call in an expression; refuse one that writes arrays if operands before it would see the writes."""
        before = len(self.out)
        records = [p for pack in self.tuples.values() if is_record(pack) for p in views_of(pack)]
        arrays = {v.name for v in (*self.arrays.values(), *records)} | {
            p for p in self.lowered_function.parameters if self.lowered_function.ranks.get(p)
        }
        result = self.inline(node)
        writes = any(isinstance(s, Store) and self.storage_of(s.array) in arrays for s in walk(self.out[before:]))
        if writes and not self.is_only_array_operand(node):
            what = "a function that writes arrays, called in an expression"
            raise self.source.refuse(node, what, "assign its result to a name first")
        return Static(None) if result is None else result

    def library(self, called: Any, node: ast.expr, *args: ArrayExpr) -> ArrayExpr:
        """Inline a function of the library, with arguments that are lowered already."""
        function: Any = DEFINITIONS.get(called, called)
        call = ast.Call(
            bound_name(function, function.__name__), [ast.copy_location(Lowered(a), node) for a in args], []
        )
        result = self.inline(ast.copy_location(call, node))
        assert result is not None
        return result

    def is_only_array_operand(self, node: ast.Call) -> bool:
        """Whether the statement evaluates only scalars besides the call, which the call cannot change."""
        found, stack = False, [] if self.root_expression is None else [self.root_expression]
        while stack:
            n = stack.pop()
            if n is node:
                found = True
            elif isinstance(n, Lowered) or (isinstance(n, ast.Name) and self.holds_arrays(n.id)):
                return False
            else:
                stack += [c for c in children(n) if isinstance(c, ast.expr)]
        return found

    def holds_arrays(self, name: str) -> bool:
        """Whether a name is or may be bound to an array or a tuple."""
        scope: Expressions | None = self
        while scope is not None and name not in scope.locals:
            scope = scope.enclosing_scope
        return scope is not None and (name in scope.arrays or name in scope.uncertain_arrays or name in scope.tuples)

    root_expression: ast.expr | None = None

    def arguments(self, node: ast.Call, signature: inspect.Signature) -> dict[str, ast.expr]:
        """The arguments by parameter, defaults included."""
        node = self.expand_starred(node)
        try:
            bound = signature.bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
        except TypeError as err:
            raise self.source.refuse(node, f"a call with other arguments ({err})", "pass those it has") from None
        arguments = dict(bound.arguments)
        for name, p in signature.parameters.items():
            if p.kind is p.VAR_POSITIONAL:
                arguments[name] = ast.copy_location(ast.Tuple(list(arguments.get(name, ())), ast.Load()), node)
            elif p.kind is p.VAR_KEYWORD:
                given = arguments.get(name, {}).items()
                held = Dictionary({k: lasting(self, a, self.tree_or_static(a)) for k, a in given})
                arguments[name] = ast.copy_location(Lowered(Static(held)), node)
            elif name not in arguments:
                if isinstance(p.default, str | None):
                    arguments[name] = ast.Constant(p.default)
                elif isinstance(p.default, NUMBERS) and not unsupported_constant(p.default):
                    arguments[name] = ast.copy_location(Lowered(Scalar(literal(p.default))), node)
                elif is_static(p.default):
                    arguments[name] = ast.copy_location(Lowered(Static(p.default)), node)
                elif not isinstance(p.default, ast.AST):
                    tree = self.captured_value(node, self.names.fresh(name), p.default)
                    arguments[name] = ast.copy_location(Lowered(tree), node)
                else:
                    arguments[name] = p.default
        return arguments

    def inline(self, node: ast.Call) -> ArrayExpr | None:
        """Inline a call of a user's function; its result."""
        callee = self.callee(node)
        assert callee is not None
        node = call_of_method(self, node, instance_of_method(self, node))
        source = callee if isinstance(callee, Source) else self.shared.source_of(callee)
        arguments = self.arguments(node, source.signature)
        if (result := large_systems.lower_by_lapack(self, node, callee, arguments)) is not None:
            return result
        source = self.renamed(source, arguments)
        inner = self.lowering(source, source.enclosing_scope if isinstance(callee, Source) else None)
        inner.call_path = (*self.call_path, self.place_of(node))
        trees = []
        for p, a in arguments.items():
            check_argument(self.source, a, source, p)
            tree = self.numbered_if(p in source.numbered, constant_argument(self, source, self.tree_or_static(a)))
            listed = takes_lists(callee, source.signature.parameters[p])
            self.bind_parameter(inner, p, self.as_array(a, tree) if listed else tree, a)
            trees.append(tree)
        if ends_recursion(self, inner, node, source, trees):
            return Scalar(Constant(0.0))
        before, theirs = set(self.lowered_function.ranks), self.names.callee_names
        inner.line = self.line
        self.names.callee_names = theirs | all_names(source.node)
        try:
            with shown_at_call(self, node, source):
                self.out += inner.function()
        except RecursionError:
            if len(self.within) > 1:
                raise  # where the stack has some room
            raise too_deep(self, node, source) from None
        self.line, self.names.callee_names = "", theirs
        return self.mark_fresh_arrays(inner.result, before)

    def function_argument(self, node: ast.expr) -> object:
        """The function that is passed as an argument; None if the argument is no function."""
        if isinstance(node, ast.Lambda):
            return self.defined("lambda", node)
        if isinstance(node, ast.Name):
            function = self.function_of(node)
            plain = callable(function) and not isinstance(function, type)
            return function if plain or isinstance(function, Source) or is_number_type(function) else None
        found = self.resolve(node) if isinstance(node, ast.Attribute) else None
        return found if callable(found) or is_number_type(found) else None

    def defined(self, name: str, node: ast.FunctionDef | ast.Lambda) -> Source:
        def evaluated(default: ast.expr) -> ast.expr:
            if isinstance(default, ast.Constant):
                return default
            return ast.copy_location(Lowered(self.evaluate_first(node, self.tree_or_static(default))), default)

        return self.source.inner(name, node, self, evaluated)

    def wrapped_call(self, node: ast.Call, called: object) -> ArrayExpr | None:
        raise NotImplementedError

    def evaluate_first(self, s: ast.AST, tree: ArrayExpr, name: str = "held") -> ArrayExpr:
        raise NotImplementedError

    def lowering(self, source: Source, around: object) -> Lowering:
        raise NotImplementedError

    def renamed(self, source: Source, arguments: dict[str, ast.expr]) -> Source:
        """A called function for these arguments: with numbers for strings, as its caller has them."""
        numbered, strings = [], []
        for p, a in arguments.items():
            if isinstance(a, ast.Name):
                require_known(self, a, a.id)
            if isinstance(a, ast.Name) and a.id in self.source.numbered:
                numbered.append(p)
            elif isinstance(static := static_value(self, a), Static) and isinstance(static.value, str | None):
                strings.append(p)
        context = (source.context, *(known_form(self, a) for a in arguments.values()))
        source = rewritten(source, self.shared.findings.rewrites, numbered, strings, context)
        for p in numbered:
            if p not in source.numbered and (error := error_of_other_use(self.source, arguments[p], source, p)):
                raise error
        return source

    def numbered_if(self, numbered: bool, tree: ArrayExpr) -> ArrayExpr:
        """An argument; if it is to be `numbered`, the number of the string that it is."""
        strings = self.shared.findings.rewrites.strings
        return Scalar(literal(strings.of(tree.value))) if numbered and isinstance(tree, Static) else tree

    def bind_parameter(self, inner: Lowering, p: str, tree: ArrayExpr, node: Any) -> None:
        """Bind the parameter `p` of an inlined function to an argument."""
        if isinstance(tree, Static):
            bind_static(inner, node, p, tree)
        elif isinstance(tree, TupleExpr):
            self.require_lasting(inner, node, tree)
            inner.tuples[p] = self.tuple_argument(tree, node)
        elif tree.rank:
            self.require_lasting(inner, node, tree)
            inner.bind_argument(p, tree, self.view_of(tree, node, p))
        else:
            assert isinstance(tree, Scalar)
            if isinstance(tree.term, Variable) and p not in inner.stores and not makes_functions(inner.source.node):
                inner.rename[p] = tree.term.name
                return
            inner.rename[p] = self.names.fresh(p)
            inner.scalar_parameters.add(inner.rename[p])
            self.lowered_function.ranks[inner.rename[p]] = 0
            self.assign_scalar(inner.rename[p], tree.term, final=False)
            inner.record_integer(inner.rename[p], tree.term)  # unless the function sets it again

    def require_lasting(self, inner: Lowering, node: ast.expr, tree: ArrayExpr) -> None:
        """Refuse an argument that may be another one when a function that the called one returns is called."""
        name = node.id if isinstance(node, ast.Name) else ""
        sets = self.stores.count(name) + (name in self.source.signature.parameters)
        parts = tree.items if isinstance(tree, TupleExpr) else [tree]
        fresh = all(isinstance(t, Static | Op) or (isinstance(t, Leaf) and t.fresh) for t in parts)
        if makes_functions(inner.source.node) and not fresh and (name not in self.locals or sets > 1):
            what = f"{unparse(node)}, which a function made by {inner.source.name} may read later"
            raise self.source.refuse(node, what, "give it a name that is set once")

    def tuple_argument(self, tree: TupleExpr, node: ast.expr):
        raise NotImplementedError

    def mark_fresh_arrays(self, tree: ArrayExpr | None, before: set[str]) -> ArrayExpr | None:
        """Mark the arrays in a result that the call created."""
        if isinstance(tree, TupleExpr):
            return TupleExpr([self.mark_fresh_arrays(t, before) or t for t in tree.items], tree.tuple_class)
        if isinstance(tree, Leaf) and self.storage_of(tree.view.name) not in before:
            return Leaf(tree.view, True)
        return tree
