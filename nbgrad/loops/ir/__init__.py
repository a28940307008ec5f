"""What functions are made of between their text and the text that is generated, and the arithmetic of it."""
