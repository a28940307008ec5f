"""Products with Jacobians, spaces, and derivatives of functions' own; see :mod:`.products` and :mod:`.extend`."""

from .boxes import Box, getval, isbox
from .extend import (
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    notrace_primitive,
    primitive,
)
from .products import VSpace, make_jvp, make_vjp, vspace

__all__ = [
    "Box",
    "VSpace",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "getval",
    "isbox",
    "make_jvp",
    "make_vjp",
    "notrace_primitive",
    "primitive",
    "vspace",
]
