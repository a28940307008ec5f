"""Transforms of the reverse sweep: IR to IR, before source is written."""
