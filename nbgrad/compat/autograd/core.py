"""Products with Jacobians, spaces, and derivatives of functions' own; see :mod:`.products` and :mod:`.extend`."""

from .extend import defjvp, defjvp_argnum, defjvp_argnums, defvjp, defvjp_argnum, defvjp_argnums
from .products import VSpace, make_jvp, make_vjp, vspace

__all__ = [
    "VSpace",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "make_jvp",
    "make_vjp",
    "vspace",
]
