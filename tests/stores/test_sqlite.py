"""Is the ledger in a file safe: private, durable, checked, backed up, and shared without errors?"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from evertick.errors import SettingsError, StoreCorrupt, StoreUnavailable
from evertick.model.lifecycle import SUCCEEDED
from evertick.mounts import file_system_of, network_file_system
from evertick.store import Batch, JobRecord
from evertick.stores import open_store
from evertick.stores.sql import admin, sqlite, sqlite_backup, sqlite_file
from evertick.stores.sql.sqlite import SqliteStore
from tests.stores.builders import DAY, HOUR, NINE, SECOND, became, enter, keys, occurrence, planned


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger" / "evertick.db"


@pytest.fixture
def store(path):
    opened = SqliteStore(path)
    yield opened
    opened.close()


def filled(path, lines: int = 2_000) -> None:
    """A closed ledger of some size."""
    store = SqliteStore(path)
    enter(store, *(planned(occurrence(NINE + n * SECOND)) for n in range(lines)))
    store.close()


class TestTheFile:
    def test_the_pages_that_connections_keep_are_limited_together(self, store):
        """A process that serves for months would otherwise grow with its ledger."""

        def kept(engine) -> int:
            with engine.connect() as connection:
                return -connection.exec_driver_sql("PRAGMA cache_size").scalar()

        assert kept(store._writer) + store._reader.pool.size() * kept(store._reader) <= 48_000

    def test_a_connection_in_use_gives_its_pages_back_once_a_minute(self, store, monkeypatch):
        """The writer would otherwise keep each page that it has written, until the limit hours later."""
        now, released = time.monotonic(), Counter[str]()
        monkeypatch.setattr("evertick.stores.sql.sqlite.time.monotonic", lambda: now)
        for name, engine in (("writer", store._writer), ("reader", store._reader)):
            with engine.connect() as connection:
                raw = connection.connection.dbapi_connection
                raw.set_trace_callback(lambda text, name=name: released.update([name] * ("shrink" in text)))
        for minute in range(3):
            for second in range(5):
                enter(store, planned(occurrence(NINE + minute * HOUR + second * SECOND)))
                assert keys(store)
            assert released == ({"writer": minute, "reader": minute} if minute else {})
            now += sqlite.RELEASE_SECONDS

    def test_only_its_owner_may_read_the_file_and_those_beside_it(self, store, path):
        enter(store, planned(occurrence()))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == {"evertick.db": 0o600, "evertick.db-wal": 0o600, "evertick.db-shm": 0o600}

    def test_a_power_cut_takes_back_nothing_that_was_acknowledged(self, store):
        with store._writer.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL

    def test_readers_cannot_write(self, store):
        with store._naming_errors(), store._reader.connect() as connection, pytest.raises(Exception, match="readonly"):
            connection.exec_driver_sql("DELETE FROM evertick_runs")

    def test_a_folder_that_cannot_be_created_is_reported(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            SqliteStore(tmp_path / "file" / "evertick.db")


def flip_an_index(path) -> None:
    """One bit of a name in an index, which then disagrees with its table."""
    content = bytearray(path.read_bytes())
    for start in range(4096, len(content), 4096):
        found = content[start : start + 4096].find(b"report")
        if content[start] == LEAF_OF_AN_INDEX and found > 0:
            content[start + found] ^= 1
            break
    path.write_bytes(content)


LEAF_OF_AN_INDEX = 0x0A


class TestFullCheck:
    def test_a_full_check_finds_what_the_quick_check_at_the_start_misses(self, path):
        filled(path)
        flip_an_index(path)
        store = SqliteStore(path)  # it starts
        assert "missing from index" in (store.full_check() or "")
        store.close()

    def test_a_whole_ledger_passes_while_it_is_written(self, store):
        enter(store, planned(occurrence()))
        with store._writer.begin():
            assert store.full_check() is None

    def test_a_full_check_ends_on_request(self, path):
        filled(path)
        store = SqliteStore(path)
        with pytest.raises(InterruptedError):
            store.full_check(lambda: True)
        store.close()


COMMITS_AND_DIES = """
import os, sys
from pathlib import Path
from evertick.stores.sql.sqlite import SqliteStore
from tests.stores.builders import NINE, SECOND, enter, occurrence, planned

