"""Loops of the sweep back, rewritten so that they run fast, before they are text."""
