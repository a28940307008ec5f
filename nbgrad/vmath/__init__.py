"""Scalar functions as plain arithmetic, which LLVM turns into packed code wherever a kernel uses them.

Calls of a C library keep a loop scalar. The functions here are branch-free (range reduction, polynomials,
selections) and inlined, so that a loop over any mixture of them is vectorised for the processor at hand.
Each has a body for float32 and one for float64 (:func:`nbgrad.backends.numba.compile.by_precision`); coefficients
are made by ``tools/coefficients.py``. How accurate each is stands in docs/accuracy.md, which the tests measure.
"""
