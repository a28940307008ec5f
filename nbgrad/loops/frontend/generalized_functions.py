"""Functions of ``numba.guvectorize``: loops over the axes that broadcast, around the kernel on the core dimensions."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from ...backends.numba.wrapped_functions import Generalized, Operand
from ..ir.names import called as call_of
from ..ir.terms import ONE, ZERO, Term, Variable
from ..ir.type_inference import DTYPES
from .array_expressions import (
    ArrayExpr,
    Elementwise,
    FromFunction,
    Leaf,
    Lowered,
    Op,
    Scalar,
    TupleExpr,
    copy_of_values,
)
from .structured_control import with_location
from .syntax import bound_name, unparse
from .views import View, axis_length, raw_length

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["inline_body", "lower_generalized"]

_KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}
_RANK = {"bool": 0, "int": 1, "float": 2}


def lower_generalized(
    low: Lowering, node: ast.Call, g: Generalized, inputs: list[ast.expr], outputs: list[ast.expr | None]
) -> ArrayExpr:
    """A call of `g`; `outputs` are the arrays that it is given for its results, as far as it is given some."""
    return _GeneralizedCall(low, node, g).lower(inputs, outputs)


class _GeneralizedCall:
    """One call."""

    def __init__(self, low: Lowering, node: ast.Call, g: Generalized) -> None:
        self.low, self.node, self.g = low, node, g
        self.checks = Elementwise(low, node)

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, f"{unparse(self.node)}: {what}", instead)

    def lower(self, inputs: list[ast.expr], outputs: list[ast.expr | None]) -> ArrayExpr:
        low, g = self.low, self.g
        outputs = [*outputs, *[None] * (len(g.outputs) - len(outputs))]
        if g.dynamic and None in outputs:
            raise self.refuse(
                "a function of numba.guvectorize without declared types allocates no results",
                "pass an array for each output, as Numba requires",
            )
        trees = [low.array_like(a) for a in inputs]
        loop = self.declared_loop([low.kind_of_tree(t) or "float" for t in trees])
        trees = [self.cast(t, p) for t, p in zip(trees, loop, strict=False)] if loop else trees
        operands: list[ArrayExpr] = [t if isinstance(t, Scalar) else Leaf(low.view_of(t, self.node)) for t in trees]
        given = [None if n is None else Leaf(low.view(n)) for n in outputs]
        for out in given:
            if out is not None:
                low.check_writable(self.node, out.view)
                self.require_apart(out, operands)
        lengths = self.loop_lengths(operands, given)
        core = self.core_lengths(operands, given)
        floats = [
            t.view.name for t in operands if isinstance(t, Leaf) and low.lowered_function.kinds[t.view.name] == "float"
        ]
        results = [
            out or Leaf(self.allocate(lengths, [core[n] for n in names], loop[len(trees) + k], floats), True)
            for k, (out, names) in enumerate(zip(given, g.outputs, strict=True))
        ]
        self.inline_loops(operands, results, lengths, loop)
        bound = [
            r if names or lengths else Scalar(Variable(low.fresh_scalar("result", r.view.at([ZERO] * r.rank))))
            for r, names in zip(results, g.outputs, strict=True)
        ]
        return bound[0] if len(bound) == 1 else TupleExpr(list(bound))

    def declared_loop(self, kinds: list[str]) -> tuple[Operand, ...]:
        """The first loop whose inputs can hold operands of these kinds; an empty one if none was declared."""
        if self.g.dynamic:
            return ()
        for wide in (True, False):  # code is shared between float64 and float32
            for loop in self.g.loops:
                pairs = list(zip(kinds, loop, strict=False))
                if wide and any(p.kind == "f" and p.bits < 64 for p in loop):
                    continue
                if all(p.kind in _KINDS and _RANK[k] <= _RANK[_KINDS[p.kind]] for k, p in pairs):
                    return loop
        types = ", ".join(kinds)
        raise self.refuse(f"no types are declared for operands of the kinds {types}", "declare them, or convert these")

    def cast(self, tree: ArrayExpr, operand: Operand) -> ArrayExpr:
        """An operand, converted to the kind of the declared one."""
        kind, own = _KINDS[operand.kind], self.low.kind_of_tree(tree)
        if own == kind or not own:
            return tree
        cast = {"float": float, "int": int}[kind]
        if isinstance(tree, Scalar):
            return Scalar(call_of(cast, tree.term))
        return copy_of_values(Op(partial(call_of, cast), [tree]), kind, DTYPES[kind])

    def require_apart(self, out: Leaf, operands: list[ArrayExpr]) -> None:
        storage = self.low.storage_of(out.view.name)
        if any(isinstance(t, Leaf) and self.low.storage_of(t.view.name) == storage for t in operands):
            raise self.refuse(f"{out.view.name} is an input and an output", "copy the input (.copy()), or the result")

    def loop_axes(self, tree: ArrayExpr, core: tuple[str, ...]) -> int:
        """The number of axes in front of the core dimensions."""
        if tree.rank < len(core):
            what = f"an operand has {tree.rank} axes, and its core dimensions are ({', '.join(core)})"
            raise self.refuse(what, "pass an array with these axes at its end")
        return tree.rank - len(core)

    def loop_lengths(self, operands: list[ArrayExpr], given: list[Leaf | None]) -> list[Term]:
        """The lengths of the loops, as NumPy broadcasts them."""
        outputs = [(t, c) for t, c in zip(given, self.g.outputs, strict=True) if t is not None]
        pairs = [*zip(operands, self.g.inputs, strict=True), *outputs]
        rank = max([self.loop_axes(t, c) for t, c in pairs], default=0)
        for out, core in outputs:
            if out.rank != rank + len(core):
                raise self.refuse(f"an output has {out.rank} axes", f"pass one with {rank + len(core)}")
        lengths: list[Term] = []
        for d in range(rank):
            axes = []
            for t, core in pairs:
                k = self.loop_axes(t, core) - rank + d
                if k >= 0:
                    assert isinstance(t, Leaf)
                    axes.append(t.view.axis(k))
            several = [a for a in axes if raw_length(a) is not ONE]
            first = axis_length(several[0]) if several else ONE
            for axis in several[1:]:
                pair = raw_length(axis), raw_length(several[0])
                if pair[0] is not pair[1]:
                    self.low.lowered_function.compared_lengths.append(pair)
                self.checks.require_equal_lengths(*pair)
            for out, _ in outputs:  # which does not broadcast
                self.checks.require_equal_lengths(raw_length(out.view.axis(d)), first)
            lengths.append(first)
        return lengths

    def core_lengths(self, operands: list[ArrayExpr], given: list[Leaf | None]) -> dict[str, Term]:
        """The length of each core dimension, which operands must agree about."""
        core: dict[str, Term] = {}
        for tree, names in zip([*operands, *given], [*self.g.inputs, *self.g.outputs], strict=True):
            for k, name in enumerate(names if tree is not None else ()):
                assert isinstance(tree, Leaf)
                axis = tree.view.axis(tree.rank - len(names) + k)
                length = core.setdefault(name, axis_length(axis))
                self.checks.require_equal_lengths(raw_length(axis), length)
        return core

    def allocate(self, lengths: list[Term], core: list[Term], operand: Operand, floats: list[str]) -> View:
        """A new array for an output."""
        kind = _KINDS[operand.kind]
        single = kind == "float" and any(p.bits == 32 and p.kind == "f" for loop in self.g.loops for p in loop)
        dtype = self.low.dtype_of_floats(floats) if single else DTYPES[kind]
        fresh = FromFunction([*lengths, *core] or [ONE], None, kind, dtype)
        return self.low.view_of(fresh, self.node, "result")

    def inline_loops(
        self, operands: list[ArrayExpr], results: list[Leaf], lengths: list[Term], loop: tuple[Operand, ...]
    ) -> None:
        """Loops that call the kernel with the core dimensions of each operand."""
        low = self.low
        counters = [f"i{d}" for d in range(len(lengths))]
        arguments: list[ast.expr] = []
        pairs = [*zip(operands, self.g.inputs, strict=True), *zip(results, self.g.outputs, strict=True)]
        for k, (tree, core) in enumerate(pairs):
            output = k >= len(operands)
            one_element = not core and (output or (loop and loop[k].is_array))
            if isinstance(tree, Scalar):
                if one_element:
                    fill = FromFunction([ONE], lambda _, t=tree.term: t, low.kind_of_tree(tree) or "float",
                                        DTYPES[low.kind_of_tree(tree) or "float"])  # fmt: skip
                    tree = Leaf(low.view_of(fill, self.node, "number"))
                arguments.append(Lowered(tree))
                continue
            assert isinstance(tree, Leaf)
            axes = tree.rank - len(core)
            if output and not lengths and not core:
                axes = 0  # an array of one element
            broadcast = [raw_length(tree.view.axis(d)) is ONE for d in range(axes)]
            names = counters[len(counters) - axes :]
            indices: list[ast.expr] = [
                ast.Constant(0) if one else ast.Name(n, ast.Load()) for n, one in zip(names, broadcast, strict=True)
            ]
            if one_element and axes:
                indices.append(ast.Constant(None))
            whole = Lowered(tree)
            index = ast.Tuple(indices, ast.Load()) if len(indices) > 1 else indices[0] if indices else None
            arguments.append(whole if index is None else ast.Subscript(whole, index, ast.Load()))
        body: list[ast.stmt] = [ast.Expr(ast.Call(bound_name(self.g.kernel, self.g.kernel.__name__), arguments, []))]
        inline_body(low, self.node, self.g.kernel.__name__, counters, [(ZERO, n) for n in lengths], body)


def inline_body(
    low: Lowering, node: ast.Call, name: str, counters: list[str], bounds: list[tuple[Term, Term]], body: list[ast.stmt]
) -> None:
    """Inline a function without parameters that runs `body` in loops with these `counters` and `bounds`."""
    for counter, ends in reversed(list(zip(counters, bounds, strict=True))):
        count = ast.Call(bound_name(range, "range"), [Lowered(Scalar(t)) for t in ends], [])
        body = [ast.For(ast.Name(counter, ast.Store()), count, body, [])]
    arguments = ast.arguments([], [], None, [], [], None, [])
    function = with_location(ast.FunctionDef(f"loops_of_{name}", arguments, body, []), node)
    source = low.source.inner(function.name, function, low, lambda d: d)
    low.inline(ast.copy_location(ast.Call(bound_name(source, name), [], []), node))
