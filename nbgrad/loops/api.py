"""The API for functions with loops: :func:`adjoint` (reverse mode) and :func:`tangent` (forward mode)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from .differentiated import Adjoint, Tangent

__all__ = ["adjoint", "tangent"]


def adjoint(
    f: Callable | Adjoint | Tangent,
    argnums: int | tuple[int, ...] | None = None,
    *,
    checkpoint: int | tuple[int, ...] | Literal["auto"] | None = None,
    loop: str | tuple[str, ...] | None = None,
    memory: int | None = None,
    boundscheck: bool = True,
) -> Adjoint:
    """The adjoint of a function with loops: reverse mode, by source transformation, compiled by Numba.

    Parameters
    ----------
    f : callable
        A Python function, compiled by Numba or not, of numbers and NumPy arrays, in the subset of Python that
        ``docs/adjoint.md`` lists. Or an adjoint or tangent, whose generated function is then differentiated.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to: one gradient each, in this order; for an int, the gradient
        itself. Without it there is one gradient per parameter, in order, and it is None for an argument that has none:
        integers, bools, arrays of these, strings and None.
    checkpoint : int, tuple of int or "auto", optional
        Take this many snapshots of the state of an outermost loop and rerun its iterations from them, instead of
        storing what all iterations overwrite; a tuple has the numbers for loops directly in one another, outermost
        first. With "auto", as many as fit into `memory`, and none if the tapes fit.
    loop : str or tuple of str, optional
        The variable of that loop, or of those loops. Without it, the loops with the largest tapes.
    memory : int, optional
        Bytes for "auto"; by default a quarter of the free memory.
    boundscheck : bool, optional
        Whether an index that is out of range raises IndexError. If not, the reverse sweep may write anywhere.

    Returns
    -------
    Adjoint

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> def length(x):
    ...     total = 0.0
    ...     for i in range(x.size):
    ...         total += x[i] * x[i]
    ...     return total**0.5
    >>> value, (x_bar,) = nb.adjoint(length).value_and_grad(np.array([3.0, 4.0]))
    >>> print(value, x_bar)
    5.0 [0.6 0.8]
    """
    return Adjoint(f, argnums, checkpoint, loop, memory, boundscheck)


def tangent(f: Callable, argnums: int | tuple[int, ...] | None = None, *, boundscheck: bool = True) -> Tangent:
    """The tangent of a function with loops: forward mode, by source transformation, compiled by Numba.

    Parameters
    ----------
    f, argnums, boundscheck
        As for :func:`adjoint`.

    Returns
    -------
    Tangent

    Examples
    --------
    >>> import nbgrad as nb
    >>> def cube(x):
    ...     y = 1.0
    ...     for i in range(3):
    ...         y *= x
    ...     return y
    >>> nb.tangent(cube).jvp((2.0,), (1.0,))
    (8.0, 12.0)
    """
    return Tangent(f, argnums, boundscheck)
