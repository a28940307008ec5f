"""Traced programs, and structured operators, on GPUs."""
