"""How attempts survive failing members, networks and schedulers: nothing is lost or counted twice."""

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

from evertick.executors.fleet.admin import remove
from evertick.executors.fleet.settings import fleet_at
from evertick.executors.keeper.procfs import is_alive
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import AttemptQuestion, AttemptSeen, RunFinished, RunLost, RunStarted
from tests.executors.local_runs import job_of, launch, sh
from tests.fleet.cable import Cable
from tests.fleet.local_fleet import ROOT, SHORT_US, Heard, LocalFleet, Process, children_of, kill, wait_for

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
        began, ended = (len(path.read_text().split()) if path.exists() else 0 for path in (self.began, self.ended))
        return began, ended


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


def test_a_worker_that_is_killed_costs_nothing(local_fleet, reports, trace):
    member = local_fleet.join("ex-a")
    executor = local_fleet.open(reports, "ex-a")
    executor.launch(trace.order)
    started(reports)
    trace.pid()
    kill(member.child())
    trace.let_go()
    assert reports.end_of(trace.key).state is SUCCEEDED
    assert trace.times() == (1, 1)
    assert ends(reports) == [RunFinished]


def test_a_member_whose_machine_died_loses_its_attempt(local_fleet, reports, trace):
    member = local_fleet.join("ex-a", lease_us=SHORT_US)
    executor = local_fleet.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    pid, keeper = trace.pid(), local_fleet.keeper_of("ex-a")
    started(reports)
    wait_for(lambda: local_fleet.logs().read_log(trace.key, 1, "main").data == b"here\n", "its log to be here")
    local_fleet.members.pop("ex-a")
    member.kill()
    kill(keeper)
    kill(pid)
    assert "ex-a has been silent for" in lost(reports).detail
    # Its log is here, though nothing is left of its machine.
    shutil.rmtree(local_fleet.folder / "ex-a")
    assert local_fleet.logs().read_log(trace.key, 1, "main").data == b"here\n"
    # Its name was bound to that folder. When it is back, what it says of that attempt counts no more.
    remove(fleet_at(local_fleet.url, local_fleet.certificates), "ex-a", by_force=True)
    local_fleet.join("ex-a", lease_us=SHORT_US)
    local_fleet.wait_until_ready(executor, "ex-a")
    after = launch(job_of(sh("true"), id="after"))._replace(executor="fleet:ex-a")
    executor.launch(after)
    assert reports.end_of(after.key).state is SUCCEEDED
    assert [one for one in reports if isinstance(one, RunFinished) and one.key == trace.key] == []


