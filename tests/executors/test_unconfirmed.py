"""Who extends the deadline of a run that the ledger does not have? The same for real and simulated keepers."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from random import Random

import pytest

from evertick.executors.keeper.attempt_state import AttemptStates, read_states
from evertick.executors.keeper.journal import CURRENT, Journal, JournalTail
from evertick.executors.keeper.lease import lease_from
from evertick.executors.keeper.procfs import boottime_us, is_alive
from evertick.executors.keeper.supervisor import NOT_CONFIRMED
from evertick.executors.keeper.unconfirmed import (
    FILE,
    NEVER,
    NO_DEADLINES,
    Deadline,
    DeadlineFile,
    DeadlineSummary,
    Unconfirmed,
    read_deadlines,
)
from evertick.loop.messages import RunFinished
from evertick.model.instant import HOUR, SECOND
from evertick.model.report import LaunchRefused, Report, RunLost, RunStarted
from evertick.testing.executors import SimulatedExecutors
from evertick.testing.faults import Faults
from evertick.testing.timeline import Caller, Timeline
from tests.executors.contract import NINE, launch_of
from tests.executors.local_runs import job_of, key_of, kill, launch, sh, until
from tests.executors.test_keeper_lease import Sleeper
from tests.present import present

LONG_US, SHORT_US = 600 * SECOND, 2 * SECOND


class RealMachine:
    """Processes of one node, and the keeper that they share."""

    def __init__(self, place, folder) -> None:
        self.place, self.folder = place, folder
        self.pids: dict[int, int] = {}

    def process(self) -> RealProcess:
        return RealProcess(self)

    def wait_for_end(self, number: int) -> None:
        assert self.place.loss_of(key_of(number)).detail == NOT_CONFIRMED.detail
        self.place.run(job_of(sh("true"), id="after"), key=key_of(90 + number, "after"))

    def is_running(self, number: int) -> bool:
        return is_alive(self.pids[number])


class RealProcess:
    def __init__(self, machine: RealMachine) -> None:
        self._machine = machine
        self._executor = machine.place.open(lives_by_lease=True)

    def renew(self, vouched_us: int) -> None:
        now = boottime_us()
        self._executor.renew(now, LONG_US, 1, now + vouched_us)

    def close(self) -> None:
        self._executor.close()

    def launch(self, number: int, *, is_confirmed: bool = False) -> None:
        sleeper = Sleeper(self._machine.place, self._machine.folder, number)
        self._executor.launch(sleeper.order._replace(valid_until=2**60, is_confirmed=is_confirmed))
        self._machine.pids[number] = sleeper.pid()

    def launch_refused(self, number: int) -> LaunchRefused:
        order = launch(job_of(sh("true")), key=key_of(number))
        self._executor.launch(order._replace(valid_until=2**60, is_confirmed=False))
        return self._machine.place.refusal_of(order.key)

    def confirm(self, number: int) -> None:
        self._executor.confirm([(key_of(number), 1)])


class SimulatedMachine:
    def __init__(self) -> None:
        self.timeline = Timeline(NINE)
        self.said: list[Report] = []
        self.executors = SimulatedExecutors(
            self.timeline,
            Random(1),
            lambda: Faults(failure=0.0),
            lambda _, report: self.said.append(report),
            lambda _, report: self.said.append(report),
            100_000 * HOUR,
            is_shared=False,
            is_overlap_kept=False,
            has_keepers=True,
        )
        self._processes = 0

    def process(self) -> SimulatedProcess:
        self._processes += 1
        return SimulatedProcess(self, self._processes)

    def wait_for_end(self, number: int) -> None:
        self.timeline.run_until(self.timeline.now + 3 * SHORT_US)
        assert self.has(number, RunLost)

    def is_running(self, number: int) -> bool:
        return self.has(number, RunStarted) and not self.has(number, RunLost)

    def let_arrive(self) -> None:
        self.timeline.run_until(self.timeline.now + SECOND // 10)

    def has(self, number: int, kind: type[RunStarted | RunLost | RunFinished]) -> bool:
        return any(isinstance(one, kind) and one.key == key_of(number) for one in self.said)


class SimulatedProcess:
    def __init__(self, machine: SimulatedMachine, incarnation: int) -> None:
        self._machine, self._caller = machine, Caller("a", incarnation)
        self._held = present(machine.executors.keeper_of("a")).held_by(incarnation)

    def renew(self, vouched_us: int) -> None:
        now = self._machine.timeline.now
        self._held.renew(now, LONG_US, 1, now + vouched_us)
        self._machine.let_arrive()

    def launch(self, number: int, *, is_confirmed: bool = False) -> None:
        self._launch(number, is_confirmed)
        assert self._machine.has(number, RunStarted)

    def launch_refused(self, number: int) -> LaunchRefused:
        self._launch(number, False)
        return next(one for one in self._machine.said if isinstance(one, LaunchRefused) and one.key == key_of(number))

    def confirm(self, number: int) -> None:
        self._held.confirm([(key_of(number), 1)])
        self._machine.let_arrive()

    def _launch(self, number: int, is_confirmed: bool) -> None:
        order = launch_of(key_of(number))._replace(valid_until=2**60, is_confirmed=is_confirmed)
        self._machine.executors.launch(self._caller, order)
        self._machine.let_arrive()


class UnconfirmedContract:
    """A suite that takes it provides the fixture `machine`."""

    def test_the_next_process_does_not_extend_it_unless_the_ledger_has_it(self, machine):
        first, second = machine.process(), machine.process()
        first.renew(LONG_US)
        first.launch(0)
        first.launch(1)
        second.renew(LONG_US)
        second.confirm(1)
        second.launch(2)
        first.renew(SHORT_US)
        second.renew(LONG_US)
        machine.wait_for_end(0)
        assert not machine.is_running(0)
        assert machine.is_running(1)
        assert machine.is_running(2)

    def test_the_process_that_launched_it_extends_its_time(self, machine):
        first, second = machine.process(), machine.process()
        first.renew(LONG_US)
        first.launch(0)
        second.renew(LONG_US)
        second.launch(1)
        first.renew(2 * SHORT_US)
        first.renew(LONG_US)
        second.renew(3 * SHORT_US)
        machine.wait_for_end(1)
        assert machine.is_running(0)

    def test_the_next_process_extends_what_it_launches_too(self, machine):
        first, second = machine.process(), machine.process()
        first.renew(LONG_US)
        for number in range(3):
            first.launch(number)
        second.renew(LONG_US)
        second.launch(0)
        second.launch(1, is_confirmed=True)
        first.renew(SHORT_US)
        machine.wait_for_end(2)
        assert machine.is_running(0)
        assert machine.is_running(1)

    def test_a_process_starts_nothing_unconfirmed_by_the_lease_of_another(self, machine):
        first, second = machine.process(), machine.process()
        first.renew(LONG_US)
        first.launch(0)
        assert "the ledger has not recorded it" in second.launch_refused(1).detail
        second.renew(LONG_US)
        second.launch(2)


class TestSimulatedKeeper(UnconfirmedContract):
    @pytest.fixture
    def machine(self):
        return SimulatedMachine()


@pytest.mark.slow
class TestKeeper(UnconfirmedContract):
    @pytest.fixture
    def machine(self, place, tmp_path):
        return RealMachine(place, tmp_path)

    def test_the_next_keeper_knows_the_unconfirmed_runs_and_receives_confirmations(self, machine):
        process, place = machine.process(), machine.place
        process.renew(LONG_US)
        for number in range(3):
            process.launch(number)
        process.confirm(1)
        until(lambda: '"confirmed"' in place.journal(), "the keeper to have written it down")
        (keeper,) = place.keepers()
        kill(keeper)
        process.confirm(2)
        process.renew(SHORT_US)
        place.run(job_of(sh("true"), id="wakes a keeper"), key=key_of(80, "wakes a keeper"))
        until(lambda: not machine.is_running(0), "the next keeper to end what is not confirmed")
        assert machine.is_running(1)
        assert machine.is_running(2)

    @pytest.mark.parametrize("is_frozen", [False, True], ids=["killed", "stopped"])
    def test_a_watchdog_ends_what_is_not_confirmed_and_nothing_else(self, machine, is_frozen):
        process, place = machine.process(), machine.place
        process.renew(LONG_US)
        for number in range(3):
            process.launch(number)
        process.confirm(1)
        until(lambda: '"confirmed"' in place.journal(), "the keeper to have written it down")
        process.renew(2 * SHORT_US)
        process.launch(3)
        process.confirm(3)
        until(lambda: place.journal().count('"confirmed"') == 2, "the keeper to have written it down")
        process.close()
        (keeper,) = place.keepers()
        if is_frozen:
            os.kill(keeper, signal.SIGSTOP)
        else:
            kill(keeper)
        until(lambda: not (machine.is_running(0) or machine.is_running(2)), "the watchdog to end what is not confirmed")
        if is_frozen:
            os.kill(keeper, signal.SIGCONT)
        following = place.open(lives_by_lease=True)
        following.reconcile([(key_of(0), 1)])
        assert place.loss_of(key_of(0)).at is not None
        assert machine.is_running(1)
        assert machine.is_running(3)

    def test_the_next_keeper_knows_how_far_the_time_was_extended(self, machine):
        process, place = machine.process(), machine.place
        process.renew(2 * SHORT_US)
        process.launch(0)
        until(lambda: '"unconfirmed"' in place.journal(), "the keeper to have written it down")
        accepted = read_deadlines(place.folder / "keeper-0")
        process.renew(LONG_US)
        until(lambda: read_deadlines(place.folder / "keeper-0") != accepted, "the keeper to have heard it")
        process.close()
        (keeper,) = place.keepers()
        kill(keeper)
        until(lambda: boottime_us() > accepted.earliest, "the time to pass that it had at first")
        place.open(lives_by_lease=True)
        place.run(job_of(sh("true"), id="wakes a keeper"), key=key_of(80, "wakes a keeper"))
        assert machine.is_running(0)


def test_a_ledger_that_has_recorded_everything_ends_no_run():
    unconfirmed = Unconfirmed[int]()
    unconfirmed.renew("one", lease_from(0, HOUR, SECOND, 1))
    assert unconfirmed.has_room("another", HOUR)
    unconfirmed.add(1, "another")
    assert unconfirmed.over(10 * HOUR) == []
    assert unconfirmed.ends() == []


def test_the_states_keep_the_deadline_until_the_run_is_confirmed():
    lines = [
        ("accepted", 1, "report", NINE, "", 1, 7),
        ("unconfirmed", 1, "one", 5),
        ("accepted", 2, "report", NINE + SECOND, "", 1, 7),
        ("unconfirmed", 2, "one", 6),
        ("confirmed", 1),
    ]
    states = read_states(lines)
    again: AttemptStates = read_states(states.opening())
    for one in (states, again):
        assert [known.unconfirmed for known in one.open.values()] == [None, Deadline("one", 6)]


def test_an_outlook_is_read_back_as_it_was_written_and_rubbish_is_none(tmp_path):
    assert read_deadlines(tmp_path) == NO_DEADLINES
    with closing(DeadlineFile(tmp_path)) as file:
        for summary in (DeadlineSummary(Deadline("a name", 7), 5), NO_DEADLINES, DeadlineSummary(Deadline("", 0), 3)):
            file.write(summary)
            assert read_deadlines(tmp_path) == summary
    (tmp_path / FILE).write_bytes(b"\xff rubbish")
    assert read_deadlines(tmp_path) == NO_DEADLINES


def test_the_outlook_names_the_first_deadline_of_what_runs_and_of_what_may_be_launched():
    unconfirmed = Unconfirmed[int]()
    assert unconfirmed.summary().earliest == NEVER
    unconfirmed.renew("one", lease_from(0, HOUR, SECOND, 1, 10 * SECOND))
    unconfirmed.add(1, "one")
    first = unconfirmed.summary().newest
    assert unconfirmed.summary() == DeadlineSummary(first, first.end_at)
    unconfirmed.renew("two", lease_from(0, HOUR, SECOND, 1, 20 * SECOND))
    second = unconfirmed.summary().newest
    assert unconfirmed.summary() == DeadlineSummary(second, first.end_at)
    unconfirmed.discard(1)
    assert unconfirmed.summary() == DeadlineSummary(second, second.end_at)


def test_a_journal_is_read_in_parts_and_from_its_start_when_it_is_replaced(tmp_path):
    journal, tail = Journal(tmp_path, 1_000), JournalTail(tmp_path)
    assert tail.read() == (False, [])
    journal.begin([["keeper", "boot"]], 0)
    with closing(journal):
        journal.append("accepted", 1)
        journal.flush()
        assert tail.read() == (True, [["keeper", "boot"], ["accepted", 1]])
        journal.append("started", 1)
        journal.flush()
        with (tmp_path / CURRENT).open("ab") as file:
            file.write(b'["torn')
        assert tail.read() == (False, [["started", 1]])
        journal.rotate([["keeper", "boot"], ["accepted", 2]], 0, 0.0)
        assert tail.read() == (True, [["keeper", "boot"], ["accepted", 2]])
        assert tail.read() == (False, [])
