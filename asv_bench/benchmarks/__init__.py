"""Benchmarks for airspeed velocity; ``make bench`` runs them on the current checkout."""
