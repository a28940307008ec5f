"""Adjoints and tangents of functions with loops: source in, source out."""

from .function import adjoint, tangent

__all__ = ["adjoint", "tangent"]
