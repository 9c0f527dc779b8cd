"""Do runs and their records survive faults around them? With real processes that are really killed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from evertick.executors.keeper.lease import read_lease
from evertick.executors.keeper.procfs import boot_id, boottime_us, is_alive, is_same_process, stat_of
from evertick.executors.keeper.recovery import RESTARTED, UNKNOWN_EXIT, VANISHED
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.loss import LossReason
from evertick.model.report import LaunchRefused, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey
from evertick.settings.parts import KeeperSettings, LocalSettings
from tests.executors.contract import KEY, NINE
from tests.executors.local_runs import SOON, argv, job_of, key_of, kill, launch, sh, until, written
from tests.present import present
from tests.provision import find_strace

ROOT = Path(__file__).parents[2]

STAND_IN = """
import sys, threading
from tests.executors.local_runs import *
from evertick.executors.local import LocalExecutor
started = threading.Event()
executor = LocalExecutor(sys.argv[1], SOON)
executor.open(lambda report: started.set() if isinstance(report, RunStarted) else None)
executor.launch(launch(job_of(sh(sys.argv[2]))))
started.wait()
print("started", flush=True)
threading.Event().wait()
"""


def stand_in(folder: Path, program: str) -> subprocess.Popen[str]:
    """A scheduler that launches one run and then does nothing for ever; returns when the run has started."""
    words = [sys.executable, "-c", STAND_IN, str(folder), program]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def keeper_of(place) -> int:
    (pid,) = place.keepers()
    return pid


# The scheduler is killed


def test_a_run_that_ends_while_the_scheduler_is_dead_is_reported_to_the_next_one(place, tmp_path):
    program = f"echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo over; exit 3"
    end(stand_in(place.folder, program))
    (tmp_path / "go").touch()
    until(lambda: '"finished"' in place.journal(), "the run to end")
    executor = place.open()
    executor.reconcile([(KEY, 1), (KEY, 2)])
    executor.launch(launch(job_of(sh(program))))
    finished = place.end_of(KEY)
    assert (finished.state, finished.exit_code) == (FAILED, 3)
    place.reports.wait_until(lambda said: RunUnknown(KEY, 2) in said)
    assert (tmp_path / "runs").read_text() == "x\n"
    assert place.log() == b"over\n"


def test_a_run_that_outlives_its_scheduler_is_adopted_and_can_be_stopped(place):
    end(stand_in(place.folder, "sleep 600"))
    executor = place.open()
    executor.reconcile([(KEY, 1)])
    assert place.start_of(KEY).key == KEY
    assert executor.members()[0].running == 1
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED


def test_closing_leaves_runs_to_the_next_scheduler(place, tmp_path):
    first = place.open()
    first.launch(launch(job_of(sh(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"))))
    place.start_of(KEY)
    first.close()
    (tmp_path / "go").touch()
    place.open()
    assert place.end_of(KEY).state == SUCCEEDED


def test_an_outcome_is_reported_until_it_was_taken_and_remembered_after_that(place):
    place.run(job_of(argv("true")))
    until(lambda: '["delivered",1]' in place.journal(), "the outcome to be taken")
    place.reports.clear()
    executor = place.open()
    executor.launch(launch(job_of(argv("true")), key_of(1)))
    place.end_of(key_of(1))
    assert not any(one.key == KEY for one in place.reports)
    executor.reconcile([(KEY, 1)])
    assert place.end_of(KEY).state == SUCCEEDED


# The keeper is killed


def test_runs_continue_when_their_keeper_is_killed_and_are_lost_when_they_end(place, tmp_path):
    executor = place.open()
    program = f"echo $$ > {tmp_path}/pid; echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"
    executor.launch(launch(job_of(sh(program))))
    pid = int(written(tmp_path / "pid"))
    place.start_of(KEY)
    first = keeper_of(place)
    kill(first)
    until(lambda: place.keepers() not in ([], [first]), "the next keeper")
    executor.launch(launch(job_of(sh(program))))
    executor.reconcile([(KEY, 1)])
    until(lambda: sum(isinstance(one, RunStarted) for one in place.reports) >= 2, "it to be told that it runs")
    assert is_alive(pid)
    (tmp_path / "go").touch()
    assert place.loss_of(KEY).detail == "its exit code is unknown because its keeper was killed"
    assert not is_alive(pid)
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_run_whose_keeper_was_killed_can_still_be_stopped(place, tmp_path):
    executor = place.open()
    executor.launch(launch(job_of(sh(f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 1; done"))))
    pid = int(written(tmp_path / "pid"))
    place.start_of(KEY)
    kill(keeper_of(place))
    executor.stop(KEY, 1, "enough")
    assert place.loss_of(KEY).attempt == 1
    assert not is_alive(pid)


def test_what_died_with_its_keeper_is_lost(place, tmp_path):
    executor = place.open()
    executor.launch(launch(job_of(sh(f"echo $$ > {tmp_path}/pid; echo before; exec sleep 600"))))
    pid = int(written(tmp_path / "pid"))
    place.start_of(KEY)
    until(lambda: b"before" in place.log(), "its output")
    executor.close()
    kill(keeper_of(place))
    kill(pid)
    place.open().reconcile([(KEY, 1)])
    assert place.loss_of(KEY).detail == "it was gone when its killed keeper was replaced"
    log = place.log()
    assert log.startswith(b"before\n")
    assert b"the keeper was killed" in log
    assert [one.is_complete for one in place.logs.list_logs(KEY)] == [True]


def test_a_process_that_was_started_before_its_pid_was_noted_is_found_by_its_environment(place, tmp_path):
    executor = place.open()
    executor.launch(launch(job_of(sh(f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"))))
    written(tmp_path / "pid")
    before = place.start_of(KEY).at
    executor.close()
    kill(keeper_of(place))
    journal = place.folder / "keeper-0" / "keeper.jsonl"
    kept = [row for row in journal.read_text().splitlines() if '"spawned"' not in row and '"started"' not in row]
    journal.write_text("\n".join(kept) + "\n")
    place.reports.clear()
    executor = place.open()
    executor.launch(launch(job_of(sh(f"touch {tmp_path}/twice"))))
    assert abs(place.start_of(KEY).at - before) < SECOND
    (tmp_path / "go").touch()
    assert place.loss_of(KEY).detail == "its exit code is unknown because its keeper was killed"
    assert not (tmp_path / "twice").exists()


def test_a_process_without_our_variables_is_found_however_late_it_was_started(place, tmp_path):
    """As on a machine so busy that it starts long after the keeper has asked for it: the kernel's time counts."""
    executor = place.open()
    executor.launch(launch(job_of(sh(f"echo $$ > {tmp_path}/pid; exec env -i sleep 600"))))
    pid = int(written(tmp_path / "pid"))
    place.start_of(KEY)
    journal = (place.folder / "keeper-0" / "keeper.jsonl").read_text()
    noted = [json.loads(row)[2:] for row in journal.splitlines() if '"spawned"' in row]
    assert noted == [[pid, present(stat_of(pid)).started_us]]
    executor.close()
    kill(keeper_of(place))
    place.reports.clear()
    place.open().reconcile([(KEY, 1)])
    place.start_of(KEY)
    kill(pid)
    assert place.loss_of(KEY).detail == UNKNOWN_EXIT.detail


