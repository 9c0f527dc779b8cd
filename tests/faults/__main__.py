"""`make faults`: runs the fault table on real processes, round after round, into docs/results/faults.json."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as Xml
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.table import FAULTS, Fault
from tests.results import commit, read_results, write_results

ROOT = Path(__file__).parent.parent.parent
OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "--timeout", "7200", "-o", "junit_family=xunit1")
"""That family of reports has properties."""
LONG = {
    "EVERTICK_KILLS": "100",
    "EVERTICK_KILLS_IN_TURN": "100",
    "EVERTICK_PAUSE_SECONDS": "60",
    "EVERTICK_AT_ONCE": "100000",
    "EVERTICK_MEMORY_LIMITS": "20",
    "EVERTICK_POWER_LOSSES": "25",
    "EVERTICK_WHOLE": "1",
}
"""How much more than `make test` the tests do in a round, unless the environment says otherwise: kills of the scheduler
on each store, kills in turn, how long a process stands still, jobs in one second, limits of memory of each kind,
losses of power on each ledger, and all crash points instead of a share."""
AT_ONCE = int(os.environ.get("FAULTS_AT_ONCE", "3"))
"""Rounds side by side: most of them wait for leases and processes most of the time."""
PROPERTY = "faults"
"""How many faults a test did, where that is not one."""


class Round(NamedTuple):
    """What one round of a fault did."""

    times: int
    seconds: int
    failed: frozenset[str]


def main(names: list[str]) -> int:
    """All faults, or those whose names contain one of these; the results of the others are kept."""
    chosen = [one for one in FAULTS if one.tests and (not names or any(name in one.name for name in names))]
    known = read_results("faults")
    rows = {row["name"]: row for row in (known.rows if known else ())}
    measured = commit()
    rounds: dict[str, list[Round]] = {fault.name: [] for fault in chosen}
    longest_first = sorted(chosen, key=lambda fault: -fault.rounds)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, fault, number): fault for fault in longest_first for number in range(fault.rounds)}
        for done in as_completed(running):
            fault, found = running[done], done.result()
            rounds[fault.name].append(found)
            rows[fault.name] = row_of(fault, rounds[fault.name], measured)
            said = f"failed: {', '.join(sorted(found.failed))}" if found.failed else "ok"
            sys.stderr.write(
                f"{fault.name}, round {len(rounds[fault.name])}/{fault.rounds}: "
                f"{found.times} in {found.seconds} s, {said}\n"
            )
            # After each, so that what was done is kept when the rest is stopped.
            write_results("faults", "make faults", [rows[one.name] for one in FAULTS if one.name in rows])
    return 1 if any(row["failed"] for row in rows.values()) else 0


def row_of(fault: Fault, rounds: list[Round], measured: str) -> dict[str, Any]:
    return {
        "name": fault.name,
        "times": sum(one.times for one in rounds),
        "rounds": len(rounds),
        "seconds": sum(one.seconds for one in rounds),
        "failed": sorted(frozenset[str]().union(*(one.failed for one in rounds))),
        "commit": measured,
    }


def run(fault: Fault, number: int) -> Round:
    began, times, failed = time.monotonic(), 0, set[str]()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", *OPTIONS, f"--basetemp={folder / 't'}", f"--junitxml={report}"]
    environ = LONG | os.environ | {"EVERTICK_ROUND": str(number)}
    ended = subprocess.run([*command, *fault.tests], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if not report.exists():
        raise SystemExit(f"{fault.name} did not run:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
    cases = list(Xml.parse(report).iter("testcase"))
    if not cases:
        # A fault that takes root has no test for other users.
        failed.add("no test of it ran")
    for case in cases:
        counts = [int(one.get("value", "1")) for one in case.iter("property") if one.get("name") == PROPERTY]
        times += sum(counts) or 1
        if any(case.find(end) is not None for end in ("failure", "error", "skipped")):
            failed.add(str(case.get("name")))
    if failed:
        # The output shows the cause.
        (folder / "output").write_text(ended.stdout)
        sys.stderr.write(f"everything of a round that failed is in {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return Round(times, round(time.monotonic() - began), frozenset(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
