"""Which commands there are, and how the command line ends: its exit codes."""

from __future__ import annotations

import sys
from typing import Final

import click

from evertick.cli.lazy import LazyGroup
from evertick.errors import Conflict, DefinitionError, EvertickError, NotFound, SettingsError, StoreError

OK, FAILED, USAGE, NOT_FOUND, UNREACHABLE, CONFLICT = 0, 1, 2, 3, 5, 6

# The first kind that fits decides.
EXIT_CODES: Final = (
    (DefinitionError, USAGE),
    (SettingsError, USAGE),
    (NotFound, NOT_FOUND),
    (Conflict, CONFLICT),
    (StoreError, UNREACHABLE),
    (EvertickError, FAILED),
)

# name -> where the command is. It is imported when it is used, so that `--help` stays fast.
COMMANDS: Final[dict[str, str]] = {
    "cron": "evertick.cli.commands.cron:cron",
    "db": "evertick.cli.commands.db:db",
    "upcoming": "evertick.cli.commands.upcoming:upcoming",
    "validate": "evertick.cli.commands.validate:validate",
    "verify": "evertick.cli.commands.verify:verify",
}
# name -> its line in `evertick --help`; without one the command is imported to ask it.
SUMMARIES: Final[dict[str, str]] = {
    "cron": "Read a cron expression: its next fires, and what it means.",
    "db": "Look after the ledger's database: migrate, check, back up.",
    "upcoming": "Show what runs next, over all jobs of a folder.",
    "validate": "Check job files and report every error with its line.",
    "verify": "Prove that no occurrence was lost and none decided twice.",
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
        evertick.main(prog_name="evertick")
    except EvertickError as error:
        from evertick.cli.output import clean

        click.echo(f"evertick: {clean(str(error))}", err=True)
        sys.exit(exit_code(error))


def exit_code(error: EvertickError) -> int:
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
