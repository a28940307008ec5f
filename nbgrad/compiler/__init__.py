"""The compiler: functions of arrays, traced and written anew as loops."""

from . import device as device
from .function import jit

__all__ = ["jit"]
