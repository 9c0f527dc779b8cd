"""Is a keeper that does not answer noticed and replaced, with every run accounted for and none started twice?"""

from __future__ import annotations

import os
import signal
import sys

import pytest

from evertick.cli.doctor_checks import FAIL, OK
from evertick.cli.doctor_checks.machine import check_keepers
from evertick.errors import SettingsError
from evertick.executors import keeper_client, keeper_process, protocol
from evertick.executors.keeper.procfs import boottime_us, is_alive
from evertick.executors.keeper_client import Liveness
from evertick.executors.keeper_process import KeeperProcess, probe_keepers
from evertick.model.instant import SECOND
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import RunFinished, RunLost
from evertick.settings.parts import KeeperSettings, LocalSettings
from tests.executors.contract import KEY, PATIENCE_SECONDS
from tests.executors.local_runs import SOON, job_of, key_of, launch, sh, until, written

SHORT = LocalSettings(keeper=SOON.keeper, keeper_timeout_us=4 * SECOND)


def test_a_connection_is_pinged_and_given_time_to_answer_before_it_times_out():
    liveness = Liveness(30.0, 100.0)
    assert not liveness.has_timed_out(129.0), "it was greeted, and has not answered yet"
    assert liveness.has_timed_out(130.0)
    liveness.note_answer(129.0)
    assert not liveness.should_ping(200.0), "one that cannot answer is not pinged"
    assert not liveness.has_timed_out(200.0)
    liveness.can_ping = True
    assert not liveness.should_ping(138.0)
    assert liveness.should_ping(139.0)
    liveness.pinged(200.0)
    assert not liveness.should_ping(201.0)
    assert not liveness.has_timed_out(201.0), "it had no time to answer: this process was suspended"
    assert liveness.silent_seconds(201.0) == 1.0
    assert liveness.has_timed_out(210.0)
    liveness.note_answer(210.5)
    assert not liveness.has_timed_out(211.0)
    assert liveness.silent_seconds(211.0) == 0.0


def test_a_timeout_that_a_keeper_which_is_well_could_miss_is_refused():
    with pytest.raises(SettingsError, match="keeper_timeout"):
        LocalSettings(keeper_timeout_us=SECOND - 1)


@pytest.mark.slow
def test_a_frozen_keeper_is_replaced_and_its_runs_continue(place, tmp_path):
    executor = place.open(SHORT)
    text = f"echo $$ >> {tmp_path}/pids; until test -e {tmp_path}/go; do sleep 0.05; done"
    executor.launch(launch(job_of(sh(text))))
    place.start_of(KEY)
    pid = int(written(tmp_path / "pids"))
    (before,) = place.keepers()
    os.kill(before, signal.SIGSTOP)
    # It is asked for while nothing answers, and begins when there is a keeper again.
    assert place.run(job_of(sh("true"), id="after"), key=key_of(1, "after")).state is SUCCEEDED
    assert not is_alive(before)
    assert before not in place.keepers()
    assert [one.replaced > 0 for one in executor.keepers()] == [True]
    assert is_alive(pid)
    (tmp_path / "go").touch()
    assert isinstance(place.loss_of(KEY), RunLost), "nobody was there to see how it ended"
    assert written(tmp_path / "pids") == str(pid), "it began once"
    assert len([one for one in place.reports if isinstance(one, RunFinished)]) == 1


COMPUTES = """#!{python} -P
import re, runpy, signal, sys

signal.signal(signal.SIGUSR1, lambda *_: re.match("(a+)+$", "a" * 64 + "b"))
del sys.argv[1:4]
runpy.run_module("{module}", run_name="__main__")
"""
"""A keeper that begins a computation without an end when it is signalled, and keeps the interpreter's lock in it."""


@pytest.mark.slow
def test_a_busy_looping_keeper_is_replaced_and_its_runs_continue(place, tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text(COMPUTES.format(python=sys.executable, module=keeper_process.MODULE))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    executor = place.open(SHORT, lives_by_lease=True)
    executor.renew(boottime_us(), 600 * SECOND, 1, 0)
    text = f"echo $$ >> {tmp_path}/pids; until test -e {tmp_path}/go; do sleep 0.05; done"
    executor.launch(launch(job_of(sh(text))))
    place.start_of(KEY)
    pid = int(written(tmp_path / "pids"))
    (before,) = place.keepers()
    os.kill(before, signal.SIGUSR1)
    until(lambda: bool(next(probe_keepers(place.folder, timeout=0.2)).problem), "it to compute")
    # The first is repeated, because the keeper may have taken it; the second it never heard of.
    executor.launch(launch(job_of(sh(text))))
    assert place.run(job_of(sh("true"), id="after"), key=key_of(1, "after")).state is SUCCEEDED
    assert not is_alive(before)
    assert [one.replaced > 0 for one in executor.keepers()] == [True]
    assert is_alive(pid)
    (tmp_path / "go").touch()
    assert isinstance(place.loss_of(KEY), RunLost), "no keeper saw its exit code"
    assert written(tmp_path / "pids") == str(pid), "it began once"


@pytest.mark.slow
def test_a_keeper_without_a_socket_is_replaced_when_it_is_needed(place, monkeypatch):
    monkeypatch.setattr(keeper_client, "DEAF_SECONDS", 1.0)
    first = place.open(SHORT)
    first.launch(launch(job_of(sh("sleep 600"))))
    place.start_of(KEY)
    (before,) = place.keepers()
    first.close()
    (place.folder / "keeper-0" / protocol.SOCKET).unlink()
    following = place.open(SHORT)
    following.launch(launch(job_of(sh("true")), key=key_of(1)))
    assert place.end_of(key_of(1)).state is SUCCEEDED
    assert not is_alive(before)
    assert [one.replaced > 0 for one in following.keepers()] == [True]


@pytest.mark.slow
def test_the_status_names_the_keeper_that_does_not_answer(place):
    assert list(probe_keepers(place.folder)) == []
    executor = place.open()
    place.run(job_of(sh("true")))
    (keeper,) = place.keepers()
    ((name, pid, trouble),) = probe_keepers(place.folder, PATIENCE_SECONDS)
    assert (name, pid, trouble) == ("keeper-0", keeper, "")
    os.kill(keeper, signal.SIGSTOP)
    ((_, pid, trouble),) = probe_keepers(place.folder, timeout=0.2)
    assert pid == keeper
    assert "has not answered" in trouble
    ((level, said, *_),) = check_keepers(place.folder)
    assert (level, str(keeper) in said) == (FAIL, True)
    os.kill(keeper, signal.SIGCONT)
    until(lambda: not next(probe_keepers(place.folder)).problem, "it to answer again")
    assert [level for level, *_ in check_keepers(place.folder)] == [OK]
    assert [one.replaced for one in executor.keepers()] == [0]


def test_a_process_that_is_not_the_folders_keeper_is_not_killed(tmp_path):
    process = KeeperProcess(tmp_path, tmp_path, KeeperSettings(), {})
    assert not process.kill(os.getpid())
    assert process.locked_by() is None
    (tmp_path / "keeper.lock").write_text("rubbish")
    assert process.locked_by() is None
