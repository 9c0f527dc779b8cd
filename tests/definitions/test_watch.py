"""Whether a watched folder follows its files, whatever editors, checkouts and stalls do to them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from evertick.definitions import watch as watching
from evertick.definitions.source import list_folder, load_folder
from evertick.definitions.watch import SETTLE_SECONDS, FolderChanged, FolderWatch
from evertick.errors import NotFound, StoreUnavailable

LONG_AGO_NS = 1_700_000_000_000_000_000


class Bench:
    """A folder, a watch on it, and clocks that only move when they are told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = 1_000.0
        self.changes: list[FolderChanged] = []
        self.watch = FolderWatch(folder, monotonic=lambda: self.seconds, wall_ns=lambda: self.wall_ns)
        # Far ahead: every file was written long ago, until a test says that it was not.
        self.wall_ns = time.time_ns() + 3_600_000_000_000

    def write(self, name: str, text: str = "command: x\n", *, just_now: bool = False) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if just_now:
            os.utime(path, ns=(self.wall_ns, self.wall_ns))
        return path

    def scan(self) -> list[tuple[list[str], list[str]]]:
        """What this scan told: ids that were added or changed, and ids that are gone."""
        self.changes.clear()
        self.watch.scan(self.changes.append)
        return [
            (sorted(job.id for job in change.jobs), sorted(change.removed))
            for change in self.changes
            if change.jobs or change.removed
        ]

    def settle(self) -> None:
        self.seconds += SETTLE_SECONDS + 0.01
        self.wall_ns += int((SETTLE_SECONDS + 0.01) * 1e9)

    @property
    def jobs(self) -> list[str]:
        return sorted(self.watch.snapshot().jobs)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_a_folder_is_loaded_at_once_and_then_nothing_is_reported(bench):
    bench.write("a.yaml")
    assert sorted(bench.watch.load().jobs) == ["a"]
    assert bench.scan() == []


def test_an_error_is_reported_once_and_so_is_its_end(bench):
    bench.write("a.yaml")
    bench.watch.load()
    bench.write("a.yaml", "command: [x\n")
    bench.scan()
    bench.settle()
    bench.scan()
    assert [error.file for change in bench.changes for error in change.errors] == [str(bench.folder / "a.yaml")]
    bench.scan()
    assert bench.changes == []
    bench.write("a.yaml")
    bench.scan()
    assert [change.errors for change in bench.changes] == [()]


def test_a_folder_is_whole_unless_a_file_may_define_a_job_that_is_not_known(bench):
    bench.write("a.yaml")
    assert bench.watch.load().is_whole
    bench.write("a.yaml", "command: [x\n")
    bench.scan()
    bench.settle()
    bench.scan()
    assert bench.watch.snapshot().is_whole  # its job is here as it was before
    assert not load_folder(bench.folder).is_whole


def test_a_new_file_adds_its_job(bench):
    bench.watch.load()
    bench.write("a.yaml")
    assert bench.scan() == [(["a"], [])]
    assert bench.scan() == []


def test_a_changed_file_changes_its_job(bench):
    bench.write("a.yaml")
    bench.watch.load()
    bench.write("a.yaml", "command: longer\n")
    assert bench.scan() == [(["a"], [])]
    assert bench.watch.snapshot().jobs["a"].steps[0].kind.words == ("longer",)


def test_a_deleted_file_removes_its_job(bench):
    bench.write("a.yaml")
    bench.watch.load()
    (bench.folder / "a.yaml").unlink()
    assert bench.scan() == [([], ["a"])]
    assert bench.jobs == []


def test_a_renamed_file_whose_text_names_the_job_keeps_it(bench):
    bench.write("a.yaml", "name: report\ncommand: x\n")
    bench.watch.load()
    (bench.folder / "a.yaml").rename(bench.folder / "b.yaml")
    assert bench.scan() == [(["report"], [])]
    assert Path(str(bench.watch.snapshot().jobs["report"].file)).name == "b.yaml"


def test_a_renamed_file_that_gives_the_id_is_another_job(bench):
    bench.write("a.yaml")
    bench.watch.load()
    (bench.folder / "a.yaml").rename(bench.folder / "b.yaml")
    assert bench.scan() == [(["b"], ["a"])]


