"""Declaring and calling operators: elementwise expressions, structured operators with their own kernels, composites."""
