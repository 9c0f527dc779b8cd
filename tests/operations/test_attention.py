"""Does the list of what needs attention name the right items, worst first, with their next steps?"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from evertick.definitions.source import Folder
from evertick.errors import DefinitionError
from evertick.model.facts import Facts, Wait, WaitKind, facts_text
from evertick.model.instant import MINUTE, to_text
from evertick.model.lifecycle import FAILED, SKIPPED, WAITING, SkipReason
from evertick.model.run import RunKey
from evertick.model.steps import StepRecord, steps_text
from evertick.operations.error_line import TEXT_MAX, find_error
from evertick.operations.local import LocalOperations
from evertick.operations.log_files import LogFile
from evertick.store import Store
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran

NOW = at(5.5)
STEPS = "schedule: '0 * * * *'\nsteps:\n  - {name: a, command: x}\n  - {name: b, command: x, depends: a}\n"


class Scheduler:
    """A scheduler that reports what a test gives it."""

    def __init__(self, **report: Any) -> None:
        self.report = {"node": "a1", **report}

    def status(self) -> dict[str, Any]:
        return self.report

    def announce_requests(self) -> None:
        raise AssertionError("a question is no request")


class Chunk(NamedTuple):
    data: bytes
    next_offset: int
    is_complete: bool


class Logs:
    """The log of every run: one step, the same text."""

    text = b""
    reads = 0

    def list_logs(self, run: RunKey) -> list[LogFile]:
        assert run.job_id == "etl"
        return [LogFile(1, "x", len(self.text), True)]

    def read_times(self, *_: object) -> tuple[tuple[int, int], ...]:
        return ()

    def read_log(self, run: RunKey, attempt: int, step: str, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        assert (run.job_id, attempt, step) == ("etl", 1, "x")
        self.reads += 1
        part = self.text[offset : offset + limit]
        return Chunk(part, offset + len(part), True)


class Counting:
    """A store that tells how often it counted its entries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tallies = 0

    def tally(self, *asked: Any, **known: Any) -> Any:
        self.tallies += 1
        return self._store.tally(*asked, **known)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def ask(store, *jobs, live=None, errors=None, **known):
    folder = Folder(jobs={one.id: one for one in jobs or [job()]}, errors=errors or {})
    operations = LocalOperations(store, lambda: folder, now=lambda: NOW, live=live or Scheduler(), **known)
    return operations.attention()


def fail(store, *hours, **known):
    for hour in hours:
        ran(store, key(hour), at(hour), at(hour) + MINUTE, FAILED, exit_code=1, detail="exit code 1", **known)


def test_nothing_is_wrong(store):
    fill(store, entry(4), watermark=5)
    ran(store, key(4), at(4), at(4.1))
    found = ask(store)
    assert (found.items, found.total, found.jobs) == ((), 0, 1)


def test_a_job_that_fails_is_listed_with_its_failures_in_a_row_and_the_line_of_the_error(store):
    fill(store, entry(2), entry(3), entry(4), watermark=5, has_failed=True)
    ran(store, key(2), at(2), at(2.1))
    fail(store, 3, 4)
    logs = Logs()
    logs.text = b"begin\n\x1b[31mValueError\x1b[0m: no rows for \xc3\xa4\n\n====\n"
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: NOW, live=Scheduler(), logs=logs)
    (item,) = operations.attention().items
    assert (item.kind, item.action, item.count, item.text) == ("failing", "retry", 2, "ValueError: no rows for ä")
    assert (item.run, item.job_name, item.timezone) == (key(4).run_id, "etl", "Europe/Berlin")
    assert item.since is not None
    assert item.since.isoformat() == "2026-03-02T03:01:00+00:00"
    assert operations.attention().items == (item,)
    assert logs.reads == 1, "the log of a run that has ended is read once"


def test_a_failure_without_a_log_has_the_reason_of_the_ledger_and_a_job_of_steps_is_retried_from_the_failed_one(store):
    steps = job(STEPS)
    fill(store, entry(4), watermark=5, one=steps, has_failed=True)
    fail(store, 4)
    (item,) = ask(store, steps).items
    assert (item.text, item.action) == ("exit code 1", "retry-failed")


