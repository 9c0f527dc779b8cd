"""What attempts make of failing members, networks and schedulers: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evertick.executors.keeper.procfs import is_alive
from evertick.model.instant import SECOND
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import AttemptSeen, RunFinished, RunLost, RunStarted
from tests.executors.running import job_of, launch, sh
from tests.fleet.cable import Cable
from tests.fleet.yard import ROOT, SHORT_US, Heard, Process, Yard, children_of, kill, wait_for

pytestmark = pytest.mark.slow


class Trace:
    """An attempt that says where it is, and goes on only when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.began, self.ended, self._go = folder / "began", folder / "ended", folder / "go"
        wait = f"until test -e {self._go}; do sleep 0.05; done"
        text = f"echo here; echo $$ >> {self.began}; {wait}; echo $$ >> {self.ended}"
        self.order = launch(job_of(sh(text)))._replace(executor="fleet:ex-a")
        self.key = self.order.key

    def pid(self) -> int:
        return int(wait_for(lambda: self.began.exists() and self.began.read_text().split(), "it to begin")[-1])

    def let_go(self) -> None:
        self._go.touch()

    def times(self) -> tuple[int, int]:
        """How often it began and ended."""
        return tuple(len(path.read_text().split()) if path.exists() else 0 for path in (self.began, self.ended))


@pytest.fixture
def trace(tmp_path):
    return Trace(tmp_path)


def started(reports: Heard) -> None:
    reports.wait_until(lambda said: any(isinstance(one, RunStarted) for one in said))


def lost(reports: Heard) -> RunLost:
    said = reports.wait_until(lambda said: any(isinstance(one, RunLost) for one in said))
    return next(one for one in said if isinstance(one, RunLost))


def ends(reports: Heard) -> list[type]:
    return [type(one) for one in reports if isinstance(one, RunFinished | RunLost)]


def test_a_worker_that_is_killed_costs_nothing(yard, reports, trace):
    member = yard.join("ex-a")
    executor = yard.open(reports, "ex-a")
    executor.launch(trace.order)
    started(reports)
    trace.pid()
    kill(member.child())
    trace.let_go()
    assert reports.end_of(trace.key).state is SUCCEEDED
    assert trace.times() == (1, 1)
    assert ends(reports) == [RunFinished]


def test_a_member_whose_machine_died_loses_its_attempt(yard, reports, trace):
    member = yard.join("ex-a")
    executor = yard.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    pid, keeper = trace.pid(), yard.keeper_of("ex-a")
    started(reports)
    wait_for(lambda: yard.logs().read_log(trace.key, 1, "main").data == b"here\n", "its log to be here")
    yard.members.pop("ex-a")
    member.kill()
    kill(keeper)
    kill(pid)
    assert "ex-a has been silent for" in lost(reports).detail
    # Its log is here, though nothing is left of its machine.
    shutil.rmtree(yard.folder / "ex-a")
    assert yard.logs().read_log(trace.key, 1, "main").data == b"here\n"
    # When it is back, what it says of that attempt counts no more.
    yard.join("ex-a")
    yard.wait_until_ready(executor, "ex-a")
    after = launch(job_of(sh("true"), id="after"))._replace(executor="fleet:ex-a")
    executor.launch(after)
    assert reports.end_of(after.key).state is SUCCEEDED
    assert [one for one in reports if isinstance(one, RunFinished) and one.key == trace.key] == []


def test_a_member_that_was_frozen_beyond_its_lease_is_not_believed_and_its_process_ends(yard, reports, trace):
    member = yard.join("ex-a")
    executor = yard.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    pid, keeper = trace.pid(), yard.keeper_of("ex-a")
    started(reports)
    frozen = [member.pid, *children_of(member.pid), keeper]
    for one in frozen:
        os.kill(one, signal.SIGSTOP)
    lost(reports)
    assert is_alive(pid)
    for one in reversed(frozen):
        os.kill(one, signal.SIGCONT)
    wait_for(lambda: not is_alive(pid), "the process to be ended")
    yard.wait_until_ready(executor, "ex-a")
    assert trace.times() == (1, 0)
    assert ends(reports) == [RunLost]


