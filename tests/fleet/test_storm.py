"""A scheduler, a fleet and jobs that are due every second, while every process is killed: is the ledger complete?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evertick.model.instant import SECOND
from evertick.model.lifecycle import LAUNCHING, RUNNING, SUCCEEDED
from tests.fleet.local_fleet import LONG_US, LocalFleet, Process, kill, wait_for
from tests.processes.proof import rows_of, verified

pytestmark = pytest.mark.slow

STRATEGIES = ("ROUND", "RANDOM", "LRU", "CONSISTENT_HASH")
MEMBERS = ("ex-a", "ex-b", "ex-c")


class Site:
    """Jobs that write down when they begin and end, and the scheduler that runs them."""

    def __init__(self, folder: Path, local_fleet: LocalFleet) -> None:
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        self._yard, self._folder = local_fleet, folder
        self.began, self.ended = folder / "began", folder / "ended"
        for strategy in STRATEGIES:
            name = strategy.lower().replace("_", "-")
            told = 'echo "$EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT"'
            (self.jobs / f"{name}.yaml").write_text(
                f"schedule: {{every: 1s, missedExecution: run}}\noverlap: wait\nrouting: {strategy}\n"
                f"command: {told} >> {self.began}; sleep 0.2; {told} >> {self.ended}\n"
            )
        # No shorter than the members' own: they are given nothing otherwise.
        (self.jobs / "evertick.toml").write_text(f'[fleet]\nlease = "{LONG_US // SECOND}s"\n')
        self.url = f"sqlite:///{self.jobs / '.evertick' / 'ledger.db'}"

    def serve(self) -> Process:
        words = ("serve", str(self.jobs), "--fleet", self._yard.url, "--no-web", "--quiet", "--patience", "60")
        return Process(*words, log=self._folder / "serve.log")

    def attempts(self, path: Path) -> list[str]:
        return path.read_text().split() if path.exists() else []

    def wait_for_more(self, count: int = 12) -> None:
        """Until so many more attempts have ended, of whichever job."""
        before = len(self.attempts(self.ended))
        wait_for(lambda: len(self.attempts(self.ended)) >= before + count, f"{count} more attempts")


def test_nothing_is_lost_and_nothing_succeeds_twice_while_everything_is_killed(tmp_path, local_fleet):
    for name in MEMBERS:
        local_fleet.join(name)
    site = Site(tmp_path, local_fleet)
    scheduler = site.serve()
    try:
        site.wait_for_more()
        for name in MEMBERS:  # a rolling restart
            local_fleet.members.pop(name).stop()
            local_fleet.join(name)
            site.wait_for_more()
        kill(local_fleet.members["ex-b"].child())
        site.wait_for_more()
        assert local_fleet.scheduler is not None
        kill(local_fleet.scheduler.child())
        site.wait_for_more()
        scheduler.kill()
        scheduler = site.serve()
        site.wait_for_more()
    finally:
        assert scheduler.stop() == 0
    report = verified(site.url)
    assert report.runs > 50
    rows = rows_of(site.url)
    assert [row for row in rows if row.state in (LAUNCHING, RUNNING)] == []
    ended = Counter(site.attempts(site.ended))
    assert [attempt for attempt, times in ended.items() if times > 1] == []
    succeeded = [f"{row.key.run_id}/{row.attempt}" for row in rows if row.state is SUCCEEDED]
    assert [attempt for attempt in succeeded if attempt not in ended] == []
    known = {row.key.run_id for row in rows}
    assert [attempt for attempt in site.attempts(site.began) if attempt.rpartition("/")[0] not in known] == []
    assert {row.executor for row in rows if row.state is SUCCEEDED} == {f"fleet:{name}" for name in MEMBERS}
