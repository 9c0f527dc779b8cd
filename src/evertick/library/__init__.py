"""The Python library: a scheduler inside a program."""
