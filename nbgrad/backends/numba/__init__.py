"""The Numba backend: source to machine code, and machine code on disk. Only here are Numba's internals imported."""
