"""The class of recorded arrays, by autograd's name."""

from ..boxes import Box as ArrayBox

__all__ = ["ArrayBox"]
