"""`make fuzz`: the long form of the fuzz tests, and their results into docs/results/fuzz.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.results import read_results, write_results

ROOT = Path(__file__).parent.parent.parent
TESTS = ("tests/fuzz", "tests/api/test_fuzz.py")
OPTIONS = ("-q", "-n", "2", "--dist", "load", "--timeout", "14400", "-o", "faulthandler_timeout=0", "-p", "no:logging")
"""Without the plugin that captures logs: it would send the lines of all inputs, which the channel cannot carry."""


def main(inputs: str, seed: str, *arguments: str) -> int:
    """All targets, or those that the arguments of pytest choose; the results of the others are kept."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows"
        chosen = {"EVERTICK_FUZZ_INPUTS": inputs, "EVERTICK_FUZZ_SEED": seed, "EVERTICK_FUZZ_RESULTS": str(found)}
        command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments, *TESTS]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | chosen, check=False)
        if ended.returncode:
            return ended.returncode
        measured = merged([json.loads(line) for line in found.read_text().splitlines()])
    known = read_results("fuzz")
    rows = {row["target"]: row for row in (known.rows if known else ())} | measured
    path = write_results("fuzz", "make fuzz", [rows[target] for target in sorted(rows)])
    sys.stderr.write(f"{path.relative_to(ROOT)} written. Next: make docs\n")
    return 0


def merged(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One row for each target: its parts together."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(row["target"], {**row, "inputs": 0, "ends": {}, "slowest_ms": 0.0, "seconds": 0.0})
        known["inputs"] += row["inputs"]
        known["ends"] = dict(sorted((Counter(known["ends"]) + Counter(row["ends"])).items()))
        known["slowest_ms"] = max(known["slowest_ms"], row["slowest_ms"])
        known["seconds"] = round(known["seconds"] + row["seconds"], 1)
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
