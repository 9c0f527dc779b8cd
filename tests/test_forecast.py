"""The coming days, simulated: what the loop would decide, and what is reported about it."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from evertick.definitions.parser import parse_definition
from evertick.forecast import _Simulation, simulate
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text, to_text
from evertick.model.lifecycle import SKIPPED, SUCCEEDED, SkipReason
from evertick.operations.forecast_report import RUNS_MAX, RunDurations, cut_period, report_forecast
from evertick.settings import Settings
from tests.share import share

MONDAY = from_text("2027-03-01T00:00:00Z")


def forecast(jobs, minutes, queues=None, until=MONDAY + DAY):
    """The report about jobs whose runs take so many minutes each."""
    takes = {job_id: RunDurations((60.0 * minutes[job_id],), "given") for job_id in jobs}
    rows = simulate(
        jobs, lambda job_id, number: takes[job_id].draw(number), queues or {}, MONDAY, until, lambda _: None
    )
    return report_forecast(rows, jobs, takes, queues or {}, MONDAY, until, is_shortened=False)


def job_of(text, name, queues=None):
    settings = Settings(timezone="UTC", queues=tuple((queues or {}).items()))
    parsed = parse_definition(text.encode(), f"jobs/{name}.yaml", settings)
    assert parsed.job is not None, parsed.errors
    return parsed.job


def jobs_of(**texts):
    return {name: job_of(text, name) for name, text in texts.items()}


def test_each_occurrence_starts_when_it_is_due():
    jobs = jobs_of(hourly="schedule: '0 * * * *'\ncommand: x\n")
    rows = simulate(jobs, lambda *_: MINUTE, {}, MONDAY, MONDAY + 3 * HOUR, lambda _: None)
    assert [(to_text(row.started_at or 0), row.state) for row in rows][:2] == [
        ("2027-03-01T01:00:00Z", SUCCEEDED),
        ("2027-03-01T02:00:00Z", SUCCEEDED),
    ]


def test_jitter_spreads_the_starts_and_is_no_wait():
    text = "schedule: '0 6 * * *'\njitter: 2h\ncommand: x\n"
    jobs = jobs_of(**{f"job{number}": text for number in range(20)})
    found = forecast(jobs, dict.fromkeys(jobs, 1))
    starts = {hour.start.hour: hour.starts for hour in found.hours if hour.starts}
    assert set(starts) == {6, 7}
    assert sum(starts.values()) == 20
    assert max(hour.busiest for hour in found.hours) < 5
    assert all((job.waited, job.longest_wait_seconds) == (0, 0) for job in found.jobs)


def test_a_run_that_takes_too_long_makes_the_next_one_skip():
    found = forecast(jobs_of(sync="schedule: '*/10 * * * *'\ncommand: x\n"), {"sync": 15})
    (sync,) = found.jobs
    assert sync.skipped == {SkipReason.OVERLAP: 72}
    # The run of 23:50 is still active at the end, when its next occurrence is not due yet.
    assert (sync.runs, sync.waited, sync.late_ends) == (72, 0, 71)


def test_a_run_that_waits_for_the_one_before_is_reported_with_its_wait():
    until = MONDAY + HOUR
    found = forecast(jobs_of(sync="schedule: '*/10 * * * *'\noverlap: wait\ncommand: x\n"), {"sync": 15}, until=until)
    (sync,) = found.jobs
    assert sync.skipped == {}
    # Due at :10, :20, ... and started at :10, :25, :40, :55; the last two wait until the end.
    assert (sync.runs, sync.waited, sync.longest_wait_seconds) == (4, 4, 15 * 60)


def test_a_full_queue_makes_runs_wait():
    text = "schedule: '0 6 * * *'\nqueue: warehouse\ncommand: x\n"
    settings_queues = {"warehouse": 1}
    jobs = {name: job_of(text, name, queues=settings_queues) for name in ("a", "b", "c")}
    found = forecast(jobs, dict.fromkeys(jobs, 20), settings_queues)
    (queue,) = found.queues
    assert (queue.limit, queue.busiest, queue.waited, queue.longest_wait_seconds) == (1, 1, 2, 40 * 60)
    six = next(hour for hour in found.hours if hour.start.hour == 6)
    assert (six.starts, six.busiest, six.waiting) == (3, 1, 2)


def test_a_run_across_hours_counts_in_each_of_them():
    found = forecast(jobs_of(long="schedule: '30 6 * * *'\ncommand: x\n"), {"long": 150})
    assert {hour.start.hour: hour.busiest for hour in found.hours if hour.busiest} == {6: 1, 7: 1, 8: 1}
    assert {hour.start.hour: hour.starts for hour in found.hours if hour.starts} == {6: 1}


def test_a_job_that_follows_another_runs_when_that_one_has_ended():
    jobs = jobs_of(first="schedule: '0 6 * * *'\ncommand: x\n", second="after: first\ncommand: x\n")
    found = forecast(jobs, {"first": 30, "second": 5})
    assert {job.job: job.runs for job in found.jobs} == {"first": 1, "second": 1}


def test_measured_durations_take_turns():
    takes = RunDurations((60.0, 120.0), "measured")
    assert [takes.draw(number) // SECOND for number in range(4)] == [60, 120, 60, 120]


def test_the_same_simulation_gives_the_same_ledger():
    jobs = jobs_of(a="schedule: '*/7 * * * *'\noverlap: wait\ncommand: x\n", b="schedule: {every: 90s}\ncommand: x\n")
    runs = [simulate(jobs, lambda *_: 5 * MINUTE, {}, MONDAY, MONDAY + DAY, lambda _: None) for _ in range(2)]
    assert runs[0] == runs[1]
    assert sum(row.state is SKIPPED for row in runs[0]) > 0


def test_a_period_with_too_many_occurrences_is_cut():
    often = jobs_of(often="schedule: {every: 1s}\ncommand: x\n")
    end = cut_period(often.values(), MONDAY, MONDAY + 7 * DAY)
    assert MONDAY + DAY < end < MONDAY + 7 * DAY
    assert (end - MONDAY) // SECOND <= RUNS_MAX


LINES = st.sampled_from(
    [
        "schedule: '*/7 * * * *'",
        "schedule: '0 3 * * *'",
        "schedule: '13,44 4-6 * * *'\njitter: 20m",
        "schedule: {start: '0 2 * * *', stop: '30 2 * * *'}",
        "schedule: {start: '0 6 * * *', restart: '0 */5 * * *'}",
        "schedule: {every: 5h}",
        "schedule: {every: 90s}",
        "schedule: '59 23 * * *'\nexpectBy: '23:30'",
        "schedule: '5 1 * * *'\nmaxRetries: 2",
        "after: job0",
    ]
)


@settings(deadline=None, max_examples=share(10, 100), phases=[Phase.generate])
@given(lines=st.lists(LINES, min_size=1, max_size=4), minutes=st.integers(1, 200), start=st.integers(0, 3_600))
def test_what_is_left_out_while_nothing_is_due_changes_nothing(lines, minutes, start):
    texts = {f"job{number}": f"{line}\ncommand: x\n" for number, line in enumerate(lines)}
    jobs, since = {}, MONDAY + start * SECOND
    for name, text in texts.items():
        parsed = parse_definition(text.encode(), f"jobs/{name}.yaml", Settings(timezone="UTC"))
        if parsed.job is not None:
            jobs[name] = parsed.job

    def rows():
        found = simulate(jobs, lambda *_: minutes * MINUTE, {}, since, since + 30 * HOUR, lambda _: None)
        return [row._replace(decided_by="the number of a batch, some of which only move the floors") for row in found]

    found = rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Simulation, "_skip_lull", lambda _: None)
        assert found == rows()
