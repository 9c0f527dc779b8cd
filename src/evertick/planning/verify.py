"""Is every occurrence of every job in the ledger, once?

It relies on nothing that the planner remembers: it reads the schedules that were in force, the watermarks and the
entries, computes every occurrence again, and each must have its own entry or be inside a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evertick.model.instant import Instant, to_text
from evertick.model.ledger import JobRecord, ScheduleLine, WrongCount, bucket_of
from evertick.model.lifecycle import SKIPPED
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import specs_from_text
from evertick.planning.schedules import (
    Schedule,
    compile_all,
    compile_occurrences,
    count_of,
    first_of,
    occurrences,
    previous_of,
)

PIECE = 50_000
"""Occurrences processed together: a year of a job that is due every second must not fill the memory."""


class Stretch(NamedTuple):
    """The occurrences of `schedules` in `(start, end]` must be in the ledger."""

    start: Instant
    end: Instant
    schedules: tuple[Schedule, ...]


class Lost(NamedTuple):
    """Consecutive occurrences without an entry."""

    job_id: str
    first: Instant
    through: Instant
    occurrences: int

    def __str__(self) -> str:
        if self.occurrences == 1:
            return f"{self.job_id}: {to_text(self.first)} is not in the ledger"
        return f"{self.job_id}: {self.occurrences} from {to_text(self.first)} to {to_text(self.through)} are not there"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of the check."""

    occurrences: int = 0
    """The number of occurrences of all schedules, up to the watermarks."""
    runs: int = 0
    """Entries of the schedule that became a run, or will."""
    skips: Mapping[str, int] = field(default_factory=dict)
    """Skipped occurrences, by reason; those inside gaps are counted individually."""
    gaps: int = 0
    lost: tuple[Lost, ...] = ()
    duplicates: tuple[RunKey, ...] = ()
    """Entries for an occurrence that already has one."""
    miscounted: tuple[RunKey, ...] = ()
    """Gaps whose number of occurrences differs from their schedule."""
    strays: tuple[RunKey, ...] = ()
    """Runs for an instant that no known schedule of the job has."""
    stuck: tuple[RunKey, ...] = ()
    """Open entries that are overdue, wait for nothing that can be named, and do not move."""
    wrong_counts: tuple[WrongCount, ...] = ()
    """Hourly counts that differ from the entries."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is lost, decided twice or stuck, and all counts are right."""
        decided = self.lost or self.duplicates or self.miscounted or self.strays
        return not (decided or self.stuck or self.wrong_counts)


def verify_ledger(
    schedules: Iterable[ScheduleLine],
    jobs: Iterable[JobRecord],
    floors: Mapping[int, Instant],
    rows: Iterable[LedgerRow],
) -> Report:
    """Compare what should be in the ledger with what is; requested runs are ignored."""
    lines_of: defaultdict[str, list[ScheduleLine]] = defaultdict(list)
    for line in schedules:
        lines_of[line.job_id].append(line)
    rows_of: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        if not row.key.origin:
            rows_of[row.key.job_id].append(row)
    watermarks = {job.job_id: watermark_of(job, floors) for job in jobs}

    expected = runs = gaps = 0
    skips: Counter[str] = Counter()
    lost: list[Lost] = []
    duplicates: list[RunKey] = []
    miscounted: list[RunKey] = []
    strays: list[RunKey] = []
    for job_id in sorted({*lines_of, *rows_of}):
        lines, found = lines_of[job_id], sorted(rows_of[job_id], key=lambda row: row.key)
        cover = Coverage(found)
        duplicates += duplicates_of(found)
        for stretch in stretches(lines, watermarks.get(job_id)):
            expected += count_of(stretch.schedules, stretch.start, stretch.end)
            lost += uncovered(job_id, stretch, cover)
        ordered = sorted(lines, key=lambda line: line.since)
        said = [_schedules_of(line) for line in ordered]
        runnable = [_runnable_of(line) for line in ordered]
        for row in found:
            is_gap = row.through is not None
            gaps += is_gap
            if row.state is SKIPPED:
                skips[row.reason or "unknown"] += row.occurrences
            else:
                runs += 1
            # A run must not be on a day that the calendar in force excluded.
            if not any(_is_due(one, row.key.scheduled_for) for one in (runnable if row.attempt else said)):
                # Before the first line nothing can be judged. A skip did nothing: it may be left of a schedule that
                # was written and edited again before it came into force.
                if row.state is not SKIPPED and any(line.since < row.key.scheduled_for for line in lines):
                    strays.append(row.key)
            elif is_gap and not _is_counted_right(row, lines, said):
                miscounted.append(row.key)
    return Report(
        expected,
        runs,
        dict(sorted(skips.items())),
        gaps,
        tuple(lost),
        tuple(duplicates),
        tuple(miscounted),
        tuple(strays),
    )


def watermark_of(job: JobRecord, floors: Mapping[int, Instant]) -> Instant:
    """Up to where a job's occurrences must be in the ledger."""
    if job.held:
        return job.watermark
    return max(job.watermark, floors.get(bucket_of(job.job_id), job.watermark))


