"""How operators are declared and called: scalar expressions, families with kernels of their own, composites."""
