"""Can logs be found, read by ranges and removed, and can no name lead outside the folder?"""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.executors.logs import LogFile, Logs
from evertick.executors.paths import NAME_MAX, file_name, open_folder, run_folder
from evertick.model.instant import DAY, SECOND
from evertick.model.run import RunKey

NINE = 1_772_442_000_000_000
KEY = RunKey("report", NINE)


def put(folder, key: RunKey, name: str, data: bytes, attempt: int = 1, age_us: int = 0) -> None:
    place = folder.joinpath("logs", *run_folder(key), str(attempt))
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(data)
    at = (NINE - age_us) / SECOND
    for path in (place / name, place, place.parent):
        os.utime(path, (at, at))


@given(st.text(max_size=300))
def test_a_name_is_one_part_of_a_path_whatever_the_text(text):
    name = file_name(text)
    assert name
    assert "/" not in name
    assert not name.startswith(".")
    assert name.isascii()
    assert len(name) <= NAME_MAX


@given(st.text(max_size=200), st.text(max_size=200))
def test_two_texts_never_share_a_name(one, other):
    assert (file_name(one) == file_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("key", "folder"),
    [
        pytest.param(KEY, ("report", "2026-03-02", "090000Z"), id="an occurrence"),
        pytest.param(
            RunKey("report", NINE + 250_000, "r/1"), ("report", "2026-03-02", "090000.25Z~r%2F1"), id="a request"
        ),
        pytest.param(
            RunKey("../../etc", NINE, ".."), ("%2E.%2F..%2Fetc", "2026-03-02", "090000Z~%2E."), id="a bad one"
        ),
    ],
)
def test_the_folder_of_a_run(key, folder):
    assert run_folder(key) == folder


def test_a_log_is_read_by_ranges(tmp_path):
    put(tmp_path, KEY, "main.log", b"0123456789")
    logs = Logs(tmp_path)
    assert logs.read_log(KEY, 1, "main", 0, 4) == (b"0123", 4, False)
    assert logs.read_log(KEY, 1, "main", 4, 100) == (b"456789", 10, True)
    assert logs.read_log(KEY, 1, "main", 99, 100) == (b"", 99, True)


def test_a_log_that_may_grow_is_not_complete(tmp_path):
    put(tmp_path, KEY, "main.log.part", b"0123")
    assert Logs(tmp_path).read_log(KEY, 1, "main") == (b"0123", 4, False)


@pytest.mark.parametrize(("attempt", "step"), [(1, "other"), (2, "main"), (1, "../1/main")])
def test_a_log_that_is_not_there_is_empty(tmp_path, attempt, step):
    put(tmp_path, KEY, "main.log", b"0123")
    assert Logs(tmp_path).read_log(KEY, attempt, step) == (b"", 0, False)


def test_a_range_before_the_beginning_is_refused(tmp_path):
    with pytest.raises(ValueError, match="from -1"):
        Logs(tmp_path).read_log(KEY, 1, "main", -1)


def test_all_logs_of_a_run_are_listed(tmp_path):
    put(tmp_path, KEY, "main.log", b"0123")
    put(tmp_path, KEY, file_name("a/b c") + ".log.part", b"01", attempt=2)
    put(tmp_path, KEY, "outputs.json", b"{}", attempt=2)
    put(tmp_path, KEY, "main.log.tail", b"x", attempt=2)
    assert Logs(tmp_path).list_logs(KEY) == [LogFile(1, "main", 4, True), LogFile(2, "a/b c", 2, False)]
    assert Logs(tmp_path).list_logs(RunKey("other", NINE)) == []


def test_no_part_of_the_way_to_a_log_may_be_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "report").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        open_folder(str(tmp_path / "logs"), run_folder(KEY), create=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_old_logs_are_removed_in_small_batches(tmp_path):
    for number in range(5):
        put(tmp_path, RunKey("report", NINE - number * DAY), "main.log", b"x", age_us=number * DAY)
    logs = Logs(tmp_path)
    assert logs.prune_logs(NINE - DAY, limit=2) == 2
    assert logs.prune_logs(NINE - DAY, limit=2) == 1
    assert logs.prune_logs(NINE - DAY, limit=2) == 0
    left = [number for number in range(5) if logs.list_logs(RunKey("report", NINE - number * DAY))]
    assert left == [0, 1]
    assert sorted(path.name for path in (tmp_path / "logs/report").iterdir()) == ["2026-03-01", "2026-03-02"]


def test_the_log_of_a_backfilled_run_is_as_old_as_its_writing(tmp_path):
    put(tmp_path, RunKey("report", NINE - 300 * DAY), "main.log", b"x")
    assert Logs(tmp_path).prune_logs(NINE - DAY) == 0


def test_a_job_may_keep_its_logs_longer_than_another(tmp_path):
    for job_id in ("report", "other"):
        put(tmp_path, RunKey(job_id, NINE - 9 * DAY), "main.log", b"x", age_us=9 * DAY)
    assert Logs(tmp_path).prune_logs(NINE, job_id="other") == 1
    assert Logs(tmp_path).list_logs(RunKey("report", NINE - 9 * DAY))
