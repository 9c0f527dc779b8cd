"""Is a ledger complete after it was restored from a backup, or copied to another database?"""

from __future__ import annotations

import os
from contextlib import closing

import pytest
import sqlalchemy as sa

from evertick.errors import NotFound, SchedulerLockError, StoreCorrupt, StoreError
from evertick.location import lock_path
from evertick.model.instant import SECOND, from_text
from evertick.model.ledger import Batch, JobRecord
from evertick.model.lifecycle import SUCCEEDED
from evertick.store import RunFilter
from evertick.stores import open_store
from evertick.stores.lock import FolderLock
from evertick.stores.sql import admin
from evertick.stores.sql.schema import METADATA, RUNS, VERSIONS
from evertick.stores.sql.store import SqlStore
from tests.stores.builders import NINE, TEN, asked, enter, occurrence, planned

SERVERS = {"postgres": "fresh_postgres", "mysql": "fresh_mysql"}
NOW = from_text("2027-01-15T07:30:00Z")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/here/evertick.db"


def fill(url):
    """Two entries, a job, a request, and a lease of the fourth owner."""
    with closing(open_store(url)) as store:
        enter(store, planned(occurrence(NINE)), planned(occurrence(TEN), SUCCEEDED))
        store.commit(Batch(by="node-1", jobs=[JobRecord("report", NINE)], requests=[asked()]))
        for holder in ("a", "b", "c", "d"):
            store.lease(["bucket:7"], holder, 1, NOW)
            store.lease(["bucket:7"], holder, 0, NOW)


def tables_of(url):
    """Every row of every table, but for when leases end."""
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)

        def read(connection):
            tables = [table for table in METADATA.sorted_tables if table is not VERSIONS]
            found = {table.name: connection.execute(sa.select(table)).mappings().all() for table in tables}
            plain = {name: [{**row, "expires_at": None} for row in rows] for name, rows in found.items()}
            return {name: sorted(rows, key=repr) for name, rows in plain.items()}

        return store.read(read)


def states(url):
    with closing(open_store(url)) as store:
        return [str(row.state) for row in store.query(RunFilter(oldest_first=True)).rows]


class TestRestore:
    def test_the_newest_backup_replaces_the_ledger_and_the_former_one_is_kept(self, url, tmp_path):
        fill(url)
        before = tables_of(url)
        backup = admin.backup(url, NOW)
        with closing(open_store(url)) as store:
            store.commit(Batch(by="node-1", jobs=[JobRecord("later", NINE)]))
        done = admin.restore(url, None, NOW + SECOND)
        assert done.backup == backup
        assert tables_of(url) == before
        assert done.aside is not None
        assert len(tables_of(f"sqlite:///{done.aside}")["evertick_jobs"]) == 2
        assert os.stat(tmp_path / "here" / "evertick.db").st_mode & 0o777 == 0o600

    def test_a_damaged_ledger_is_restored(self, url, tmp_path):
        fill(url)
        before = tables_of(url)
        admin.backup(url, NOW)
        (tmp_path / "here" / "evertick.db").write_bytes(b"garbage" * 1_000)
        admin.restore(url, None, NOW)
        assert tables_of(url) == before

    def test_a_damaged_backup_leaves_the_ledger_alone(self, url, tmp_path):
        fill(url)
        before = tables_of(url)
        for name, content in (("cut.db", admin.backup(url, NOW).read_bytes()[:9_000]), ("text.db", b"no ledger" * 99)):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(StoreCorrupt, match="--from"):
                admin.restore(url, tmp_path / name, NOW)
        assert tables_of(url) == before

    def test_a_database_that_is_not_a_ledger_is_refused(self, url, tmp_path):
        import sqlite3

        fill(url)
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            other.execute("CREATE TABLE x (y)")
        with pytest.raises(StoreCorrupt, match="is not a ledger"):
            admin.restore(url, tmp_path / "other.db", NOW)

    def test_without_a_backup_the_next_step_is_named(self, url):
        fill(url)
        with pytest.raises(NotFound, match="--from"):
            admin.restore(url, None, NOW)

    def test_a_running_scheduler_keeps_its_ledger(self, url):
        fill(url)
        admin.backup(url, NOW)
        lock = lock_path(url)
        assert lock is not None
        with FolderLock(lock).acquire(NOW), pytest.raises(SchedulerLockError):
            admin.restore(url, None, NOW)


def copied(source, target):
    progress: list[tuple[int, int]] = []
    rows = admin.copy(source, target, NOW, lambda done, total: progress.append((done, total)))
    return rows, progress


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
class TestCopy:
    def test_every_row_is_copied_there_and_back(self, url, server, request, tmp_path):
        fill(url)
        target = request.getfixturevalue(SERVERS[server])()
        rows, progress = copied(url, target)
        assert tables_of(target) == tables_of(url)
        assert rows["evertick_runs"] == 2
        assert progress[0][0] == 0
        assert progress[-1][0] == progress[-1][1] == sum(rows.values())
        back = f"sqlite:///{tmp_path}/back/evertick.db"
        copied(target, back)
        assert tables_of(back) == tables_of(url)

    def test_the_next_owner_has_a_newer_epoch_than_every_owner_before_the_copy(self, url, server, request):
        fill(url)
        target = request.getfixturevalue(SERVERS[server])()
        copied(url, target)
        with closing(open_store(url)) as old, closing(open_store(target)) as new:
            (before,) = old.lease(["bucket:7"], "e", SECOND, NOW)
            (after,) = new.lease(["bucket:7"], "e", SECOND, NOW)
        assert after.epoch >= before.epoch > 4

    def test_a_database_with_a_ledger_is_not_overwritten(self, url, server, request):
        fill(url)
        target = request.getfixturevalue(SERVERS[server])()
        copied(url, target)
        with pytest.raises(StoreError, match="already holds a ledger"):
            copied(url, target)

    def test_a_copy_that_fails_in_the_middle_writes_nothing(self, url, server, request):
        fill(url)
        target = request.getfixturevalue(SERVERS[server])()

        def fail(done, _total):
            if done:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            admin.copy(url, target, NOW, fail)
        with closing(open_store(target)) as store:
            assert isinstance(store, SqlStore)
            assert store.read(lambda connection: connection.execute(sa.select(RUNS)).all()) == []
        copied(url, target)
        assert tables_of(target) == tables_of(url)

    def test_a_node_on_the_target_is_named(self, url, server, request):
        fill(url)
        target = request.getfixturevalue(SERVERS[server])()
        with closing(open_store(target)) as store:
            store.lease(["node:n7"], "n7/1", 3_600 * SECOND, NOW)
        with pytest.raises(StoreError, match="in use by n7"):
            copied(url, target)
