"""The GPU back end of the graph compiler: traced programs, and structured operators."""