@pytest.mark.parametrize(
    ("shift_us", "boot", "loss"),
    [
        pytest.param(0, None, UNKNOWN_EXIT, id="the same process is watched"),
        pytest.param(-60 * SECOND, None, VANISHED, id="another with its pid is not"),
        pytest.param(0, "another-boot", RESTARTED, id="nor one of another boot"),
    ],
)
def test_a_process_is_known_by_pid_and_start_and_boot(place, shift_us, boot, loss):
    folder = place.folder / "keeper-0"
    folder.mkdir(parents=True, mode=0o700)
    with subprocess.Popen(["sleep", "600"]) as other:
        started_us = present(stat_of(other.pid)).started_us + shift_us
        (folder / "keeper.jsonl").write_text(
            f'["keeper","{boot or boot_id()}",0,0,0]\n'
            f'["accepted",1,"report",{NINE},"",1,7]\n'
            f'["spawned",1,{other.pid},{started_us}]\n["started",1,{NINE}]\n'
        )
        place.open().reconcile([(KEY, 1)])
        if shift_us == 0 and boot is None:
            place.start_of(KEY)
            other.kill()
            other.wait()
        lost = place.loss_of(KEY)
        assert (lost.reason, lost.detail) == loss
        assert (other.returncode is None) == (other.poll() is None)
        other.kill()