def test_another_name_in_the_text_is_another_job(bench):
    bench.write("a.yaml", "name: one\ncommand: x\n")
    bench.watch.load()
    bench.write("a.yaml", "name: other\ncommand: x\n")
    assert bench.scan() == [(["other"], ["one"])]


def test_a_file_that_is_moved_into_place_counts_at_once(bench):
    bench.write("a.yaml")
    bench.watch.load()
    temporary = bench.write(".a.yaml.tmp", "command: new\n")
    temporary.replace(bench.folder / "a.yaml")
    assert bench.scan() == [(["a"], [])]


def test_an_editor_that_deletes_and_creates_between_two_scans_changes_the_job(bench):
    bench.write("a.yaml")
    bench.watch.load()
    (bench.folder / "a.yaml").unlink()
    bench.write("a.yaml", "command: new\n")
    assert bench.scan() == [(["a"], [])]


def test_a_comment_changes_nothing(bench):
    bench.write("a.yaml")
    bench.watch.load()
    bench.write("a.yaml", "# why\ncommand: x\n")
    assert bench.scan() == []


def test_a_file_written_a_moment_ago_waits_until_it_is_stable(bench):
    bench.watch.load()
    bench.write("a.yaml", "command: half\n", just_now=True)
    assert bench.scan() == []
    assert bench.watch.is_settling
    bench.write("a.yaml", "command: half of it\n", just_now=True)
    bench.seconds += SETTLE_SECONDS + 0.01
    assert bench.scan() == [], "it has changed since, and waits anew"
    bench.settle()
    assert bench.scan() == [(["a"], [])]
    assert not bench.watch.is_settling


def test_a_file_that_cannot_be_parsed_waits_before_it_is_an_error(bench):
    bench.watch.load()
    bench.write("a.yaml", "command: [x\n")
    bench.scan()
    assert dict(bench.watch.snapshot().errors) == {}
    bench.write("a.yaml", "command: [x]\n")
    assert bench.scan() == [(["a"], [])]


def test_a_bad_file_keeps_the_last_good_version_and_shows_the_error(bench):
    bench.write("a.yaml")
    bench.watch.load()
    bench.write("a.yaml", "comand: y\n")
    bench.scan()
    bench.settle()
    assert bench.scan() == []
    found = bench.watch.snapshot()
    assert found.stale == {"a"}
    assert found.jobs["a"].steps[0].kind.words == ("x",)
    assert "unknown field 'comand'" in found.errors[str(bench.folder / "a.yaml")][0].reason


def test_an_error_is_reported_once_when_it_comes_although_no_job_is_another_for_it(bench):
    bench.write("a.yaml")
    bench.write("bad.yaml", "comand: x\n")
    bench.watch.load()
    assert bench.scan() == []
    bench.write("a.yaml", "comand: x\n")
    bench.scan()
    bench.settle()
    assert bench.scan() == []
    assert [(Path(error.file).name, error.line) for error in bench.changes[0].errors] == [("a.yaml", 1)]
    bench.scan()
    assert bench.changes == []


def test_a_corrected_file_is_not_stale(bench):
    bench.write("a.yaml")
    bench.watch.load()
    bench.write("a.yaml", "comand: y\n")
    bench.scan()
    bench.settle()
    bench.scan()
    bench.write("a.yaml", "command: y\n")
    assert bench.scan() == [(["a"], [])]
    assert (bench.watch.snapshot().stale, dict(bench.watch.snapshot().errors)) == (frozenset(), {})


def test_a_bad_file_that_is_deleted_takes_its_stale_job_with_it(bench):
    bench.write("a.yaml")
    bench.watch.load()
    bench.write("a.yaml", "comand: y\n")
    bench.scan()
    bench.settle()
    bench.scan()
    (bench.folder / "a.yaml").unlink()
    assert bench.scan() == [([], ["a"])]


def test_a_second_file_with_the_same_id_leaves_the_first_at_work(bench):
    bench.write("a.yaml", "name: same\ncommand: one\n")
    bench.watch.load()
    bench.write("b.yaml", "name: same\ncommand: two\n")
    assert bench.scan() == []
    found = bench.watch.snapshot()
    assert len(found.errors) == 2
    assert (found.stale, found.jobs["same"].steps[0].kind.words) == ({"same"}, ("one",))
    (bench.folder / "a.yaml").unlink()
    assert bench.scan() == [(["same"], [])]
    assert bench.watch.snapshot().jobs["same"].steps[0].kind.words == ("two",)


