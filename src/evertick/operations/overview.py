"""The overview: what runs, what failed, what is next, and what was missed in the last day."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evertick.model.instant import DAY, HOUR, Instant, to_text
from evertick.model.lifecycle import ACTIVE, ENDED, SKIPPED, WAITING, JobStatus, RunState, Trigger
from evertick.model.run import LedgerRow
from evertick.operations.context import Shared, View
from evertick.operations.job_queries import JobQueries, on_time_lateness, percentiles
from evertick.operations.jobs import is_running
from evertick.operations.shapes import BAD, Data, outcome_counts, problems_data, success_rate
from evertick.operations.time_queries import TimeQueries
from evertick.store import RunFilter, Tally

SHOWN = 20
LOOKED_AT = 500
LATENESS_OF = 500
"""So many of the last runs say how punctual things are, where no scheduler is there to tell."""


class OverviewQueries(JobQueries, TimeQueries):
    def overview(self) -> Shared:
        view, status = self.view(), self.status()
        fresh = {
            "now": to_text(self.now()),
            "scheduler": {
                "alive": status is not None or self.is_scheduler_running(),
                "lag_seconds": None if status is None else (status.get("planner") or {}).get("lag_seconds"),
            },
        }
        return view.kept("overview", lambda: Shared(self._look_over(view))).told_with(fresh)

    def _look_over(self, view: View) -> Data:
        """All that is told of a view, however many ask for it."""
        now = self.now()
        since = (now - DAY) // HOUR * HOUR
        statuses = Counter(self.standings(view).values())
        tallies = self.store.tally(RunFilter(since=since, until=now + 1), HOUR)
        active = [row for row in view.snapshot.open_runs if is_running(row)]
        # What is on its way to an executor that has not started it waits as well.
        waiting = [row for row in view.snapshot.open_runs if row.state in (WAITING, *ACTIVE) and not is_running(row)]
        return {
            "jobs": {"total": statuses.total(), **{str(one): statuses[one] for one in JobStatus}},
            "running": self.run_rows(active[-SHOWN:][::-1]),
            "running_count": len(active),
            "waiting": self.run_rows(waiting[:SHOWN]),
            "waiting_count": len(waiting),
            "failed": self._latest(BAD, tallies, since, now),
            "missed": self._latest((SKIPPED,), tallies, since, now),
            "next": self.upcoming(count=SHOWN, is_once=True)["items"],
            "day": day_data(tallies),
            "hours": hours_data(tallies, since, now),
            "lateness": self._lateness(self.status(), since, now),
            "problems": problems_data(view.folder.errors),
        }

    def _latest(
        self, states: Collection[RunState], tallies: Sequence[Tally], since: Instant, now: Instant
    ) -> list[Data]:
        hours = [tally.cell for tally in tallies if tally.state in states]
        if not hours:
            return []
        # From the first hour that has any: among many runs, few of a kind would be looked for in all of the day.
        where = RunFilter(states=states, since=since + min(hours) * HOUR, until=since + (max(hours) + 1) * HOUR)
        rows: Sequence[LedgerRow] = self.store.query(where, limit=LOOKED_AT).rows
        # The newest of each job: one that fails every minute would leave no room for others.
        newest = {row.key.job_id: row for row in reversed(rows) if row.key.scheduled_for <= now}
        return self.run_rows(sorted(newest.values(), key=lambda row: -row.key.scheduled_for)[:SHOWN])

    def _lateness(self, status: Mapping[str, Any] | None, since: Instant, now: Instant) -> Data:
        told = None if status is None else status.get("lateness_seconds")
        if isinstance(told, Mapping) and told.get("count"):
            known = {f"p{percent}": seconds for percent, seconds in (told.get("percentiles") or {}).items()}
            known["max"] = told.get("max")
            return {name: known.get(name) for name in percentiles([])}
        where = RunFilter(states=ENDED, triggers=[Trigger.SCHEDULER], since=since, until=now + 1)
        rows = self.store.query(where, limit=LATENESS_OF).rows
        return percentiles(on_time_lateness(rows, self.jobs))


def day_data(tallies: Sequence[Tally]) -> Data:
    """All of a day together: every occurrence counts, also each of a gap."""
    states: Counter[RunState] = Counter()
    skips: Counter[str] = Counter()
    for one in tallies:
        states[one.state] += one.occurrences
        if one.state is SKIPPED:
            skips[str(one.reason)] += one.occurrences
    return {
        **{str(state): states[state] for state in RunState},
        "caught_up": outcome_counts(tallies)["caught_up"],
        "success_rate": success_rate(states),
        "skips": dict(sorted(skips.items())),
    }


def hours_data(tallies: Sequence[Tally], since: Instant, now: Instant) -> list[Data]:
    hours: dict[int, list[Tally]] = defaultdict(list)
    for one in tallies:
        hours[one.cell].append(one)
    return [
        {"at": to_text(since + number * HOUR), **outcome_counts(hours[number])}
        for number in range((now - since) // HOUR + 1)
    ]
