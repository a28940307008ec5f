"""What is recorded, and functions that are not traced into; see :mod:`.boxes` and :mod:`.extend`."""

from .boxes import Box, getval, isbox
from .extend import notrace_primitive, primitive

__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive"]