def test_a_result_that_comes_after_the_lease_is_refused(yard, reports, trace):
    yard.join("ex-a")
    executor = yard.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    trace.pid()
    started(reports)
    keeper = yard.keeper_of("ex-a")
    frozen = [yard.members["ex-a"].pid, *children_of(yard.members["ex-a"].pid), keeper]
    for one in frozen:
        os.kill(one, signal.SIGSTOP)
    trace.let_go()
    lost(reports)
    wait_for(lambda: trace.times() == (1, 1), "it to end unseen")
    for one in reversed(frozen):
        os.kill(one, signal.SIGCONT)
    yard.wait_until_ready(executor, "ex-a")
    after = launch(job_of(sh("true"), id="after"))._replace(executor="fleet:ex-a")
    executor.launch(after)
    reports.end_of(after.key)
    assert [type(one) for one in reports if isinstance(one, RunFinished | RunLost) and one.key == trace.key] == [
        RunLost
    ]


def test_dasks_scheduler_may_die_and_come_back(yard, reports, trace):
    yard.join("ex-a")
    executor = yard.open(reports, "ex-a")
    executor.launch(trace.order)
    trace.pid()
    started(reports)
    assert yard.scheduler is not None
    kill(yard.scheduler.child())
    wait_for(lambda: not executor.members()[0].is_healthy, "it to be missed")
    trace.let_go()
    assert reports.end_of(trace.key).state is SUCCEEDED
    assert trace.times() == (1, 1)
    assert ends(reports) == [RunFinished]


def test_dasks_scheduler_may_be_away_when_an_attempt_ends(yard, reports, trace):
    yard.join("ex-a")
    executor = yard.open(reports, "ex-a")
    executor.launch(trace.order)
    trace.pid()
    started(reports)
    assert yard.scheduler is not None
    yard.scheduler.kill()
    trace.let_go()
    wait_for(lambda: trace.times() == (1, 1), "it to end while nobody can hear of it")
    yard.start()
    assert reports.end_of(trace.key).state is SUCCEEDED
    assert ends(reports) == [RunFinished]


class TestTheNetwork:
    @pytest.fixture
    def cable(self, yard):
        wait_for(lambda: _listens(yard.port), "the scheduler to listen")
        cable = Cable(yard.port)
        yield cable
        cable.close()

    def test_a_short_cut_costs_nothing(self, yard, cable, reports, trace):
        yard.join("ex-a", url=cable.url)
        executor = yard.open(reports, "ex-a")
        executor.launch(trace.order)
        trace.pid()
        started(reports)
        cable.cut()
        wait_for(lambda: not executor.members()[0].is_healthy, "it to be missed")
        trace.let_go()
        wait_for(lambda: trace.times() == (1, 1), "it to end unheard")
        cable.mend()
        assert reports.end_of(trace.key).state is SUCCEEDED
        assert ends(reports) == [RunFinished]

    def test_beyond_the_lease_the_attempt_is_given_up_and_ended_when_it_is_found(self, yard, cable, reports, trace):
        yard.join("ex-a", url=cable.url)
        yard.join("ex-b")
        executor = yard.open(reports, "ex-a", "ex-b", lease_us=SHORT_US)
        executor.launch(trace.order)
        pid = trace.pid()
        started(reports)
        cable.cut()
        lost(reports)
        again = trace.order._replace(attempt=2, fence=trace.order.fence + 1, executor="fleet:ex-b")
        executor.launch(again)
        wait_for(lambda: trace.times()[0] == 2, "the second attempt to begin")
        cable.mend()
        wait_for(lambda: not is_alive(pid), "the first to be ended")
        trace.let_go()
        end = reports.end_of(trace.key)
        assert (end.attempt, end.state) == (2, SUCCEEDED)
        assert trace.times() == (2, 1)
        assert ends(reports) == [RunLost, RunFinished]

    def test_a_scheduler_that_is_cut_off_loses_nothing_however_long(self, yard, cable, reports, trace):
        yard.join("ex-a")
        executor = yard.open(reports, "ex-a", url=cable.url, lease_us=10 * SECOND)
        executor.launch(trace.order)
        trace.pid()
        started(reports)
        cable.cut()
        trace.let_go()
        wait_for(lambda: trace.times() == (1, 1), "it to end unheard")
        time.sleep(12)  # beyond the lease, and nobody is told that the line is dead
        cable.mend()
        assert reports.end_of(trace.key).state is SUCCEEDED
        assert ends(reports) == [RunFinished]


