"""NDArray, and the loops over raw buffers that every operator is made of."""
