"""What people see at once: every job in time, past and future, and how things stand today."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from evertick.errors import DefinitionError
from evertick.model.instant import DAY, HOUR, SECOND, Instant, to_text
from evertick.model.lifecycle import (
    ACTIVE,
    ENDED,
    FAILED,
    LOST,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    JobStatus,
    RunState,
)
from evertick.model.schedule import ScheduleSpec
from evertick.operations.data import run_data
from evertick.operations.desk_jobs import JobsDesk, word_of
from evertick.operations.desk_scene import View, bounded
from evertick.operations.desk_shapes import Data, counts_of, gap_data, mark_data, problems_data
from evertick.operations.desk_time import TimeDesk
from evertick.operations.jobs import is_held, zone_of
from evertick.operations.preview import why_held
from evertick.planning.schedules import compile_all, count_of, occurrences
from evertick.store import RunFilter, Tally

LANES_MAX = 200
MARKS_MAX = 4_000
"""Lines of all lanes together; of more, cells of time are told instead."""
CELLS = 240
AHEAD_MAX = 200
"""Future times of a lane one by one; of more, their number."""
SHOWN = 10
BAD = (FAILED, TIMED_OUT, LOST)


class RibbonDesk(JobsDesk, TimeDesk):
    def ribbon(
        self,
        start: str,
        end: str,
        offset: int = 0,
        limit: int = 50,
        search: str = "",
        tags: Collection[str] = (),
        states: Collection[str] = (),
    ) -> Data:
        """Lanes of jobs from a time up to another: what was, as marks or counted in cells; gaps; what is to come."""
        bounded("offset", offset, 0, 10_000_000)
        bounded("limit", limit, 1, LANES_MAX)
        since, until, now = self.moment(start), self.moment(end), self.now()
        assert since is not None
        assert until is not None
        if since >= until:
            raise DefinitionError(f"the ribbon from {start} to {end} has no length.", hint="Write the earlier first.")
        wanted, view = {word_of("status", word, list(JobStatus)) for word in states}, self.view()
        statuses = {
            job_id: status
            for job_id, status in self.standings(view, search, tags).items()
            if not wanted or status in wanted
        }
        lanes = list(islice(statuses, offset, offset + limit))
        marks, cells, width_us = self._past(lanes, since, until)
        gaps, specs = self._gaps(lanes, since, until), self.all_specs(lanes)
        return {
            "start": to_text(since),
            "end": to_text(until),
            "now": to_text(now),
            "total": len(statuses),
            "offset": offset,
            "cell_seconds": width_us / SECOND if width_us else None,
            "lanes": [
                {
                    "job": job_id,
                    "name": view.jobs[job_id].name or job_id if job_id in view.jobs else job_id,
                    "status": str(statuses[job_id]),
                    "timezone": zone_of(view.jobs.get(job_id), specs[job_id]),
                    "marks": marks[job_id],
                    "cells": cells[job_id],
                    "gaps": gaps[job_id],
                    **_future(view, job_id, specs[job_id], max(since - 1, now), until - 1),
                }
                for job_id in lanes
            ],
        }

    def overview(self) -> Data:
        """What runs, what failed, what is next, what was missed: the last day at a glance."""
        now, view = self.now(), self.view()
        statuses, snapshot = self.standings(view), view.snapshot
        tallies = self.store.tally(RunFilter(since=_whole_hour(now - DAY), until=now), HOUR)
        active = [row for row in snapshot.open_runs if row.state in ACTIVE]
        waiting = [row for row in snapshot.open_runs if row.state is WAITING]
        return {
            "now": to_text(now),
            "is_scheduler_running": self.is_scheduler_running(),
            "scheduler": self.status(),
            "jobs": {"total": len(statuses), "statuses": dict(sorted(Counter(map(str, statuses.values())).items()))},
            "active": {"total": len(active), "items": [run_data(row) for row in active[-SHOWN:][::-1]]},
            "waiting": {"total": len(waiting), "items": [run_data(row) for row in waiting[:SHOWN]]},
            "day": day_data(tallies, _whole_hour(now - DAY), now),
            "failed": self._latest(BAD, now) if _has(tallies, BAD) else [],
            "skipped": self._latest((SKIPPED,), now) if _has(tallies, (SKIPPED,)) else [],
            "next": self.upcoming(count=SHOWN)["items"],
            "problems": problems_data(view.folder.errors),
        }

    def _latest(self, states: Sequence[RunState], now: Instant) -> list[Data]:
        where = RunFilter(states=states, since=_whole_hour(now - DAY), until=now + 1)
        return [run_data(row) for row in self.store.query(where, limit=SHOWN).rows]

    def _past(
        self, lanes: Sequence[str], since: Instant, until: Instant
    ) -> tuple[dict[str, list[Data]], dict[str, list[Data]], int]:
        """Each line as a mark where there are few, else what each cell of time holds; and how wide a cell is."""
        marks: dict[str, list[Data]] = defaultdict(list)
        cells: dict[str, list[Data]] = defaultdict(list)
        if not lanes:
            return marks, cells, 0
        where = RunFilter(job_ids=lanes, since=since, until=until, gaps=False, oldest_first=True)
        width_us = max((until - since) // CELLS, 1)
        counted = self.store.tally(where, width_us, by_job=True)
        if sum(one.lines for one in counted) <= MARKS_MAX:
            for row in self.store.query(where, limit=MARKS_MAX).rows:
                marks[row.key.job_id].append(mark_data(row))
            return marks, cells, 0
        grouped: dict[tuple[str, int], list[Tally]] = defaultdict(list)
        for one in counted:
            grouped[one.job_id, one.cell].append(one)
        for (job_id, cell), tallies in grouped.items():
            cells[job_id].append(cell_data(since + cell * width_us, width_us, tallies))
        return marks, cells, width_us

    def _gaps(self, lanes: Sequence[str], since: Instant, until: Instant) -> dict[str, list[Data]]:
        found: dict[str, list[Data]] = defaultdict(list)
        if lanes:
            where = RunFilter(job_ids=lanes, since=since, until=until, gaps=True, oldest_first=True)
            for row in self.store.query(where, limit=MARKS_MAX).rows:
                found[row.key.job_id].append(gap_data(row))
        return found


def _future(view: View, job_id: str, specs: Sequence[ScheduleSpec], after: Instant, end: Instant) -> Data:
    """When a job is due in what is to come: one by one, or how often."""
    record, job = view.records.get(job_id), view.jobs.get(job_id)
    reason, _ = why_held(job, record)
    held = None if reason is None else str(reason)
    if is_held(job, record) and held is None:
        return {"ahead": [], "ahead_count": 0, "held": "error"}
    start = max(after, view.watermark(job_id) or 0)
    schedules = compile_all(specs)
    count = count_of(schedules, start, end) if start < end else 0
    times = [to_text(at) for at in occurrences(schedules, start, end)] if 0 < count <= AHEAD_MAX else []
    return {"ahead": times, "ahead_count": count, "held": held}


def cell_data(at: Instant, width_us: int, tallies: Sequence[Tally]) -> Data:
    """What one cell of time holds."""
    states: Counter[RunState] = Counter()
    triggers: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for one in tallies:
        states[one.state] += one.lines
        triggers[str(one.trigger)] += one.lines
        if one.reason is not None:
            reasons[str(one.reason)] += one.lines
    return {
        "at": to_text(at),
        "until": to_text(at + width_us),
        "count": sum(states.values()),
        "states": counts_of(states),
        "triggers": dict(sorted(triggers.items())),
        "reasons": dict(sorted(reasons.items())),
        "longest_seconds": _most(one.longest_us for one in tallies),
        "latest_seconds": _most(one.latest_us for one in tallies),
    }


def day_data(tallies: Sequence[Tally], since: Instant, now: Instant) -> Data:
    """A day hour by hour, and all of it together."""
    states: Counter[RunState] = Counter()
    skips: Counter[str] = Counter()
    hours: dict[int, Counter[RunState]] = defaultdict(Counter)
    for one in tallies:
        states[one.state] += one.occurrences
        hours[one.cell][one.state] += one.occurrences
        if one.state is SKIPPED:
            skips[str(one.reason)] += one.occurrences
    ended = sum(states[state] for state in ENDED)
    return {
        "since": to_text(since),
        "states": counts_of(states),
        "skips": dict(sorted(skips.items())),
        "success_rate": states[SUCCEEDED] / ended if ended else None,
        "latest_seconds": _most(one.latest_us for one in tallies if one.trigger == "scheduler"),
        "hours": [
            {"at": to_text(since + number * HOUR), "states": counts_of(hours[number])}
            for number in range((now - since) // HOUR + 1)
        ],
    }


def _most(values: Any) -> float | None:
    found = [value for value in values if value is not None]
    return max(found) / SECOND if found else None


def _has(tallies: Sequence[Tally], states: Collection[RunState]) -> bool:
    return any(one.state in states for one in tallies)


def _whole_hour(at: Instant) -> Instant:
    return at // HOUR * HOUR
