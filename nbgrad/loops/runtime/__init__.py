"""Runtime support that generated files import."""
