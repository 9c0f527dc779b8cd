"""What happens to a ledger in files when a write is torn, a byte flips, a disk is full, or a writer is killed?"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from random import Random

import pytest

from evertick.errors import StoreUnavailable
from evertick.model.lifecycle import SUCCEEDED
from evertick.store import Batch, JobRecord
from evertick.stores.files import FilesStore
from evertick.stores.files.fold import Fold
from tests.present import present
from tests.stores.builders import NINE, SECOND, became, enter, occurrence, planned, rows


def ledger(store):
    snapshot = store.load()
    return rows(store), sorted(snapshot.jobs), list(snapshot.open_runs), dict(store.counters())


def write(store, number):
    """One write of each of the two kinds, by turns."""
    at = NINE + number * SECOND
    if number % 2 == 0:
        store.commit(Batch(by="n", entries=[planned(occurrence(at))], jobs=[JobRecord("report", at)]))
    else:
        store.record([became(occurrence(at - SECOND), SUCCEEDED, fence=1, exit_code=0)])


@pytest.fixture
def history(tmp_path):
    """A closed ledger of two generations, and all that it ever was, write by write."""
    folder = tmp_path / "history"
    store = FilesStore(folder)
    states = [ledger(store)]
    for number in range(12):
        write(store, number)
        states.append(ledger(store))
        if number in (3, 7):
            store._fold()
    store.close()
    (folder / ".evertick" / "watermarks.json").unlink()  # which is for people, and not what this is about
    assert {path.name for path in (folder / ".evertick").iterdir()} == {
        "ledger.json",
        "ledger.json.previous",
        "ledger.jsonl",
        "ledger.jsonl.previous",
    }
    return folder, states


def copy(folder, place):
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(folder, place)
    return place / ".evertick"


def check_goes_on(place, expected):
    """The ledger takes a write, and is what it was, and that write, when it is opened again."""
    store = FilesStore(place)
    assert ledger(store) == expected
    enter(store, planned(occurrence(NINE - SECOND)), by="later")
    after = ledger(store)
    store.close()
    again = FilesStore(place)
    assert ledger(again) == after
    again.close()


class TestTornLines:
    def test_a_last_line_that_was_never_finished_is_dropped_without_a_word(self, history, tmp_path):
        folder, states = history
        content = (folder / ".evertick" / "ledger.jsonl").read_bytes()
        last = content[:-1].rindex(b"\n") + 1
        assert len(content) - last > 100
        for cut in range(last, len(content)):
            home = copy(folder, tmp_path / "torn")
            (home / "ledger.jsonl").write_bytes(content[:cut])
            store = FilesStore(home.parent)
            # All of it but the newline is all of it.
            assert ledger(store) == (states[-1] if cut == len(content) - 1 else states[-2])
            assert list(store.load().notices) == []
            store.close()
            assert list(home.glob("*.unreadable-*")) == []
        check_goes_on(tmp_path / "torn", states[-1])

    def test_a_tail_of_zeros_as_after_a_power_cut_is_dropped(self, history, tmp_path):
        folder, states = history
        home = copy(folder, tmp_path / "zeros")
        with (home / "ledger.jsonl").open("ab") as journal:
            journal.write(bytes(4096))
        check_goes_on(home.parent, states[-1])

    @pytest.mark.parametrize("missing", ["ledger.jsonl", "ledger.jsonl.previous", "ledger.json.previous"])
    def test_a_crash_between_two_renames_costs_nothing(self, history, tmp_path, missing):
        folder, states = history
        home = copy(folder, tmp_path / "crash")
        (home / missing).unlink()
        check_goes_on(home.parent, states[8 if missing == "ledger.jsonl" else -1])

    def test_a_crash_before_the_new_journal_is_there_costs_nothing(self, history, tmp_path):
        folder, states = history
        home = copy(folder, tmp_path / "crash")
        (home / "ledger.jsonl").rename(home / "ledger.jsonl.previous")
        store = FilesStore(home.parent)
        assert list(store.load().notices) == []
        store.close()
        check_goes_on(home.parent, states[-1])

    def test_a_crash_after_the_new_snapshot_and_before_the_new_journal_costs_nothing(self, tmp_path, monkeypatch):
        store = FilesStore(tmp_path)
        for number in range(4):
            write(store, number)
        expected = ledger(store)

        def crash(*_):
            raise OSError(errno.EIO, "crash")

        monkeypatch.setattr(store._journal, "rotate", crash)
        with pytest.raises(OSError, match="crash"):
            store._fold()
        home = copy(tmp_path, tmp_path.parent / "after")
        store.close()
        check_goes_on(home.parent, expected)


class TestFlippedBytes:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["ledger.json", "ledger.json.previous", "ledger.jsonl", "ledger.jsonl.previous"])
    def test_a_flipped_byte_is_never_a_traceback_and_never_a_silent_loss(self, history, tmp_path, name):
        folder, states = history
        content = (folder / ".evertick" / name).read_bytes()
        random = Random(name)
        for position in [
            *range(20),
            *random.sample(range(20, len(content) - 5), 60),
            *range(len(content) - 5, len(content)),
        ]:
            home = copy(folder, tmp_path / "flipped")
            damaged = bytearray(content)
            damaged[position] ^= random.randrange(1, 256)
            (home / name).write_bytes(damaged)
            store = FilesStore(home.parent)
            found, notices = ledger(store), list(store.load().notices)
            store.close()
            asides = [path.read_bytes() for path in home.glob("*.unreadable-*")]
            if name == "ledger.jsonl":
                assert found in states[8:]  # never less than the snapshot
                assert found == states[-1] or (notices and asides == [damaged])
            else:
                assert found == states[-1]
                assert asides == ([damaged] if name == "ledger.json" else [])
            assert bool(notices) == bool(asides)
            if position % 5 == 0:
                check_goes_on(home.parent, found)

    def test_a_damaged_snapshot_is_rebuilt_from_the_generation_before(self, history, tmp_path):
        folder, states = history
        home = copy(folder, tmp_path / "damaged")
        (home / "ledger.json").write_bytes(b"nonsense")
        store = FilesStore(home.parent)
        assert ledger(store) == states[-1]
        assert "nothing is missing" in store.load().notices[-1]
        store.close()
        # And it has something to fall back to once more.
        (home / "ledger.json").write_bytes(b"nonsense")
        check_goes_on(home.parent, states[-1])

    def test_a_damaged_line_in_the_middle_ends_the_ledger_there_and_is_reported(self, history, tmp_path):
        folder, states = history
        home = copy(folder, tmp_path / "damaged")
        lines = (home / "ledger.jsonl").read_bytes().splitlines(keepends=True)
        assert len(lines) == 4
        lines[1] = lines[1].replace(b"report", b"retort")
        (home / "ledger.jsonl").write_bytes(b"".join(lines))
        store = FilesStore(home.parent)
        assert ledger(store) == states[9]
        assert "line 2 is damaged, and 3 lines from there on cannot be used" in store.load().notices[0]
        assert "may be decided again" in store.load().notices[1]
        store.close()
        (aside,) = home.glob("ledger.jsonl.unreadable-*")
        assert aside.read_bytes() == b"".join(lines)

    def test_a_lost_line_is_noticed_though_every_other_is_good(self, history, tmp_path):
        folder, states = history
        home = copy(folder, tmp_path / "damaged")
        lines = (home / "ledger.jsonl").read_bytes().splitlines(keepends=True)
        (home / "ledger.jsonl").write_bytes(b"".join([lines[0], *lines[2:]]))
        store = FilesStore(home.parent)
        assert ledger(store) == states[9]
        assert "what came before it is missing, and 2 lines cannot be used" in store.load().notices[0]
        store.close()

    def test_two_damaged_generations_are_set_aside_and_every_job_starts_as_new(self, history, tmp_path):
        folder, states = history
        home = copy(folder, tmp_path / "damaged")
        before = {path.name: path.read_bytes() for path in home.iterdir()}
        for name in ("ledger.json", "ledger.json.previous"):
            before[name] = before[name][:-20]
            (home / name).write_bytes(before[name])
        (home / "watermarks.json").write_text('{"dags": {"report": {"lastScheduledTime": "2026-01-01T00:00:00Z"}}}')
        store = FilesStore(home.parent)
        assert ledger(store) == states[0]
        assert "every job starts as new, without catch-up" in store.load().notices[-1]
        store.close()
        asides = {path.name.partition(".unreadable-")[0]: path.read_bytes() for path in home.glob("*.unreadable-*")}
        assert asides == before
        # It is said at every start until somebody has looked.
        again = FilesStore(home.parent)
        assert len(again.load().notices) == 4
        again.close()
        check_goes_on(home.parent, states[0])

    @pytest.mark.parametrize("earlier", [None, b"", b"half"], ids=["missing", "empty", "torn"])
    def test_a_ledger_is_not_reported_complete_when_the_previous_generation_is_damaged(
        self, history, tmp_path, earlier
    ):
        folder, states = history
        home = copy(folder, tmp_path / "damaged")
        (home / "ledger.json").write_bytes(b"nonsense")
        (home / "ledger.jsonl").write_bytes(b"")
        content = (home / "ledger.jsonl.previous").read_bytes()
        (home / "ledger.jsonl.previous").unlink()
        if earlier is not None:
            (home / "ledger.jsonl.previous").write_bytes(content[:-30] if earlier else b"")
        store = FilesStore(home.parent)
        assert ledger(store) == states[7 if earlier else 4]
        assert "may be decided again" in store.load().notices[-1]
        store.close()

    def test_the_first_generation_can_be_rebuilt_from_its_journal_alone(self, tmp_path):
        store = FilesStore(tmp_path)
        for number in range(6):
            write(store, number)
        store._fold()
        write(store, 6)
        expected = ledger(store)
        store.close()
        (tmp_path / ".evertick" / "ledger.json").write_bytes(b"")
        check_goes_on(tmp_path, expected)

    def test_files_set_aside_never_replace_one_another(self, history, tmp_path):
        folder, _ = history
        home = copy(folder, tmp_path / "damaged")
        for number in range(3):
            (home / "ledger.json").write_text(f"nonsense {number}")
            os.utime(home / "ledger.json", (1_700_000_000, 1_700_000_000))
            FilesStore(home.parent).close()
        asides = sorted(path.name for path in home.glob("*.unreadable-*"))
        stem = "ledger.json.unreadable-20231114T221320Z"
        assert asides == [stem, f"{stem}-2", f"{stem}-3"]

    def test_a_file_that_may_not_be_read_is_not_an_empty_one(self, history, tmp_path):
        folder, _ = history
        home = copy(folder, tmp_path / "unreadable")
        (home / "ledger.json").unlink()
        (home / "ledger.json").mkdir()  # the nearest thing to an unreadable file that also stops root
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            FilesStore(home.parent)


@contextmanager
def short_of_space(content_bytes):
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (content_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestFullDisk:
    def test_a_write_that_does_not_fit_leaves_no_trace_and_may_be_repeated(self, tmp_path):
        store = FilesStore(tmp_path)
        write(store, 0)
        before = ledger(store)
        journal = tmp_path / ".evertick" / "ledger.jsonl"
        good = journal.read_bytes()
        with short_of_space(len(good) + 40):
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="Free some space"):
                    write(store, 1)
                assert ledger(store) == before
        assert journal.read_bytes() == good
        write(store, 1)
        write(store, 2)
        expected = ledger(store)
        store.close()
        check_goes_on(tmp_path, expected)

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
    @pytest.mark.parametrize("step", ["pwrite", "fdatasync"])
    def test_half_a_line_is_cut_off_before_the_next_one_even_if_that_fails_at_first(
        self, tmp_path, monkeypatch, step, number
    ):
        store = FilesStore(tmp_path)
        write(store, 0)
        before = ledger(store)
        with monkeypatch.context() as patch:
            real_write = os.pwrite

            def fail(*_):
                raise OSError(number, os.strerror(number))

            def half(fd, content, offset):
                real_write(fd, content[: len(content) // 2], offset)
                fail()

            patch.setattr(os, step, half if step == "pwrite" else fail)
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(StoreUnavailable):
                write(store, 1)
        assert ledger(store) == before
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(StoreUnavailable):
                write(store, 2)
        write(store, 2)
        expected = ledger(store)
        store.close()
        check_goes_on(tmp_path, expected)

    def test_a_snapshot_that_does_not_fit_is_put_off(self, tmp_path, monkeypatch):
        store = FilesStore(tmp_path, fold_bytes=2_000)
        home = tmp_path / ".evertick"

        def full(*_):
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(Fold, "go_on", full)
            for number in range(20):
                write(store, number)
        assert (home / "ledger.jsonl").stat().st_size > 2_000
        assert not (home / "ledger.json").exists()
        for number in range(20, 60):
            write(store, number)
        assert (home / "ledger.json").exists()
        expected = ledger(store)
        store.close()
        check_goes_on(tmp_path, expected)

    def test_a_line_that_failed_does_not_pass_for_the_next_one_after_a_fold(self, tmp_path, monkeypatch):
        store = FilesStore(tmp_path)
        write(store, 0)

        def fail(*_):
            raise OSError(errno.EIO, "no")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(StoreUnavailable):
                write(store, 1)
        store._fold()
        write(store, 2)
        expected = ledger(store)
        store.close()
        (tmp_path / ".evertick" / "ledger.json").write_bytes(b"nonsense")
        check_goes_on(tmp_path, expected)

    def test_every_draft_is_removed_when_it_cannot_be_finished(self, tmp_path, monkeypatch):
        store = FilesStore(tmp_path)
        for number in range(3):
            write(store, number)

        def full(*_):
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            store.flush(NINE)
            with pytest.raises(OSError, match="full"):
                store._fold()
        assert list(tmp_path.rglob("*.tmp-*")) == []
        assert "out of date: full" in store.load().notices[0]
        store.close()


WRITER = """
import sys
from evertick.store import Batch, JobRecord
from evertick.stores.files import fold as files_fold
from evertick.stores.files import FilesStore
from tests.stores.builders import NINE, SECOND, occurrence, planned

