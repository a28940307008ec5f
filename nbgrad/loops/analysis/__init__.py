"""Analyses that plan the reverse sweep of a lowered function, and the rewrites that prepare it."""
