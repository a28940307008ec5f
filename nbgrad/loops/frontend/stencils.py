"""Functions of ``numba.stencil``: loops over the elements whose neighbours exist, around the kernel.

In the kernel, indices of arrays are relative to the element; here the counters of the loops are added to them.
"""

from __future__ import annotations

import ast
import copy
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.numba.wrapped_functions import Stencil
from ..ir.affine import plus
from ..ir.names import Names, literal
from ..ir.statements import Check
from ..ir.terms import Compare, Constant, Term
from ..ir.type_inference import DTYPES
from .array_expressions import ArrayExpr, Elementwise, FromFunction, Leaf, Lowered, Scalar, TupleExpr
from .generalized_functions import inline_body
from .source import Source
from .structured_control import with_location
from .syntax import Transformer, all_names, bound_name, copy_tree, stored_names, subtrees, unparse
from .views import axis_length, raw_length

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["lower_stencil"]

_DTYPES = {"float": np.float64, "int": np.int64, "bool": np.bool_}
_KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}


def lower_stencil(
    low: Lowering, node: ast.Call, stencil: Stencil, inputs: list[ast.expr], out: ast.expr | None
) -> ArrayExpr:
    """A call of a stencil; `out` is the array that it is given for the result, if any."""
    kernel = low.shared.source_of(stencil.kernel)
    names = list(kernel.signature.parameters)
    trees = [low.array_like(a) for a in inputs]
    if len(trees) != len(names) or not trees or not trees[0].rank:
        what = f"the call {unparse(node)}"
        raise low.source.refuse(node, what, f"give it {', '.join(names)}, of which the first is an array")
    trees = [Leaf(low.view_of(t, node)) if t.rank else t for t in trees]
    first = trees[0]
    assert isinstance(first, Leaf)
    relative = {n: t for n, t in zip(names, trees, strict=True) if t.rank and n not in stencil.standard_indexing}
    indexed = _Relative(kernel, relative, first.rank, stencil.neighborhood)
    result = Elementwise(low, node)
    for tree in [t for n, t in relative.items() if n in indexed.found][1:]:
        _require_large_enough(low, node, first, tree)
    kind, single = _element_type(low, node, stencil, trees)
    if out is None:
        floats = [
            t.view.name for t in trees if isinstance(t, Leaf) and low.lowered_function.kinds[t.view.name] == "float"
        ]
        dtype = low.dtype_of_floats(floats) if single else DTYPES[kind]
        cval: Any = 0 if stencil.cval is None else stencil.cval
        fill = literal({"float": float, "int": int, "bool": bool}[kind](cval))
        target = result.materialise(FromFunction(low.shape(first.view), lambda *_: fill, kind, dtype),
                                    low.names.fresh("result"))  # fmt: skip
    else:
        target = low.view(out)
        low.check_writable(node, target)
        if target.rank != first.rank:
            raise low.source.refuse(node, f"out= of {target.rank} axes in {unparse(node)}", f"pass {first.rank} axes")
        if stencil.cval is not None:
            low.write(node, target, Scalar(literal(stencil.cval)))
    bounds: list[tuple[Term, Term]] = [
        (Constant(-min(0, before)), plus(axis_length(first.view.axis(d)), -max(0, after)))
        for d, (before, after) in enumerate(indexed.neighborhood)
    ]
    shifted = indexed.source()
    counters = [f"i{d}" for d in range(first.rank)]
    here: list[ast.expr] = [ast.Name(c, ast.Load()) for c in counters]
    element = ast.Subscript(
        Lowered(Leaf(target)), here[0] if len(here) == 1 else ast.Tuple(here, ast.Load()), ast.Store()
    )
    call = ast.Call(bound_name(shifted, shifted.name), [*here, *(Lowered(t) for t in trees)], [])
    inline_body(low, node, shifted.name, counters, bounds, [ast.Assign([element], call)])
    return Leaf(target, out is None)


def _element_type(low: Lowering, node: ast.Call, stencil: Stencil, trees: list[ArrayExpr]) -> tuple[str, bool]:
    """The kind of the elements of the result, and whether they are float32 where those of the arrays are."""
    if any(isinstance(t, TupleExpr) for t in trees):
        raise low.source.refuse(node, f"a tuple in {unparse(node)}", "pass its items one by one")

    def result(single: bool) -> Any:
        arguments = [(t.rank, _DTYPES[low.kind_of_tree(t) or "float"]) for t in trees]
        narrow = [(r, np.float32 if single and r and d is np.float64 else d) for r, d in arguments]
        return stencil.result([(r, np.dtype(d)) for r, d in narrow])

    dtype = result(False)
    if dtype is None or dtype.kind not in _KINDS:
        what = f"{unparse(node)}, a stencil that Numba cannot compile for these arguments, or whose result is no number"
        raise low.source.refuse(node, what, "call it alone to see why")
    kind = _KINDS[dtype.kind]
    if stencil.cval is not None and kind != "float" and np.asarray(stencil.cval).dtype.kind == "f":
        what = f"{unparse(node)}, whose cval is a float and whose result is of kind {kind}"
        raise low.source.refuse(node, what, "give cval the kind of the result")
    return kind, kind == "float" and result(True) == np.float32