store = SqliteStore(Path(sys.argv[1]))
for number in range(30):
    enter(store, planned(occurrence(NINE + number * SECOND)))
os._exit(0)
"""


class TestDamage:
    @pytest.mark.parametrize("seed", range(5))
    def test_a_damaged_file_is_refused_with_the_way_out(self, path, seed):
        filled(path)
        damage = random.Random(seed)
        content = bytearray(path.read_bytes())
        for page in range(1, len(content) // 4096):  # the header of every page but the first, which names the format
            content[page * 4096 : page * 4096 + 12] = damage.randbytes(12)
        path.write_bytes(content)
        with pytest.raises(StoreCorrupt) as refused:
            SqliteStore(path)
        assert f"{path} failed its integrity check" in str(refused.value)
        assert f"no backup in {path}.backups" in str(refused.value)
        assert ".recover" in str(refused.value)
        assert path.read_bytes() == bytes(content)

    def test_a_file_that_is_something_else_is_refused(self, path):
        path.parent.mkdir()
        path.write_bytes(b"not a database, but long enough to be taken for one " * 100)
        with pytest.raises(StoreCorrupt, match="not a database"):
            SqliteStore(path)

    def test_a_file_cut_to_nothing_beside_its_log_is_refused(self, path):
        """Opened as it is, SQLite deletes the log and begins anew."""
        filled(path)
        log = path.with_name(path.name + "-wal")
        log.write_bytes(b"\x37\x7f\x06\x82" + bytes(28))
        path.write_bytes(b"")
        with pytest.raises(StoreCorrupt, match="write-ahead log"):
            SqliteStore(path)
        assert log.stat().st_size

    def test_the_way_out_names_the_newest_backup_and_works(self, path):
        filled(path)
        for day in (0, 1):
            assert sqlite_backup.backup(path, NINE + day * DAY) is not None
        path.write_bytes(b"\xff" * 50_000)
        with pytest.raises(StoreCorrupt) as refused:
            SqliteStore(path)
        command = str(refused.value).splitlines()[2].strip()
        assert command.startswith("evertick db restore ")
        said = subprocess.run(
            ["sh", "-c", command.replace("evertick", f"{sys.executable} -m evertick", 1)],
            check=True,
            capture_output=True,
            text=True,
        )
        assert "20260303T090000Z.db" in said.stdout
        restored = SqliteStore(path)
        assert len(keys(restored)) == 2_000
        restored.close()
        (aside,) = path.parent.glob("evertick.db.before-*")
        assert aside.read_bytes() == b"\xff" * 50_000
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_file_cut_to_nothing_does_not_pass_for_a_new_one(self, path):
        filled(path)
        sqlite_backup.backup(path, NINE)
        os.truncate(path, 0)
        with pytest.raises(StoreCorrupt, match="it is empty"):
            SqliteStore(path)

    @pytest.mark.parametrize(
        ("place", "dropped"),
        [
            pytest.param(0.5, True, id="in the middle"),
            pytest.param(0.02, True, id="near its beginning"),
            pytest.param(17, True, id="in its header"),
            pytest.param(-100, False, id="in the last commit, which a crash may have cut off"),
            pytest.param(None, False, id="nowhere"),
        ],
    )
    def test_commits_that_a_flipped_byte_in_the_log_costs_are_reported(self, path, caplog, place, dropped):
        """SQLite says nothing: it takes the frame for the last one, which a crash cut off."""
        subprocess.run([sys.executable, "-c", COMMITS_AND_DIES, str(path)], check=True)
        log = path.with_name(path.name + "-wal")
        content = bytearray(log.read_bytes())
        if place is not None:
            content[int(place * len(content)) if isinstance(place, float) else place] ^= 1
            log.write_bytes(content)
        store = SqliteStore(path)
        lost = 30 - len(keys(store))
        store.close()
        assert (lost > 1) is dropped
        said = [one.getMessage() for one in caplog.records if one.name == "evertick.store"]
        assert [text.partition(" ")[0] for text in said] == ["ledger.commits_dropped"] * dropped
        kept = path.with_name(path.name + "-wal.dropped")
        assert kept.exists() is dropped
        if dropped:
            assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (bytes(content), 0o600)
            assert any("write-ahead log was damaged" in one.text for one in admin.check(f"sqlite:///{path}"))

    def test_damage_found_while_running_is_named_too(self, path):
        filled(path)
        store = SqliteStore(path, check=False)  # which would have read the pages before they break
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        path.write_bytes(content)
        with pytest.raises(StoreCorrupt, match="failed its integrity check"):
            keys(store)
        store.close()


@contextmanager
def files_no_larger_than(size: int):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestAFullDisk:
    def test_a_commit_that_finds_no_room_changes_nothing_and_works_when_there_is(self, store, path):
        store.commit(Batch(by="node-1", entries=[planned(occurrence())], jobs=[JobRecord("report", NINE)]))
        counted = dict(store.counters())
        large = Batch(
            by="node-1",
            entries=[planned(occurrence(NINE + n * SECOND), detail="x" * 500) for n in range(1, 4_000)],
            jobs=[JobRecord("report", NINE + HOUR)],
        )
        with files_no_larger_than(path.with_name("evertick.db-wal").stat().st_size + 200_000):
            with pytest.raises(StoreUnavailable, match="check that its disk has space"):
                store.commit(large)
            assert keys(store) == [occurrence()]
            assert [job.watermark for job in store.load().jobs] == [NINE]
            assert dict(store.counters()) == counted
        assert store.commit(large).refused == frozenset()
        assert len(keys(store)) == 4_000
        store.check()

    def test_a_backup_that_finds_no_room_leaves_none(self, store, path):
        enter(store, *(planned(occurrence(NINE + n), detail="x" * 500) for n in range(2_000)))
        with files_no_larger_than(100_000), pytest.raises(StoreUnavailable, match="backup"):
            store.backup(NINE)
        assert list(sqlite_backup.folder_of(path).iterdir()) == []


class TestBackups:
    def test_a_backup_is_made_once_a_day_and_holds_what_was_there(self, store, path):
        enter(store, planned(occurrence()))
        made = store.backup(NINE)
        assert made == path.with_name("evertick.db.backups") / "20260302T090000Z.db"
        assert (made.stat().st_mode & 0o777, made.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert store.backup(NINE + DAY - 1) is None
        enter(store, planned(occurrence(NINE + HOUR)))
        assert store.backup(NINE + DAY) == made.with_name("20260303T090000Z.db")
        copy = SqliteStore(made)
        assert keys(copy) == [occurrence()]
        copy.close()

    def test_old_backups_go_and_the_newest_stay(self, store):
        for day in range(12):
            store.backup(NINE + day * DAY, keep_days=3)
        names = [file.name for _, file in sqlite_backup.backups(store.path)]
        assert names == [f"202603{day:02}T090000Z.db" for day in (10, 11, 12, 13)]

    def test_a_backup_left_unfinished_is_not_taken_for_one(self, store):
        folder = sqlite_backup.folder_of(store.path)
        folder.mkdir()
        (folder / "20260302T090000Z.part").write_text("half")
        assert sqlite_backup.backups(store.path) == []
        assert store.backup(NINE) is not None
        assert [file.name for file in folder.iterdir()] == ["20260302T090000Z.db"]


MOUNTS = [
    "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
    "30 21 0:26 / /mnt/share rw - nfs4 server:/export rw",
    "31 21 0:27 / /mnt/share/inner rw,relatime - ext4 /dev/vdb rw",
    r"32 21 0:28 / /mnt/two\040words rw - fuse.sshfs user@host: rw",
    "33 21 0:29 / /over rw - nfs server:/a rw",
    "34 21 0:30 / /over rw - tmpfs tmpfs rw",
]


class TestTheNetwork:
    @pytest.mark.parametrize(
        ("file", "kind"),
        [
            pytest.param("/var/lib/evertick.db", "ext4", id="the root"),
            pytest.param("/mnt/share/evertick.db", "nfs4", id="a mount"),
            pytest.param("/mnt/share/inner/evertick.db", "ext4", id="a mount in a mount"),
            pytest.param("/mnt/shared/evertick.db", "ext4", id="a name that only begins alike"),
            pytest.param("/mnt/two words/evertick.db", "fuse.sshfs", id="a name with a blank"),
            pytest.param("/over/evertick.db", "tmpfs", id="a mount over a mount"),
        ],
    )
    def test_the_file_system_of_a_path(self, file, kind):
        assert file_system_of(file, MOUNTS) == kind

    def test_a_network_file_system_is_refused_unless_forced(self, path, monkeypatch):
        monkeypatch.setattr(sqlite_file, "network_file_system", lambda _: "nfs4")
        with pytest.raises(SettingsError, match=r"network file system \(nfs4\).*\?force=1"):
            open_store(f"sqlite:///{path}")
        assert not path.exists()
        open_store(f"sqlite:///{path}?force=1").close()
        assert path.exists()

    def test_this_disk_is_not_taken_for_a_network(self, tmp_path):
        assert network_file_system(tmp_path) is None


HAMMER = """
import sys, time
from pathlib import Path
from evertick.model.lifecycle import Trigger, PLANNED, SUCCEEDED
from evertick.model.run import Change, Entry, RunKey
from evertick.store import Batch, RunFilter
from evertick.stores.sql.sqlite import SqliteStore