def test_a_circle_leaves_the_jobs_as_they_were(bench):
    bench.write("a.yaml")
    bench.write("b.yaml", "command: x\nafter: a\n")
    bench.watch.load()
    bench.write("a.yaml", "command: x\nafter: b\n")
    assert bench.scan() == []
    assert bench.watch.snapshot().stale == {"a", "b"}
    assert bench.watch.snapshot().jobs["a"].after is None


def test_a_stale_job_gives_way_to_a_good_file_with_its_id(bench):
    bench.write("a.yaml", "name: same\ncommand: one\n")
    bench.watch.load()
    bench.write("a.yaml", "name: [\n")
    bench.scan()
    bench.settle()
    bench.scan()
    assert bench.watch.snapshot().stale == {"same"}
    bench.write("b.yaml", "name: same\ncommand: two\n")
    assert bench.scan() == [(["same"], [])]
    assert bench.watch.snapshot().stale == frozenset()


def test_a_link_is_followed_and_a_link_that_is_turned_is_seen(bench, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "one").write_text("command: one\n", encoding="utf-8")
    (elsewhere / "two").write_text("command: two\n", encoding="utf-8")
    (bench.folder / "a.yaml").symlink_to(elsewhere / "one")
    bench.watch.load()
    (bench.folder / "a.yaml").unlink()
    (bench.folder / "a.yaml").symlink_to(elsewhere / "two")
    assert bench.scan() == [(["a"], [])]
    assert bench.watch.snapshot().jobs["a"].steps[0].kind.words == ("two",)


def test_a_dangling_link_and_a_looping_folder_are_ignored(bench):
    bench.write("a.yaml")
    (bench.folder / "b.yaml").symlink_to(bench.folder / "b.yaml")
    (bench.folder / "c.yaml").symlink_to(bench.folder / "nowhere")
    (bench.folder / "loop").symlink_to(bench.folder)
    bench.watch.load()
    assert bench.jobs == ["a"]
    assert sorted(Path(file).name for file in bench.watch.snapshot().errors) == ["b.yaml", "c.yaml"]


def test_a_pipeline_one_level_down_is_followed(bench):
    bench.watch.load()
    bench.write("sync/pipeline.yaml", "input: {}\n")
    assert bench.scan() == [(["sync"], [])]
    (bench.folder / "sync" / "pipeline.yaml").unlink()
    assert bench.scan() == [([], ["sync"])]


def test_a_change_that_leaves_size_and_times_alone_is_found_by_its_content(bench):
    path = bench.write("a.yaml", "command: one\n")
    bench.wall_ns = path.stat().st_ctime_ns + 1_000_000  # read within the doubt
    bench.watch.load()
    listing = list_folder(str(bench.folder))
    path.write_text("command: two\n", encoding="utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "list_folder", lambda _folder: listing)
        bench.scan()
        bench.settle()
        assert bench.scan() == [(["a"], [])]


def test_what_is_not_in_doubt_is_not_read_again(bench):
    bench.write("a.yaml")
    bench.watch.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "read_source", lambda path: pytest.fail(f"{path} was read again"))
        assert bench.scan() == []


def test_only_what_changed_is_parsed_again(bench):
    for number in range(20):
        bench.write(f"j{number}.yaml")
    bench.watch.load()
    before = dict(bench.watch.snapshot().jobs)
    bench.write("j7.yaml", "command: y\n")
    bench.scan()
    after = bench.watch.snapshot().jobs
    assert [job_id for job_id in after if after[job_id] is not before[job_id]] == ["j7"]


