"""NDArray, and the elementwise loops over raw buffers from which operators are built."""
