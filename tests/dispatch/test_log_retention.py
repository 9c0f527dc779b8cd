"""Are exactly the old logs removed?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evertick.dispatch import log_retention as sweeping
from evertick.dispatch.clock import SystemClock
from evertick.dispatch.log_retention import LogRetention
from evertick.executors.logs import Logs
from evertick.executors.paths import run_folder
from evertick.model.instant import DAY, HOUR, SECOND, Instant
from evertick.model.job import Job
from evertick.model.run import RunKey

NOW = 1_772_442_000 * SECOND


class Clock(SystemClock):
    def now(self) -> Instant:
        return NOW


def write_log(state: Path, job_id: str, age_us: int, *, name: str = "main.log", number: int = 0) -> Path:
    key = RunKey(job_id, NOW - age_us + number * SECOND)
    folder = state.joinpath("logs", *run_folder(key), "1")
    folder.mkdir(parents=True)
    (folder / name).write_text("x")
    for path in (folder / name, folder, folder.parent):
        os.utime(path, (key.scheduled_for / SECOND, key.scheduled_for / SECOND))
    return folder


def retention(state: Path, *jobs: Job, retention_us: int | None = 30 * DAY) -> LogRetention:
    return LogRetention(Logs(state).prune_logs, lambda: jobs, Clock(), retention_us)


def test_the_logs_of_runs_older_than_the_settings_say_go_and_their_folders_with_them(tmp_path):
    old, young = write_log(tmp_path, "a", 31 * DAY), write_log(tmp_path, "a", 29 * DAY)
    assert retention(tmp_path).sweep() == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert not old.parents[1].exists()


@pytest.mark.parametrize(
    ("own_us", "is_kept"),
    [
        pytest.param(60 * DAY, True, id="longer than the settings"),
        pytest.param(10 * DAY, False, id="shorter than the settings"),
    ],
)
def test_a_job_may_have_its_logs_kept_longer_or_shorter(tmp_path, own_us, is_kept):
    own, others = write_log(tmp_path, "a", 20 * DAY + 20 * DAY * is_kept), write_log(tmp_path, "b", 40 * DAY)
    retention(tmp_path, Job("a", log_retention_us=own_us), Job("b")).sweep()
    assert (own.exists(), others.exists()) == (is_kept, False)


def test_forever_applies_except_to_jobs_with_their_own_retention(tmp_path):
    kept, gone = write_log(tmp_path, "a", 4_000 * DAY), write_log(tmp_path, "b", 2 * DAY)
    retention(tmp_path, Job("b", log_retention_us=DAY), retention_us=None).sweep()
    assert (kept.exists(), gone.exists()) == (True, False)


def test_a_run_that_still_prints_keeps_its_log_however_old_it_is(tmp_path):
    growing = write_log(tmp_path, "a", 40 * DAY, name="main.log.part")
    assert retention(tmp_path).sweep() == 0
    assert growing.exists()


def test_many_go_in_portions(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeping, "AT_ONCE", 3)
    monkeypatch.setattr(sweeping, "PAUSE_SECONDS", 0.0)
    for number in range(10):
        write_log(tmp_path, "a", 31 * DAY + HOUR, number=number)
    assert retention(tmp_path).sweep() == 10


def test_where_nothing_was_ever_printed_there_is_nothing_to_do(tmp_path):
    assert retention(tmp_path).sweep() == 0


def test_a_disk_that_fails_is_logged_and_tried_again(monkeypatch, caplog):
    monkeypatch.setattr(sweeping, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "EVERY_SECONDS", 0.0)
    calls = []

    def fail(before, limit, job_id, *, but):
        calls.append(before)
        if len(calls) >= 2:
            found._stopping.set()
        raise OSError("no")

    found = LogRetention(fail, tuple, Clock(), DAY)
    found.start()
    found._thread.join(60)
    found.stop()
    assert len(calls) == 2
    assert caplog.text.count("logs.not_removed") == 2
