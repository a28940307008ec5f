"""Vjps of solutions of equations, by the implicit function theorem, around the pullback of the residual.

The generated function is in the subset that has adjoints: its own derivatives are those of its source.
"""

from __future__ import annotations

from ..ir.printer import definition
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
    text, fresh = pullback.source(), pullback.free.fresh
    entry, g, z = fresh(f"{name}_vjp"), fresh("g"), fresh("z")
    own = {n: fresh(n) for n in parameters}
    inputs = ", ".join([z, *(own[n] for n in taken)])
    zeros = {n: f"np.zeros_like({own[n]})" if axes else "0.0" for n, axes in parameters.items()}
    places = dict(zip(pullback.f.parameters[1:], taken, strict=True))
    bars = {places[n]: fresh(f"{n}_bar") for n in pullback.wrt[1:]}
    w, z_bar = fresh("w"), fresh("z_bar")
    found = ", ".join([z_bar, *bars.values()])  # what the pullback returns: a tuple if it is several
    if rank:
        n, i, j, jacobian, seed = map(fresh, ("n", "i", "j", "jacobian", "seed"))
        lines = [
            f"{n} = {z}.size",
            f"{jacobian} = np.zeros(({n}, {n}), {z}.dtype)  # transposed",
            f"{seed} = np.zeros({n}, {z}.dtype)",
            f"for {i} in range({n}):",
            f"    {seed}[{i}] = 1.0",
            f"    {found} = {pullback.entry}({seed}, {inputs})",
            f"    for {j} in range({n}):",
            f"        {jacobian}[{j}, {i}] = {z_bar}[{j}]",
            f"    {seed}[{i}] = 0.0",
            f"{w} = np.linalg.solve({jacobian}, -{g})",
            f"{found} = {pullback.entry}({w}, {inputs})",
        ]
        cotangents = bars
    else:
        lines = [f"{found} = {pullback.entry}(1.0, {inputs})", f"{w} = -{g} / {z_bar}"]
        cotangents = {n: f"{w} * {bar}" for n, bar in bars.items()}
    lines.append(f"return ({''.join(f'{cotangents.get(n, zeros[n])}, ' for n in parameters)})")
    return entry, module(text, pullback.f, pullback.free) + "\n\n@njit(nogil=True, error_model='numpy')\n" + definition(
        entry, [g, z, *own.values()], lines
    )