def stretches(lines: Iterable[ScheduleLine], watermark: Instant | None) -> Iterator[Stretch]:
    """Which schedules were in force when: each line until the next one begins, the last up to the watermark."""
    if watermark is None:
        return
    ordered = sorted(lines, key=lambda line: line.since)
    ends = [*(line.since for line in ordered[1:]), watermark]
    # While a job is held its watermark stays where it is: the loop writes each further edit one microsecond later, and
    # only the last one is ever planned. A blackout may begin, and an occurrence be due, within that microsecond.
    start: Instant | None = None
    # Not strict: a ledger may have entries of a job and no schedule of it.
    for line, end in zip(ordered, ends, strict=False):
        start = line.since if start is None else start
        if line is not ordered[-1] and end - line.since == 1:
            continue
        if start < min(end, watermark):
            yield Stretch(start, min(end, watermark), _schedules_of(line))
        start = None


class Coverage:
    """What the lines of one job cover."""

    __slots__ = ("_ends", "_starts", "instants", "ordered")

    def __init__(self, rows: Sequence[LedgerRow]) -> None:
        """`rows` are sorted by time."""
        self.ordered = [row.key.scheduled_for for row in rows]
        self.instants = set(self.ordered)
        gaps = [(row.key.scheduled_for, row.through) for row in rows if row.through is not None]
        self._starts = [first for first, _ in gaps]
        self._ends = [through for _, through in gaps]

    def gaps(self, start: Instant, end: Instant) -> Iterator[tuple[Instant, Instant]]:
        """Gaps that reach into `(start, end]`, in order; gaps of a sound ledger do not overlap."""
        number = max(bisect_right(self._starts, start) - 1, 0)
        while number < len(self._starts) and self._starts[number] <= end:
            if self._ends[number] > start:
                yield self._starts[number], self._ends[number]
            number += 1

    def has_line(self, start: Instant, end: Instant) -> bool:
        """Whether any line begins in `(start, end]`."""
        return bisect_right(self.ordered, start) < bisect_right(self.ordered, end)


def uncovered(job_id: str, stretch: Stretch, cover: Coverage) -> list[Lost]:
    """The occurrences of a stretch that no line covers."""
    if not stretch.schedules:
        return []
    lost: list[Lost] = []
    cursor = stretch.start
    for first, through in [*cover.gaps(stretch.start, stretch.end), (stretch.end + 1, stretch.end + 1)]:
        if cursor < first - 1:
            lost += _without_line(job_id, stretch.schedules, cursor, min(first - 1, stretch.end), cover)
        cursor = max(cursor, through)
    return lost


def _without_line(
    job_id: str, schedules: tuple[Schedule, ...], start: Instant, end: Instant, cover: Coverage
) -> Iterator[Lost]:
    """The same between two gaps, piece by piece."""
    while start < end:
        count = count_of(schedules, start, end)
        if not count:
            return
        if not cover.has_line(start, end):
            # Counted, not listed: reporting that a year is missing must not take a year.
            first, last = first_of(schedules, start, end), previous_of(schedules, end + 1)
            assert first is not None
            assert last is not None
            yield Lost(job_id, first, last, count)
            return
        piece_end = end if count <= PIECE else start + max((end - start) * PIECE // count, 1)
        run: list[Instant] = []
        for at in occurrences(schedules, start, piece_end):
            if at not in cover.instants:
                run.append(at)
            elif run:
                yield Lost(job_id, run[0], run[-1], len(run))
                run = []
        if run:
            yield Lost(job_id, run[0], run[-1], len(run))
        start = piece_end


def duplicates_of(rows: Sequence[LedgerRow]) -> list[RunKey]:
    """Lines of one job, sorted by time, that cover an instant which an earlier one covers."""
    found: list[RunKey] = []
    reached: Instant | None = None
    for row in rows:
        if reached is not None and row.key.scheduled_for <= reached:
            found.append(row.key)
        end = row.key.scheduled_for if row.through is None else row.through
        reached = end if reached is None else max(reached, end)
    return found


def _is_counted_right(row: LedgerRow, lines: Sequence[ScheduleLine], said: Sequence[tuple[Schedule, ...]]) -> bool:
    """Whether a gap has as many occurrences as it says, by the schedules in force, or by a replanned one.

    After an edit, the period since the earliest waiting run is planned again, under the new schedule.
    """
    start, end = row.key.scheduled_for - 1, row.through
    assert end is not None
    in_force = sum(
        count_of(stretch.schedules, max(stretch.start, start), min(stretch.end, end))
        for stretch in stretches(lines, end)
        if stretch.end > start
    )
    return row.occurrences == in_force or any(row.occurrences == count_of(one, start, end) for one in said)


def _is_due(schedules: tuple[Schedule, ...], at: Instant) -> bool:
    return first_of(schedules, at - 1, at) is not None


def _schedules_of(line: ScheduleLine) -> tuple[Schedule, ...]:
    return compile_occurrences(specs_from_text(line.specs)) if line.specs else ()


def _runnable_of(line: ScheduleLine) -> tuple[Schedule, ...]:
    return compile_all(specs_from_text(line.specs)) if line.specs else ()
