"""Who is told about what became of a job, and how the message gets there.

`rules.py` decides, without a clock or a socket; `sender.py` delivers, and nothing waits for it.
"""
