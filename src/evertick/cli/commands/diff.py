"""`evertick diff`: what a change to the job files would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from evertick.cli import times
from evertick.cli.exits import FAILED, USAGE
from evertick.cli.output import counted, note, output_option, show, show_lines, show_text
from evertick.cli.times import MOMENT

if TYPE_CHECKING:
    from evertick.operations.results.preview import JobDiff, MovedOccurrence, ScheduleDiff

SHOWN = 6
"""Occurrences that are listed per job and kind of change, unless all are wanted."""
NO_RULE = "(none)"


@click.command()
@click.argument("path", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.option("--base", default="HEAD", show_default=True, metavar="REVISION|FOLDER", help="What to compare with.")
@click.option("--days", type=click.IntRange(1, 366), default=7, show_default=True, help="Length of the period.")
@click.option("--after", type=MOMENT, metavar="TIME", help="Start of the period; default: now.")
@click.option("--all", "all_times", is_flag=True, help="List every occurrence, not only the first ones.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when there is a difference.")
@output_option
@click.pass_context
def diff(
    ctx: click.Context,
    path: Path | None,
    base: str,
    days: int,
    after: int | None,
    all_times: bool,
    exit_code: bool,
    output: str,
) -> None:
    """Show what a change to the job files would do.

    The job files are compared with those of a git revision (default: the last commit) or of another folder. The result
    lists the occurrences of the coming days that are added, removed or moved, and the rules that differ. The exit
    code is 2 when a current job file has an error.

    \b
    Examples:
      evertick diff jobs
      evertick diff jobs --base origin/main --exit-code
      evertick diff jobs --base /srv/jobs-today --days 30 -o json
    """
    from evertick.definitions.revision import load_base
    from evertick.definitions.source import load_folder
    from evertick.model.instant import DAY
    from evertick.operations.schedule_diff import diff_jobs
    from evertick.settings import Settings

    folder = path or Path()
    current = load_folder(folder, Settings.load(folder))
    former = load_base(folder, base)
    since = times.now() if after is None else after
    found = diff_jobs(former.jobs, current.jobs, since, since + days * DAY)

    show(output, found, lambda: _show_diff(found, None if all_times else SHOWN), rows=found.items)
    for error in current.all_errors():
        note(str(error))
    if former.errors:
        note(f"Ignored {counted(len(former.errors), 'job file')} of {base} because of errors.")
    if current.errors:
        note(f"Ignored {counted(len(current.errors), 'job file')} because of errors. Next: evertick validate {folder}")
        ctx.exit(USAGE)
    note(_summary(found, base, days))
    if exit_code and found.items:
        ctx.exit(FAILED)


def _summary(found: ScheduleDiff, base: str, days: int) -> str:
    if not found.items:
        return f"No job differs from {base}."
    jobs = f"{counted(len(found.items), 'job')} differ{'s' if len(found.items) == 1 else ''} from {base}"
    before = sum(one.occurrences_before for one in found.items)
    after = sum(one.occurrences_after for one in found.items)
    return f"{jobs}. Occurrences in the next {counted(days, 'day')}: {before:,} before, {after:,} after."


def _show_diff(found: ScheduleDiff, most: int | None) -> None:
    for number, job in enumerate(found.items):
        if number:
            show_text()
        show_text(f"{job.job}  {job.change}", bold=True)
        show_lines(_lines(job, found, most))


def _lines(job: JobDiff, found: ScheduleDiff, most: int | None) -> Iterator[str]:
    if job.change == "changed":
        for rule in job.rules:
            yield f"  {rule.rule}: {rule.before or NO_RULE} -> {rule.after or NO_RULE}"
    else:
        # Every rule of a new or removed job differs; a reviewer looks for when it runs.
        yield from (f"  {rule.before or rule.after}" for rule in job.rules if rule.rule.startswith("start."))
    if job.is_work_changed:
        yield "  its steps, commands, parameters or environment differ"
    if job.occurrences_before != job.occurrences_after or job.moved or job.added or job.removed:
        yield f"  occurrences: {job.occurrences_before:,} -> {job.occurrences_after:,}, times in {job.timezone}"
    yield from _some("~", [_moved(one, job.timezone) for one in job.moved], most)
    yield from _some("-", [_local(at, job.timezone) for at in job.removed], most)
    yield from _some("+", [_local(at, job.timezone) for at in job.added], most)
    if job.compared_until < found.until:
        yield f"  compared one by one until {_local(job.compared_until, job.timezone)}; the counts are complete"


def _some(sign: str, lines: Sequence[str], most: int | None) -> Iterator[str]:
    for line in lines[:most]:
        yield f"  {sign} {line}"
    if most is not None and len(lines) > most:
        yield f"  {sign} and {len(lines) - most:,} more"


def _moved(one: MovedOccurrence, zone: str) -> str:
    from evertick.model.instant import from_datetime
    from evertick.operations.time_text import clock_text

    is_same_day = one.before.astimezone(ZoneInfo(zone)).date() == one.after.astimezone(ZoneInfo(zone)).date()
    after = clock_text(from_datetime(one.after), zone, exact=True) if is_same_day else _local(one.after, zone)
    return f"{_local(one.before, zone)} -> {after}"


def _local(at: datetime, zone: str) -> str:
    from evertick.model.instant import from_datetime

    return times.local_text(from_datetime(at), zone)