def freeze(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def thaw(*pids: int) -> None:
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("is_keeper_frozen", [False, True], ids=["worker", "worker and keeper"])
def test_what_a_frozen_member_runs_has_ended_when_it_is_given_up(local_fleet, reports, trace, is_keeper_frozen):
    """A worker that stands still hears nobody, so its keeper ends its runs; for a keeper that does, a watchdog does."""
    member = local_fleet.join("ex-a", lease_us=SHORT_US)
    executor = local_fleet.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    pid, keeper = trace.pid(), local_fleet.keeper_of("ex-a")
    started(reports)
    frozen = [member.pid, *children_of(member.pid), *([keeper] if is_keeper_frozen else [])]
    freeze(*frozen)
    lost(reports)
    assert not is_alive(pid), "another attempt would run beside it"
    thaw(*frozen)
    local_fleet.wait_until_ready(executor, "ex-a")
    assert trace.times() == (1, 0)
    assert ends(reports) == [RunLost]


def test_a_result_that_comes_after_the_lease_is_refused(local_fleet, reports, trace):
    local_fleet.join("ex-a", lease_us=SHORT_US)
    executor = local_fleet.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    trace.pid()
    started(reports)
    keeper = local_fleet.keeper_of("ex-a")
    frozen = [local_fleet.members["ex-a"].pid, *children_of(local_fleet.members["ex-a"].pid), keeper]
    freeze(*frozen)
    trace.let_go()
    lost(reports)
    wait_for(lambda: trace.times() == (1, 1), "it to end unseen")
    thaw(*frozen)
    local_fleet.wait_until_ready(executor, "ex-a")
    after = launch(job_of(sh("true"), id="after"))._replace(executor="fleet:ex-a")
    executor.launch(after)
    reports.end_of(after.key)
    assert [type(one) for one in reports if isinstance(one, RunFinished | RunLost) and one.key == trace.key] == [
        RunLost
    ]


def test_dasks_scheduler_may_die_and_come_back(local_fleet, reports, trace):
    local_fleet.join("ex-a")
    executor = local_fleet.open(reports, "ex-a")
    executor.launch(trace.order)
    trace.pid()
    started(reports)
    assert local_fleet.scheduler is not None
    kill(local_fleet.scheduler.child())
    wait_for(lambda: not executor.members()[0].is_healthy, "it to be missed")
    trace.let_go()
    assert reports.end_of(trace.key).state is SUCCEEDED
    assert trace.times() == (1, 1)
    assert ends(reports) == [RunFinished]


def test_dasks_scheduler_may_be_away_when_an_attempt_ends(local_fleet, reports, trace):
    local_fleet.join("ex-a")
    executor = local_fleet.open(reports, "ex-a")
    executor.launch(trace.order)
    trace.pid()
    started(reports)
    assert local_fleet.scheduler is not None
    local_fleet.scheduler.kill()
    trace.let_go()
    wait_for(lambda: trace.times() == (1, 1), "it to end while nobody can hear of it")
    local_fleet.start()
    assert reports.end_of(trace.key).state is SUCCEEDED
    assert ends(reports) == [RunFinished]


class TestTheNetwork:
    @pytest.fixture
    def cable(self, local_fleet):
        wait_for(lambda: _listens(local_fleet.port), "the scheduler to listen")
        cable = Cable(local_fleet.port)
        yield cable
        cable.close()

    def test_a_short_cut_costs_nothing(self, local_fleet, cable, reports, trace):
        local_fleet.join("ex-a", url=cable.url)
        executor = local_fleet.open(reports, "ex-a")
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

    @pytest.mark.parametrize("ways", [("there", "back"), ("there",), ("back",)], ids="-".join)
    def test_beyond_the_lease_the_attempt_has_ended_before_it_is_given_up(
        self, local_fleet, cable, reports, trace, ways
    ):
        """Whichever way is cut: a member that is not heard, or hears nothing, ends what it runs by itself."""
        local_fleet.join("ex-a", url=cable.url, lease_us=SHORT_US)
        local_fleet.join("ex-b", lease_us=SHORT_US)
        executor = local_fleet.open(reports, "ex-a", "ex-b", lease_us=SHORT_US)
        executor.launch(trace.order)
        pid = trace.pid()
        started(reports)
        cable.cut(*ways)
        lost(reports)
        assert not is_alive(pid), "another attempt would run beside it"
        again = trace.order._replace(attempt=2, fence=trace.order.fence + 1, executor="fleet:ex-b")
        executor.launch(again)
        wait_for(lambda: trace.times()[0] == 2, "the second attempt to begin")
        cable.mend()
        trace.let_go()
        end = reports.end_of(trace.key)
        assert (end.attempt, end.state) == (2, SUCCEEDED)
        assert trace.times() == (2, 1)
        assert ends(reports) == [RunLost, RunFinished]

    def test_a_scheduler_that_is_cut_off_loses_nothing_however_long(self, local_fleet, cable, reports, trace):
        local_fleet.join("ex-a", lease_us=SHORT_US)
        executor = local_fleet.open(reports, "ex-a", url=cable.url, lease_us=SHORT_US)
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


def test_a_scheduler_that_was_frozen_gives_up_no_member(tmp_path, local_fleet):
    local_fleet.join("ex-a", lease_us=SHORT_US)
    jobs, go, began = tmp_path / "jobs", tmp_path / "go", tmp_path / "began"
    jobs.mkdir()
    (jobs / "report.yaml").write_text(
        f"onExecutorLost: fail\nexecutor: fleet\ncommand: echo $$ >> {began}; until test -e {go}; do sleep 0.05; done\n"
    )
    (jobs / "evertick.toml").write_text(f'[fleet]\nurl = "{local_fleet.url}"\nlease = "10s"\n')
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

    def test_another_scheduler_receives_what_still_runs_and_how_it_ends(self, local_fleet, reports, trace):
        local_fleet.join("ex-a")
        first = local_fleet.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        started(reports)
        first.close()
        heard = Heard()
        second = local_fleet.open(heard, node="second")
        second.reconcile_placed([AttemptQuestion(trace.key, 1, "fleet:ex-a")])
        started(heard)
        trace.let_go()
        assert heard.end_of(trace.key).state is SUCCEEDED
        assert trace.times() == (1, 1)

    def test_another_scheduler_receives_what_ended_while_none_was_connected(self, local_fleet, reports, trace):
        local_fleet.join("ex-a")
        first = local_fleet.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        first.close()
        trace.let_go()
        wait_for(lambda: trace.times() == (1, 1), "it to end")
        heard = Heard()
        second = local_fleet.open(heard, node="second")
        # Not even written down where: all are asked.
        second.reconcile_placed([AttemptQuestion(trace.key, 1, "fleet")])
        assert heard.end_of(trace.key).state is SUCCEEDED
        assert local_fleet.log_of(trace.key, node="second") == b"here\n"

    def test_a_launch_that_is_repeated_by_it_starts_nothing_twice(self, local_fleet, reports, trace):
        local_fleet.join("ex-a")
        first = local_fleet.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        first.close()
        heard = Heard()
        second = local_fleet.open(heard, "ex-a", node="second")
        second.launch(trace.order)
        trace.let_go()
        assert heard.end_of(trace.key).state is SUCCEEDED
        assert trace.times() == (1, 1)

    def test_what_a_member_of_a_dead_scheduler_has_is_shown_to_the_next(self, local_fleet, reports, trace):
        member = local_fleet.join("ex-a")
        first = local_fleet.open(reports, "ex-a", node="first")
        first.launch(trace.order)
        trace.pid()
        first.close()
        heard = Heard()
        local_fleet.open(heard, "ex-a", node="second")
        kill(member.child())
        heard.wait_until(lambda said: AttemptSeen(trace.key, 1) in said)

    def test_a_member_that_never_comes_back_is_given_up(self, local_fleet, reports):
        local_fleet.join("ex-a", lease_us=SHORT_US)
        executor = local_fleet.open(reports, "ex-a", lease_us=SHORT_US)
        order = launch(job_of(sh("true")))
        executor.reconcile_placed([AttemptQuestion(order.key, 1, "fleet:ex-gone")])
        assert "ex-gone has been silent" in lost(reports).detail


@pytest.mark.parametrize("is_keeper_killed", [False, True], ids=["worker", "worker and keeper"])
def test_a_member_that_is_killed_and_stays_away_leaves_nothing_running(local_fleet, reports, trace, is_keeper_killed):
    member = local_fleet.join("ex-a", lease_us=SHORT_US)
    executor = local_fleet.open(reports, "ex-a", lease_us=SHORT_US)
    executor.launch(trace.order)
    pid, keeper = trace.pid(), local_fleet.keeper_of("ex-a")
    started(reports)
    local_fleet.members.pop("ex-a")
    member.kill()
    if is_keeper_killed:
        kill(keeper)
    lost(reports)
    assert not is_alive(pid), "another attempt would run beside it"
    assert trace.times() == (1, 0)


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_yard_leaves_nothing_behind(tmp_path):
    from tests.fleet.local_fleet import keepers

    here = LocalFleet(tmp_path)
    here.start()
    here.join("ex-a")
    heard = Heard()
    here.open(heard, "ex-a")
    here.close()
    assert keepers(tmp_path) == []
