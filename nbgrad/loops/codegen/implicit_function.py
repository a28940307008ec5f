"""Vjps of solutions of equations, by the implicit function theorem, around the pullback of the residual.

The generated function is in the subset that has adjoints: its own derivatives are those of its source.
"""

from __future__ import annotations

import numpy as np

from ..ir.effects import Bind, Return
from ..ir.names import called
from ..ir.printer import definition
from ..ir.reverse_ir import FLOAT_ZERO, For, Item, Step, negative
from ..ir.terms import (
    ZERO,
    Binary,
    Call,
    Constant,
    DType,
    Element,
    Global,
    Length,
    Term,
    Tuple,
    Variable,
    variables,
)
from .module_source import module
from .pure_functions import Pullback

__all__ = ["implicit_vjp"]


def implicit_vjp(
    name: str, pullback: Pullback, rank: int, parameters: dict[str, int], taken: list[str]
) -> tuple[str, str]:
    """The name and source of ``name_vjp(g, z, parameters...)``.

    Parameters
    ----------
    pullback : Pullback
        That of the residual, a function of the solution and `taken`, with respect to the solution and others.
    rank : int
        The number of axes of the solution and of the residual, 0 or 1.
    parameters : dict
        The number of axes of each parameter of the function that solves the equation.
    taken : list of str
        Those that the residual takes, in its order.
    """
    inner, fresh = pullback.source(), pullback.free.fresh
    entry, g, z = fresh(f"{name}_vjp"), fresh("g"), fresh("z")
    own = {n: fresh(n) for n in parameters}
    inputs = variables([z, *(own[n] for n in taken)])
    zeros = {n: called(np.zeros_like, Variable(own[n])) if axes else FLOAT_ZERO for n, axes in parameters.items()}
    places = dict(zip(pullback.f.parameters[1:], taken, strict=True))
    bars = {places[n]: fresh(f"{n}_bar") for n in pullback.wrt[1:]}
    w, z_bar = fresh("w"), fresh("z_bar")

    def pulled_back(cotangent: Term) -> Item:
        """Call the pullback, which returns a tuple if it is several cotangents."""
        call = Call(Global(pullback.entry, pullback), (cotangent, *inputs))
        return Bind((z_bar, *bars.values()), call, unpacks=bool(bars))

    cotangents: dict[str, Term]
    items: list[Item]
    if rank:
        n, i, j, jacobian, seed = map(fresh, ("n", "i", "j", "jacobian", "seed"))
        size, here, dtype = Variable(n), (Variable(i),), DType(z)
        column = Step(Element(jacobian, (Variable(j), *here)), "=", Element(z_bar, (Variable(j),)))
        each = [
            Step(Element(seed, here), "=", Constant(1.0)),
            pulled_back(Variable(seed)),
            For(j, ZERO, size, body=[column]),
            Step(Element(seed, here), "=", FLOAT_ZERO),
        ]
        solve = Global("np.linalg.solve", np.linalg.solve)
        items = [
            Bind((n,), Length(z, None)),
            Bind((jacobian,), called(np.zeros, Tuple((size, size)), dtype), comment="transposed"),
            Bind((seed,), called(np.zeros, size, dtype)),
            For(i, ZERO, size, body=each),
            Bind((w,), Call(solve, (Variable(jacobian), negative(Variable(g))))),
            pulled_back(Variable(w)),
        ]
        cotangents = {n: Variable(bar) for n, bar in bars.items()}
    else:
        solution = Binary("/", negative(Variable(g)), Variable(z_bar))
        items = [pulled_back(Constant(1.0)), Bind((w,), solution)]
        cotangents = {n: Binary("*", Variable(w), Variable(bar)) for n, bar in bars.items()}
    items.append(Return(tuple([cotangents.get(n, zeros[n]) for n in parameters]), parenthesized=True))
    around = definition(entry, [g, z, *own.values()], items).text
    return entry, f"{module(inner, pullback.f, pullback.free)}\n\n@njit(nogil=True, error_model='numpy')\n{around}"
