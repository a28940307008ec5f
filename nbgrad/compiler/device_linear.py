"""What follows a matrix product, where it is something that a library computes with it: multiples and sums.

``alpha * product + beta * c + bias``: a step of descent, a layer without an activation. (cublasLt has activations,
too, but its relu makes NaN 0, and its gelu is an approximation.)
"""

from __future__ import annotations

from ..codegen.graph import Value
from ..cuda.cublas import Product
from ..expr import ZERO, Expr, order
from ..shapes import size
from .device_groups import Group, Member
from .statements import Access

__all__ = ["coefficients", "in_order", "linear_form", "multiplied", "steps"]

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


def linear_form(g: Group, value: Value) -> tuple[Product, list[Value]] | None:
    """What a library computes instead of a product and the group that follows it; None if it does not."""
    last = list(g.members.values())[-1]
    if g.stored != {last.s.value} or any(v.dtype is not value.dtype for v in g.members):
        return None
    factors = _factors(g, last)
    if factors is None:
        return None
    alpha, beta, c, bias = 0.0, 0.0, None, None
    for (other, where), factor in factors.items():
        if other is value:
            alpha = factor
        elif other.dtype is not value.dtype:
            return None
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
    return product, [last.s.value, *[v for v in (c, bias) if v is not None]]


#: An array, and the steps in which a group goes through it, with the factor that it has in a sum.
_Factors = dict[tuple[Value, tuple[tuple[int, int], ...]], float]


def _factors(g: Group, member: Member) -> _Factors | None:
    """What a member is the sum of, if it is one of arrays alone, in terms of what the group reads from memory."""
    found: _Factors = {}
    combined = None if member.s.guards else coefficients(member.s.expr)
    for name, factor in ({} if combined is None else combined).items():
        access = member.s.reads[int(name[1:])]
        where = steps(member, access)
        if access.value in g.members and access.pointwise is not None:
            part = _factors(g, g.members[access.value])
        else:
            part = None if where is None else {(access.value, tuple(sorted(where.items()))): 1.0}
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
