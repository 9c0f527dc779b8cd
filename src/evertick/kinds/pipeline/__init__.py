"""What a pipeline is: items in, a prompt for each of them, one result out.

Read `run.py` first. `definition.py` says what may be written, `result.py` what comes out, `invoker.py` who answers.
"""