def test_a_scheduler_that_was_frozen_gives_nobody_up(tmp_path, yard):
    yard.join("ex-a")
    jobs, go, began = tmp_path / "jobs", tmp_path / "go", tmp_path / "began"
    jobs.mkdir()
    (jobs / "report.yaml").write_text(
        f"onExecutorLost: fail\nexecutor: fleet\ncommand: echo $$ >> {began}; until test -e {go}; do sleep 0.05; done\n"
    )
    (jobs / "evertick.toml").write_text(f'[fleet]\nurl = "{yard.url}"\nlease = "10s"\n')
    node = Process("serve", str(jobs), "--no-web", "--quiet", log=tmp_path / "serve.log")
    try:
        wait_for(lambda: command("trigger", "report", "--folder", str(jobs)).returncode == 0, "the scheduler")
        wait_for(began.exists, "it to begin")
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(12)  # beyond the lease: there is nothing to be seen of one that runs out unseen
        os.kill(node.pid, signal.SIGCONT)
        go.touch()
        wait_for(lambda: history(jobs)[0]["finished_at"], "its end")
        assert [(run["state"], run["attempt"]) for run in history(jobs)] == [("succeeded", 1)]
    finally:
        os.kill(node.pid, signal.SIGCONT)
        node.stop()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "evertick", *words], cwd=ROOT, capture_output=True, text=True)


def history(folder: Path) -> list[dict]:
    found = command("history", "report", "--folder", str(folder), "-o", "json")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)["items"]


class TestAnotherScheduler:
    """One of ours dies; the next one knows what the ledger says."""

    def test_it_is_told_of_what_still_runs_and_how_it_ends(self, yard, reports, trace):
        yard.join("ex-a")
        first = yard.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        started(reports)
        first.close()
        heard = Heard()
        second = yard.open(heard, node="second")
        second.reconcile_placed([(trace.key, 1, "fleet:ex-a")])
        started(heard)
        trace.let_go()
        assert heard.end_of(trace.key).state is SUCCEEDED
        assert trace.times() == (1, 1)

    def test_it_is_told_of_what_ended_while_nobody_listened(self, yard, reports, trace):
        yard.join("ex-a")
        first = yard.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        first.close()
        trace.let_go()
        wait_for(lambda: trace.times() == (1, 1), "it to end")
        heard = Heard()
        second = yard.open(heard, node="second")
        # Not even written down where: all are asked.
        second.reconcile_placed([(trace.key, 1, "fleet")])
        assert heard.end_of(trace.key).state is SUCCEEDED
        assert yard.log_of(trace.key, node="second") == b"here\n"

    def test_a_launch_that_is_repeated_by_it_starts_nothing_twice(self, yard, reports, trace):
        yard.join("ex-a")
        first = yard.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        first.close()
        heard = Heard()
        second = yard.open(heard, "ex-a", node="second")
        second.launch(trace.order)
        trace.let_go()
        assert heard.end_of(trace.key).state is SUCCEEDED
        assert trace.times() == (1, 1)

    def test_what_a_member_of_a_dead_scheduler_has_is_shown_to_the_next(self, yard, reports, trace):
        member = yard.join("ex-a")
        first = yard.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        first.close()
        heard = Heard()
        yard.open(heard, "ex-a", node="second")
        kill(member.child())
        heard.wait_until(lambda said: AttemptSeen(trace.key, 1) in said)

    def test_a_member_that_never_comes_back_is_given_up(self, yard, reports):
        yard.join("ex-a")
        executor = yard.open(reports, "ex-a", lease_us=SHORT_US)
        order = launch(job_of(sh("true")))
        executor.reconcile_placed([(order.key, 1, "fleet:ex-gone")])
        assert "ex-gone has been silent" in lost(reports).detail


def test_a_keeper_whose_worker_stays_away_ends_what_it_runs(yard, reports, trace):
    member = yard.join("ex-a", "--lease", "1")
    executor = yard.open(reports, "ex-a")
    executor.launch(trace.order)
    pid = trace.pid()
    yard.members.pop("ex-a")
    member.kill()
    wait_for(lambda: not is_alive(pid), "the keeper to end it")
    assert trace.times() == (1, 0)


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_yard_leaves_nothing_behind(tmp_path):
    from tests.fleet.yard import keepers

    here = Yard(tmp_path)
    here.start()
    here.join("ex-a")
    heard = Heard()
    here.open(heard, "ex-a")
    here.close()
    assert keepers(tmp_path) == []
