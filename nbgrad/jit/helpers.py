"""What generated programs use besides the scalar functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..codegen.compile import inline, intrinsic
from ..codegen.convert import __all__ as _conversions
from ..codegen import convert
from ..kernels.extreme import greater, smaller
from ..kernels.linear import narrow, narrow_transposed

__all__ = ["HELPERS"]


def _add(typingctx, a, b):
    # Additions of one sum may be reordered, so that it can be made in vector registers; no other addition may.
    if not (isinstance(a, types.Float) and a == b):
        return None

    def lower(context, builder, signature, args):
        return builder.fadd(*args, flags=("reassoc", "nsz", "contract"))

    return a(a, b), lower


add: Any = intrinsic(_add)


@inline(runtime=True)
def product(a, b, c, batch, m, k, n, transpose_a, transpose_b):
    """c = a b for `batch` matrices after one another; as :mod:`nbgrad.kernels.linear` has it."""
    for i in range(batch):
        x = a[i * m * k : (i + 1) * m * k]
        y = b[i * k * n : (i + 1) * k * n]
        z = c[i * m * n : (i + 1) * m * n]
        if transpose_a == 0 and transpose_b and n <= 16 and k >= 64:
            narrow(x, y, z, m, k, n)
        elif transpose_a and transpose_b == 0 and m <= 16 and n >= 64:
            narrow_transposed(x, y, z, m, k, n)
        elif transpose_a == 0:
            if transpose_b == 0:
                np.dot(x.reshape((m, k)), y.reshape((k, n)), z.reshape((m, n)))
            else:
                np.dot(x.reshape((m, k)), y.reshape((n, k)).T, z.reshape((m, n)))
        elif transpose_b == 0:
            np.dot(x.reshape((k, m)).T, y.reshape((k, n)), z.reshape((m, n)))
        else:
            np.dot(x.reshape((k, m)).T, y.reshape((n, k)).T, z.reshape((m, n)))


#: Name in the source -> what it is.
HELPERS: dict[str, Any] = {
    "add": add,
    "greater": greater,
    "smaller": smaller,
    "product": product,
    "u": np.uint64,
    "np": np,
    **{name: getattr(convert, name) for name in _conversions},
}
