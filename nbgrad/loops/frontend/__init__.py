"""Frontend: Python functions to the IR; code outside of the subset is refused here."""
