"""What runs code: Numba's compiler, CUDA, memory and threads. No operator and no derivative is known here."""
