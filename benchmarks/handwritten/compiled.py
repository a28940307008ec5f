"""The decorator of all kernels here."""

import numba

#: Additions in any order; 1/0 is no exception, whose test would keep a loop scalar.
by_hand = numba.njit(fastmath=True, error_model="numpy")
