"""Pipelines: items in, a prompt for each item, one result out.

Read `run.py` first. `definition.py` reads the file, `result.py` is the result, `invoker.py` the contract of what
answers a prompt.
"""