def test_after_a_restart_of_the_machine_the_unknown_is_lost_and_not_run_again(place):
    """The last lines of the journal may not have reached the disk; a job that must run at most once relies on it."""
    folder = place.folder / "keeper-0"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "keeper.jsonl").write_text('["keeper","another-boot",0,0,0]\n')
    place.open().reconcile([(KEY, 1)])
    assert place.loss_of(KEY).reason is LossReason.MACHINE_RESTARTED


def test_a_torn_line_and_nonsense_in_the_journal_are_passed_over(place):
    place.run(job_of(argv("true")))
    place._opened[-1].close()
    kill(keeper_of(place))
    with (place.folder / "keeper-0" / "keeper.jsonl").open("ab") as journal:
        journal.write(b'\xff\xfe\n["finished"]\n{"a":1}\n["accepted",2,"rep')
    place.reports.clear()
    executor = place.open()
    executor.launch(launch(job_of(argv("true"))))
    assert place.end_of(KEY).state == SUCCEEDED
    executor.launch(launch(job_of(argv("true")), key_of(1)))
    assert place.end_of(key_of(1)).state == SUCCEEDED


@pytest.mark.slow
def test_nothing_is_run_twice_and_nothing_is_forgotten_when_keepers_are_killed_again_and_again(
    place, tmp_path, record_property
):
    record_property("faults", 60 // 12)
    executor = place.open()
    for number in range(60):
        job = job_of(sh(f"echo x >> {tmp_path}/{number}; sleep 0.01"))
        executor.launch(launch(job, key_of(number)))
        if number % 12 == 11:
            for pid in place.keepers():
                kill(pid)
    wanted = {key_of(number) for number in range(60)}
    ended: set[RunKey] = set()
    while ended != wanted:
        assert executor.drain(60)
        ended = {one.key for one in place.reports if isinstance(one, RunFinished | RunLost)}
        for key in wanted - ended:  # refused, because a keeper was killed before it was there
            executor.launch(launch(job_of(sh(f"echo x >> {tmp_path}/{(key.scheduled_for - NINE) // SECOND}")), key))
    assert {path.read_text() for path in tmp_path.glob("[0-9]*")} == {"x\n"}


# Much output


FLOOD = LocalSettings(keeper=SOON.keeper)


def keeper_memory(place) -> int:
    """The most it ever had, in bytes."""
    rows = Path(f"/proc/{keeper_of(place)}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("head -c 1000000000 /dev/zero", id="a gigabyte without a line feed"),
        pytest.param("head -c 300000000 /dev/urandom", id="bytes of all kinds"),
        pytest.param("yes | head -c 300000000", id="short lines"),
    ],
)
def test_a_flood_is_cut_in_the_middle_and_costs_no_memory(place, program):
    place.open(FLOOD)
    end = place.run(job_of(sh(f"echo first; {program}; echo last"), log_max_bytes=4 * 1024 * 1024))
    assert end.state == SUCCEEDED
    log = place.log()
    assert log.startswith(b"first\n")
    assert log.endswith(b"last\n")
    assert b"bytes were left out here]" in log
    assert len(log) < 4 * 1024 * 1024 + 200
    assert keeper_memory(place) < 80 * 1024 * 1024


def test_endless_output_neither_delays_others_nor_keeps_its_run_from_being_stopped(place):
    executor = place.open(FLOOD)
    for number in range(3):
        executor.launch(
            launch(job_of(argv("yes"), id=f"loud-{number}", log_max_bytes=1_000_000), key_of(0, f"loud-{number}"))
        )
        place.start_of(key_of(0, f"loud-{number}"))
    for number in range(10):
        executor.launch(launch(job_of(argv("true")), key_of(number)))
    for number in range(10):
        assert place.end_of(key_of(number)).state == SUCCEEDED
    until(lambda: place.logs.read_tail(key_of(0, "loud-0"), 1, "main") != b"", "its end to be shown while it runs")
    executor.stop_all("enough")
    assert executor.drain(30)
    assert {one.state for one in place.reports if isinstance(one, RunFinished) and "loud" in one.key.job_id} == {
        CANCELLED
    }
    assert place.log(key_of(0, "loud-0")).endswith(b"y\ny\n")


def test_a_child_left_in_the_background_does_not_hold_its_run_up(place, tmp_path):
    program = f"(sleep 0.3; echo late; echo wrote > {tmp_path}/wrote) & echo done"
    assert place.run(job_of(sh(program))).state == SUCCEEDED
    assert written(tmp_path / "wrote") == "wrote"  # it was not killed by writing to nobody
    assert place.log() == b"done\n"


