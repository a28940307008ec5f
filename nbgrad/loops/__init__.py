"""Adjoints and tangents of functions with loops: source in, source out."""

from .api import adjoint, tangent

__all__ = ["adjoint", "tangent"]
