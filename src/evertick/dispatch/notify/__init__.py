"""Notifications about jobs: who receives which, and how they are delivered.

`rules.py` decides, without a clock or a socket; `sender.py` delivers, and nothing waits for it.
"""
