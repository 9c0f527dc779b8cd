"""What an idle node costs: none of its threads wakes more often than about once a second."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 10
WAKEUPS_MAX = 4.0
"""A second, for each thread. One is meant; a busy machine adds those who wait for the interpreter's lock."""


@pytest.mark.slow
def test_no_thread_of_an_idle_node_wakes_often(tmp_path):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for number in range(200):
        (jobs / f"j{number}.yaml").write_text(f"schedule: '{number % 60} 3 1 1 *'\ncommand: 'true'\n")
    command = [sys.executable, "-m", "evertick", "serve", str(jobs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("http://127.0.0.1" in line for line in process.stdout)
            time.sleep(6)  # files that were just written are read once more, and the API loads them after it answers
            before = wakeups(process.pid)
            time.sleep(SECONDS)
            after = wakeups(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
    rates = {thread: (count - before.get(thread, count)) / SECONDS for thread, count in after.items()}
    assert len({process for process, _thread in rates}) >= 2, "the scheduler, and the process of the API"
    assert {thread: rate for thread, rate in rates.items() if rate > WAKEUPS_MAX} == {}


def wakeups(parent: int) -> dict[tuple[int, int], int]:
    """How often each thread of a process and of its children has slept, by process and thread."""
    found = {}
    for process in (parent, *children_of(parent)):
        for task in Path(f"/proc/{process}/task").iterdir():
            status = (task / "status").read_text()
            count = next(line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches"))
            found[process, int(task.name)] = int(count.split()[1])
    return found


def children_of(parent: int) -> list[int]:
    listed = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [int(path.name) for path in listed if parent_of(path) == parent]


def parent_of(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
