"""`make faults`: runs the fault table on real processes, round after round, into docs/results/faults.json."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as Xml
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.faults.table import FAULTS, Fault
from tests.results import read_results, write_results

ROOT = Path(__file__).parent.parent.parent
OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "--timeout", "3600", "-o", "junit_family=xunit1")
"""That family of reports has properties."""
LONG = {
    "EVERTICK_KILLS": "100",
    "EVERTICK_KILLS_IN_TURN": "1000",
    "EVERTICK_PAUSE_SECONDS": "60",
    "EVERTICK_AT_ONCE": "100000",
}
"""How much more than `make test` the tests do, unless the environment says otherwise: kills of the scheduler on each
store, kills in turn, how long a process stands still, jobs in one second."""
AT_ONCE = 3
"""Most of them wait for leases and processes most of the time."""
PROPERTY = "faults"
"""How many faults a test did, where that is not one."""


def main(names: list[str]) -> int:
    """All faults, or those whose names contain one of these; the results of the others are kept."""
    chosen = [one for one in FAULTS if one.tests and (not names or any(name in one.name for name in names))]
    known = read_results("faults")
    rows = {row["name"]: row for row in (known.rows if known else ())}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, done in enumerate(as_completed([pool.submit(run, fault) for fault in chosen]), 1):
            row = done.result()
            rows[row["name"]] = row
            said = f"failed: {', '.join(row['failed'])}" if row["failed"] else "ok"
            sys.stderr.write(f"{number}/{len(chosen)} {row['name']}: {row['times']} in {row['seconds']} s, {said}\n")
            # After each, so that what was done is kept when the rest is stopped.
            write_results("faults", "make faults", [rows[one.name] for one in FAULTS if one.name in rows])
    return 1 if any(row["failed"] for row in rows.values()) else 0


def run(fault: Fault) -> dict[str, Any]:
    began, times, failed = time.monotonic(), 0, set()
    for _ in range(fault.rounds):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", *OPTIONS, f"--junitxml={report}", *fault.tests]
            environ = LONG | os.environ
            ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
            if not report.exists():
                raise SystemExit(f"{fault.name} did not run:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
            for case in Xml.parse(report).iter("testcase"):
                counts = [int(one.get("value", "1")) for one in case.iter("property") if one.get("name") == PROPERTY]
                times += sum(counts) or 1
                if any(case.find(end) is not None for end in ("failure", "error", "skipped")):
                    failed.add(str(case.get("name")))
    seconds = round(time.monotonic() - began)
    return {"name": fault.name, "times": times, "rounds": fault.rounds, "seconds": seconds, "failed": sorted(failed)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
