"""The graph compiler: trace functions of arrays and lower them to loops (``nbgrad.jit``)."""

from .device import operators as _operators  # noqa: F401  # registers how operators lower to GPU graphs
from .jitted import jit

__all__ = ["jit"]
