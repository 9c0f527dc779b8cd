"""The machine goes wrong: its clock, its disk, a frozen process; is every occurrence accounted for?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import SKIPPED, SUCCEEDED
from tests import provision
from tests.present import present
from tests.processes.disk import CAN_MOUNT, in_own_mounts
from tests.processes.machine import EVERY_SECOND, ROOT, Machine, instants_of, wait_for

PAUSE_SECONDS = float(os.environ.get("EVERTICK_PAUSE_SECONDS", "3"))
"""`make faults` says a minute."""
NIGHTLY = "schedule: {cron: '30 2 * * *', timezone: Europe/Berlin}\ncatchupWindow: 12h\n"
LIVE = "schedule: {every: 1s}\n"


@contextmanager
def machine(folder: Path, jobs: dict[str, str] | None = None, **known: Any) -> Iterator[Machine]:
    found = Machine(folder, jobs or {f"job-{number}": EVERY_SECOND for number in range(4)}, **known)
    with ExitStack() as stack:
        stack.callback(found.close)
        found.start()
        yield found


class WallClock:
    """The wall clock of a process that libfaketime gives it; the clocks that cannot be set stay as they are."""

    def __init__(self, folder: Path, at: str) -> None:
        self._file = folder / "clock"
        self.ahead_us = 0
        self.set(at)
        self.environ = {
            "LD_PRELOAD": str(present(provision.find_faketime())),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",  # the file is read once a second, not with each look at the clock
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, at: str) -> None:
        self.ahead_us = instant(at) - time.time_ns() // 1_000
        written = self._file.with_name("clock.new")
        written.write_text(f"{self.ahead_us / SECOND:+.6f}\n")
        written.rename(self._file)


def instant(text: str) -> Instant:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begins", "jumps", "nights"),
    [
        pytest.param(
            "2027-03-28T00:00:00",
            ["2027-03-28T00:59:57", "2027-03-28T04:00:00", "2027-03-28T00:59:55"],
            ["2027-03-28T01:00:00"],
            id="in the night without 02:30, then forward, and back before it",
        ),
        pytest.param(
            "2027-10-30T23:30:00",
            ["2027-10-31T00:29:57", "2027-10-31T01:29:57", "2027-10-31T00:29:55", "2027-10-31T01:40:00"],
            ["2027-10-31T00:30:00"],
            id="in the night with 02:30 twice, from the first to the second, back and forward",
        ),
    ],
)
def test_a_wall_clock_that_is_set_loses_nothing_and_repeats_nothing(tmp_path, record_property, begins, jumps, nights):
    record_property("faults", len(jumps))
    clock = WallClock(tmp_path, begins)
    with machine(tmp_path, {"night": NIGHTLY, "live": LIVE}, environ=clock.environ) as here:
        here.wait_for_ends(3)
        for number, jump in enumerate(jumps, 1):
            is_forward = instant(jump) > time.time_ns() // 1_000 + clock.ahead_us
            clock.set(jump)
            has_noticed = lambda number=number: here.said.count(" clock.") >= number or None  # noqa: E731
            wait_for(has_noticed, f"jump {number}", here.describe)
            if is_forward:
                here.wait_for_ends(5)  # after it was set back, nothing is due for hours
        here.stop()
        _, rows = here.check()
    assert instants_of(rows, "night") == [instant(night) for night in nights]
    live = [row for row in rows if row.key.job_id == "live"]
    assert sum(row.state is SUCCEEDED for row in live) >= 3
    assert sum(row.occurrences for row in live if row.state is SKIPPED) > 1_000, "the live job does not catch up"


@pytest.mark.slow
def test_a_scheduler_that_is_stopped_for_long_catches_up(tmp_path):
    with machine(tmp_path) as here:
        here.wait_for_ends(8)
        os.kill(here.pid, signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        os.kill(here.pid, signal.SIGCONT)
        here.wait_until_caught_up()
        here.stop()
        report, rows = here.check()
    assert report.occurrences >= 4 * PAUSE_SECONDS
    assert all(row.state is not SKIPPED for row in rows)


@pytest.mark.slow
def test_on_a_slow_disk_runs_are_late_and_complete(tmp_path):
    slow = "--inject=fsync,fdatasync:delay_exit=1000000"
    wrapper = [str(present(provision.find_strace())), "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", slow]
    wrapper += ["-e", "trace=fsync,fdatasync"]
    with machine(tmp_path, wrapper=wrapper) as here:
        here.wait_for_ends(12)
        here.wait_until_caught_up()
        here.stop()
        _, rows = here.check()
    assert all(row.state is not SKIPPED for row in rows)


@pytest.mark.slow
def test_a_small_disk_that_is_full_for_a_while(tmp_path):
    """On a file system of its own, which only the processes in this sandbox see."""
    state = tmp_path / "state"
    state.mkdir()
    sandbox = [str(present(provision.find_bwrap())), "--dev-bind", "/", "/", "--size", str(24 << 20), "--tmpfs", state]
    command = [*sandbox, sys.executable, "-m", "tests.processes.full_disk", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-6_000:]}"


if CAN_MOUNT:

    @pytest.mark.slow
    def test_a_disk_that_fails_and_turns_read_only_until_it_is_repaired(tmp_path):
        in_own_mounts("tests.processes.failed_disk", str(tmp_path))
