"""Whether the proof that a ledger is complete finds every kind of defect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text
from evertick.model.ledger import JobRecord, ScheduleLine, bucket_of
from evertick.model.lifecycle import PLANNED, SKIPPED, SUCCEEDED, SkipReason, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import AtSpec, CronSpec, EverySpec, specs_to_text
from evertick.planning import verify
from evertick.planning.schedules import compile_all, occurrences
from evertick.planning.verify import Lost, Report, verify_ledger

NINE = from_text("2026-03-02T09:00:00Z")
HOURLY = specs_to_text((EverySpec(HOUR),))
HALF_HOURLY = specs_to_text((EverySpec(HOUR // 2),))


def line(hour: float, specs: str = HOURLY) -> ScheduleLine:
    return ScheduleLine("report", NINE + int(hour * HOUR), specs)


def run(hour: float) -> LedgerRow:
    return LedgerRow(RunKey("report", NINE + int(hour * HOUR)), SUCCEEDED, Trigger.SCHEDULER, 0, "a")


def skip(hour: float, reason: SkipReason = SkipReason.OVERLAP) -> LedgerRow:
    return run(hour)._replace(state=SKIPPED, reason=reason)


def gap(first: float, through: float, occurrences: int) -> LedgerRow:
    end = NINE + int(through * HOUR)
    return skip(first, SkipReason.MISSED)._replace(through=end, occurrences=occurrences)


def check(rows: list[LedgerRow], through: float, lines: list[ScheduleLine] | None = None, **more: Any) -> Report:
    record = JobRecord("report", NINE + int(through * HOUR), **more)
    return verify_ledger([line(0)] if lines is None else lines, [record], {}, rows)


def hours(*found: float) -> tuple[int, ...]:
    return tuple(NINE + int(hour * HOUR) for hour in found)


def test_a_ledger_with_a_line_for_every_occurrence_is_sound():
    report = check([run(1), skip(2), run(3)], through=3.5)
    assert report == Report(occurrences=3, runs=2, skips={"overlap": 1})
    assert report.is_sound


def test_a_gap_covers_all_the_occurrences_inside_it():
    report = check([run(1), gap(2, 20, 19), run(21)], through=21)
    assert report == Report(occurrences=21, runs=2, skips={"missed": 19}, gaps=1)


@pytest.mark.parametrize(
    ("rows", "lost"),
    [
        pytest.param([], [(1, 4, 4)], id="all of them, told as one stretch"),
        pytest.param([run(2), run(3), run(4)], [(1, 1, 1)], id="the first"),
        pytest.param([run(1), run(2), run(3)], [(4, 4, 1)], id="the last, at the watermark itself"),
        pytest.param([run(1), run(4)], [(2, 3, 2)], id="two next to each other"),
        pytest.param([run(2), run(4)], [(1, 1, 1), (3, 3, 1)], id="two apart"),
        pytest.param([gap(2, 3, 2), run(4)], [(1, 1, 1)], id="one before a gap"),
        pytest.param([run(1), gap(2, 3, 2)], [(4, 4, 1)], id="one behind a gap"),
    ],
)
def test_an_occurrence_without_a_line_is_lost(rows, lost):
    report = check(rows, through=4)
    assert report.lost == tuple(Lost("report", hours(first)[0], hours(last)[0], count) for first, last, count in lost)
    assert not report.is_sound


@pytest.mark.parametrize(
    "through",
    [
        pytest.param(4.99, id="just before it"),
        pytest.param(0, id="at the beginning"),
        pytest.param(-9, id="long before"),
    ],
)
def test_nothing_is_expected_beyond_the_watermark(through):
    assert check([run(hour) for hour in range(1, 5)], through).lost == ()


def test_the_instant_a_schedule_begins_is_not_its_own():
    assert check([run(1)], through=1).occurrences == 1


def test_the_floor_lifts_the_watermark_of_a_job_that_is_not_held():
    floors = {bucket_of("report"): hours(2)[0]}
    record = JobRecord("report", NINE)
    assert verify_ledger([line(0)], [record], floors, []).lost[0].occurrences == 2
    assert verify_ledger([line(0)], [record._replace(held=True)], floors, []).is_sound


def test_after_an_edit_each_stretch_is_judged_by_its_own_schedule():
    lines = [line(0), line(2, HALF_HOURLY), line(3, "[]"), line(5)]
    rows = [run(1), run(2), run(2.5), run(3), run(6)]
    assert check(rows, through=6, lines=lines) == Report(occurrences=5, runs=5)


def test_only_the_last_edit_at_one_watermark_is_in_force():
    """A job that is held keeps its watermark, and the loop writes each further edit one microsecond later."""
    before = NINE + HOUR - 1  # a blackout begins at ten, when the first edit is due
    edits = [ScheduleLine("report", before, HOURLY), ScheduleLine("report", before + 1, "[]")]
    assert check([], through=3, lines=edits) == Report()
    edits = [ScheduleLine("report", before, "[]"), ScheduleLine("report", before + 1, HOURLY)]
    assert check([run(2)], through=2, lines=edits).lost[0].first == NINE + HOUR


def test_a_job_without_a_record_is_expected_to_have_nothing():
    assert verify_ledger([line(0)], [], {}, []) == Report()


@pytest.mark.parametrize(
    ("rows", "twice"),
    [
        pytest.param([run(1), run(1), run(2)], [1], id="two lines at one instant"),
        pytest.param([gap(1, 3, 3), run(2)], [2], id="a line inside a gap"),
        pytest.param([gap(1, 2, 2), gap(2, 3, 2)], [2], id="two gaps that share an instant"),
        pytest.param([gap(1, 9, 9), run(2), run(3)], [2, 3], id="several inside one gap"),
    ],
)
def test_an_occurrence_with_two_lines_is_a_duplicate(rows, twice):
    assert check(rows, through=1).duplicates == tuple(RunKey("report", at) for at in hours(*twice))


def test_a_requested_run_is_neither_an_occurrence_nor_a_duplicate():
    asked = run(1)._replace(key=RunKey("report", NINE + HOUR, "request"))
    assert check([run(1), asked], through=1) == Report(occurrences=1, runs=1)


def test_a_gap_that_counts_wrong_is_named():
    assert check([gap(1, 4, 3)], through=4).miscounted == (RunKey("report", NINE + HOUR),)


def test_a_gap_that_was_replanned_under_a_newer_schedule_may_count_by_it():
    lines = [line(0), line(4, HALF_HOURLY)]
    assert check([gap(1, 4, 7)], through=4, lines=lines).is_sound


def test_a_line_at_an_instant_that_was_never_due_is_named():
    assert check([run(1), run(1.25)], through=1).strays == (RunKey("report", hours(1.25)[0]),)


@pytest.mark.parametrize(
    "schedules",
    [pytest.param((AtSpec(NINE - HOUR),), id="as written"), pytest.param((EverySpec(3 * HOUR),), id="edited since")],
)
def test_a_one_off_that_was_past_at_first_sight_is_not_a_stray_entry(schedules):
    lines = [line(0, specs_to_text(schedules))]
    assert check([skip(-1, SkipReason.MISSED)], through=1, lines=lines).is_sound


def test_a_lost_century_is_counted_not_listed(monkeypatch):
    monkeypatch.setattr(verify, "occurrences", None)
    every_second = [line(0, specs_to_text((EverySpec(SECOND),)))]
    (lost,) = check([], through=24 * 36_525, lines=every_second).lost
    assert lost.occurrences == 36_525 * DAY // SECOND


def test_a_long_stretch_is_looked_at_piece_by_piece(monkeypatch):
    monkeypatch.setattr(verify, "PIECE", 7)
    rows = [run(hour) for hour in range(1, 101) if hour not in (50, 51)]
    assert sum(lost.occurrences for lost in check(rows, through=100).lost) == 2


def test_what_is_lost_can_be_read():
    single, many = Lost("report", NINE, NINE, 1), Lost("report", NINE, NINE + HOUR, 2)
    assert str(single) == "report: 2026-03-02T09:00:00Z is not in the ledger"
    assert str(many) == "report: 2 from 2026-03-02T09:00:00Z to 2026-03-02T10:00:00Z are not there"


SPECS = st.sampled_from(
    [
        (EverySpec(10 * MINUTE),),
        (EverySpec(7 * MINUTE), EverySpec(10 * MINUTE)),
        (CronSpec("*/15 * * * *", "UTC"), AtSpec(NINE + 5 * HOUR + 1)),
        (CronSpec("7 2 * * *", "Europe/Berlin"), EverySpec(HOUR)),
    ]
)


@given(SPECS, st.integers(0, 12 * 60), st.sets(st.integers(0, 400), max_size=12), st.data())
def test_exactly_what_was_left_out_is_reported(specs, minutes, left_out, data):
    """A sound ledger of single lines and gaps, from which some lines are taken away."""
    end = NINE + minutes * MINUTE
    due = occurrences(compile_all(specs), NINE, end)
    rows: list[LedgerRow] = []
    missing = 0
    at = 0
    while at < len(due):
        length = data.draw(st.sampled_from((1, 1, 1, 3)))
        chunk = due[at : at + length]
        if len(rows) + missing in left_out:
            missing += len(chunk)
        else:
            row = LedgerRow(RunKey("report", chunk[0]), PLANNED, Trigger.SCHEDULER, 0, "a")
            if len(chunk) > 1:
                row = row._replace(state=SKIPPED, through=chunk[-1], occurrences=len(chunk))
            rows.append(row)
        at += length
    lines = [ScheduleLine("report", NINE, specs_to_text(specs))]
    report = verify_ledger(lines, [JobRecord("report", end)], {}, rows)
    assert report.occurrences == len(due)
    assert sum(lost.occurrences for lost in report.lost) == missing
    assert report.duplicates == report.miscounted == report.strays == ()


def test_entries_of_a_job_without_a_schedule_are_counted_and_not_judged():
    report = verify_ledger([], [JobRecord("report", NINE)], {}, [run(0), skip(1)])
    assert (report.is_sound, report.occurrences, report.runs) == (True, 0, 1)
