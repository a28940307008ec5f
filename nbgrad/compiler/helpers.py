"""What generated programs use besides the scalar functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..codegen.compile import intrinsic, routine
from ..codegen.convert import __all__ as _conversions
from ..codegen import convert
from ..kernels.extreme import greater, smaller
from ..kernels.linear import narrow, narrow_transposed

__all__ = ["HELPERS", "product"]


def _add(typingctx, a, b):
    # Additions of one sum may be reordered, so that it can be made in vector registers; no other addition may.
    if not (isinstance(a, types.Float) and a == b):
        return None

    def lower(context, builder, signature, args):
        return builder.fadd(*args, flags=("reassoc", "nsz", "contract"))

    return a(a, b), lower


add: Any = intrinsic(_add)


# Matrix products of flat arrays: c (m, n) from a (m, k) and b (k, n); t: it is stored transposed.


@routine(runtime=True)
def dot(a, b, c, m, k, n):
    np.dot(a.reshape((m, k)), b.reshape((k, n)), c.reshape((m, n)))


@routine(runtime=True)
def dot_t(a, b, c, m, k, n):
    np.dot(a.reshape((m, k)), b.reshape((n, k)).T, c.reshape((m, n)))


@routine(runtime=True)
def t_dot(a, b, c, m, k, n):
    np.dot(a.reshape((k, m)).T, b.reshape((k, n)), c.reshape((m, n)))


@routine(runtime=True)
def t_dot_t(a, b, c, m, k, n):
    np.dot(a.reshape((k, m)).T, b.reshape((n, k)).T, c.reshape((m, n)))


@routine(reorder=True)
def narrow_dot_t(a, b, c, m, k, n):
    narrow(a, b, c, m, k, n)


@routine(reorder=True)
def narrow_t_dot(a, b, c, m, k, n):
    narrow_transposed(a, b, c, m, k, n)


def product(transpose_a: bool, transpose_b: bool, m: int, k: int, n: int) -> str:
    """The name of the best of these."""
    if not transpose_a and transpose_b and n <= 16 and k >= 64:  # BLAS would copy `a` first
        return "narrow_dot_t"
    if transpose_a and not transpose_b and m <= 16 and n >= 64:
        return "narrow_t_dot"
    return f"{'t_' if transpose_a else ''}dot{'_t' if transpose_b else ''}"


#: Name in the source -> what it is.
HELPERS: dict[str, Any] = {
    "add": add,
    "greater": greater,
    "smaller": smaller,
    **{f.__name__: f for f in (dot, dot_t, t_dot, t_dot_t, narrow_dot_t, narrow_t_dot)},
    "u": np.uint64,
    "np": np,
    **{name: getattr(convert, name) for name in _conversions},
}
