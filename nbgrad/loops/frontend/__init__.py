"""From the text of a function to statements; what is outside of the subset is refused here."""
