"""Edits on the real file system, noticed by the kernel's events alone: the scan of each minute is switched off."""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import threading
import time
from pathlib import Path

import pytest

from evertick.definitions import watch as watching
from evertick.definitions.directory_events import DirectoryEvent, DirectoryEvents
from evertick.definitions.watch import SHARE_MAX, FolderWatch, watch_failure
from evertick.definitions.watched_directories import WatchedDirectories
from evertick.model.work import Command

PATIENCE = 180
"""Seconds; without a hint nothing is noticed in an hour."""


class Follower:
    """A folder that a thread follows, and what it told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notices: list[str] = []
        self.watch = FolderWatch(folder, on_notice=self.notices.append)
        self._told: queue.Queue[tuple[list[str], list[str]]] = queue.Queue()
        self._scans = threading.Condition()
        self._count = 0
        scan = self.watch._scan_safely

        def count(on_change) -> None:
            scan(on_change)
            with self._scans:
                self._count += 1
                self._scans.notify_all()

        self.watch._scan_safely = count
        self.thread = threading.Thread(target=self.watch.run, args=(self._tell,))

    def _tell(self, change) -> None:
        self._told.put((sorted(job.id for job in change.jobs), sorted(change.removed)))

    def start(self) -> Follower:
        self.watch.load()
        self.thread.start()
        self.wait_until_watched()
        return self

    def wait_until_watched(self) -> None:
        """Two scans with nothing between them: the first set up the watches."""
        with self._scans:
            assert self._scans.wait_for(lambda: self._count >= 2, PATIENCE)

    def next(self) -> tuple[list[str], list[str]]:
        """What changed next; an error alone is not a change of jobs."""
        while True:
            told = self._told.get(timeout=PATIENCE)
            if told != ([], []):
                return told

    def command_of(self, job: str) -> tuple[str, ...]:
        kind = self.watch.snapshot().jobs[job].steps[0].kind
        assert isinstance(kind, Command)
        return kind.words

    def close(self) -> None:
        self.watch.stop()
        if self.thread.ident is not None:
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive()


@pytest.fixture
def follow(monkeypatch):
    monkeypatch.setattr(watching, "RESCAN_SECONDS", 3600.0)
    followers: list[Follower] = []

    def start(folder: Path) -> Follower:
        followers.append(Follower(folder))
        return followers[-1].start()

    yield start
    for follower in followers:
        follower.close()


@pytest.fixture
def jobs(tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    write(folder / "a.yaml", "one")
    return folder


def write(path: Path, command: str) -> Path:
    path.write_text(f"command: {command}\n", encoding="utf-8")
    return path


def test_files_are_added_changed_renamed_and_deleted(follow, jobs):
    seen = follow(jobs)
    write(jobs / "b.yaml", "two")
    assert seen.next() == (["b"], [])
    write(jobs / "a.yaml", "other")
    assert seen.next() == (["a"], [])
    (jobs / "b.yaml").rename(jobs / "c.yaml")
    assert seen.next() == (["c"], ["b"])
    (jobs / "c.yaml").unlink()
    assert seen.next() == ([], ["c"])


def test_an_editor_that_renames_over_the_file(follow, jobs):
    seen = follow(jobs)
    write(jobs / ".a.yaml.swp", "new").replace(jobs / "a.yaml")
    assert seen.next() == (["a"], [])
    assert seen.command_of("a") == ("new",)


def test_a_file_that_is_written_in_two_halves_counts_when_its_writer_closes_it(follow, jobs):
    seen = follow(jobs)
    with (jobs / "b.yaml").open("w", encoding="utf-8") as file:
        file.write("command: ha")
        file.flush()
        os.utime(jobs / "b.yaml")
        file.write("lf\n")
    assert seen.next() == (["b"], [])
    assert seen.command_of("b") == ("half",)


def test_a_config_map_that_turns_its_link(follow, tmp_path):
    """As the kubelet does it: a new directory, a new link beside `..data`, renamed over it."""
    folder = tmp_path / "jobs"
    versions = [folder / "..2026_01", folder / "..2026_02"]
    for number, version in enumerate(versions):
        version.mkdir(parents=True)
        write(version / "a.yaml", f"version{number}")
    (folder / "..data").symlink_to(versions[0].name)
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    seen = follow(folder)
    assert seen.command_of("a") == ("version0",)
    (folder / "..data_tmp").symlink_to(versions[1].name)
    (folder / "..data_tmp").replace(folder / "..data")
    assert seen.next() == (["a"], [])
    assert seen.command_of("a") == ("version1",)


def test_the_folder_itself_is_a_link_that_is_turned(follow, tmp_path):
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.yaml", name)
    (tmp_path / "current").symlink_to("v1")
    seen = follow(tmp_path / "current")
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(tmp_path / "current")
    assert seen.next() == (["a"], [])
    write(tmp_path / "v2" / "b.yaml", "x")
    assert seen.next() == (["b"], [])


def test_what_a_link_of_a_job_leads_to(follow, jobs, tmp_path):
    target = write(tmp_path / "elsewhere.txt", "one")
    (jobs / "link.yaml").symlink_to(target)
    seen = follow(jobs)
    write(target, "other")
    assert seen.next() == (["link"], [])


def test_a_link_whose_target_comes_later(follow, jobs, tmp_path):
    (jobs / "link.yaml").symlink_to(tmp_path / "far" / "away" / "job.yaml")
    seen = follow(jobs)
    (tmp_path / "far" / "away").mkdir(parents=True)
    write(tmp_path / "far" / "away" / "job.yaml", "x")
    assert seen.next() == (["link"], [])


def test_a_pipeline_in_a_folder_that_appears_later(follow, jobs, tmp_path):
    seen = follow(jobs)
    (jobs / "sync").mkdir()
    (jobs / "sync" / "pipeline.yaml").write_text("input: {}\n", encoding="utf-8")
    assert seen.next() == (["sync"], [])
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "pipeline.yaml").write_text("input: {}\n", encoding="utf-8")
    (jobs / "other").symlink_to(tmp_path / "linked")
    assert seen.next() == (["other"], [])
    (tmp_path / "linked" / "pipeline.yaml").unlink()
    assert seen.next() == ([], ["other"])


def test_the_folder_is_deleted_and_made_again(follow, jobs):
    seen = follow(jobs)
    (jobs / "a.yaml").unlink()
    assert seen.next() == ([], ["a"])
    jobs.rmdir()
    jobs.mkdir()
    write(jobs / "b.yaml", "x")
    assert seen.next() == (["b"], [])
    write(jobs / "c.yaml", "x")
    assert seen.next() == (["c"], [])


def test_a_folder_above_is_moved_away_and_another_takes_its_place(follow, tmp_path):
    for name in ("old", "new"):
        (tmp_path / name / "jobs").mkdir(parents=True)
        write(tmp_path / name / "jobs" / f"{name}.yaml", "x")
    seen = follow(tmp_path / "old" / "jobs")
    (tmp_path / "old").rename(tmp_path / "aside")
    (tmp_path / "new").rename(tmp_path / "old")
    assert seen.next() == (["new"], ["old"])


def test_an_overflow_of_the_queue_causes_a_scan_and_is_reported_once(follow, jobs, monkeypatch):
    read = DirectoryEvents._read

    def overflowed(events: DirectoryEvents) -> list[DirectoryEvent]:
        read(events)
        events.has_overflowed = True
        return [DirectoryEvent("", "")]

    seen = follow(jobs)
    monkeypatch.setattr(DirectoryEvents, "_read", overflowed)
    write(jobs / "b.yaml", "x")
    assert seen.next() == (["b"], [])
    write(jobs / "c.yaml", "x")
    assert seen.next() == (["c"], [])
    assert [text for text in seen.notices if "overflowed" in text] == [
        "the kernel's queue of file events overflowed. The folder was scanned in full."
    ]


def test_the_kernel_reports_that_its_queue_overflowed(tmp_path):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with DirectoryEvents() as events:
        events.watch({str(tmp_path): {"a"}})
        files = [str(write(tmp_path / name, "x")) for name in ("a", "b")]
        for number in range(limit):
            os.utime(files[number % 2])  # in turn: the kernel merges an event with an equal one before it
        while not events.has_overflowed:
            assert events.wait(PATIENCE)


@pytest.mark.parametrize(
    ("call", "number", "words"),
    [
        pytest.param("inotify_add_watch", errno.ENOSPC, "max_user_watches", id="the limit of watches"),
        pytest.param("inotify_init1", errno.EMFILE, "max_user_instances", id="the limit of instances"),
        pytest.param("inotify_add_watch", errno.EACCES, "Permission denied", id="a folder that may not be listed"),
    ],
)
def test_where_a_limit_is_reached_the_folder_is_scanned_at_a_pace_that_costs_little(
    follow, jobs, monkeypatch, call, number, words
):
    class Limited:
        def __init__(self, libc) -> None:
            self._libc = libc

        def __getattr__(self, name):
            if name != call:
                return getattr(self._libc, name)

            def refuse(*_arguments) -> int:
                ctypes.set_errno(number)
                return -1

            return refuse

    init = DirectoryEvents.__init__

    def limited(events: DirectoryEvents) -> None:
        init(events)
        events._libc = Limited(events._libc)  # type: ignore[assignment]

    monkeypatch.setattr(DirectoryEvents, "__init__", limited)
    assert words in (watch_failure(jobs) or "")
    seen = follow(jobs)
    write(jobs / "b.yaml", "x")
    assert seen.next() == (["b"], [])
    assert words in (seen.watch.state.reason or "")
    assert len(seen.notices) == 1
    assert words in seen.notices[0]


def test_a_network_drive_is_scanned(follow, jobs, monkeypatch):
    monkeypatch.setattr(watching, "find_network_drive", lambda paths: (next(iter(paths)), "nfs4"))
    seen = follow(jobs)
    assert "network file system (nfs4)" in (seen.watch.state.reason or "")
    assert seen.watch.state.scan_seconds < 3600
    assert [text for text in seen.notices if "is scanned every" in text] == seen.notices


def test_the_pace_of_scans_follows_their_cost(jobs):
    watch = FolderWatch(jobs)
    with DirectoryEvents() as events:
        events.failure = "no hints"
        watched = WatchedDirectories(str(jobs))
        watch._judge(events, watched, 0.05)
        assert watch.state.scan_seconds == pytest.approx(0.05 / SHARE_MAX)
        watch._judge(events, watched, 0.0)
        assert watch.state.scan_seconds == watching.INTERVAL_SECONDS


def test_where_the_kernel_reports_edits_a_large_folder_is_scanned_less_often(jobs):
    watch = FolderWatch(jobs)
    with DirectoryEvents() as events:
        watched = WatchedDirectories(str(jobs))
        watch._judge(events, watched, 0.01)
        assert watch.state.scan_seconds == watching.RESCAN_SECONDS
        watch._judge(events, watched, 0.1)
        assert watch.state.scan_seconds == pytest.approx(0.1 / watching.HINTED_SHARE_MAX)


def test_other_files_cause_no_scan(follow, jobs):
    seen = follow(jobs)
    scans = seen._count
    for number in range(20):
        (jobs / f"out-{number}.csv").write_text("x")
        (jobs / f".hidden-{number}").write_text("x")
    write(jobs / "b.yaml", "x")
    assert seen.next() == (["b"], [])
    assert seen._count - scans <= 4, "the new file, once it is at rest, and once more when its stamp is certain"


def test_without_changes_no_thread_wakes(follow, jobs):
    for file in jobs.iterdir():
        os.utime(file, (1, 1))
    time.sleep(2.2)  # the doubt about a file that has just changed
    seen = follow(jobs)
    with seen._scans:
        assert seen._scans.wait_for(lambda: not seen.watch.is_settling, PATIENCE)
    tasks = Path("/proc/self/task") / str(seen.thread.native_id) / "status"

    def wakeups() -> int:
        return next(int(line.split()[1]) for line in tasks.read_text().splitlines() if line.startswith("voluntary"))

    time.sleep(1)
    before = wakeups()
    time.sleep(3)
    assert wakeups() - before <= 1


def test_a_watch_that_is_stopped_before_it_runs_ends_at_once(jobs):
    watch = FolderWatch(jobs)
    watch.load()
    watch.stop()
    watch.run(lambda change: pytest.fail(str(change)))
