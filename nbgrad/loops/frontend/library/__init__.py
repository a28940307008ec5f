"""NumPy's functions, written in the subset itself; calls of them are lowered like calls of user functions.

Tests of ``np.ndim``, and of arguments that are constant at the call, are decided at compile time. So that nothing needs
to be stored on tapes, elements that derivatives read are written once. :func:`..function_table.definition` registers
them; what a call has no form for is refused by :func:`..function_table.refuse_call`.
"""

from . import (  # noqa: F401
    bisection,
    calculus,
    generators,
    grids,
    iterators,
    linalg,
    lists,
    padding,
    polynomials,
    random,
    rearranging,
    scalars,
    sets,
    statistics,
    sums,
    updates,
    windows,
)

__all__: list[str] = []  # they are found through the table
