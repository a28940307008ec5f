"""Flattening of parameters, and optimizers."""

from . import optimizers
from .flatten import flatten, flatten_func

__all__ = ["const_graph", "flatten", "flatten_func", "optimizers"]


def const_graph(fun, *args, **kwargs):
    """`fun` with these arguments; its graph is not kept from call to call, see ``nbgrad.jit``."""
    return lambda *given: fun(*given, *args, **kwargs)
