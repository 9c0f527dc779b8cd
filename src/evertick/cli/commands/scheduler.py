"""`evertick scheduler`: the commands of the day under one name."""

from __future__ import annotations

from typing import Final

import click

from evertick.cli.lazy import LazyGroup

COMMANDS: Final[dict[str, str]] = {
    "history": "evertick.cli.commands.history:history",
    "list": "evertick.cli.commands.list_:list_",
    "pause": "evertick.cli.commands.pause:pause",
    "resume": "evertick.cli.commands.resume:resume",
    "start": "evertick.cli.commands.serve:serve",
    "status": "evertick.cli.commands.status:status",
    "trigger": "evertick.cli.commands.trigger:trigger",
}
SUMMARIES: Final[dict[str, str]] = {
    "history": "Show what ran and what was skipped, newest first.",
    "list": "List the jobs and how they stand.",
    "pause": "Stop planning a job until it is resumed.",
    "resume": "Plan a paused job again.",
    "start": "Schedule and run the jobs of a folder until it is stopped.",
    "status": "Show how a job stands: what runs, what waits, what was.",
    "trigger": "Run a job now.",
}


@click.group(cls=LazyGroup, lazy=COMMANDS, summaries=SUMMARIES, no_args_is_help=True)
def scheduler() -> None:
    """Start the scheduler, and look after its schedules.

    The same commands as without 'scheduler'; 'start' is 'evertick serve'.

    \b
    Examples:
      evertick scheduler start jobs
      evertick scheduler history report --limit 10
    """
