"""Benchmarks for airspeed velocity; ``make bench`` runs them on the current checkout, with one thread each."""

from nbgrad import nd

nd.zeros(1) + nd.zeros(1)  # the first kernel starts Numba's runtime; forked processes inherit it
