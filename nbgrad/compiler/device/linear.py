"""Linear epilogues: what follows a matrix product, where a library can compute it along with the product.

``alpha * product + beta * c + bias``: a step of gradient descent, a layer without an activation. (cublasLt has
activations, too, but its relu is said to turn NaN into 0, and its gelu is an approximation.)
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from ...backends.cuda.cublas import Product
from ...core.dtypes import DType
from ...core.shapes import size, strides_of
from ...ir.expr import ZERO, Expr, topological_order
from ...ir.graph import Value
from ..statements import Access
from .groups import Group, Member

__all__ = ["access_strides", "coefficients", "contiguous_strides", "product_sizes", "split_linear_epilogue"]

#: Factors closer to 0 than this, and their inverses, are not combined: a product of them may be out of range.
_SMALLEST_FACTOR = 1e-15


def product_sizes(value: Value) -> tuple[int, tuple[int, int, int]]:
    """The number of matrix products in a value, and their sizes m, k and n."""
    *stack, m, n = value.shape
    return size(stack), (m, value.inputs[0].shape[-2 if value.attrs[0] else -1], n)


def contiguous_strides(g: Group) -> dict[int, int]:
    """The strides of a contiguous array along a group's axes."""
    return dict(enumerate(strides_of(tuple(g.extents))))


def access_strides(m: Member, access: Access) -> dict[int, int] | None:
    """The strides of a read along the group's axes; None if it has an offset or is indirect."""
    if access.offset or access.through:
        return None
    return {m.axes[k]: c for k, c in access.coefficients if m.axes[k] >= 0}


def split_linear_epilogue(g: Group, value: Value, number: int) -> list[Group] | None:
    """Split the group that follows a product into one or two; None if the library of that device supports neither.

    The library computes the product and the first; the second continues from there.
    """
    for u in sorted(g.stored, key=lambda v: v.number):
        linear = _library_call(g, g.members[u], value)
        others = _needed(g, g.stored - {u}, u)
        if linear is None or any(a.value is value for v in others for a in g.members[v].s.reads):
            continue
        if linear[0].possible(number):
            first, rest = copy(g), g
            first.members = {v: m for v, m in g.members.items() if v in _needed(g, {u})}
            first.stored, first.linear = {u}, linear
            rest.members = {v: m for v, m in g.members.items() if v in others}
            rest.stored = g.stored - {u}
            return [first, rest] if rest.stored else [first]
    return None


def _needed(g: Group, wanted: Iterable[Value], known: Value | None = None) -> set[Value]:
    """The members that `wanted` depends on, without those behind `known`."""
    needed: set[Value] = set()
    stack = list(wanted)
    while stack:
        v = stack.pop()
        if v not in needed:
            needed.add(v)
            stack += [a.value for a in g.members[v].s.reads if a.value in g.members and a.value is not known]
    return needed


def _library_call(g: Group, member: Member, value: Value) -> tuple[Product, list[Value]] | None:
    """The library call for a member of the group that follows a product, and its arrays; None if there is none."""
    factors = _linear_terms(g, member, value.dtype)
    if factors is None:
        return None
    alpha, beta, c, bias = 0.0, 0.0, None, None
    for (other, where), factor in factors.items():
        if other is value:
            alpha = factor
        elif dict(where) == contiguous_strides(g) and c is None:
            c, beta = other, factor
        elif where == ((len(g.extents) - 1, 1),) and value.shape[-1] > 1 and bias is None and factor == 1:
            bias = other
        else:
            return None
    if any(not _SMALLEST_FACTOR < abs(x) < 1 / _SMALLEST_FACTOR for x in ([alpha] if c is None else [alpha, beta])):
        return None
    stacks, sizes = product_sizes(value)
    transposed = bool(value.attrs[0]), bool(value.attrs[1])
    product = Product(value.dtype.storage, stacks, sizes, transposed, (False, False), alpha, beta, bias is not None)
    return product, [member.s.value, *[v for v in (c, bias) if v is not None]]


#: An array and its strides along a group's axes -> its factor in a sum.
_Factors = dict[tuple[Value, tuple[tuple[int, int], ...]], float]


def _linear_terms(g: Group, member: Member, dtype: DType) -> _Factors | None:
    """The terms of a member in what the group reads, if it is a linear combination of arrays of `dtype`; else None."""
    terms: _Factors = {}
    combined = None if member.s.guards or member.s.value.dtype is not dtype else coefficients(member.s.expr)
    for name, factor in ({} if combined is None else combined).items():
        access = member.s.reads[int(name[1:])]
        where = access_strides(member, access)
        part: _Factors | None = None
        if access.value in g.members and access.pointwise is not None:
            part = _linear_terms(g, g.members[access.value], dtype)
        elif where is not None and access.value.dtype is dtype:
            part = {(access.value, tuple(sorted(where.items()))): 1.0}
        if part is None:
            return None
        for key, c in part.items():
            terms[key] = terms.get(key, 0.0) + factor * c
    return terms or None


def coefficients(e: Expr) -> dict[str, float] | None:
    """The coefficients of the variables in `e`, if it is a linear combination of them; else None."""
    known: dict[Expr, dict[str, float] | None] = {}
    for node in topological_order([e]):
        if node.fn is None:
            known[node] = {node.name: 1.0} if node.name is not None else {} if node.value == 0 else None
        else:
            known[node] = _combined([(known[x], factor) for x, factor in _terms(node)])
    return known[e]


def _combined(terms: list) -> dict[str, float] | None:
    total: dict[str, float] = {}
    for part, factor in terms:
        if part is None:
            return None
        for name, c in part.items():
            total[name] = total.get(name, 0.0) + factor * c
    return total if terms else None


def _terms(e: Expr) -> list[tuple[Expr, float]]:
    """The terms that `e` is the sum of, each with a constant factor; empty if it is not such a sum."""
    assert e.fn is not None
    name, (a, b) = e.fn.name, (*e.args, ZERO, ZERO)[:2]
    if name in ("add", "sub"):
        return [(a, 1.0), (b, 1.0 if name == "add" else -1.0)]
    if name == "neg":
        return [(a, -1.0)]
    if name == "mul" and a.value is not None:
        a, b = b, a
    if name in ("mul", "div") and b.value:
        return [(a, float(b.value) if name == "mul" else 1.0 / b.value)]
    return []
