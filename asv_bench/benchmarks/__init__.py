"""Benchmarks for airspeed velocity; ``make bench`` runs them on the current checkout. One thread each."""

import os

# More threads would measure what else the machine does.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

from nbgrad import nd

nd.zeros(1) + nd.zeros(1)  # the first kernel starts Numba's runtime; forked processes inherit it
