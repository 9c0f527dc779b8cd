"""What `python -m evertick` does: the same as `evertick`."""

import os
import sys

# `-m` puts the working folder in front of everything: a file `queue.py` there would be taken for Python's own.
if sys.path and not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

# Only now: a module is looked for where it should be.
from evertick.cli import main

if __name__ == "__main__":
    main()
