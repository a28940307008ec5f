"""What the sweep back needs, and how it gets it: statements in, a plan out."""
