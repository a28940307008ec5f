"""What Python, NumPy and other libraries ask of an NDArray: methods, operators, conversions, DLPack, files."""
