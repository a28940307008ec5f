"""Protocols of Python, NumPy and other libraries for NDArray: methods, operators, conversions, DLPack, files."""