# No room


def test_a_full_disk_costs_the_log_and_not_the_run(place):
    place.run(job_of(argv("true")))
    limit = 100_000
    resource.prlimit(keeper_of(place), resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    end = place.run(job_of(sh("head -c 1000000 /dev/zero")), key=key_of(1))
    assert end.state == SUCCEEDED
    log = place.log(key_of(1))
    assert len(log) <= limit
    assert log.endswith(b"bytes were not written: File too large]\n")


def test_while_the_journal_cannot_be_written_nothing_is_started_and_outcomes_are_not_lost(place, tmp_path):
    executor = place.open()
    executor.launch(launch(job_of(sh(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"))))
    place.start_of(KEY)
    keeper = keeper_of(place)
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    executor.launch(launch(job_of(sh(f"touch {tmp_path}/ran")), key_of(1)))
    assert "cannot write its journal" in place.refusal_of(key_of(1)).detail
    (tmp_path / "go").touch()
    assert place.end_of(KEY).state == SUCCEEDED
    assert '"finished"' not in place.journal()
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    until(lambda: '"finished"' in place.journal(), "the outcome to be noted after all")
    assert not (tmp_path / "ran").exists()
    executor.launch(launch(job_of(argv("true")), key_of(1)))
    assert place.end_of(key_of(1)).state == SUCCEEDED


@contextmanager
def no_room_for_processes(pid: int) -> Iterator[None]:
    """No process of it can start another; the limit of a user's processes does not hold for root."""
    if os.geteuid() == 0:
        calls = "fork,vfork,clone,clone3"
        words = ["-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", f"--inject={calls}:error=EAGAIN"]
        with subprocess.Popen([str(present(find_strace())), *words, "-p", str(pid)]) as strace:
            until(lambda: f"TracerPid:\t{strace.pid}\n" in Path(f"/proc/{pid}/status").read_text(), "it to be traced")
            yield
            strace.terminate()
    else:
        before = resource.prlimit(pid, resource.RLIMIT_NPROC)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (1, before[1]))
        yield
        resource.prlimit(pid, resource.RLIMIT_NPROC, before)


def test_a_machine_without_room_for_another_process_refuses_and_takes_it_later(place):
    place.run(job_of(argv("true")))
    executor = place._opened[-1]
    with no_room_for_processes(keeper_of(place)):
        executor.launch(launch(job_of(argv("true")), key_of(1)))
        assert "cannot start another process" in place.refusal_of(key_of(1)).detail
    assert place.run(job_of(argv("true")), key=key_of(1)).state == SUCCEEDED


def test_a_keeper_without_a_free_descriptor_refuses_and_takes_it_later(place):
    place.run(job_of(argv("true")))
    keeper = keeper_of(place)
    before = resource.prlimit(keeper, resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir(f"/proc/{keeper}/fd")) + 1
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (used, before[1]))
    executor = place._opened[-1]
    executor.launch(launch(job_of(argv("true")), key_of(1)))
    assert "cannot start another process" in place.refusal_of(key_of(1)).detail
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, before)
    assert place.run(job_of(argv("true")), key=key_of(1)).state == SUCCEEDED


@pytest.mark.slow
def test_a_keeper_without_free_descriptors_continues_and_starts_the_rest_later(place, tmp_path):
    executor = place.open(lives_by_lease=True)
    now = boottime_us()
    executor.renew(now, 600 * SECOND, 1, 0)
    place.run(job_of(argv("true"), id="first"), key=key_of(0, "first"))
    keeper = keeper_of(place)
    before = resource.prlimit(keeper, resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir(f"/proc/{keeper}/fd")) + 1
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (used + 80, before[1]))
    text = f"echo $EVERTICK_RUN_ID >> {tmp_path}/began; echo said; until test -e {tmp_path}/go; do sleep 0.1; done"
    orders = [launch(job_of(sh(text)), key_of(number)) for number in range(60)]
    for order in orders:
        executor.launch(order)

    def answered(kind: type[RunStarted | RunLost | RunFinished | LaunchRefused]) -> list[RunKey]:
        return [one.key for one in place.reports if isinstance(one, kind) and one.key.job_id == "report"]

    until(lambda: len(answered(RunStarted)) + len(answered(LaunchRefused)) == len(orders), "each to be answered")
    started, refused = answered(RunStarted), answered(LaunchRefused)
    assert started
    assert f"The keeper may open {used + 80} files" in place.refusal_of(refused[0]).detail
    # What it needs for itself is kept free: it renews its lease, hears another scheduler, and ends what it has started.
    executor.renew(boottime_us(), 1_200 * SECOND, 1, 0)
    until(lambda: read_lease(place.folder / "keeper-0").until > now + 900 * SECOND, "the lease to be renewed")
    place.open(lives_by_lease=True).stop(started[0], 1, "enough")
    assert place.end_of(started[0]).state == CANCELLED
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, before)
    for order in orders:
        if order.key in refused:
            executor.launch(order)
    (tmp_path / "go").touch()
    ends = {key: place.end_of(key).state for key in map(attrgetter("key"), orders)}
    assert ends == {key: SUCCEEDED if key != started[0] else CANCELLED for key in ends}
    assert keeper_of(place) == keeper
    assert sorted((tmp_path / "began").read_text().split()) == sorted(key.run_id for key in ends)
    assert {place.log(key) for key in ends} == {b"said\n"}


