"""Benchmarks for airspeed velocity; ``make bench`` runs them on the current checkout. One thread each."""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"  # more would measure what else the machine does

from nbgrad import nd

nd.zeros(1) + nd.zeros(1)  # the first kernel starts Numba's runtime; forked processes inherit it
