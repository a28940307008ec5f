"""Scalar expressions, and graphs of operators: what compilers read and write. No text is parsed here."""
