"""Backends: Numba's compiler, CUDA, memory and threads. They know nothing of operators or derivatives."""
