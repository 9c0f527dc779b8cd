"""`evertick scheduler`: the daily commands under one name."""

from __future__ import annotations

from typing import Final

import click

from evertick.cli.lazy import LazyGroup

COMMANDS: Final[dict[str, str]] = {
    "history": "evertick.cli.commands.history:history",
    "list": "evertick.cli.commands.list_:list_",
    "pause": "evertick.cli.commands.request:pause",
    "resume": "evertick.cli.commands.request:resume",
    "start": "evertick.cli.commands.serve:serve",
    "status": "evertick.cli.commands.status:status",
    "trigger": "evertick.cli.commands.request:trigger",
}
SUMMARIES: Final[dict[str, str]] = {
    "history": "Show past runs and skipped occurrences, newest first.",
    "list": "List jobs with their status and next run.",
    "pause": "Pause a job.",
    "resume": "Resume a paused job.",
    "start": "Start the scheduler on a folder of job files.",
    "status": "Show the status of a job, of a run, or of the whole scheduler.",
    "trigger": "Run a job now.",
}


@click.group(cls=LazyGroup, lazy=COMMANDS, summaries=SUMMARIES, no_args_is_help=True)
def scheduler() -> None:
    """Start the scheduler and manage its jobs.

    These are the top-level commands under another name; 'start' is 'evertick serve'.

    \b
    Examples:
      evertick scheduler start jobs
      evertick scheduler history report --limit 10
    """
