"""Every occurrence after the watermark, up to the new one, is decided exactly once, and as the contract says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, from_text
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, SKIPPED, SkipReason, Trigger
from evertick.model.policy import Missed, Overlap, OverlapKind, Policy
from evertick.model.run import RunKey
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.planning import planner
from evertick.planning.entries import GAP_FROM
from evertick.planning.planner import JobView, plan
from evertick.planning.schedules import Every
from tests.planning.planner_model import CAUGHT_UP, Fate, expected, instants_of, spelled_out
from tests.present import present

NINE = from_text("2026-03-02T09:00:00Z")
PREREAD = 5 * SECOND
HOURLY = CronSpec("0 * * * *", "UTC")
EVERY_SECOND = EverySpec(SECOND)
TEN_YEARS = 3_652 * DAY
LATEST_ONLY = Overlap(OverlapKind.LATEST)

specs = st.one_of(
    st.builds(EverySpec, st.sampled_from([40 * SECOND, MINUTE, 7 * MINUTE, HOUR])),
    st.sampled_from(
        [
            HOURLY,
            CronSpec("*/20 * * * *", "UTC"),
            CronSpec("*/30 * * * * *", "UTC"),
            CronSpec("30 2 * * *", "Europe/Berlin"),
            CronSpec("0 9 * * MON-FRI", "America/New_York"),
        ]
    ),
    st.builds(AtSpec, st.integers(-30 * HOUR, 30 * HOUR).map(lambda us: NINE + us // MILLISECOND * MILLISECOND)),
)
durations = st.sampled_from([SECOND, 20 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY]) | st.integers(1, 2 * DAY)
policies = st.builds(
    Policy,
    missed=st.sampled_from(Missed),
    overlap=st.sampled_from([Overlap(OverlapKind.SKIP), Overlap(OverlapKind.LATEST)]),
    catchup_window_us=st.none() | durations,
    run_missed_one_off=st.booleans(),
    grace_us=st.sampled_from([1, SECOND, 5 * SECOND, 30 * SECOND, 10 * MINUTE]),
    max_delay_us=st.none() | durations,
    backlog_max=st.sampled_from([1, 2, 7, 1_000]),
)


@st.composite
def views(draw):
    job = Job("a", schedules=tuple(draw(st.lists(specs, min_size=1, max_size=3))), policy=draw(policies))
    watermark = NINE + draw(st.sampled_from([0, -1, 1, MINUTE]) | st.integers(-HOUR, HOUR))
    entered = instants_of(job.schedules, watermark - 10 * MINUTE, watermark)
    return JobView(
        job,
        watermark,
        planned=tuple(sorted(draw(st.sets(st.sampled_from(entered), max_size=15)))) if entered else (),
        waiting=tuple(RunKey("a", watermark - DAY + number) for number in range(draw(st.integers(0, 4)))),
        idle_reason=draw(st.sampled_from([SkipReason.MISSED, SkipReason.PAUSED, SkipReason.DISABLED])),
        keep=draw(st.none() | st.sampled_from(Missed)),
    )


spans = st.sampled_from([0, SECOND, 30 * SECOND, HOUR, 3 * HOUR]) | st.integers(-2 * HOUR, 26 * HOUR)


@settings(max_examples=4 * present(settings.default).max_examples)
@given(views(), spans)
def test_the_planner_agrees_with_the_contract_read_one_occurrence_at_a_time(view, away_us):
    now = view.watermark + away_us
    result = plan(view, now, PREREAD)
    fates, ahead = expected(view, now, PREREAD)
    assert spelled_out(view, result) == fates
    told = {change.key.scheduled_for: change for change in result.changes if change.key not in view.waiting}
    assert set(told) == set(ahead)
    for at, change in told.items():
        assert Fate(Trigger.CATCHUP if change.state is PLANNED else present(change.reason)) == ahead[at]
    assert result.kept == [*fates.values(), *ahead.values()].count(CAUGHT_UP)
    assert result.skipped == sum(fate.is_skip for fate in [*fates.values(), *ahead.values()]) + (
        len(result.changes) - len(told)
    )


@given(views(), spans)
def test_entries_are_in_order_and_only_long_stretches_are_gaps(view, away_us):
    entries = plan(view, view.watermark + away_us, PREREAD).entries
    begins = [entry.key.scheduled_for for entry in entries]
    assert begins == sorted(begins)
    assert all(entry.occurrences >= GAP_FROM for entry in entries if entry.is_gap)
    assert all((entry.state is SKIPPED) == (entry.reason is not None) for entry in entries)
    assert all(entry.detail for entry in entries if entry.state is SKIPPED), "a skip says why in words"


@given(views(), spans)
def test_the_watermark_never_goes_back_and_reaches_as_far_as_was_asked(view, away_us):
    now = view.watermark + away_us
    assert plan(view, now, PREREAD).watermark == max(view.watermark, now + PREREAD)


@given(views(), st.integers(PREREAD, 3 * DAY))
def test_a_clock_that_went_backward_decides_nothing_new(view, back_us):
    result = plan(view, view.watermark - back_us, PREREAD)
    assert result.entries == ()
    assert result.watermark == view.watermark


@given(views(), spans)
def test_the_same_view_at_the_same_time_is_planned_the_same(view, away_us):
    now = view.watermark + away_us
    assert plan(view, now, PREREAD) == plan(view, now, PREREAD)


@given(views(), st.lists(st.integers(0, 2 * HOUR), min_size=2, max_size=5))
def test_planning_in_steps_decides_each_occurrence_once_and_leaves_none_out(view, steps):
    view = replace(view, planned=(), waiting=())
    start, now = view.watermark, view.watermark
    decided: list[Any] = []
    for step in steps:
        now += step
        result = plan(view, now, PREREAD)
        decided += spelled_out(view, result)
        view = replace(view, watermark=result.watermark)
    assert decided == instants_of(view.job.schedules, start, view.watermark)


@given(views(), spans)
def test_there_is_always_something_to_wake_for_while_occurrences_are_left(view, away_us):
    result = plan(view, view.watermark + away_us, PREREAD)
    following = instants_of(view.job.schedules, result.watermark, result.watermark + 8 * DAY)
    if following:
        assert result.wake_at == following[0] - PREREAD
    else:
        assert result.wake_at is None


@given(views(), spans)
def test_the_oldest_runs_of_a_backlog_beyond_the_cap_are_skipped(view, away_us):
    view = replace(view, job=replace(view.job, policy=replace(view.job.policy, overlap=Overlap(OverlapKind.SKIP))))
    result = plan(view, view.watermark + away_us, PREREAD)
    dropped = [change.key for change in result.changes if change.key in view.waiting]
    excess = max(len(view.waiting) + result.kept - view.job.policy.backlog_max, 0)
    assert dropped == list(view.waiting[:excess])
    assert all(change.reason is SkipReason.CAP for change in result.changes if change.key in dropped)


@given(views(), spans)
def test_under_latest_at_most_one_occurrence_of_a_repeating_schedule_is_left_to_run_late(view, away_us):
    policy = replace(view.job.policy, missed=Missed.LATEST, overlap=LATEST_ONLY)
    repeating = tuple(spec for spec in view.job.schedules if not isinstance(spec, AtSpec)) or (HOURLY,)
    view = replace(view, job=replace(view.job, policy=policy, schedules=repeating), planned=(), keep=None)
    now = view.watermark + away_us
    result = plan(view, now, PREREAD)
    skipped = {change.key for change in result.changes}
    late = [entry.key.scheduled_for for entry in result.entries if entry.trigger is Trigger.CATCHUP]
    on_time = [entry.key.scheduled_for for entry in result.entries if entry.state is PLANNED and not entry.key.origin]
    left = [key for key in view.waiting if key not in skipped]
    if on_time:
        assert not left, "what waits is older than what is kept or on time"
        assert len(late) <= 1
        assert not (late and set(on_time) - set(late)), "an on-time occurrence is newer than every missed one"


# --- what a plan costs


class CountingEvery(Every):
    """An interval that counts what it is asked."""

    __slots__ = ("asked", "listed")

    def __init__(self, period_us):
        super().__init__(period_us)
        self.asked = self.listed = 0

    def next_after(self, instant):
        self.asked += 1
        return super().next_after(instant)

    def previous_before(self, instant):
        self.asked += 1
        return super().previous_before(instant)

    def between(self, start, end):
        found = super().between(start, end)
        self.listed += len(found)
        return found

    def count(self, start, end):
        self.asked += 1
        return super().count(start, end)


@pytest.mark.parametrize("idle_reason", [SkipReason.MISSED, SkipReason.PAUSED])
@pytest.mark.parametrize("window_us", [None, HOUR, TEN_YEARS // 2])
@pytest.mark.parametrize("keep", Missed)
def test_ten_years_of_every_second_cost_what_is_kept_and_not_what_was_missed(keep, window_us, idle_reason, monkeypatch):
    engine = CountingEvery(SECOND)
    monkeypatch.setattr(planner, "compile_all", lambda _: (engine,))
    policy = Policy(missed=keep, catchup_window_us=window_us)
    view = JobView(Job("a", schedules=(EVERY_SECOND,), policy=policy), NINE, idle_reason=idle_reason)
    result = plan(view, NINE + TEN_YEARS, PREREAD)
    kept = {Missed.NONE: 0, Missed.FIRST: 1, Missed.LATEST: 1, Missed.ALL: 1_000}[keep]
    assert result.kept == kept
    on_time = 31 if idle_reason is SkipReason.MISSED else 1
    assert result.skipped == TEN_YEARS // SECOND - on_time - kept
    assert len(result.entries) <= kept + 31 + PREREAD // SECOND + 2 * GAP_FROM
    assert engine.listed <= 100
    assert engine.asked <= 5 * kept + 100


# --- by hand, so that the model itself is held to something


def told(result):
    return [
        f"{entry.key.scheduled_for - NINE} {entry.reason or entry.trigger} {entry.occurrences}"
        for entry in result.entries
    ]


def hours(*lines: str) -> list[str]:
    """`1 catchup`: the occurrence an hour after nine."""
    return [f"{int(line.split()[0]) * HOUR} {line.split()[1]} 1" for line in lines]


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param(Policy(), hours("1 missed", "2 missed", "3 missed"), id="no catch-up: all missed"),
        pytest.param(
            Policy(missed=Missed.FIRST, catchup_window_us=DAY),
            hours("1 catchup", "2 overlap", "3 overlap"),
            id="first: the others overlap, whatever its duration",
        ),
        pytest.param(
            Policy(missed=Missed.LATEST, catchup_window_us=DAY),
            hours("1 superseded", "2 superseded", "3 catchup"),
            id="latest",
        ),
        pytest.param(
            Policy(missed=Missed.ALL, catchup_window_us=DAY),
            hours("1 catchup", "2 catchup", "3 catchup"),
            id="all, oldest first",
        ),
        pytest.param(
            Policy(missed=Missed.ALL, catchup_window_us=100 * MINUTE),
            hours("1 missed", "2 catchup", "3 catchup"),
            id="the window bounds how far back",
        ),
        pytest.param(
            Policy(missed=Missed.FIRST, max_delay_us=2 * HOUR),
            hours("1 late", "2 catchup", "3 overlap"),
            id="an occurrence later than its delay bound is late, and the first is the first after it",
        ),
        pytest.param(
            Policy(missed=Missed.ALL, backlog_max=2),
            hours("1 cap", "2 catchup", "3 catchup"),
            id="beyond the cap the oldest give way",
        ),
    ],
)
def test_three_hours_away(policy, lines):
    view = JobView(Job("a", schedules=(HOURLY,), policy=policy), NINE)
    assert told(plan(view, NINE + 3 * HOUR + 10 * MINUTE, PREREAD)) == lines


@pytest.mark.parametrize(
    ("late_us", "line"),
    [
        pytest.param(0, "scheduler", id="on the dot"),
        pytest.param(30 * SECOND, "scheduler", id="exactly the grace late"),
        pytest.param(30 * SECOND + 1, "missed", id="a microsecond more"),
    ],
)
def test_the_edge_of_the_grace(late_us, line):
    view = JobView(Job("a", schedules=(HOURLY,)), NINE)
    assert told(plan(view, NINE + HOUR + late_us, PREREAD)) == hours(f"1 {line}")


@pytest.mark.parametrize(
    ("late_us", "lines"),
    [
        pytest.param(10 * MINUTE, ("1 superseded", "2 superseded", "3 catchup"), id="nothing is on time"),
        pytest.param(0, ("1 superseded", "2 superseded", "3 scheduler"), id="one is due this very instant"),
        pytest.param(SECOND, ("1 superseded", "2 superseded", "3 scheduler"), id="a second after one was due"),
        pytest.param(30 * SECOND, ("1 superseded", "2 superseded", "3 scheduler"), id="the grace after one was due"),
        pytest.param(-SECOND, ("1 superseded", "2 superseded", "3 scheduler"), id="a second before one is due"),
        pytest.param(-MINUTE, ("1 superseded", "2 catchup"), id="a minute before one is due"),
    ],
)
def test_an_on_time_occurrence_is_newer_than_the_missed_one_that_latest_keeps(late_us, lines):
    policy = Policy(missed=Missed.LATEST, overlap=LATEST_ONLY, catchup_window_us=DAY)
    view = JobView(Job("a", schedules=(HOURLY,), policy=policy), NINE)
    result = plan(view, NINE + 3 * HOUR + late_us, PREREAD)
    assert told(result) == hours(*lines)
    if lines[-1] == "3 scheduler":
        assert all("superseded by the newer occurrence" in entry.detail for entry in result.entries[:-1])


@pytest.mark.parametrize("overlap", [OverlapKind.SKIP, OverlapKind.WAIT, OverlapKind.REPLACE])
def test_other_overlap_rules_judge_the_two_when_they_meet(overlap):
    policy = Policy(missed=Missed.LATEST, overlap=Overlap(overlap))
    view = JobView(Job("a", schedules=(HOURLY,), policy=policy), NINE)
    assert told(plan(view, NINE + 2 * HOUR + SECOND, PREREAD)) == hours("1 catchup", "2 scheduler")


def test_an_occurrence_entered_ahead_that_is_still_on_time_is_newer_too():
    policy = Policy(missed=Missed.LATEST, overlap=LATEST_ONLY)
    view = JobView(Job("a", schedules=(EverySpec(20 * SECOND),), policy=policy), NINE, (NINE - 20 * SECOND, NINE))
    (change,) = plan(view, NINE + 15 * SECOND, 0).changes
    assert (change.key.scheduled_for, change.state, change.reason) == (
        NINE - 20 * SECOND,
        SKIPPED,
        SkipReason.SUPERSEDED,
    )


@pytest.mark.parametrize(
    ("window_us", "line"),
    [
        pytest.param(10 * MINUTE + 1, "catchup", id="a microsecond inside the window"),
        pytest.param(10 * MINUTE, "missed", id="exactly the window old"),
    ],
)
def test_the_edge_of_the_catch_up_window(window_us, line):
    policy = Policy(missed=Missed.ALL, catchup_window_us=window_us)
    view = JobView(Job("a", schedules=(HOURLY,), policy=policy), NINE)
    assert told(plan(view, NINE + HOUR + 10 * MINUTE, PREREAD)) == hours(f"1 {line}")


@pytest.mark.parametrize(
    ("max_delay_us", "line"),
    [
        pytest.param(10 * MINUTE, "catchup", id="exactly the bound late is inside"),
        pytest.param(10 * MINUTE - 1, "late", id="a microsecond more is not"),
    ],
)
def test_the_edge_of_the_delay_bound(max_delay_us, line):
    policy = Policy(missed=Missed.ALL, max_delay_us=max_delay_us)
    view = JobView(Job("a", schedules=(HOURLY,), policy=policy), NINE)
    assert told(plan(view, NINE + HOUR + 10 * MINUTE, PREREAD)) == hours(f"1 {line}")


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        pytest.param(Policy(), "catchup", id="it runs late, whatever the window"),
        pytest.param(Policy(missed=Missed.ALL, catchup_window_us=MINUTE), "catchup", id="also outside the window"),
        pytest.param(Policy(run_missed_one_off=False), "missed", id="unless missed: none is written"),
        pytest.param(Policy(max_delay_us=MINUTE), "late", id="or it is later than the job allows"),
        pytest.param(Policy(max_delay_us=3 * HOUR), "catchup", id="but not when it is inside that"),
    ],
)
def test_a_one_off_that_was_missed(policy, line):
    view = JobView(Job("a", schedules=(AtSpec(NINE + HOUR),), policy=policy), NINE)
    result = plan(view, NINE + 3 * HOUR, PREREAD)
    assert told(result) == hours(f"1 {line}")
    assert result.wake_at is None


@pytest.mark.parametrize(
    ("skips", "lines"),
    [
        pytest.param(GAP_FROM - 1, GAP_FROM - 1, id="ten are told one by one"),
        pytest.param(GAP_FROM, 1, id="eleven are one gap"),
    ],
)
def test_a_long_stretch_of_skips_is_one_line(skips, lines):
    view = JobView(Job("a", schedules=(HOURLY,)), NINE)
    result = plan(view, NINE + skips * HOUR + MINUTE, PREREAD)
    assert len(result.entries) == lines
    assert result.skipped == skips


def test_two_schedules_due_at_one_instant_are_one_occurrence():
    view = JobView(Job("a", schedules=(HOURLY, EverySpec(2 * HOUR))), NINE)
    assert told(plan(view, NINE + HOUR, PREREAD)) == hours("1 scheduler")


def test_an_occurrence_is_entered_ahead_only_within_the_preread():
    view = JobView(Job("a", schedules=(HOURLY,)), NINE)
    assert told(plan(view, NINE + HOUR - PREREAD - 1, PREREAD)) == []
    assert told(plan(view, NINE + HOUR - PREREAD, PREREAD)) == hours("1 scheduler")


def test_catch_up_reads_an_expression_in_its_own_zone_wherever_the_watermark_came_from():
    """Nine in New York is two in the afternoon in UTC, in winter."""
    spec = CronSpec("0 9 * * *", "America/New_York")
    view = JobView(Job("a", schedules=(spec,), policy=Policy(missed=Missed.ALL)), NINE)
    assert told(plan(view, NINE + DAY, PREREAD)) == hours("5 catchup")


def test_what_was_entered_ahead_is_not_entered_again_where_an_edit_lets_the_plan_begin_before_it():
    job = Job("a", schedules=(EverySpec(HOUR),))
    view = JobView(job, NINE, planned=(NINE + HOUR,), waiting=(RunKey("a", NINE + 2 * HOUR),))
    result = plan(view, NINE + HOUR - SECOND, 3 * HOUR)
    assert [entry.key.scheduled_for for entry in result.entries] == [NINE + 3 * HOUR]
