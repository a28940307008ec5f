"""Foundations: settings, dtypes, devices, shapes, locks, and the registry of operators."""
