"""`evertick catchup`: run the occurrences that a job missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from evertick.cli import times
from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Row, Table, counted, note, output_option, show, show_lines, show_text
from evertick.cli.target import Target, place_options
from evertick.cli.times import local_text
from evertick.model.instant import DAY, SECOND, from_text, to_text

if TYPE_CHECKING:
    from evertick.operations.plain import PlainOperations

KEEPS = ("all", "latest", "first", "none")
LEFT_OUT = ("missed", "paused", "cap", "disabled")
"""Skip reasons of occurrences that a catch-up can run."""
AT_START = ("overlap", "superseded")
"""Further ones, of occurrences that were missed: the policy kept another of the same stretch."""
DONE = ("succeeded", "planned", "waiting", "launching", "running", "retrying")
"""States that a backfill of missing occurrences leaves alone."""
STRETCHES_MAX = 20


class Stretch(NamedTuple):
    """Missed occurrences that the scheduler skipped."""

    first: int
    last: int
    occurrences: int


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--dry-run", is_flag=True, help="Show what would run; change nothing.")
@click.option("--keep", type=click.Choice(KEEPS), help="Which missed occurrences to run; default: the job's policy.")
@click.option("--since", metavar="TIME", help="How far back to look; default: the job's catchupWindow, else one day.")
@place_options
@output_option
def catchup(job: str, dry_run: bool, keep: str | None, since: str | None, place: Target, output: str) -> None:
    """Run the occurrences that a job missed.

    The scheduler catches up by itself when it starts and when a job is resumed, as the job's policy says. This command
    runs what it skipped then: occurrences that were missed, paused, disabled or above the cap, as a backfill. A paused
    job is resumed. Occurrences that no scheduler has seen yet are left to the next start; --dry-run shows what it will
    do with them.

    \b
    Examples:
      evertick catchup --dry-run report
      evertick catchup report --keep latest
      evertick catchup report --keep all --since 2026-03-01
    """
    place.require_folder()
    with place.operations() as operations:
        found = operations.catchup(job, keep)
        stretches = [] if found["paused_at"] else _settled(operations, job, since)
        kept = _chosen(stretches, keep or _policy(operations, job))
        data = {**found, "settled": [_data(one, found["timezone"]) for one in kept]}
        if dry_run:
            _preview(data, output)
            _tell(data, sum(one.occurrences for one in stretches), job, keep)
            return
        if found["paused_at"]:
            _resume(operations, job, keep, output)
            return
        requests = [one for stretch in kept if (one := _run(operations, job, stretch)) is not None]
        chosen = sum(one["chosen"] for one in requests)
        names = [one["request"] for one in requests]
        show(
            output,
            {"job": job, "keep": keep or _policy(operations, job), "chosen": chosen, "requests": requests},
            lambda: show_lines(names),
            rows=requests,
            name="request",
        )
    if requests:
        note(f"{counted(chosen, 'run')}. Next: evertick history {job} --trigger backfill")
    else:
        _tell(data, sum(one.occurrences for one in stretches), job, keep)


def _settled(operations: PlainOperations, job: str, since: str | None) -> list[Stretch]:
    """What the scheduler has skipped, oldest first.

    Adjacent entries form one stretch: a backfill starts its runs one after another, while several backfills would run
    in parallel.
    """
    start = since or to_text(times.now() - _window(operations, job))
    rows = operations.list_runs(job, since=start, until=to_text(times.now() + SECOND), limit=1_000)["items"]
    found: list[Stretch] = []
    is_going_on = False
    for row in reversed(rows):
        if row["request"] is not None or row["state"] in DONE:
            continue
        is_left_out = row["reason"] in LEFT_OUT or (row["reason"] in AT_START and row["missed_by"] is not None)
        if is_left_out:
            one = _stretch(row)
            found[-1:] = [_joined(found[-1], one)] if found and is_going_on else [*found[-1:], one]
        is_going_on = is_left_out
    return found


def _stretch(row: Row) -> Stretch:
    first, last = from_text(row["scheduled_for"]), from_text(row["through"] or row["scheduled_for"])
    return Stretch(first, last, row["occurrences"])


def _joined(one: Stretch, other: Stretch) -> Stretch:
    return Stretch(one.first, max(one.last, other.last), one.occurrences + other.occurrences)


def _rules(operations: PlainOperations, job: str) -> dict[str, str]:
    return {rule["name"]: rule["value"] for rule in operations.explain(job)}


def _policy(operations: PlainOperations, job: str) -> str:
    return _rules(operations, job)["missed"]


def _window(operations: PlainOperations, job: str) -> int:
    from evertick.errors import DurationError
    from evertick.model.duration import parse_duration

    try:
        return parse_duration(_rules(operations, job)["catchup_window"])
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


def _run(operations: PlainOperations, job: str, stretch: Stretch) -> dict[str, Any] | None:
    from evertick.cli.requests import ask

    # The end is exclusive, and read in whole seconds.
    start, end = to_text(stretch.first), to_text(stretch.last // SECOND * SECOND + SECOND)
    asked = ask(lambda request, wait: operations.backfill(job, start, end, request_id=request, wait_seconds=wait))
    return {name: asked[name] for name in ("request", "is_answered", "chosen")} if asked["request"] else None


def _resume(operations: PlainOperations, job: str, keep: str | None, output: str) -> None:
    from evertick.cli.requests import ask

    asked = ask(lambda request, wait: operations.resume(job, keep, request_id=request, wait_seconds=wait))
    show(output, asked, lambda: show_text(f"Resumed {job}." if asked["is_answered"] else asked["request"]))
    note("The job was paused. It is resumed, and the pause is caught up.")


def _data(one: Stretch, zone: str) -> Row:
    return {
        "scheduled_for": to_text(one.first),
        "local": local_text(one.first, zone),
        "through": to_text(one.last) if one.last != one.first else None,
        "occurrences": one.occurrences,
        "what": "run",
        "reason": None,
        "detail": "skipped earlier; a backfill would run it now",
    }


def _preview(data: dict[str, Any], output: str) -> None:
    rows = [*data["settled"], *data["fates"]]
    columns = (
        Column("Local time", "local", "bold"),
        Column("Action", "what"),
        Column("Count", "occurrences", right=True),
        Column("Through", "through", "dim", optional=True),
        Column("Reason", "detail", wrap=True),
    )
    show(output, data, Table(columns, rows), rows=rows, name="scheduled_for")


def _tell(data: dict[str, Any], left_out: int, job: str, keep: str | None) -> None:
    if data["watermark"] is None:
        note("The scheduler has not planned this job yet, so it has missed nothing.")
        return
    since = f"since {local_text(from_text(data['watermark']), data['timezone'])} {data['timezone']}"
    if data["paused_at"] is not None:
        note(f"The job is paused. This is what 'evertick resume {job}' would do.")
    if data["fates"]:
        when = "on resume" if data["paused_at"] else "when the scheduler starts"
        note(f"Due {since}: {data['kept']:,} would run and {data['skipped']:,} would be skipped {when}.")
    elif not left_out:
        note(f"The job has missed nothing {since}.")
    skipped = f"{counted(left_out, 'missed occurrence')} {'was' if left_out == 1 else 'were'} skipped"
    if left_out and not data["settled"]:
        note(f"{skipped}, and the job's policy runs none of them. Use --keep all, latest or first to run them.")
    elif left_out and keep is None:
        note(f"{skipped}. Use --keep all, latest or first to choose which of them run.")
    if data["backlog"]:
        waiting = len(data["backlog"])
        note(f"{counted(waiting, 'run')} {'is' if waiting == 1 else 'are'} already waiting and will start first.")
