"""Converts the jobs of other schedulers to job files, and lists what cannot be converted."""
