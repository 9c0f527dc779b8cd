"""Does every surface say when a run starts that jitter delays, as fields and in words?"""

from __future__ import annotations

from evertick.definitions.parser import parse_definition
from evertick.definitions.source import Folder
from evertick.model.instant import MINUTE, SECOND, from_datetime, to_datetime
from evertick.operations.local import LocalOperations
from evertick.operations.results.attention import AttentionKind
from evertick.planning.jitter import starts_at
from evertick.settings import Settings
from tests.loop.harness import World, at, clock_of, world

TEXT = "schedule: '0 * * * *'\njitter: 20m\ncommand: x\n"


def delayed_job():
    parsed = parse_definition(TEXT.encode(), "a.yaml", Settings(timezone="UTC"))
    assert parsed.job is not None
    return parsed.job


JOB = delayed_job()
STARTS = starts_at(JOB, at("09:00"))
CLOCK = clock_of(STARTS)


def operations(here: World) -> LocalOperations:
    folder = Folder(jobs=here.jobs)
    return LocalOperations(here.store, lambda: folder, now=lambda: here.now, is_scheduler_running=lambda: True)


def test_before_its_time_a_coming_occurrence_says_when_it_starts():
    ask = operations(world(JOB))
    first, second = ask.upcoming(2).items
    assert (first.scheduled_for, first.starts_at) == (to_datetime(at("09:00")), to_datetime(STARTS))
    assert first.local_start == f"Mon 2026-03-02 {CLOCK}"
    assert first.wait_seconds == (STARTS - at("08:30")) / SECOND
    assert second.starts_at == to_datetime(starts_at(JOB, at("10:00")))
    found = ask.job("a")
    assert (found.next_at, found.next_starts_at) == (first.scheduled_for, first.starts_at)
    why = ask.why("a", "2026-03-02T09:00")
    assert (why.outcome, why.starts_at) == ("due", first.starts_at)
    assert f"jitter delays its start by 6m 52s, to {CLOCK}" in why.sentences


def test_between_its_time_and_its_start_it_is_still_upcoming_and_nothing_is_wrong():
    here = world(JOB)
    here.run_until("09:06")
    ask = operations(here)
    first, second = ask.upcoming(2).items
    assert [from_datetime(one.scheduled_for) for one in (first, second)] == [at("09:00"), at("10:00")]
    assert (first.starts_at, first.wait_seconds) == (to_datetime(STARTS), (STARTS - here.now) / SECOND)
    assert ask.job_upcoming("a", 1).items[0].scheduled_for == first.scheduled_for
    (run,) = ask.list_runs().items
    assert (run.state, run.starts_at) == ("planned", first.starts_at)
    why = ask.why("a", "2026-03-02T09:00")
    assert (why.outcome, why.starts_at) == ("planned", first.starts_at)
    assert f"starts in {(STARTS - here.now) // SECOND}s" in why.sentences
    assert not any("ago" in sentence for sentence in why.sentences)
    here.stall(5 * MINUTE)  # longer than an entry may be overdue without being called stuck
    assert [item.kind for item in operations(here).attention().items if item.kind is AttentionKind.STUCK] == []


def test_afterwards_its_lateness_counts_from_its_start():
    here = world(JOB)
    here.run_until("09:30")
    ask = operations(here)
    (run,) = ask.list_runs().items
    assert (run.starts_at, run.lateness_seconds) == (to_datetime(STARTS), 0.0)
    assert ask.durations("a").lateness.max == 0.0
    sentences = ask.why("a", "2026-03-02T09:00").sentences
    assert f"jitter delays its start by 6m 52s, to {CLOCK}" in sentences
    assert not any("late" in one for one in sentences if "delays" not in one)
