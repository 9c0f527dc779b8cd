"""`evertick catchup`: run the occurrences that a job missed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from evertick.cli import times
from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Row, Table, counted, note, output_option, show, show_lines, show_text
from evertick.cli.target import Target
from evertick.cli.target_options import target_options
from evertick.cli.times import local_text, whole_second_text
from evertick.model.instant import DAY, SECOND, from_datetime, to_datetime, to_text
from evertick.model.lifecycle import RunState, SkipReason
from evertick.model.policy import Missed

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.requests import Backfill, Catchup
    from evertick.operations.results.runs import Run

KEEPS = ("all", "latest", "first", "none")
LEFT_OUT = frozenset({SkipReason.MISSED, SkipReason.PAUSED, SkipReason.CAP, SkipReason.DISABLED})
"""Skip reasons of occurrences that a catch-up can run."""
AT_START = frozenset({SkipReason.OVERLAP, SkipReason.SUPERSEDED})
"""Further ones, of occurrences that were missed: the policy kept another of the same stretch."""
RERUN_STATES = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.CANCELLED, RunState.LOST, RunState.SKIPPED})
"""States for which a backfill of missing occurrences makes a new run."""
STRETCHES_MAX = 20


class Stretch(NamedTuple):
    """Missed occurrences that the scheduler skipped."""

    first: int
    last: int
    occurrences: int


@click.command()
@click.argument("job", required=False, shell_complete=complete_jobs)
@click.option("--dry-run", is_flag=True, help="Show what would run; change nothing.")
@click.option(
    "--keep", type=click.Choice(KEEPS), help="Which missed occurrences to run; default: the job's catch-up rule."
)
@click.option("--since", metavar="TIME", help="How far back to look; default: the job's catchupWindow, else one day.")
@target_options
@output_option
def catchup(job: str | None, dry_run: bool, keep: str | None, since: str | None, target: Target, output: str) -> None:
    """Run the occurrences that a job missed.

    The scheduler catches up by itself when it starts and when a job is resumed, as the job's catch-up rule says. This
    command runs, as a backfill, what the scheduler skipped then: occurrences that were missed, paused, disabled or
    above the cap. A paused job is resumed. The next start decides about occurrences that no scheduler has seen yet;
    --dry-run shows how, without JOB for all jobs.

    \b
    Examples:
      evertick catchup --dry-run
      evertick catchup --dry-run report
      evertick catchup report --keep latest
      evertick catchup report --keep all --since 2026-03-01
    """
    target.require_folder()
    override = Missed(keep) if keep else None
    if job is None:
        if not dry_run:
            raise click.UsageError("Name a JOB, or add --dry-run to see what all jobs missed.")
        _preview_all(target, override, since, output)
        return
    with target.operations() as operations:
        found = operations.catchup(job, override)
        stretches = [] if found.paused_at else _settled(operations, job, since)
        kept = _chosen(stretches, keep or _policy(operations, job))
        left_out = sum(one.occurrences for one in stretches)
        if dry_run:
            _preview(found, kept, output)
            _show_preview(found, left_out, len(kept), job, keep)
            return
        if found.paused_at:
            _resume(operations, job, override, output)
            return
        requests = [asked for stretch in kept if (asked := _run(operations, job, stretch)).request]
        rows = [{"request": one.request, "is_answered": one.is_answered, "chosen": one.chosen} for one in requests]
        chosen = sum(one.chosen for one in requests)
        show(
            output,
            {"job": job, "keep": keep or _policy(operations, job), "chosen": chosen, "requests": rows},
            lambda: show_lines(str(one.request) for one in requests),
            rows=rows,
            name="request",
        )
    if requests:
        note(f"{counted(chosen, 'run')}. Next: evertick history {job} --trigger backfill")
    else:
        _show_preview(found, left_out, len(kept), job, keep)


def _preview_all(target: Target, override: Missed | None, since: str | None, output: str) -> None:
    from evertick.cli.requests import all_pages

    with target.operations() as operations:
        jobs = all_pages(lambda size, mark: operations.list_jobs(limit=size, after=mark)).items
        scheduled = [job.job for job in jobs if job.schedules]
        rows = [_summary(operations, job, override, since) for job in scheduled]
    affected = [row for row in rows if any((row["runs"], row["skips"], row["waiting"], row["skipped_earlier"]))]
    columns = (
        Column("Job", "job", "bold cyan"),
        Column("Would run", "runs", right=True),
        Column("Would skip", "skips", right=True),
        Column("Waiting", "waiting", right=True),
        Column("Skipped earlier", "skipped_earlier", right=True),
        Column("Planned through (UTC)", _planned_through, "dim", optional=True),
    )
    show(output, affected, Table(columns, affected))
    if not affected:
        note(f"None of {counted(len(scheduled), 'scheduled job')} has missed an occurrence.")


def _planned_through(row: Row) -> str:
    at = row["watermark"]
    return whole_second_text(at, "UTC") if isinstance(at, datetime) else ""


def _summary(operations: Operations, job: str, override: Missed | None, since: str | None) -> Row:
    found = operations.catchup(job, override)
    earlier = [] if found.paused_at else _settled(operations, job, since)
    return {
        "job": job,
        "runs": found.kept,
        "skips": found.skipped,
        "waiting": len(found.backlog),
        "skipped_earlier": sum(one.occurrences for one in earlier),
        "watermark": found.watermark,
        "paused_at": found.paused_at,
        "blackout_until": found.blackout_until,
    }


def _settled(operations: Operations, job: str, since: str | None) -> list[Stretch]:
    """What the scheduler has skipped, oldest first.

    Adjacent entries form one stretch: a backfill starts its runs one after another, while several backfills would run
    in parallel.
    """
    from evertick.operations.protocol import RunQuery

    start = since or to_text(times.now() - _window(operations, job))
    query = RunQuery(job, since=start, until=to_datetime(times.now() + SECOND))
    found: list[Stretch] = []
    is_adjacent = False
    for run in reversed(operations.list_runs(query, 1_000).items):
        if run.request is not None or run.state not in RERUN_STATES:
            continue
        is_left_out = run.reason in LEFT_OUT or (run.reason in AT_START and run.missed_by is not None)
        if is_left_out:
            one = _stretch(run)
            found[-1:] = [_joined(found[-1], one)] if found and is_adjacent else [*found[-1:], one]
        is_adjacent = is_left_out
    return found


def _stretch(run: Run) -> Stretch:
    first, last = from_datetime(run.scheduled_for), from_datetime(run.through or run.scheduled_for)
    return Stretch(first, last, run.occurrences)


def _joined(one: Stretch, other: Stretch) -> Stretch:
    return Stretch(one.first, max(one.last, other.last), one.occurrences + other.occurrences)


def _rules(operations: Operations, job: str) -> dict[str, str]:
    return {rule.name: rule.value for rule in operations.explain(job)}


def _policy(operations: Operations, job: str) -> str:
    return _rules(operations, job)["missed"]


def _window(operations: Operations, job: str) -> int:
    from evertick.errors import DurationError
    from evertick.model.duration import parse_duration

    try:
        return parse_duration(_rules(operations, job)["catchupWindow"])
    except DurationError:
        return DAY  # the job has no window


def _chosen(stretches: list[Stretch], keep: str) -> list[Stretch]:
    if not stretches or keep == "none":
        return []
    if keep == "latest":
        return [Stretch(stretches[-1].last, stretches[-1].last, 1)]
    if keep == "first":
        return [Stretch(stretches[0].first, stretches[0].first, 1)]
    return stretches[-STRETCHES_MAX:]


def _run(operations: Operations, job: str, stretch: Stretch) -> Backfill:
    from evertick.cli.requests import ask

    # The end is exclusive, and read in whole seconds.
    start, end = to_datetime(stretch.first), to_datetime(stretch.last // SECOND * SECOND + SECOND)
    return ask(lambda request, wait: operations.backfill(job, start, end, request_id=request, wait_seconds=wait))


def _resume(operations: Operations, job: str, keep: Missed | None, output: str) -> None:
    from evertick.cli.requests import ask

    asked = ask(lambda request, wait: operations.resume(job, keep, request_id=request, wait_seconds=wait))
    show(output, asked, lambda: show_text(f"Resumed {job}." if asked.is_answered else asked.request))
    note("The job was paused. It is resumed, and the pause is caught up.")


def _row(one: Stretch, zone: str) -> Row:
    return {
        "scheduled_for": to_text(one.first),
        "local": local_text(one.first, zone),
        "through": to_text(one.last) if one.last != one.first else None,
        "occurrences": one.occurrences,
        "what": "run",
        "reason": None,
        "detail": "skipped earlier; a backfill would run it now",
    }


def _preview(found: Catchup, kept: list[Stretch], output: str) -> None:
    from evertick.cli.requests import data_with

    settled = [_row(one, found.timezone) for one in kept]
    rows = [*settled, *found.fates]
    columns = (
        Column("Local time", "local", "bold"),
        Column("Action", "what"),
        Column("Count", "occurrences", right=True),
        Column("Through", "through", "dim", optional=True),
        Column("Reason", "detail", wrap=True),
    )
    show(output, data_with(found, settled=settled), Table(columns, rows), rows=rows, name="scheduled_for")


def _show_preview(found: Catchup, left_out: int, kept: int, job: str, keep: str | None) -> None:
    if found.watermark is None:
        note("The scheduler has not planned this job yet, so it has missed nothing.")
        return
    since = f"since {whole_second_text(found.watermark, found.timezone)} {found.timezone}"
    if found.blackout_until is not None:
        end = whole_second_text(found.blackout_until, found.timezone)
        note(f"The job is in a blackout until {end} {found.timezone}. This is what its end will do.")
    elif found.paused_at is not None:
        note(f"The job is paused. This is what 'evertick resume {job}' would do.")
    if found.fates:
        when = "when the scheduler starts"
        if found.blackout_until or found.paused_at:
            when = "at the end of the blackout" if found.blackout_until else "on resume"
        note(f"Due {since}: {found.kept:,} would run and {found.skipped:,} would be skipped {when}.")
    elif not left_out:
        note(f"The job has missed nothing {since}.")
    skipped = f"{counted(left_out, 'missed occurrence')} {'was' if left_out == 1 else 'were'} skipped"
    if left_out and not kept:
        note(f"{skipped}, and the job's catch-up rule runs none of them. Use --keep all, latest or first to run them.")
    elif left_out and keep is None:
        note(f"{skipped}. Use --keep all, latest or first to choose which of them run.")
    if found.backlog:
        waiting = len(found.backlog)
        note(f"{counted(waiting, 'run')} {'is' if waiting == 1 else 'are'} already waiting and will start first.")
