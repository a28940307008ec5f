"""Other libraries' modules, made of this one."""
