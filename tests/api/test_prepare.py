"""Are the responses that a page requests first computed before the first request?"""

from __future__ import annotations

from evertick.api.__main__ import prepare
from evertick.definitions.source import Folder
from evertick.errors import StoreUnavailable
from evertick.model.job import Job
from evertick.model.schedule import CronSpec
from evertick.operations import next_due_cache
from evertick.operations.local import LocalOperations
from evertick.stores import open_store

DAILY = Folder(jobs={"daily": Job("daily", "daily", (CronSpec("0 3 * * *", "Europe/Berlin", "daily"),))})


def test_the_first_overview_finds_the_schedules_compiled(monkeypatch):
    operations = LocalOperations(open_store("memory:"), lambda: DAILY)
    prepare(operations)
    monkeypatch.delattr(next_due_cache, "compile_all")
    assert [one.job for one in operations.overview().next] == ["daily"]


def test_a_ledger_that_is_away_does_not_end_the_server(caplog):
    def away() -> Folder:
        raise StoreUnavailable("the ledger is away.")

    prepare(LocalOperations(open_store("memory:"), away))
    assert "api.unprepared" in caplog.text
