"""The overview: what runs, failed, comes next, and was skipped in the last day."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cache
from itertools import islice

from evertick.model.instant import DAY, HOUR, Instant, to_datetime
from evertick.model.lifecycle import ACTIVE, ENDED, SKIPPED, WAITING, JobStatus, RunState, Trigger
from evertick.model.run import LedgerRow
from evertick.operations.codec import refreshed
from evertick.operations.context import Context, View
from evertick.operations.definition_results import problems_of
from evertick.operations.figures import BAD, on_time_lateness, outcome_counts, percentiles, skip_counts, success_rate
from evertick.operations.job_queries import statuses_of
from evertick.operations.jobs import is_running
from evertick.operations.results.jobs import Percentiles
from evertick.operations.results.runs import Run
from evertick.operations.results.schedule import DayFigures, Hour, JobCounts, Overview, SchedulerState
from evertick.operations.time_queries import upcoming
from evertick.store import RunFilter, Tally, every_line

SHOWN = 20
LOOKED_AT, PAGE = 500, 50
"""How many of the runs that failed or were skipped are read at most, and how many at once."""
LATENESS_OF = 200
"""How many of the last runs the lateness is computed from, where no scheduler reports it."""


def overview(context: Context) -> Overview:
    view = context.view()
    found = view.kept("overview", lambda: _look_over(context, view))
    return refreshed(found, now=to_datetime(context.now()), scheduler=_scheduler(context))


def _scheduler(context: Context) -> SchedulerState:
    report = context.report()
    return SchedulerState(
        alive=report is not None or context.is_scheduler_running(),
        # To a tenth: more digits would make each answer a new one.
        lag_seconds=None if report is None or report.lag_seconds is None else round(report.lag_seconds, 1),
    )


def _look_over(context: Context, view: View) -> Overview:
    now = context.now()
    since = (now - DAY) // HOUR * HOUR
    statuses = Counter(statuses_of(context, view).values())
    tallies = context.store.outcomes([*range(since, now + 1, HOUR), now + 1])
    active = [row for row in view.snapshot.open_runs if is_running(row)]
    # A run that was launched and that its executor has not started yet waits too.
    waiting = [row for row in view.snapshot.open_runs if row.state in (WAITING, *ACTIVE) and not is_running(row)]
    return Overview(
        now=to_datetime(now),
        timezone=context.timezone,
        node=context.node,
        version=_version(),
        scheduler=_scheduler(context),
        jobs=JobCounts(total=statuses.total(), **{str(status): statuses[status] for status in JobStatus}),
        running=context.runs(active[-SHOWN:][::-1]),
        running_count=len(active),
        waiting=context.runs(waiting[:SHOWN]),
        waiting_count=len(waiting),
        failed=_latest(context, BAD, tallies, since, now),
        missed=_latest(context, (SKIPPED,), tallies, since, now),
        next=upcoming(context, SHOWN, once=True).items,
        day=_day(tallies),
        hours=_hours(tallies, since, now),
        lateness=_lateness(context, since, now),
        problems=problems_of(view.folder.errors),
    )


def _latest(
    context: Context, states: Collection[RunState], tallies: Sequence[Tally], since: Instant, now: Instant
) -> tuple[Run, ...]:
    hours = [tally.cell for tally in tallies if tally.state in states]
    if not hours:
        return ()
    # Only the hours that have any: among many runs, a few of one state would be looked for in the whole day.
    where = RunFilter(states=states, since=since + min(hours) * HOUR, until=since + (max(hours) + 1) * HOUR)
    # The newest of each job: a job that fails every minute would leave no room for others.
    newest: dict[str, LedgerRow] = {}
    for row in islice(every_line(context.store, where, PAGE), LOOKED_AT):
        if row.key.scheduled_for <= now:
            newest.setdefault(row.key.job_id, row)
        if len(newest) >= SHOWN:
            break
    return context.runs(newest.values())


def _lateness(context: Context, since: Instant, now: Instant) -> Percentiles:
    report = context.report()
    if report is not None and report.lateness is not None:
        return report.lateness
    where = RunFilter(states=ENDED, triggers=[Trigger.SCHEDULER], since=since, until=now + 1)
    rows = context.store.query(where, limit=LATENESS_OF).rows
    return percentiles(on_time_lateness(rows, context.jobs))


def _day(tallies: Sequence[Tally]) -> DayFigures:
    """Every occurrence counts, also each of a gap."""
    states: Counter[RunState] = Counter()
    for one in tallies:
        states[one.state] += one.occurrences
    return DayFigures(
        **{str(state): states[state] for state in RunState},
        caught_up=outcome_counts(tallies)["caught_up"],
        success_rate=success_rate(states),
        skips=skip_counts(tallies),
    )


def _hours(tallies: Sequence[Tally], since: Instant, now: Instant) -> tuple[Hour, ...]:
    hours: dict[int, list[Tally]] = defaultdict(list)
    for one in tallies:
        hours[one.cell].append(one)
    return tuple(
        Hour(**outcome_counts(hours[number]), at=to_datetime(since + number * HOUR))
        for number in range((now - since) // HOUR + 1)
    )


@cache
def _version() -> str:
    from importlib.metadata import version  # not for every command: it takes longer to import than all results

    return version("evertick")
