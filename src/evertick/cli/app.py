"""The command line's entry point: its commands, and how an error becomes an exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import Final

import click

from evertick.cli.exits import FAILED, INTERRUPTED, exit_code
from evertick.cli.lazy import LazyGroup
from evertick.errors import EvertickError

# Name -> where the command is defined. It is imported only when used, so that `--help` stays fast.
COMMANDS: Final[dict[str, str]] = {
    "backfill": "evertick.cli.commands.backfill:backfill",
    "blackout": "evertick.cli.commands.blackout:blackout",
    "cancel": "evertick.cli.commands.request:cancel",
    "catchup": "evertick.cli.commands.catchup:catchup",
    "completion": "evertick.cli.commands.completion:completion",
    "cron": "evertick.cli.commands.cron:cron",
    "diff": "evertick.cli.commands.diff:diff",
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
    "pause": "evertick.cli.commands.request:pause",
    "plan": "evertick.cli.commands.plan:plan",
    "resume": "evertick.cli.commands.request:resume",
    "retry": "evertick.cli.commands.request:retry",
    "run": "evertick.cli.commands.run:run",
    "scheduler": "evertick.cli.commands.scheduler:scheduler",
    "schema": "evertick.cli.commands.schema:schema",
    "serve": "evertick.cli.commands.serve:serve",
    "settings": "evertick.cli.commands.settings:settings",
    "simulate": "evertick.cli.commands.simulate:simulate",
    "status": "evertick.cli.commands.status:status",
    "token": "evertick.cli.commands.token:token",
    "top": "evertick.cli.commands.top:top",
    "trigger": "evertick.cli.commands.request:trigger",
    "upcoming": "evertick.cli.commands.upcoming:upcoming",
    "validate": "evertick.cli.commands.validate:validate",
    "verify": "evertick.cli.commands.verify:verify",
    "why": "evertick.cli.commands.why:why",
}
# Name -> its line in `evertick --help`, so that the help imports no command.
SUMMARIES: Final[dict[str, str]] = {
    "backfill": "Run past occurrences of a job in a time range.",
    "blackout": "Add, list and remove blackouts, in which jobs are not planned.",
    "cancel": "Cancel a run, or all unfinished runs of a job.",
    "catchup": "Run the occurrences that a job missed.",
    "completion": "Print the completion script for bash, zsh or fish.",
    "cron": "Explain a cron expression and show its next times.",
    "diff": "Show what a change to the job files would do.",
    "doctor": "Check the machine, the settings, the ledger and the scheduler.",
    "db": "Migrate, check, back up, restore and copy the ledger's database.",
    "explain": "Show the rules of a job and where each is set.",
    "fleet": "Run jobs on other machines.",
    "history": "Show past runs and skipped occurrences, newest first.",
    "import": "Convert a crontab, systemd timers, Kubernetes CronJobs, Dagu or XXL-JOB jobs to job files.",
    "init": "Create a first job file.",
    "list": "List jobs with their status and next run.",
    "logs": "Show the output of a run.",
    "nodes": "List the nodes that share a ledger, or forget a dead one.",
    "notify": "Send a test notification.",
    "pause": "Pause a job.",
    "plan": "Show what will run until a given time.",
    "resume": "Resume a paused job.",
    "retry": "Re-run a past run.",
    "run": "Run a job once, in the foreground.",
    "scheduler": "Start the scheduler and manage its jobs.",
    "schema": "Print the JSON Schema of job files, for editors.",
    "serve": "Start the scheduler on a folder of job files.",
    "settings": "Show the effective settings and where each is set.",
    "simulate": "Simulate the coming days: load, overlaps, queue waits.",
    "status": "Show the status of a job, of a run, or of the whole scheduler.",
    "token": "Create, list and revoke API tokens.",
    "top": "Watch all jobs on a terminal, and act on them.",
    "trigger": "Run a job now.",
    "upcoming": "Show the next runs of all jobs.",
    "validate": "Check job files and report every error with its line.",
    "verify": "Check that no occurrence is lost, duplicated or stuck.",
    "why": "Explain why an occurrence ran, was skipped or is waiting.",
}
# Heading -> the commands below it in `evertick --help`, in the order in which people meet them.
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Get started": ("init", "validate", "run", "serve", "import", "schema", "completion"),
    "Inspect": ("list", "status", "history", "logs", "why", "top"),
    "Operate": ("trigger", "retry", "cancel", "pause", "resume", "blackout", "backfill", "catchup"),
    "Preview": ("upcoming", "plan", "diff", "simulate", "explain", "cron"),
    "Administer": ("doctor", "verify", "settings", "token", "notify", "nodes", "fleet", "db", "scheduler"),
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
    """Run the command line; an `EvertickError` becomes a line on stderr and an exit code."""
    # What is imported stays, and so do the jobs of a list: to look for garbage among them again and again takes a
    # twentieth of a start. `serve` and `top` set a threshold of their own.
    gc.set_threshold(1_000_000, 20, 50)
    try:
        code = evertick.main(prog_name="evertick", standalone_mode=False)
        gc.freeze()  # nor is it looked through once more at the end
        sys.exit(code)
    except EvertickError as error:
        from evertick.cli.output import clean

        # Settings report every error at once, one per line.
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
        # The reader, such as `head`, has closed the pipe; the flush at exit must not fail on it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"evertick: cannot write the output: {os.strerror(error.errno)}. Free some space.", err=True)
        sys.exit(FAILED)
