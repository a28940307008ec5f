"""Source to machine code by Numba, and machine code on disk. Numba's internals are imported here alone."""
