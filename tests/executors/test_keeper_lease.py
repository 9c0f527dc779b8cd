"""Does a keeper end its runs before its lease ends, whatever happens to its scheduler or to itself?"""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from evertick.executors.keeper.lease import FILE, UNLIMITED, Lease, LeaseFile, lease_from, read_lease
from evertick.executors.keeper.procfs import boottime_us, is_alive
from evertick.executors.keeper.supervisor import LEASE_OVER, NOT_CONFIRMED
from evertick.model.instant import SECOND
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.loss import LossReason
from evertick.model.report import RunLost
from tests.executors.contract import KEY
from tests.executors.local_runs import Place, job_of, key_of, kill, launch, sh, until

LEASE_US = 6 * SECOND
LONG_US = 600 * SECOND
pytestmark = pytest.mark.slow


class Sleeper:
    """A run that goes on until it is ended, and does not end politely."""

    def __init__(self, place: Place, tmp_path, number: int = 0) -> None:
        self._file = tmp_path / f"pid-{number}"
        self.key = key_of(number)
        text = f"trap '' TERM; echo $$ > {self._file}.new; mv {self._file}.new {self._file}; sleep 600 & wait; wait"
        self.order = launch(job_of(sh(text)), key=self.key)
        self._place = place

    def pid(self) -> int:
        self._place.start_of(self.key)
        until(self._file.exists, "it to begin")
        return int(self._file.read_text())


@pytest.fixture
def sleeper(place, tmp_path):
    return Sleeper(place, tmp_path)


def renew(executor, lease_us: int = LEASE_US, epoch: int = 1, vouched_us: int = LONG_US) -> int:
    now = boottime_us()
    executor.renew(now, lease_us, epoch, now + vouched_us)
    return now + lease_us


def keeper_of(place) -> int:
    (pid,) = place.keepers()
    return pid


def test_what_runs_ends_before_the_lease_and_nothing_more_is_started_until_it_is_renewed(place, sleeper):
    executor = place.open()
    renew(executor, LONG_US)
    executor.launch(sleeper.order)
    pid = sleeper.pid()
    over_at = renew(executor)
    lost = place.loss_of(KEY)
    assert boottime_us() < over_at
    assert not is_alive(pid)
    assert (lost.reason, lost.detail) == LEASE_OVER
    assert lost.at is not None
    after = launch(job_of(sh("true")), key=key_of(1))
    executor.launch(after)
    assert "lease" in place.refusal_of(after.key).detail
    renew(executor, LONG_US)
    executor.launch(after)
    assert place.end_of(after.key).state is SUCCEEDED


def test_a_lease_that_is_renewed_ends_nothing(place, sleeper, tmp_path):
    executor = place.open()
    renew(executor, LONG_US)
    executor.launch(sleeper.order)
    pid = sleeper.pid()
    renew(executor, LEASE_US)
    renew(executor, LONG_US)
    place.run(job_of(sh("true"), id="after"))
    assert is_alive(pid)
    assert read_lease(place.folder / "keeper-0").end_at > boottime_us() + LEASE_US


def test_the_handlers_of_a_run_whose_lease_is_over_are_left_out(place, tmp_path):
    from evertick.model.work import Handlers

    handlers = Handlers(on_exit=sh(f"touch {tmp_path}/handled", name="exit"))
    order = launch(job_of(sh("sleep 600"), handlers=handlers))
    executor = place.open()
    renew(executor, LONG_US)
    executor.launch(order)
    place.start_of(KEY)
    renew(executor)
    place.loss_of(KEY)
    assert not (tmp_path / "handled").exists()


def test_another_epoch_ends_what_was_started_under_the_one_before(place, sleeper):
    executor = place.open()
    renew(executor, LONG_US, epoch=1)
    executor.launch(sleeper.order)
    pid = sleeper.pid()
    renew(executor, LONG_US, epoch=2)
    assert place.loss_of(KEY).reason is LossReason.LEASE_EXPIRED
    assert not is_alive(pid)


def test_an_unrecorded_run_ends_with_the_lease_of_its_bucket(place, tmp_path):
    known, unknown = Sleeper(place, tmp_path, 0), Sleeper(place, tmp_path, 1)
    executor = place.open()
    renew(executor, LONG_US)
    for one in (known, unknown):
        executor.launch(one.order._replace(valid_until=2**60, is_confirmed=False))
    pids = [known.pid(), unknown.pid()]
    executor.confirm([(known.key, 1)])
    now = boottime_us()
    executor.renew(now, LONG_US, 1, now + 2 * SECOND)
    lost = place.loss_of(unknown.key)
    assert (lost.reason, lost.detail) == NOT_CONFIRMED
    assert [is_alive(pid) for pid in pids] == [True, False]


def test_an_unrecorded_run_is_not_started_just_after_such_runs_were_ended(place):
    executor = place.open()
    renew(executor, LONG_US, vouched_us=SECOND // 2)  # less than it takes to end one
    late, told = (launch(job_of(sh("true")), key=key_of(number))._replace(valid_until=2**60) for number in (0, 1))
    executor.launch(late._replace(is_confirmed=False))
    assert "the ledger has not recorded it" in place.refusal_of(late.key).detail
    executor.launch(told)
    assert place.end_of(told.key).state is SUCCEEDED


def test_a_launch_that_arrives_after_its_time_is_not_made(place):
    executor = place.open()
    renew(executor, LONG_US)
    executor.launch(launch(job_of(sh("true")))._replace(valid_until=1_000_000))
    assert "after its scheduler" in place.refusal_of(KEY).detail


@pytest.mark.parametrize("is_frozen", [False, True], ids=["killed", "stopped"])
def test_a_watchdog_ends_what_a_keeper_does_not(place, sleeper, is_frozen):
    executor = place.open()
    renew(executor, LONG_US)
    executor.launch(sleeper.order)
    pid, keeper = sleeper.pid(), keeper_of(place)
    over_at = renew(executor, LEASE_US)
    until(lambda: read_lease(place.folder / "keeper-0").until < over_at, "the keeper to have heard it")
    executor.close()
    if is_frozen:
        os.kill(keeper, signal.SIGSTOP)
    else:
        kill(keeper)
    until(lambda: not is_alive(pid), "the watchdog to end it")
    assert boottime_us() < over_at
    if is_frozen:
        os.kill(keeper, signal.SIGCONT)
    following = place.open()
    following.reconcile([(KEY, 1)])
    assert isinstance(place.loss_of(KEY), RunLost)


def test_a_lease_is_read_back_as_it_was_written_and_rubbish_is_none(tmp_path):
    lease = lease_from(5 * SECOND, 60 * SECOND, 5 * SECOND, 3)
    with closing(LeaseFile(tmp_path)) as file:
        file.write(lease)
        assert read_lease(tmp_path) == lease
        assert lease.end_at < lease.until < 65 * SECOND
        file.write(Lease(1, 2, 3))
    assert read_lease(tmp_path) == Lease(1, 2, 3)
    (tmp_path / FILE).write_bytes(b"\xff rubbish")
    assert read_lease(tmp_path) == UNLIMITED
