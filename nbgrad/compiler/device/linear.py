"""What follows a matrix product, where it is something that a library computes with it: multiples and sums.

``alpha * product + beta * c + bias``: a step of descent, a layer without an activation. (cublasLt has activations,
too, but its relu is said to make NaN 0, and its gelu is an approximation.)
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from ...backends.cuda.cublas import Product
from ...core.dtypes import DType
from ...core.shapes import size
from ...ir.expr import ZERO, Expr, order
from ...ir.graph import Value
from ..statements import Access
from .groups import Group, Member

__all__ = ["coefficients", "in_order", "linear_part", "multiplied", "steps"]

#: Factors nearer to 0, and their inverses, stay apart: what they are multiplied to might be out of range.
_MODEST = 1e-15


def multiplied(value: Value) -> tuple[int, tuple[int, int, int]]:
    """How many products of matrices a value is, and their sizes m, k and n."""
    *stack, m, n = value.shape
    return size(stack), (m, value.inputs[0].shape[-2 if value.attrs[0] else -1], n)


def in_order(g: Group) -> dict[int, int]:
    """Steps along a group's axes to go through an array as it is in memory."""
    found, stride = {}, 1
    for k in reversed(range(len(g.extents))):
        found[k] = stride
        stride *= g.extents[k]
    return found


def steps(m: Member, access: Access) -> dict[int, int] | None:
    """Steps along the group's axes of a read from the beginning of an array; None if it is another."""
    if access.offset or access.through:
        return None
    return {m.axes[k]: c for k, c in access.coefficients if m.axes[k] >= 0}


def linear_part(g: Group, value: Value, number: int) -> list[Group] | None:
    """The group that follows a product, in one part or two; None if the library of that device can have neither.

    The library computes the product and the first; the second goes on from there.
    """
    for u in sorted(g.stored, key=lambda v: v.number):
        linear = _form(g, g.members[u], value)
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
    """The members that compute some, where one is known."""
    found: set[Value] = set()
    stack = list(wanted)
    while stack:
        v = stack.pop()
        if v not in found:
            found.add(v)
            stack += [a.value for a in g.members[v].s.reads if a.value in g.members and a.value is not known]
    return found


def _form(g: Group, member: Member, value: Value) -> tuple[Product, list[Value]] | None:
    """What a library computes to have a member of the group that follows a product, and with which arrays."""
    factors = _factors(g, member, value.dtype)
    if factors is None:
        return None
    alpha, beta, c, bias = 0.0, 0.0, None, None
    for (other, where), factor in factors.items():
        if other is value:
            alpha = factor
        elif dict(where) == in_order(g) and c is None:
            c, beta = other, factor
        elif where == ((len(g.extents) - 1, 1),) and value.shape[-1] > 1 and bias is None and factor == 1:
            bias = other
        else:
            return None
    if any(not _MODEST < abs(x) < 1 / _MODEST for x in ([alpha] if c is None else [alpha, beta])):
        return None
    stacks, sizes = multiplied(value)
    transposed = bool(value.attrs[0]), bool(value.attrs[1])
    product = Product(value.dtype.storage, stacks, sizes, transposed, (False, False), alpha, beta, bias is not None)
    return product, [member.s.value, *[v for v in (c, bias) if v is not None]]


#: An array, and the steps in which a group goes through it, with the factor that it has in a sum.
_Factors = dict[tuple[Value, tuple[tuple[int, int], ...]], float]


def _factors(g: Group, member: Member, dtype: DType) -> _Factors | None:
    """What a member is the sum of, if it is one of arrays of `dtype` alone, in terms of what the group reads."""
    found: _Factors = {}
    combined = None if member.s.guards or member.s.value.dtype is not dtype else coefficients(member.s.expr)
    for name, factor in ({} if combined is None else combined).items():
        access = member.s.reads[int(name[1:])]
        where = steps(member, access)
        part: _Factors | None = None
        if access.value in g.members and access.pointwise is not None:
            part = _factors(g, g.members[access.value], dtype)
        elif where is not None and access.value.dtype is dtype:
            part = {(access.value, tuple(sorted(where.items()))): 1.0}
        if part is None:
            return None
        for key, c in part.items():
            found[key] = found.get(key, 0.0) + factor * c
    return found or None


def coefficients(e: Expr) -> dict[str, float] | None:
    """Of the variables in `e`, if it is their linear combination with constant coefficients."""
    known: dict[Expr, dict[str, float] | None] = {}
    for node in order([e]):
        if node.fn is None:
            known[node] = {node.name: 1.0} if node.name is not None else {} if node.value == 0 else None
        else:
            known[node] = _combined([(known[x], factor) for x, factor in _terms(node)])
    return known[e]


def _combined(terms: list) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for part, factor in terms:
        if part is None:
            return None
        for name, c in part.items():
            found[name] = found.get(name, 0.0) + factor * c
    return found if terms else None


def _terms(e: Expr) -> list[tuple[Expr, float]]:
    """Of what `e` is the sum, each with a constant factor; nothing if that cannot be said."""
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
