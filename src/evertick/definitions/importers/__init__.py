"""How the jobs of other schedulers become job files, and what of them cannot be converted."""