def test_a_step_that_failed_without_output_has_its_reason_and_not_what_another_step_printed(store):
    steps = job(STEPS)
    fill(store, entry(4), watermark=5, one=steps, has_failed=True)
    records = [StepRecord("x", "succeeded", attempt=1), StepRecord("b", "failed", attempt=1, detail="exit code 3")]
    reason = "step 'b': exit code 3"
    ran(store, key(4), at(4), at(4.1), FAILED, exit_code=3, detail=reason, steps=steps_text(records))
    logs = Logs()
    logs.text = b"of the step before it\n"
    folder = Folder(jobs={"etl": steps})
    operations = LocalOperations(store, lambda: folder, now=lambda: NOW, live=Scheduler(), logs=logs)
    assert [item.text for item in operations.attention().items] == [reason]


def test_a_last_line_that_names_no_error_follows_the_reason(store):
    fill(store, entry(4), watermark=5, has_failed=True)
    fail(store, 4)
    logs = Logs()
    logs.text = b"49\n"
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: NOW, live=Scheduler(), logs=logs)
    assert [item.text for item in operations.attention().items] == ["exit code 1: 49"]


@pytest.mark.parametrize("record", [{"retired_at": at(5)}, {"has_failed": False}], ids=["deleted", "succeeded since"])
def test_a_failure_of_the_past_needs_no_attention(store, record):
    fill(store, entry(4), watermark=5, **{"has_failed": True, **record})
    fail(store, 4)
    assert ask(store).items == ()


def test_runs_that_wait_long_are_one_item_by_what_they_wait_for(store):
    fill(store, entry(3), entry(4), entry(5.45), watermark=5.45)
    wait = Wait(WaitKind.QUEUE, at(3), "db", ("big@2026-03-02T00:00:00Z",), limit=2)
    for hour in (3, 4, 5.45):
        change(store, key(hour), WAITING, at(hour), facts=facts_text(Facts(waits=(wait,))))
    (item,) = ask(store).items
    assert (item.kind, item.count, item.run, item.action) == ("stuck", 2, key(3).run_id, "show-run")
    assert item.wait is not None
    assert (item.wait.kind, item.wait.name, item.other_run) == ("queue", "db", "big@2026-03-02T00:00:00Z")


@pytest.mark.parametrize("kind", [WaitKind.RATE, WaitKind.HOLD])
def test_a_run_that_waits_on_purpose_is_not_stuck(store, kind):
    fill(store, entry(3), watermark=5)
    change(store, key(3), WAITING, at(3), facts=facts_text(Facts(waits=(Wait(kind, at(3)),))))
    assert ask(store).items == ()


@pytest.mark.parametrize(
    ("reason", "action"),
    [
        pytest.param(SkipReason.OVERLAP, "show-run", id="look at the run in the way"),
        pytest.param(SkipReason.MISSED, "backfill", id="run what was missed"),
        pytest.param(SkipReason.SATURATED, "show-executors", id="look at the executors"),
        pytest.param(SkipReason.CONDITION, None, id="a condition is meant"),
        pytest.param(SkipReason.PAUSED, None, id="a pause is meant"),
        pytest.param(SkipReason.CALENDAR, None, id="a calendar is meant"),
    ],
)
def test_a_job_that_is_skipped_again_and_again(store, reason, action):
    facts = facts_text(Facts(other=key(1).run_id)) if reason is SkipReason.OVERLAP else ""
    skips = [entry(hour, state=SKIPPED, reason=reason, facts=facts) for hour in (2, 3, 4)]
    fill(store, entry(1), *skips, watermark=5)
    ran(store, key(1), at(1), None)
    found = ask(store).items
    assert [(item.kind, item.count, item.reason, item.action) for item in found] == (
        [("skipping", 3, reason, action)] if action else []
    )


def test_skips_before_a_run_are_over(store):
    skips = [entry(hour, state=SKIPPED, reason=SkipReason.MISSED) for hour in (1, 2, 3)]
    fill(store, *skips, entry(4), watermark=5)
    ran(store, key(4), at(4), at(4.1))
    assert ask(store).items == ()


def test_a_requested_run_does_not_hide_skips(store):
    skips = [entry(hour, state=SKIPPED, reason=SkipReason.OVERLAP) for hour in (1, 2, 3)]
    asked = key(4, "r1")
    fill(store, *skips, entry(4, key=asked), watermark=5)
    ran(store, asked, at(4), at(4.1))
    assert [(item.kind, item.count) for item in ask(store).items] == [("skipping", 3)]


