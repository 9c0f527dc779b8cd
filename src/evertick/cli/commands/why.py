"""`evertick why`: explain why an occurrence ran, was skipped or is waiting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option, show, show_text
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.results.requests import Why


_AGO: Final = re.compile(r"-(?:[0-9]+[dhms])+")


class _TimeCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`-2d` is a time, which `2d` is too, and not an option."""
        return super().parse_args(ctx, [word[1:] if _AGO.fullmatch(word) else word for word in args])


@click.command(cls=_TimeCommand)
@click.argument("job", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@click.argument("time", required=False)
@target_options
@output_option
def why(job: str, time: str | None, target: Target, output: str) -> None:
    """Explain why an occurrence ran, was skipped or is waiting.

    TIME without an offset is in the job's time zone, and may be relative, such as -2h; the default is the newest
    occurrence. RUN_ID may be shortened to a unique prefix. The exit code is 0 whatever the result.

    \b
    Examples:
      evertick why hourly-etl 2026-03-02T03:00
      evertick why hourly-etl -2h
      evertick why hourly-etl@2026-03-02T02:00:00Z -o json
    """
    with target.operations() as operations:
        answer = operations.why(job, time)
    show(output, answer, lambda: _show_why(answer), name=lambda found: found.run.run if found.run else found.job)


def _show_why(answer: Why) -> None:
    from evertick.model.instant import from_datetime
    from evertick.operations.time_text import clock_text, moment_text

    zone, at = answer.timezone, from_datetime(answer.scheduled_for)
    local, utc = (answer.scheduled_for.astimezone(ZoneInfo(name)).replace(tzinfo=None) for name in (zone, "UTC"))
    in_utc = clock_text(at, "UTC") if local.date() == utc.date() else moment_text(at, "UTC")
    beside = "" if local == utc else f" ({in_utc} UTC)"
    show_text(f"{answer.job}  {moment_text(at, zone)} {zone}{beside}   {answer.verdict}", bold=True)
    for line in (*answer.sentences, *answer.next_steps):
        show_text(f"  {line}")