def _require_large_enough(low: Lowering, node: ast.Call, first: Leaf, tree: ArrayExpr) -> None:
    """Require that an array has all the elements that the first one has."""
    assert isinstance(tree, Leaf)
    if tree.rank != first.rank:
        what = f"arrays of {first.rank} and {tree.rank} axes in {unparse(node)}"
        raise low.source.refuse(node, what, "give both as many axes, or name one in standard_indexing")
    for d in range(first.rank):
        mine, other = raw_length(first.view.axis(d)), raw_length(tree.view.axis(d))
        if mine is not other:
            text = f"{low.lowered_function.name}: an array of a stencil is smaller than the first in '{unparse(node)}'"
            low.out.append(Check(Compare((">",), (mine, other)), text, "ValueError"))


class _Relative(Transformer):
    """The kernel of a stencil with the counters of the loops added to relative indices.

    `found` are the arrays that are indexed so, `neighborhood` the extent of the indices along each axis.
    """

    def __init__(
        self, kernel: Source, arrays: dict[str, ArrayExpr], rank: int, given: tuple[tuple[int, int], ...] | None
    ) -> None:
        self.kernel, self.arrays, self.rank, self.given = kernel, arrays, rank, given
        self.found: set[str] = set()
        free = Names(all_names(kernel.node))
        self.counters = [free.fresh(f"i{d}") for d in range(rank)]
        self.extent = [[0, 0] for _ in range(rank)]
        if given is not None and len(given) != rank:
            raise kernel.refuse(
                kernel.node, f"a neighborhood of {len(given)} axes", f"give one pair for each of {rank}"
            )
        stored = set(stored_names(kernel.node.body))
        if stored & set(arrays):
            raise kernel.refuse(kernel.node, f"{min(stored & set(arrays))}, an array of a stencil that is set",
                                "give the other value another name")  # fmt: skip
        inside = {id(n.value) for n in subtrees(kernel.node) if isinstance(n, ast.Subscript | ast.Attribute)}
        for n in subtrees(kernel.node):
            if isinstance(n, ast.Name) and n.id in arrays and id(n) not in inside:
                what = f"{n.id}, an array of a stencil, other than at relative indices"
                raise kernel.refuse(n, what, "index it, or name it in standard_indexing")
        self.node = self.visit(copy_tree(kernel.node))
        if not self.found:
            raise kernel.refuse(kernel.node, "a stencil without relative indices", "write a loop")
        self.neighborhood = [tuple(e) for e in self.extent] if given is None else list(given)

    def source(self) -> Source:
        """The kernel as a function of the counters and its own arguments."""
        source = copy.copy(self.kernel)
        self.node.args.args[:0] = [with_location(ast.arg(c), self.node) for c in self.counters]
        source.node = self.node
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        own = list(self.kernel.signature.parameters.values())
        source.signature = inspect.Signature([*(inspect.Parameter(c, kind) for c in self.counters), *own])
        return source

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name) or node.value.id not in self.arrays:
            return node
        if isinstance(node.ctx, ast.Store):
            raise self.kernel.refuse(node, "an array of a stencil that is written", "return the value")
        self.found.add(node.value.id)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) != self.rank:
            raise self.kernel.refuse(node, f"{len(parts)} relative indices of {self.rank} axes", "give one for each")
        shifted = [self.shifted(p, d) for d, p in enumerate(parts)]
        index = shifted[0] if self.rank == 1 else ast.Tuple(shifted, ast.Load())
        return with_location(ast.Subscript(node.value, index, node.ctx), node)

    def shifted(self, part: ast.expr, d: int) -> ast.expr:
        """A relative index along axis `d` as an absolute one."""
        if isinstance(part, ast.Slice):
            if self.given is None or part.lower is None or part.upper is None or part.step is not None:
                what, instead = f"the relative slice {unparse(part)}", "give both ends, no step, and a neighborhood"
                raise self.kernel.refuse(part, what, instead)
            return ast.Slice(self.sum(part.lower, d), self.sum(part.upper, d), None)
        if self.given is None:
            number = self.constant(part)
            if number is None:
                what = f"the relative index {unparse(part)}, which is not constant"
                raise self.kernel.refuse(part, what, "give the stencil a neighborhood")
            self.extent[d] = [min(self.extent[d][0], number), max(self.extent[d][1], number)]
        return self.sum(part, d)

    def sum(self, part: ast.expr, d: int) -> ast.expr:
        counter = ast.Name(self.counters[d], ast.Load())
        number = self.constant(part)
        if number is not None:
            return counter if number == 0 else ast.BinOp(
                counter, ast.Add() if number > 0 else ast.Sub(), ast.Constant(abs(number))
            )  # fmt: skip
        return ast.BinOp(counter, ast.Add(), part)

    def constant(self, node: ast.expr) -> int | None:
        """The value of an index that is constant."""
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.constant(operand)
                return None if inner is None else -inner
            case ast.Name() if node.id not in all_names(self.kernel.node.args) | set(
                stored_names(self.kernel.node.body)
            ):
                known = self.kernel.outer_values.get(node.id)
                return int(known) if isinstance(known, int | np.integer) and not isinstance(known, bool) else None
        return None