def test_skips_are_counted_by_job_only_when_there_are_new_ones(store):
    skips = [entry(hour, state=SKIPPED, reason=SkipReason.OVERLAP) for hour in (1, 2)]
    chosen = [entry(hour, state=SKIPPED, reason=SkipReason.PAUSED) for hour in (0.1, 0.2, 0.3)]
    fill(store, *chosen, entry(0.5), watermark=3)
    ran(store, key(0.5), at(0.5), at(0.6))
    counted = Counting(store)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(counted, lambda: folder, now=lambda: NOW, live=Scheduler())
    assert (operations.attention().items, counted.tallies) == ((), 0)
    fill(store, *skips, watermark=3)
    assert (operations.attention().items, counted.tallies) == ((), 0)
    for hour in (3, 4):
        fill(store, entry(hour, state=SKIPPED, reason=SkipReason.OVERLAP), watermark=5)
        assert [item.count for item in operations.attention().items] == [hour]
        counted_before = counted.tallies
        assert [item.count for item in operations.attention().items] == [hour]
        assert counted.tallies == counted_before == hour - 2


def test_trouble_of_the_system_comes_in_order(store):
    fill(store, watermark=5)
    live = Scheduler(
        planner={"lag_seconds": 90.0},
        integrity={"state": "damaged", "finding": "page 7"},
        time={"clock_jumps": 1, "last_jump": {"at": to_text(NOW - MINUTE), "seconds": -3600.0}},
        executors={
            "local@a1": {"kind": "local", "member": "local", "is_healthy": True, "is_open": True},
            "fleet:m1": {"kind": "fleet", "member": "m1", "is_healthy": True, "is_open": False, "closed": "cordoned"},
            "fleet:m2": {"kind": "fleet", "member": "m2", "is_healthy": False, "is_expected": True},
        },
    )
    errors = {"jobs/bad.yaml": (DefinitionError("unknown field 'shedule'", file="jobs/bad.yaml", line=3, column=1),)}
    found = ask(store, live=live, errors=errors).items
    assert [(item.kind, item.action) for item in found] == [
        ("lagging", None),
        ("ledger-damaged", None),
        ("clock", "show-skipped"),
        ("member-away", "show-executors"),
        ("member-closed", "undrain"),
        ("invalid-file", "show-job"),
    ]
    assert [found[0].seconds, found[1].text, found[2].seconds] == [90.0, "page 7", -3600.0]
    assert [(item.executor, item.member) for item in found[3:5]] == [("fleet", "m2"), ("fleet", "m1")]
    assert (found[5].file, found[5].line, found[5].count) == ("jobs/bad.yaml", 3, 1)


def test_the_first_fifty_of_a_kind_are_listed_and_all_are_counted(store):
    fill(store, watermark=5)
    errors = {name: (DefinitionError("unknown field", file=name),) for name in map("jobs/{}.yaml".format, range(60))}
    found = ask(store, live=Scheduler(), errors=errors)
    assert (len(found.items), found.total, found.counts) == (50, 60, {"invalid-file": 60})


def test_no_scheduler_is_the_worst(store):
    fill(store, watermark=5)
    folder = Folder(jobs={"etl": job(TEXT)})
    operations = LocalOperations(store, lambda: folder, now=lambda: NOW, is_scheduler_running=lambda: False)
    assert [item.kind for item in operations.attention().items] == ["no-scheduler"]


@pytest.mark.parametrize(
    ("text", "line", "is_error"),
    [
        pytest.param(b"", "", False, id="nothing was printed"),
        pytest.param(b"one\ntwo\n---\n", "two", False, id="the last words"),
        pytest.param(
            b"Traceback (most recent call last):\n  f()\nKeyError: 'x'\nbye\n", "KeyError: 'x'", True, id="python"
        ),
        pytest.param(
            b"psql: error: connection refused\nexit\n", "psql: error: connection refused", True, id="a command"
        ),
        pytest.param(b"\xff\xfe error \xff\n", "\ufffd\ufffd error \ufffd", True, id="bytes that are no text"),
    ],
)
def test_the_line_that_names_the_error(text, line, is_error):
    assert find_error(text) == (line, is_error)


def test_a_long_line_is_cut():
    assert len(find_error(b"error " + b"x" * 5_000)[0]) == TEXT_MAX
