"""`evertick blackout`: stretches of time in which jobs are not planned, such as maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, counted, note, output_option, show, show_text
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.results.blackouts import AffectedJob, Blackout, BlackoutChange


@click.group(cls=SuggestingGroup)
def blackout() -> None:
    """Add, list and remove blackouts, in which jobs are not planned.

    \b
    Examples:
      evertick blackout add --for 2h --tag database --reason "Database upgrade"
      evertick blackout list
      evertick blackout remove b3f2a91c4
    """


@blackout.command()
@click.option("--from", "start", default="now", show_default=True, metavar="TIME", help="Start, inclusive.")
@click.option("--to", "end", metavar="TIME", help="End, exclusive.")
@click.option("--for", "duration", metavar="DURATION", help="Instead of --to: how long, such as 4h or 1d12h.")
@click.option("--job", "jobs", multiple=True, metavar="JOB", shell_complete=complete_jobs, help="A job; repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="All jobs with this tag; repeatable.")
@click.option("--all", "is_for_all", is_flag=True, help="All jobs.")
@click.option("--reason", default="", metavar="TEXT", help="Why; the ledger and 'evertick why' repeat it.")
@click.option("--timezone", metavar="ZONE", help="Zone of times without an offset; default: the setting 'timezone'.")
@click.option("--dry-run", is_flag=True, help="Show which occurrences would be in it; change nothing.")
@target_options
@output_option
def add(
    start: str,
    end: str | None,
    duration: str | None,
    jobs: tuple[str, ...],
    tags: tuple[str, ...],
    is_for_all: bool,
    reason: str,
    timezone: str | None,
    dry_run: bool,
    target: Target,
    output: str,
) -> None:
    """Add a blackout.

    Its jobs do not start by their schedules from --from until before --to. Running runs continue, and manual runs
    start. At its end each job settles what was due by its catch-up rule, as after a pause. Times may be relative:
    'tomorrow', '+2h'. All nodes of the ledger apply it within seconds, and it survives restarts.

    \b
    Examples:
      evertick blackout add --for 2h --tag database --reason "Database upgrade" --dry-run
      evertick blackout add --from 2027-03-06T22:00 --to 2027-03-07T04:00 --all --timezone Europe/Berlin
    """
    if (end is None) == (duration is None):
        raise click.UsageError("A blackout needs --to or --for.")
    if is_for_all == bool(jobs or tags):
        raise click.UsageError("Name its jobs with --job or --tag, or write --all.")
    with target.operations(may_be_new=dry_run) as operations:
        last = end or _end_of(start, duration or "", timezone or operations.blackouts().timezone)
        found = operations.add_blackout(start, last, jobs, tags, is_for_all, reason, timezone, dry_run)
    _show(found, output, "is added" if not dry_run else "would be added")


@blackout.command("list")
@click.option("--over", is_flag=True, help="Also list those that are over.")
@target_options
@output_option
def list_(over: bool, target: Target, output: str) -> None:
    """List the blackouts of the settings and those that were added.

    \b
    Example:
      evertick blackout list --over
    """
    with target.operations(may_be_new=True) as operations:
        found = operations.blackouts(over)
    columns = (
        Column("Id", "id", "bold"),
        Column("State", "state"),
        Column("From", "from_"),
        Column("To", "to"),
        Column("Jobs", _concerned, wrap=True),
        Column("Reason", "reason", wrap=True),
        Column("Added by", lambda one: one.file or one.added_by, "dim", optional=True),
    )
    show(output, found, Table(columns, found.items), rows=found.items, name="id")
    if not found.items:
        note("No blackouts. Next: evertick blackout add --for 2h --all --dry-run")


@blackout.command()
@click.argument("blackout_id", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Show which occurrences would run again; change nothing.")
@target_options
@output_option
def remove(blackout_id: str, dry_run: bool, target: Target, output: str) -> None:
    """Remove a blackout that was added.

    One that has begun ends now: each job settles what was due in it by its catch-up rule, as on a resume. A blackout
    of the settings cannot be removed here (exit code 6).

    \b
    Example:
      evertick blackout remove b3f2a91c4 --dry-run
    """
    with target.operations() as operations:
        found = operations.remove_blackout(blackout_id, dry_run)
    _show(found, output, "is removed" if not dry_run else "would be removed")


def _end_of(start: str, duration: str, zone: str) -> str:
    """The end of a blackout of a given length, as a time with an offset."""
    from evertick.cli import times
    from evertick.errors import DurationError
    from evertick.model.duration import parse_duration
    from evertick.model.instant import to_text
    from evertick.operations.time_text import read_moment

    try:
        length_us = parse_duration(duration)
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    return to_text(read_moment(start, zone, now=times.now(), is_ahead=True) + length_us)


def _show(found: BlackoutChange, output: str, verb: str) -> None:
    columns = (
        Column("Job", "job", "bold"),
        Column("Occurrences", "occurrences", right=True),
        Column("Times", _times, wrap=True),
    )
    if found.is_preview:
        show(output, found, Table(columns, found.affected), rows=found.affected, name="job")
        if found.jobs > len(found.affected):
            note(f"and {found.jobs - len(found.affected):,} more jobs")
    else:
        show(output, found, lambda: show_text(found.blackout.id), rows=[found.blackout], name="id")
    one, runs = found.blackout, f"{counted(found.occurrences, 'occurrence')} of {counted(found.jobs, 'job')}"
    note(f"The blackout of {_concerned(one)} {verb}; it concerns {runs} from now on.")


def _concerned(one: Blackout) -> str:
    if one.is_for_all:
        return "all jobs"
    return ", ".join((*one.jobs, *(f"tag {tag}" for tag in one.tags)))


def _times(found: AffectedJob) -> str:
    from evertick.model.instant import from_datetime
    from evertick.operations.time_text import moment_text

    told = ", ".join(moment_text(from_datetime(at), found.timezone) for at in found.times)
    return told + (", ..." if found.occurrences > len(found.times) else "")
