"""Adjoints and tangents of functions with loops: source in, source out."""

from .function import adjoint

__all__ = ["adjoint"]
