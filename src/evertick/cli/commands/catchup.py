"""`evertick catchup`: run what was missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from evertick.cli import times
from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Row, Table, note, output_option, show, show_lines, show_text
from evertick.cli.target import Target, place_options
from evertick.cli.times import local_text
from evertick.model.instant import DAY, SECOND, from_text, to_text

if TYPE_CHECKING:
    from evertick.operations.local import LocalOperations

KEEPS = ("all", "latest", "first", "none")
LEFT_OUT = ("missed", "paused", "cap", "disabled")
"""Why an occurrence was left out that a catch-up is there for."""
AT_START = ("overlap", "superseded")
"""The same, where it was missed: the others of a stretch of which the policy kept one."""
DONE = ("succeeded", "planned", "waiting", "launching", "running", "retrying")
"""What a backfill of missing ones leaves alone."""
STRETCHES_MAX = 20


class Stretch(NamedTuple):
    """Occurrences that were missed, and settled without a run."""

    first: int
    last: int
    occurrences: int


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--dry-run", is_flag=True, help="Show it, and change nothing.")
@click.option("--keep", type=click.Choice(KEEPS), help="Which of them to run; default: as the job's policy says.")
@click.option("--since", metavar="TIME", help="How far back; default: the job's catchupWindow, else a day.")
@place_options
@output_option
def catchup(job: str, dry_run: bool, keep: str | None, since: str | None, place: Target, output: str) -> None:
    """Run what was missed, as the job's policy or --keep says.

    A scheduler catches up by itself when it starts, and a resume does. What of the past it has left out may still be
    run with this: occurrences that were missed, paused, disabled or too many are run by a backfill. Of a paused job
    the command is 'evertick resume JOB --catchup KEEP'. What no scheduler has decided yet is left to the one that
    starts next, and --dry-run shows what it will do.

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
        note(f"{chosen:,} runs. Next: evertick history {job} --trigger backfill")
    else:
        _tell(data, sum(one.occurrences for one in stretches), job, keep)


def _settled(operations: LocalOperations, job: str, since: str | None) -> list[Stretch]:
    """What a scheduler has left out, oldest first.

    Lines with nothing between them that a backfill would run beside them are one stretch: a backfill runs its runs one
    after another, and several of them run beside each other.
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


def _rules(operations: LocalOperations, job: str) -> dict[str, str]:
    return {rule["name"]: rule["value"] for rule in operations.explain(job)}


def _policy(operations: LocalOperations, job: str) -> str:
    return _rules(operations, job)["missed"]


def _window(operations: LocalOperations, job: str) -> int:
    from evertick.errors import DurationError
    from evertick.model.duration import parse_duration

    try:
        return parse_duration(_rules(operations, job)["catchup_window"])
    except DurationError:
        return DAY  # it has none


def _chosen(stretches: list[Stretch], keep: str) -> list[Stretch]:
    if not stretches or keep == "none":
        return []
    if keep == "latest":
        return [Stretch(stretches[-1].last, stretches[-1].last, 1)]
    if keep == "first":
        return [Stretch(stretches[0].first, stretches[0].first, 1)]
    return stretches[-STRETCHES_MAX:]


def _run(operations: LocalOperations, job: str, stretch: Stretch) -> dict[str, Any] | None:
    from evertick.cli.requests import ask

    # The end is not included, and written in whole seconds by those who read it.
    start, end = to_text(stretch.first), to_text(stretch.last // SECOND * SECOND + SECOND)
    asked = ask(lambda request, wait: operations.backfill(job, start, end, request_id=request, wait_seconds=wait))
    return {name: asked[name] for name in ("request", "is_answered", "chosen")} if asked["request"] else None


def _resume(operations: LocalOperations, job: str, keep: str | None, output: str) -> None:
    from evertick.cli.requests import ask

    asked = ask(lambda request, wait: operations.resume(job, keep, request_id=request, wait_seconds=wait))
    show(output, asked, lambda: show_text(f"{job} is planned again" if asked["is_answered"] else asked["request"]))
    note("The job was paused: it is resumed, and its pause is caught up.")


def _data(one: Stretch, zone: str) -> Row:
    return {
        "scheduled_for": to_text(one.first),
        "local": local_text(one.first, zone),
        "through": to_text(one.last) if one.last != one.first else None,
        "occurrences": one.occurrences,
        "what": "run",
        "reason": None,
        "detail": "was left out, and would be run now by a backfill",
    }


def _preview(data: dict[str, Any], output: str) -> None:
    rows = [*data["settled"], *data["fates"]]
    columns = (
        Column("Local time", "local", "bold"),
        Column("What", "what"),
        Column("Count", "occurrences", right=True),
        Column("Through", "through", "dim", optional=True),
        Column("Why", "detail", wrap=True),
    )
    show(output, data, Table(columns, rows), rows=rows, name="scheduled_for")


def _tell(data: dict[str, Any], left_out: int, job: str, keep: str | None) -> None:
    if data["watermark"] is None:
        note("The ledger does not know the job: its first start begins with what is due then, and catches nothing up.")
        return
    since = f"since {local_text(from_text(data['watermark']), data['timezone'])} {data['timezone']}"
    if data["paused_at"] is not None:
        note(f"The job is paused: this is what 'evertick resume {job}' would do.")
    if data["fates"]:
        when = "" if data["paused_at"] else " when a scheduler starts"
        told = f"{data['kept']:,} would run and {data['skipped']:,} would be skipped{when}"
        note(f"{told}, of what was due {since} and is not decided yet.")
    elif not left_out:
        note(f"Nothing was missed: nothing is undecided {since}, and nothing was left out before.")
    if left_out and not data["settled"]:
        note(f"{left_out:,} occurrences were left out, and the policy keeps none. Next: --keep all, latest or first")
    elif left_out and keep is None:
        note(f"{left_out:,} occurrences were left out. Others may be chosen: --keep all, latest or first")
    if data["backlog"]:
        note(f"{len(data['backlog']):,} wait already, and come first.")
