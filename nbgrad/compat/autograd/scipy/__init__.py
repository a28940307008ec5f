"""The modules of SciPy that autograd has, with gradients where an argument is recorded."""

from . import integrate, linalg, signal, special, stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
