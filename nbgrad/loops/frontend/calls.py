"""Calls: of functions in the table, and of other functions, which are lowered into the caller."""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from typing import TYPE_CHECKING

import numpy as np

from ...core.source_text import constant
from ...errors import TraceError
from ..custom_rules import rule_of
from ..ir.algebra import FUNCTIONS, OPERATORS, PASSIVE
from ..ir.names import FUNCTION_NAMES, all_names, known
from ..ir.statements import Assign, Store, children, parse, unparse, walk
from . import primitive_calls
from .array_creation import MAKERS, Makers
from .array_expressions import Leaf, Scalar, Several, Tree, combine, copied
from .captured_values import unfit
from .expressions import Done, Expressions
from .numpy_library import LIBRARY, MODULES
from .reductions import METHODS, PRODUCTS, REDUCTIONS, Reductions
from .reshaping import contiguous, reshaped
from .scope import UNCERTAIN
from .source import Source
from .views import NUMBERS, normal

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["Calls"]


class Calls(Expressions):
    """Lowers calls."""

    within: tuple = ()  # the functions that are being lowered

    def callee(self, node: ast.Call) -> types.FunctionType | Source | None:
        """The function that is lowered here, if it is none of the table."""
        called = self.function_of(node.func)
        if isinstance(called, Source):
            return called
        try:
            if (
                called in FUNCTIONS
                or called in PASSIVE
                or called in REDUCTIONS
                or called in PRODUCTS
                or called in MAKERS
            ):
                return None
        except TypeError:
            return None
        plain = getattr(called, "py_func", called)
        own = isinstance(plain, types.FunctionType) and (plain.__module__ or "").split(".")[0] not in ("numpy", "math")
        return plain if own else None  # type: ignore[return-value]

    def call(self, node: ast.Call, hint: str) -> Tree:
        node = self.unpacked(node)
        if self.callee(node) is not None:
            return self.in_expression(node)
        called = self.function_of(node.func)
        if isinstance(called, type) and issubclass(called, tuple) and hasattr(called, "_fields"):
            given = self.arguments(node, inspect.signature(called))
            return Several([self.tree(given[n]) for n in called._fields], called)
        if called is None and isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, hint)
        if rule_of(called) is not None:
            return self.by_rule(node, called, hint)
        if called in REDUCTIONS:
            return Reductions(self, node).reduce(called, node.args, node.keywords, hint)
        if called in PRODUCTS and len(node.args) == 2 and not node.keywords:
            return self.product(node, node.args[0], node.args[1], hint, called)
        if called in (np.reshape, np.ravel) and node.args:
            return self.reshape(node, called.__name__, node.args[0], node.args[1:])
        if called in MAKERS:
            return Makers(self, node).make(called, hint)
        if node.keywords:
            raise self.source.refuse(node, f"keywords in {unparse(node)}", "pass the arguments by position")
        return self.of_elements(node, called)

    def unpacked(self, node: ast.Call) -> ast.Call:
        """``f(*p)`` as a call with the items of the tuple."""
        if any(k.arg is None for k in node.keywords):
            raise self.source.refuse(node, "a call with **", "pass the arguments one by one")
        if not any(isinstance(a, ast.Starred) for a in node.args):
            return node
        args: list[ast.expr] = []
        for a in node.args:
            items = self.items_in(self.tree(a.value)) if isinstance(a, ast.Starred) else [a]
            if items is None:
                raise self.source.refuse(node, f"{unparse(a)} in a call", "pass a tuple, or the items one by one")
            args += [t if isinstance(t, ast.expr) else ast.copy_location(Done(t), a) for t in items]
        made = ast.copy_location(ast.Call(node.func, args, node.keywords), node)
        self.only = made if node is self.only else self.only
        return made

    def of_elements(self, node: ast.Call, called: object) -> Tree:
        """A function of the elements of its arguments."""
        if called is len:
            return self.length(node)
        if called is np.where and len(node.args) == 3:
            return combine(lambda t, a, b: ast.IfExp(t, a, b), [self.tree(a) for a in node.args])
        if called is divmod:
            a, b = (Scalar(self.simple(self.value(n))) for n in node.args)
            return Several(
                [combine(lambda x, y, op=op: ast.BinOp(x, op(), y), [a, b]) for op in (ast.FloorDiv, ast.Mod)]
            )
        args = [self.tree(a) for a in node.args]
        if called is np.ndim:
            return Scalar(ast.Constant(args[0].rank))
        if called is np.clip:
            return self.clipped(*args)
        if called is np.where and len(args) == 1:
            return self.library(np.nonzero, node, args[0])
        if called in OPERATORS:
            return combine(OPERATORS[called], args)
        if called in (builtins.max, builtins.min) and len(args) == 1:
            if args[0].rank == 1:
                given = ast.copy_location(Done(args[0]), node)
                return Reductions(self, node).reduce(np.max if called is builtins.max else np.min, [given], [], "")
            args = args[0].items if isinstance(args[0], Several) else args
        if any(isinstance(a, Several) for a in args) or not (called in FUNCTION_NAMES or called in FUNCTIONS):
            raise self.source.refuse(node, f"the call {unparse(node)}", "use functions of the table, or write a loop")
        of_arrays = isinstance(called, np.ufunc) or called in (builtins.abs, builtins.pow, np.round, np.around, np.sinc)
        if not of_arrays and any(a.rank for a in args):
            raise self.source.refuse(node, f"{unparse(node)} of an array", "use NumPy's function")
        return self.apply(called, args)

    def clipped(self, x: Tree, low: Tree, high: Tree) -> Tree:
        return self.apply(np.minimum, [self.apply(np.maximum, [x, low]), high])

    def by_rule(self, node: ast.Call, called: object, hint: str) -> Tree:
        """A primitive with a rule of its own."""
        rule = rule_of(called)
        assert rule is not None
        given = self.arguments(node, rule.signature)
        args = [self.tree(given[n]) for n in rule.signature.parameters]
        if called in FUNCTIONS and not any(a.rank or isinstance(a, Several) for a in args):
            return self.apply(called, args)
        found = primitive_calls.call(self, node, rule, args, hint)
        return Several(found) if isinstance(found, list) else found

    def length(self, node: ast.Call) -> Tree:
        pack = self.tuple_of(node.args[0])
        if pack is not None:
            return Scalar(ast.Constant(len(pack.items)))
        inner = node.args[0]
        if isinstance(inner, ast.Call) and self.function_of(inner.func) is range:
            return Scalar(
                ast.Call(parse("len"), [ast.Call(parse("range"), [self.value(a) for a in inner.args], [])], [])
            )
        view = self.view(inner)
        if self.is_whole(view) and isinstance(node.args[0], ast.Name) and view.name in self.made.parameters:
            return Scalar(parse(f"len({view.name})"))
        return Scalar(self.shape(view)[0])

    def method(self, node: ast.Call, function: ast.Attribute, hint: str) -> Tree:
        name = function.attr
        if name == "copy" and not node.args:
            return copied(Leaf(self.view(function.value)))
        if name in ("flatten", "ravel", "reshape"):
            return self.reshape(node, name, function.value, node.args)
        if name == "transpose" and not node.args:
            return Leaf(self.view(function.value).transposed)
        if name == "astype" and len(node.args) == 1:
            makers = Makers(self, node)
            return makers.converted(self.tree(function.value), *makers.dtype_of(node.args[0]))
        if name in ("argsort", "repeat", "take", "nonzero") and not node.keywords:
            return self.library(getattr(np, name), node, *map(self.tree, (function.value, *node.args)))
        if name == "clip" and len(node.args) == 2:
            return self.clipped(*map(self.tree, (function.value, *node.args)))
        if name == "dot" and len(node.args) == 1:
            return self.product(node, function.value, node.args[0], hint, np.dot)
        if name in METHODS and METHODS[name] in REDUCTIONS:
            made = ast.copy_location(ast.Call(function, [function.value, *node.args], node.keywords), node)
            return Reductions(self, made).reduce(METHODS[name], made.args, made.keywords, hint)
        raise self.source.refuse(
            node, f"the method {unparse(node.func)}", "use functions of the table, or write a loop"
        )

    def reshape(self, node: ast.Call, name: str, given: ast.expr, lengths: list[ast.expr]) -> Tree:
        if node.keywords or (name == "reshape") != bool(lengths):
            raise self.source.refuse(node, f"the call {unparse(node)}", "give the array, and its lengths in C order")
        view = self.view(given)
        if name == "reshape":
            sizes = Makers(self, node).shape(lengths[0]) if len(lengths) == 1 else [self.value(n) for n in lengths]
            return Leaf(reshaped(self, node, view, [normal(n) for n in sizes]))
        side_by_side = contiguous(self, view)
        if view.rank == 1:
            return Leaf(view) if side_by_side and name == "ravel" else copied(Leaf(view))
        flat = Leaf(
            reshaped(self, node, view if side_by_side else self.view_of(copied(Leaf(view)), node), [parse("-1")])
        )
        return flat if side_by_side and name == "ravel" else copied(flat)

    def product(self, node: ast.expr, a: ast.expr, b: ast.expr, hint: str, called: object = np.dot) -> Tree:
        return Reductions(self, node).product(called, a, b, hint)

    # Functions that are lowered here.

    def in_expression(self, node: ast.Call) -> Tree:
        """A call in an expression: what it writes would be seen too early by what stands before it."""
        before = len(self.out)
        arrays = {v.name for v in self.arrays.values()} | {p for p in self.made.parameters if self.made.ranks.get(p)}
        result = self.inline(node)
        if any(
            isinstance(s, Store) and self.root(s.array) in arrays for s in walk(self.out[before:])
        ) and not self.alone(node):
            raise self.source.refuse(
                node, "a function that writes arrays, called in an expression", "assign its result to a name first"
            )
        if result is None:
            raise self.source.refuse(node, "a call that gives no number", "let it return one")
        return result

    def library(self, called: object, node: ast.expr, *args: Tree) -> Tree:
        """A function of the library, of what is lowered already."""
        function = LIBRARY[called]
        call = ast.Call(known(function, function.__name__), [ast.copy_location(Done(a), node) for a in args], [])
        found = self.inline(ast.copy_location(call, node))
        assert found is not None
        return found

    def alone(self, node: ast.Call) -> bool:
        """Whether the statement evaluates nothing besides the call but numbers, which it cannot change."""
        found, stack = False, [] if self.only is None else [self.only]
        while stack:
            n = stack.pop()
            if n is node:
                found = True
            elif isinstance(n, Done) or (isinstance(n, ast.Name) and self.holds_arrays(n.id)):
                return False
            else:
                stack += [c for c in children(n) if isinstance(c, ast.expr)]
        return found

    def holds_arrays(self, name: str) -> bool:
        scope: Expressions | None = self
        while scope is not None and name not in scope.locals:
            scope = scope.around
        return scope is not None and (name in scope.arrays or name in scope.lost or name in scope.tuples)

    only: ast.expr | None = None

    def arguments(self, node: ast.Call, signature: inspect.Signature) -> dict[str, ast.expr]:
        """The arguments by parameter; defaults are constants."""
        node = self.unpacked(node)
        try:
            bound = signature.bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
        except TypeError as err:
            raise self.source.refuse(node, f"a call with other arguments ({err})", "pass those it has") from None
        found = dict(bound.arguments)
        for name, p in signature.parameters.items():
            if name not in found:
                if isinstance(p.default, str | None):
                    found[name] = ast.Constant(p.default)
                elif isinstance(p.default, NUMBERS) and not unfit(p.default):
                    found[name] = ast.copy_location(Done(Scalar(parse(constant(p.default)))), node)
                elif not isinstance(p.default, ast.AST):
                    tree = self.outside(node, self.names.fresh(name), p.default)
                    found[name] = ast.copy_location(Done(tree), node)
                else:
                    found[name] = p.default
        return found

    def inline(self, node: ast.Call) -> Tree | None:
        """Lower a call of another such function into this one; its result."""
        callee = self.callee(node)
        assert callee is not None
        source = callee if isinstance(callee, Source) else self.shared.source_of(callee)
        if source.place in self.within:
            raise self.source.refuse(node, "a function that calls itself", "write a loop")
        given = self.arguments(node, source.signature)
        source = source.separated(self.shared.apart)
        inner = self.lowering(source, source.around if isinstance(callee, Source) else None)
        for p, a in given.items():
            text = self.texts.get(a.id, a) if isinstance(a, ast.Name) else getattr(a, "value", a)
            if isinstance(text, str | None) or text is UNCERTAIN:
                inner.texts[p] = text
                continue
            function = self.passed(a)
            if function is not None:
                inner.functions[p] = function
                inner.locals.discard(p)
                continue
            self.give(inner, p, self.tree(a), a)
        before, theirs = set(self.made.ranks), self.names.theirs
        inner.line = self.line
        self.names.theirs = theirs | all_names(source.node)
        try:
            self.out += inner.function()
        except TraceError as err:  # of the library, nobody should have to read the source
            if source.module not in MODULES or self.source.module in MODULES:
                raise
            what, instead = getattr(err, "said", (str(err), "write a loop"))
            raise self.source.refuse(node, f"{unparse(node.func)}: {what}", instead) from None
        self.line, self.names.theirs = "", theirs
        return self.fresh(inner.result, before)

    def passed(self, node: ast.expr) -> object:
        """The function that an argument is."""
        if isinstance(node, ast.Lambda):
            return self.defined("lambda", node)
        if isinstance(node, ast.Name) and (node.id in self.functions or not self.known_here(node.id)):
            found = self.function_of(node)
            if callable(found) and not isinstance(found, type):
                return found
            return found if isinstance(found, Source) else None
        if isinstance(node, ast.Attribute) and callable(self.resolve(node)):
            return self.resolve(node)
        return None

    def defined(self, name: str, node: ast.FunctionDef | ast.Lambda) -> Source:
        return self.source.inner(name, node, self)

    def lowering(self, source: Source, around: object) -> Lowering:
        raise NotImplementedError

    def give(self, inner: Lowering, p: str, tree: Tree, node: ast.expr) -> None:
        """Let the parameter `p` of a function stand for an argument."""
        if isinstance(tree, Several):
            inner.tuples[p] = self.packed(tree, node)
        elif tree.rank:
            inner.bind(p, self.view_of(tree, node, p))
        else:
            assert isinstance(tree, Scalar)
            if isinstance(tree.node, ast.Name) and p not in inner.stores:
                inner.rename[p] = tree.node.id
                return
            inner.rename[p] = self.names.fresh(p)
            inner.given.add(inner.rename[p])
            self.made.ranks[inner.rename[p]] = 0
            made = Assign(inner.rename[p], tree.node)
            self.emit(made, final=False)
            inner.learn(made)  # if it does not set it again

    def packed(self, tree: Several, node: ast.expr):
        raise NotImplementedError

    def fresh(self, tree: Tree | None, before: set[str]) -> Tree | None:
        """Note which arrays were made by the call."""
        if isinstance(tree, Several):
            return Several([self.fresh(t, before) or t for t in tree.items], tree.of)
        if isinstance(tree, Leaf) and self.root(tree.view.name) not in before:
            return Leaf(tree.view, True)
        return tree
