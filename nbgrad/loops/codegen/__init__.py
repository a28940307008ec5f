"""From statements and their plan to the text of tangents, adjoints and pullbacks."""
