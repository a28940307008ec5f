"""Code generation: from the IR and its plan to the Python source of tangents, adjoints and pullbacks."""
