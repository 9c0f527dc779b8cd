"""Which open entries are stuck, by the ledger and the definitions alone?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evertick.model.instant import HOUR, MINUTE, from_text
from evertick.model.job import After, Job
from evertick.model.ledger import JobRecord, bucket_of
from evertick.model.lifecycle import LAUNCHING, PLANNED, RETRYING, RUNNING, WAITING, RunState, Trigger
from evertick.model.routing import FLEET, Routing
from evertick.model.run import LedgerRow, RunKey
from evertick.planning.stuck import STUCK_US, stuck_entries

NINE = from_text("2026-03-02T09:00:00Z")
NOW = NINE + HOUR
JOB = Job("report")
FLOOR = {bucket_of("report"): NOW}
OLD = NOW - STUCK_US - MINUTE


def row(state: RunState, at: int = OLD, origin: str = "", **known: Any) -> LedgerRow:
    return LedgerRow(RunKey("report", at, origin), state, Trigger.SCHEDULER, at, "a", changed_at=at)._replace(**known)


def stuck(*rows: LedgerRow, job: Job | None = JOB, floor: int = NOW, **record: Any) -> int:
    known = JobRecord("report", NOW, **record)
    definitions = {} if job is None else {"report": job}
    return len(stuck_entries(rows, [known], {bucket_of("report"): floor}, definitions, NOW))


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(row(PLANNED), id="due, and never started"),
        pytest.param(row(PLANNED, origin="r1"), id="asked for, and never started"),
        pytest.param(row(LAUNCHING, executor="local@a"), id="launched here, and never heard of"),
        pytest.param(row(WAITING), id="waiting, with nothing in its way"),
        pytest.param(row(RETRYING, retry_at=OLD), id="its next attempt is overdue"),
    ],
)
def test_an_overdue_entry_that_waits_for_nothing_is_stuck(one):
    assert stuck(one) == 1


@pytest.mark.parametrize(
    ("one", "known"),
    [
        pytest.param(row(PLANNED, NOW - MINUTE), {}, id="it has just come due"),
        pytest.param(row(PLANNED), {"floor": OLD}, id="no scheduler has worked since"),
        pytest.param(row(PLANNED), {"held": True}, id="its job is paused, disabled or in error"),
        pytest.param(row(RUNNING), {}, id="it runs"),
        pytest.param(row(LAUNCHING, executor="fleet:ex-a"), {}, id="a member was asked"),
        pytest.param(row(WAITING, changed_at=NOW - MINUTE), {}, id="it moved a moment ago"),
        pytest.param(row(WAITING), {"job": replace(JOB, queue="q")}, id="its queue may be full"),
        pytest.param(row(WAITING), {"job": replace(JOB, routing=Routing(FLEET))}, id="no member may be free"),
        pytest.param(row(WAITING), {"job": replace(JOB, after=After(("x",)))}, id="it runs after another"),
        pytest.param(row(WAITING), {"job": None}, id="its rules are not known here"),
        pytest.param(row(RETRYING, retry_at=NOW + MINUTE), {}, id="its next attempt is to come"),
    ],
)
def test_an_entry_that_waits_for_something_is_not(one, known):
    assert stuck(one, **known) == 0


def test_an_entry_that_waits_behind_a_run_of_its_job_is_not_stuck():
    assert stuck(row(WAITING), row(RUNNING, OLD - MINUTE)) == 0
