"""The graph compiler: functions of arrays, traced and written anew as loops (``nbgrad.jit``)."""

from .device import operators as _operators  # noqa: F401  # operators run on GPUs as what they are in graphs
from .jitted import jit

__all__ = ["jit"]