files_fold.LINES = 5  # so that it is killed in the middle of a snapshot too
store = FilesStore(sys.argv[1], fold_bytes=3_000)
number = int(sys.argv[2])
while True:
    at = NINE + number * SECOND
    entries = [planned(occurrence(at)), planned(occurrence(at, "other"))]
    store.commit(Batch(by="n", entries=entries, jobs=[JobRecord("report", at)]))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.slow
def test_whatever_was_acknowledged_is_there_after_kill_9(tmp_path):
    random = Random(9)
    written = 0
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(written)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(random.randrange(1, 60)):
            acknowledged = int(present(writer.stdout).readline())
        writer.kill()
        rest = present(writer.stdout).read().split()
        writer.wait()
        present(writer.stdout).close()
        acknowledged = int(rest[-1]) if rest else acknowledged
        store = FilesStore(tmp_path, fold_bytes=3_000)
        found = [line.key for line in rows(store)]
        # The write that was under way is there as a whole or not at all.
        assert len(found) in (2 * acknowledged + 2, 2 * acknowledged + 4)
        written = len(found) // 2
        assert found == [occurrence(NINE + n * SECOND, job) for n in range(written) for job in ("other", "report")]
        assert list(store.load().jobs) == [JobRecord("report", NINE + (written - 1) * SECOND)]
        assert list(store.load().notices) == []
        store.close()