def test_a_folder_that_is_away_takes_no_job_with_it(bench, tmp_path):
    bench.folder = bench.folder / "jobs"
    bench.folder.mkdir()
    bench.watch = FolderWatch(bench.folder, monotonic=lambda: bench.seconds, wall_ns=lambda: bench.wall_ns)
    bench.write("a.yaml")
    bench.watch.load()
    bench.folder.rename(tmp_path / "away")
    assert bench.scan() == []
    assert bench.jobs == ["a"]
    assert "stay as they were" in bench.watch.snapshot().errors[str(bench.folder)][0].reason
    (tmp_path / "away").rename(bench.folder)
    assert bench.scan() == []
    assert dict(bench.watch.snapshot().errors) == {}


def test_a_change_that_was_not_accepted_is_reported_again(bench):
    bench.watch.load()
    bench.write("a.yaml")

    def full(change: FolderChanged) -> None:
        raise StoreUnavailable("the ledger is away")

    with pytest.raises(StoreUnavailable):
        bench.watch.scan(full)
    assert bench.scan() == [(["a"], [])]


def test_after_a_long_stall_one_scan_catches_up_with_everything(bench):
    for name in ("kept", "changed", "gone", "renamed"):
        bench.write(f"{name}.yaml")
    bench.watch.load()
    bench.write("changed.yaml", "command: y\n")
    (bench.folder / "gone.yaml").unlink()
    (bench.folder / "renamed.yaml").rename(bench.folder / "newname.yaml")
    bench.write("new.yaml")
    assert bench.scan() == [(["changed", "new", "newname"], ["gone", "renamed"])]
    assert dict(bench.watch.snapshot().jobs) == dict(load_folder(bench.folder).jobs)


@pytest.mark.slow
def test_a_checkout_of_five_thousand_files_is_followed(bench):
    for number in range(5_000):
        bench.write(f"j{number}.yaml", f"schedule: '{number % 60} * * * *'\ncommand: one\n")
    bench.watch.load()
    for number in range(5_000):
        path = bench.folder / f"j{number}.yaml"
        path.unlink()
        if number % 2:
            bench.write(f"j{number}.yaml", f"schedule: '{number % 60} * * * *'\ncommand: two\n")
        else:
            bench.write(f"k{number}.yaml", f"schedule: '{number % 60} * * * *'\ncommand: one\n")
    ((changed, removed),) = bench.scan()
    assert (len(changed), len(removed)) == (5_000, 2_500)
    assert dict(bench.watch.snapshot().jobs) == dict(load_folder(bench.folder).jobs)


@pytest.mark.slow
def test_ten_thousand_files_are_loaded_and_found_unchanged(bench):
    for number in range(10_000):
        bench.write(f"j{number}.yaml", f"schedule: '{number % 60} {number % 24} * * *'\ncommand: echo {number}\n")
    bench.watch.load()
    assert len(bench.jobs) == 10_000
    assert bench.scan() == []


def test_the_thread_tells_what_changed_and_ends_when_asked(tmp_path):
    told: list[FolderChanged] = []
    arrived = threading.Event()

    def take(change: FolderChanged) -> None:
        told.append(change)
        arrived.set()

    (tmp_path / "a.yaml").write_text("command: x\n", encoding="utf-8")
    watch = FolderWatch(tmp_path)
    watch.load()
    thread = threading.Thread(target=watch.run, args=(take,))
    thread.start()
    try:
        assert list(watch.snapshot().jobs) == ["a"]
        path = tmp_path / "b.yaml"
        path.write_text("command: x\n", encoding="utf-8")
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
        assert arrived.wait(30)
        assert [job.id for job in told[0].jobs] == ["b"]
        assert watch.trouble is None
    finally:
        watch.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_the_thread_continues_after_a_failure(tmp_path):
    again = threading.Event()
    calls: list[FolderChanged] = []

    def take(change: FolderChanged) -> None:
        calls.append(change)
        if len(calls) == 1:
            raise StoreUnavailable("the ledger is away")
        again.set()

    watch = FolderWatch(tmp_path)
    watch.load()
    path = tmp_path / "a.yaml"
    path.write_text("command: x\n", encoding="utf-8")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    thread = threading.Thread(target=watch.run, args=(take,))
    thread.start()
    assert again.wait(30)
    watch.stop()
    thread.join(30)
    assert [[job.id for job in change.jobs] for change in calls] == [["a"], ["a"]]


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path):
    with pytest.raises(NotFound, match="cannot be read"):
        FolderWatch(tmp_path / "nowhere").load()
