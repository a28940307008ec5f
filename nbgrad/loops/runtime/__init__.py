"""What generated files import."""