path, node, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = SqliteStore(path)
sys.stdin.readline()
for number in range(rounds):
    keys = [RunKey(node, number * 1_000 + n) for n in range(20)]
    store.commit(Batch(by=node, entries=[Entry(key, PLANNED, Trigger.SCHEDULER, 0) for key in keys]))
    store.load()
    store.lease(["shared"], node, 1, number)
    assert store.record([Change(key, SUCCEEDED, 1) for key in keys]) == frozenset()
    store.query(RunFilter(), limit=10)
store.close()
print("done")
"""


@pytest.mark.slow
def test_two_processes_hammer_one_file_without_an_error(path):
    rounds, nodes = 120, ["node-1", "node-2"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, str(path), node, str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in nodes
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=180)[0] for process in processes] == ["done\n"] * 2
    store = SqliteStore(path)
    assert store.counters()["ended.succeeded"] == len(nodes) * rounds * 20 == store.counters()["entries.scheduler"]
    store.close()


def test_a_second_store_of_a_process_does_not_let_another_process_remove_the_log_of_the_first(path):
    """SQLite holds POSIX locks: a process that closes a descriptor of the file loses those of all its connections."""
    first = SqliteStore(path)
    enter(first, planned(occurrence()))
    second = SqliteStore(path)
    log = path.with_name(path.name + "-wal")
    inode = log.stat().st_ino
    visit = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM evertick_runs').fetchall()"
    subprocess.run([sys.executable, "-c", visit, str(path)], check=True)
    assert log.exists()
    assert log.stat().st_ino == inode
    second.close()
    first.close()


def test_a_writer_waits_for_another_and_a_reader_does_not(path):
    one, other = SqliteStore(path), SqliteStore(path)
    try:
        enter(one, planned(occurrence()))
        with one._writer.begin() as connection:
            connection.exec_driver_sql("DELETE FROM evertick_runs")
            assert keys(other) == [occurrence()]
        assert keys(other) == []
        assert other.record([became(occurrence(), SUCCEEDED)]) == {occurrence()}
    finally:
        one.close()
        other.close()