# Many


def _is_replaced(place, killed: int) -> bool:
    return bool(place.keepers()) and killed not in place.keepers()


@pytest.mark.slow
def test_a_keeper_that_is_killed_again_and_again_remembers_what_it_has_run(place, tmp_path):
    executor = place.open(LocalSettings(keeper=KeeperSettings(journal_files=2)))
    order = launch(job_of(sh(f"echo x >> {tmp_path}/runs")), key_of(0))
    executor.launch(order)
    place.end_of(key_of(0))
    for number in range(1, 6):
        killed = keeper_of(place)
        kill(killed)
        executor.launch(launch(job_of(argv("true")), key_of(number)))
        place.end_of(key_of(number))
        until(partial(_is_replaced, place, killed), "the next keeper")
    # A scheduler that took over before the ledger had the end asks for the same attempt again.
    executor.launch(order)
    executor.launch(launch(job_of(argv("true")), key_of(9)))
    place.end_of(key_of(9))
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.slow
def test_two_hundred_runs_at_once(place):
    executor = place.open()
    for number in range(200):
        executor.launch(launch(job_of(sh("sleep 1; echo $EVERTICK_RUN_ID")), key_of(number)))
    assert executor.drain(60)
    ends = {one.key: one.state for one in place.reports if isinstance(one, RunFinished)}
    assert ends == {key_of(number): SUCCEEDED for number in range(200)}
    assert place.log(key_of(199)).decode() == f"{key_of(199).run_id}\n"
    assert not any(isinstance(one, LaunchRefused) for one in place.reports)


@pytest.mark.slow
def test_the_journal_is_kept_short_and_what_was_delivered_long_ago_is_forgotten(place):
    settings = KeeperSettings(journal_bytes=4_000, journal_files=3, remember_us=0)
    executor = place.open(LocalSettings(keeper=settings))
    executor.launch(launch(job_of(argv("sleep", "600"), id="long"), key_of(0, "long")))
    for number in range(300):
        executor.launch(launch(job_of(argv("true")), key_of(number)))
    place.end_of(key_of(299))
    folder = place.folder / "keeper-0"
    until(lambda: len(list(folder.glob("keeper.*.jsonl"))) <= 1, "old files to be removed")
    executor.reconcile([(key_of(0), 1), (key_of(0, "long"), 1)])
    place.reports.wait_until(lambda said: RunUnknown(key_of(0), 1) in said)
    kill(keeper_of(place))
    executor.stop(key_of(0, "long"), 1, "enough")
    assert place.loss_of(key_of(0, "long")).attempt == 1


def test_no_zombies_are_left(place):
    program = "for i in 1 2 3; do (sh -c 'sleep 0.05' &) ; done; exit 0"
    place.run(job_of(sh(program)))
    keeper = keeper_of(place)

    def children() -> list[int]:
        stats = [stat_of(int(name)) for name in os.listdir("/proc") if name.isdigit()]
        return [stat.pid for stat in stats if stat is not None and stat.parent == keeper]

    until(lambda: not children(), "what was left behind to be reaped")


def test_a_process_is_the_same_only_with_its_start():
    now = boottime_us()
    own = stat_of(os.getpid())
    assert own is not None
    assert is_same_process(os.getpid(), own.started_us)
    assert not is_same_process(os.getpid(), own.started_us - SECOND)
    assert own.started_us < now
