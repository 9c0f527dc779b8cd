"""Which commands there are, and how the command line ends: its exit codes."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

import click

from evertick.cli.exits import FAILED, INTERRUPTED, exit_code
from evertick.cli.lazy import LazyGroup
from evertick.errors import EvertickError

# name -> where the command is. It is imported when it is used, so that `--help` stays fast.
COMMANDS: Final[dict[str, str]] = {
    "backfill": "evertick.cli.commands.backfill:backfill",
    "cancel": "evertick.cli.commands.cancel:cancel",
    "catchup": "evertick.cli.commands.catchup:catchup",
    "completion": "evertick.cli.commands.completion:completion",
    "cron": "evertick.cli.commands.cron:cron",
    "doctor": "evertick.cli.commands.doctor:doctor",
    "db": "evertick.cli.commands.db:db",
    "explain": "evertick.cli.commands.explain:explain",
    "fleet": "evertick.cli.commands.fleet:fleet",
    "history": "evertick.cli.commands.history:history",
    "import": "evertick.cli.commands.import_:import_",
    "init": "evertick.cli.commands.init:init",
    "list": "evertick.cli.commands.list_:list_",
    "logs": "evertick.cli.commands.logs:logs",
    "nodes": "evertick.cli.commands.nodes:nodes",
    "notify": "evertick.cli.commands.notify:notify",
    "pause": "evertick.cli.commands.pause:pause",
    "plan": "evertick.cli.commands.plan:plan",
    "resume": "evertick.cli.commands.resume:resume",
    "retry": "evertick.cli.commands.retry:retry",
    "run": "evertick.cli.commands.run:run",
    "scheduler": "evertick.cli.commands.scheduler:scheduler",
    "schema": "evertick.cli.commands.schema:schema",
    "serve": "evertick.cli.commands.serve:serve",
    "settings": "evertick.cli.commands.settings:settings",
    "status": "evertick.cli.commands.status:status",
    "token": "evertick.cli.commands.token:token",
    "top": "evertick.cli.commands.top:top",
    "trigger": "evertick.cli.commands.trigger:trigger",
    "upcoming": "evertick.cli.commands.upcoming:upcoming",
    "validate": "evertick.cli.commands.validate:validate",
    "verify": "evertick.cli.commands.verify:verify",
    "why": "evertick.cli.commands.why:why",
}
# name -> its line in `evertick --help`; without one the command is imported to ask it.
SUMMARIES: Final[dict[str, str]] = {
    "backfill": "Run past occurrences of a job, from a time up to another.",
    "cancel": "Cancel a run, or every run of a job that has not ended.",
    "catchup": "Run what was missed, as the job's policy or --keep says.",
    "completion": "Complete commands, options and jobs in bash, zsh and fish.",
    "cron": "Read a cron expression: its next fires, and what it means.",
    "doctor": "Check clock, zones, disk, ledger, keepers, limits and ports.",
    "db": "Look after the ledger's database: migrate, check, back up.",
    "explain": "Show the rules a job runs under, and where each was written.",
    "fleet": "Run jobs on other machines, and look after those.",
    "history": "Show what ran and what was skipped, newest first.",
    "import": "Make job files of a crontab, of Dagu's or of XXL-JOB's jobs.",
    "init": "Write a first job, with comments, into a folder.",
    "list": "List the jobs and how they stand.",
    "logs": "Show what the steps of a run have printed.",
    "nodes": "Show the nodes of a shared ledger, and forget one that does not come back.",
    "notify": "Try out whom the settings name as receivers of messages.",
    "pause": "Stop planning a job until it is resumed.",
    "plan": "Show what would fire until a time, over all jobs.",
    "resume": "Plan a paused job again.",
    "retry": "Run again what a run was for.",
    "run": "Run a job once, in the foreground.",
    "scheduler": "Start the scheduler, and look after its schedules.",
    "schema": "Print the JSON Schema of job files, for editors.",
    "serve": "Schedule and run the jobs of a folder until it is stopped.",
    "settings": "Show the settings that hold, and where each comes from.",
    "status": "Show how a job stands: what runs, what waits, what was.",
    "token": "Say who may use the API: make, list and revoke tokens.",
    "top": "Show live what runs, waits, is next and went wrong.",
    "trigger": "Run a job now.",
    "upcoming": "Show what runs next, over all jobs of a folder.",
    "validate": "Check job files and report every error with its line.",
    "verify": "Prove that no occurrence was lost, none decided twice, and none is stuck.",
    "why": "Say what became of an occurrence of a job, and why.",
}
# heading -> the commands below it in `evertick --help`, in the order in which people meet them.
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Begin": ("init", "validate", "run", "serve", "import", "schema", "completion"),
    "See": ("list", "status", "history", "logs", "why", "top"),
    "Act": ("trigger", "retry", "cancel", "pause", "resume", "backfill", "catchup"),
    "Foresee": ("upcoming", "plan", "explain", "cron"),
    "Look after": ("doctor", "verify", "settings", "token", "notify", "nodes", "fleet", "db", "scheduler"),
}


def _version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"evertick {version('evertick')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    summaries=SUMMARIES,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def evertick() -> None:
    """A job scheduler in which every tick is accounted for.

    \b
    Example:
      evertick upcoming examples
    """


def run() -> None:
    """Run the command line; what Evertick raises on purpose becomes one line on stderr and an exit code."""
    try:
        sys.exit(evertick.main(prog_name="evertick", standalone_mode=False))
    except EvertickError as error:
        from evertick.cli.output import clean

        # Settings tell all that is wrong with them, a line for each.
        for line in str(error).split("\n"):
            click.echo(f"evertick: {clean(line)}", err=True)
        sys.exit(exit_code(error))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever reads has enough, as `head` has; flushing on the way out must not complain of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"evertick: not all could be written: {os.strerror(error.errno)}. Next: make room.", err=True)
        sys.exit(FAILED)
