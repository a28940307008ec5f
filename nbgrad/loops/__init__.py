"""Adjoints and tangents of functions with loops, by source transformation."""

from .api import adjoint, tangent

__all__ = ["adjoint", "tangent"]
