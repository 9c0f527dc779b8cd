"""`make fuzz`: the long form of the fuzz tests, and their results into docs/results/fuzz.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.results import write_results

ROOT = Path(__file__).parent.parent.parent
TESTS = ("tests/fuzz", "tests/api/test_fuzz.py")
OPTIONS = ("-q", "-n", "2", "--dist", "load", "--timeout", "14400", "-o", "faulthandler_timeout=0", "-p", "no:logging")
"""Without the plugin that captures logs: it would send the lines of all inputs, which the channel cannot carry."""


def main(inputs: str, seed: str, *arguments: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows"
        chosen = {"EVERTICK_FUZZ_INPUTS": inputs, "EVERTICK_FUZZ_SEED": seed, "EVERTICK_FUZZ_RESULTS": str(found)}
        command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments, *TESTS]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | chosen, check=False)
        if ended.returncode:
            return ended.returncode
        rows = sorted((json.loads(line) for line in found.read_text().splitlines()), key=lambda row: str(row["target"]))
    path = write_results("fuzz", "make fuzz", rows)
    sys.stderr.write(f"{path.relative_to(ROOT)} written. Next: make docs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
