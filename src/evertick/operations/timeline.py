"""The timeline: every job's past and future runs in a span of time, as lanes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from evertick.errors import InvalidArgument
from evertick.model.instant import DAY, Instant, to_text
from evertick.model.lifecycle import ACTIVE, JobStatus, RunState
from evertick.model.run import LedgerRow
from evertick.model.schedule import ScheduleSpec
from evertick.operations.context import Shared, View, bounded
from evertick.operations.data import text_or_none
from evertick.operations.job_queries import JobQueries, word_of
from evertick.operations.jobs import is_held, name_of, zone_of
from evertick.operations.shapes import Data, gap_data, mark_data, outcome_counts
from evertick.planning.schedules import compile_all, count_of, occurrences
from evertick.store import Page, RunFilter, Tally

LANES_MAX = 200
CELLS_MAX = 2_000
GAPS_MAX = 2_000
FUTURE_US = 400 * DAY
"""What is to come of several schedules of one job is told this far: counting them takes as long as they are due."""
ROWS_MAX = 10_000
"""Lines of all lanes together that are told one by one."""
KEPT_MAX = 12
"""Beside so many answers none is kept with a view: one may have megabytes."""

_FROM_GOOD_TO_BAD = "succeeded skipped cancelled planned waiting launching running retrying lost timed_out failed"
_BADNESS = {RunState(word): number for number, word in enumerate(_FROM_GOOD_TO_BAD.split())}


class TimelineQueries(JobQueries):
    def timeline(
        self,
        start: str,
        end: str,
        offset: int = 0,
        limit: int = 50,
        search: str = "",
        tags: Collection[str] = (),
        states: Collection[str] = (),
        cells: int = 240,
    ) -> Shared:
        """Lanes of jobs, by their ids, from a time up to another: what was, what was left out, what is to come.

        A lane with at most `cells` lines has a mark for each; of a fuller one it is told what each of so many cells
        of time holds.
        """
        bounded("offset", offset, 0, 10_000_000)
        bounded("limit", limit, 1, LANES_MAX)
        bounded("cells", cells, 1, CELLS_MAX)
        since, until = self.moment(start), self.moment(end)
        assert since is not None
        assert until is not None
        if since >= until:
            raise InvalidArgument(f"the timeline from {start} to {end} has no length.", hint="Write the earlier first.")
        wanted, view = frozenset(word_of("status", word, list(JobStatus)) for word in states), self.view()
        # Pages that look at the same time ask for the same stretch of it.
        asked = ("timeline", since, until, offset, limit, search, frozenset(tags), wanted, cells)

        def draw() -> Shared:
            found = self.standings(view, search, tags).items()
            statuses = {job_id: status for job_id, status in found if not wanted or status in wanted}
            lanes = list(islice(statuses, offset, offset + limit))
            known = {
                "from": to_text(since),
                "to": to_text(until),
                "since": text_or_none(self._since()),
                "total": len(statuses),
                "offset": offset,
            }
            return Shared({**known, "lanes": self._lanes(view, lanes, statuses, since, until, cells)})

        return view.kept(asked, draw, most=KEPT_MAX).told_with({"now": to_text(self.now())})

    def _lanes(
        self,
        view: View,
        lanes: Sequence[str],
        statuses: Mapping[str, JobStatus],
        since: Instant,
        until: Instant,
        cells: int,
    ) -> list[Data]:
        now = self.now()
        drawn, counted = self._past(view, lanes, since, until, cells)
        gaps, specs = self._gaps(lanes, since, until), self.all_specs(lanes)
        is_running = self.is_scheduler_running() if any(view.records.get(job_id) for job_id in lanes) else True
        found = []
        for job_id in lanes:
            self._breathe()
            lane = self._lane(view, job_id, statuses[job_id], specs[job_id], now, is_running=is_running)
            lane |= {
                "marks": [mark_data(row) for row in drawn[job_id]],
                "cells": counted[job_id],
                "gaps": gaps[job_id],
            }
            found.append(lane | _future(view, job_id, specs[job_id], max(since - 1, now), until - 1, cells))
        return found

    def _since(self) -> Instant | None:
        """From when on there is anything in the ledger."""
        first = self.store.query(RunFilter(oldest_first=True), limit=1).rows
        return first[0].key.scheduled_for if first else None

    def _lane(
        self,
        view: View,
        job_id: str,
        status: JobStatus,
        specs: tuple[ScheduleSpec, ...],
        now: Instant,
        *,
        is_running: bool,
    ) -> Data:
        job, record = view.jobs.get(job_id), view.records.get(job_id)
        watermark, held = view.watermark(job_id), is_held(job, record)
        is_undecided = watermark is not None and watermark < now and (held or not is_running)
        return {
            "job": job_id,
            "name": name_of(job_id, job),
            "description": job.description if job else "",
            "tags": list(job.tags) if job else [],
            "status": str(status),
            "timezone": zone_of(job, specs),
            "next_at": None if held else text_or_none(self.horizon.next_of(job_id, specs, now)),
            "watermark": text_or_none(watermark),
            "undecided_since": text_or_none(watermark) if is_undecided else None,
        }

    def _past(
        self, view: View, lanes: Sequence[str], since: Instant, until: Instant, cells: int
    ) -> tuple[dict[str, list[LedgerRow]], dict[str, list[Data]]]:
        """Each line of lanes that have few, and what each cell of time holds in the others."""
        drawn: dict[str, list[LedgerRow]] = defaultdict(list)
        found: dict[str, list[Data]] = defaultdict(list)
        if not lanes:
            return drawn, found
        where = RunFilter(job_ids=lanes, since=since, until=until, gaps=False, oldest_first=True)
        # Counted before they are read: of lanes too full to draw, lines by the thousand would be read for nothing.
        lines: Counter[str] = Counter()
        for one in self.store.tally(where, until - since, by_job=True):
            lines[one.job_id] += one.lines
        few = _drawn(lines, cells)
        page = self.store.query(replace(where, job_ids=few), limit=ROWS_MAX) if few else Page((), None)
        if page.after is not None:  # more came meanwhile
            few, page = [], Page((), None)
        for row in page.rows:
            drawn[row.key.job_id].append(row)
        many = sorted(lines.keys() - set(few))
        if many:
            width_us = max(-(-(until - since) // cells), 1)
            by_lane: dict[str, dict[int, list[Tally]]] = defaultdict(lambda: defaultdict(list))
            for one in self.store.tally(replace(where, job_ids=many), width_us, by_job=True):
                by_lane[one.job_id][one.cell].append(one)
            for job_id, tallies in by_lane.items():
                found[job_id] = [
                    _cell(since + cell * width_us, width_us, some) for cell, some in sorted(tallies.items())
                ]
        for job_id in lanes:
            earlier = [row for row in view.of(job_id, *ACTIVE) if row.key.scheduled_for < since]
            if earlier:
                # What began before and goes on is part of the picture.
                drawn[job_id] = [*earlier, *drawn[job_id]]
        return drawn, found

    def _gaps(self, lanes: Sequence[str], since: Instant, until: Instant) -> dict[str, list[Data]]:
        found: dict[str, list[Data]] = defaultdict(list)
        if lanes:
            where = RunFilter(job_ids=lanes, since=since, until=until, gaps=True)
            for row in reversed(self.store.query(where, limit=GAPS_MAX).rows):
                found[row.key.job_id].append(gap_data(row))
        return found


def _drawn(lines: Mapping[str, int], cells: int) -> list[str]:
    """The lanes whose lines are told one by one, the emptiest first, as long as all of them fit into a page."""
    found, total = [], 0
    for job_id, count in sorted(lines.items(), key=lambda item: item[1]):
        total += count
        if count > cells or total > ROWS_MAX:
            break
        found.append(job_id)
    return found


def _future(view: View, job_id: str, specs: Sequence[ScheduleSpec], after: Instant, end: Instant, cells: int) -> Data:
    """When a job is due in what is to come: one by one, or how often in each cell."""
    if is_held(view.jobs.get(job_id), view.records.get(job_id)):
        return {"future": [], "future_cells": []}
    start = max(after, view.watermark(job_id) or 0)
    schedules = compile_all(specs)
    if len(schedules) > 1:
        end = min(end, after + FUTURE_US)
    count = count_of(schedules, start, end) if start < end else 0
    if count <= cells:
        return {
            "future": [to_text(at) for at in occurrences(schedules, start, end)] if count else [],
            "future_cells": [],
        }
    # As many as a screen can tell apart where it is this full: each is counted by itself.
    width_us = max((end - start) // min(cells, 60), 1)
    bounds = [(at, min(at + width_us, end)) for at in range(start, end, width_us)]
    counted = [(low, high, count_of(schedules, low, high)) for low, high in bounds]
    return {
        "future": [],
        "future_cells": [
            {"at": to_text(low), "through": to_text(high), "count": number} for low, high, number in counted if number
        ],
    }


def _cell(at: Instant, width_us: int, tallies: Sequence[Tally]) -> Data:
    """What one cell of time holds."""
    return {
        "at": to_text(at),
        "through": to_text(at + width_us),
        **outcome_counts(tallies),
        "worst": str(max((one.state for one in tallies), key=_BADNESS.__getitem__)),
        "longest_seconds": _most([one.longest_us for one in tallies]),
        "latest_seconds": _most([one.latest_us for one in tallies]),
    }


def _most(values: Sequence[int | None]) -> float | None:
    found = [value for value in values if value is not None]
    return max(found) / 1_000_000 if found else None
