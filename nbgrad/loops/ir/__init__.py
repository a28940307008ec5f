"""The loop IR between Python source and generated source: statements, expressions, types and their utilities."""
