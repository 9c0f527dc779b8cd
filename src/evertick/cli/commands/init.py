"""`evertick init`: a first job, to be changed."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.output import note, output_option, show, show_text

NAME = "hello.yaml"
JOB = """\
# A first job. Change it, and the scheduler takes the change while it runs.
description: Says hello every minute

# Five fields: minute hour day month weekday. Also: {every: 20s}, {at: 2027-01-01T09:00:00Z}.
schedule: "* * * * *"

# The zone the schedule is read in; without it the system's.
# timezone: Europe/Berlin

# What to do with what was missed while nothing ran: run all of it, as far as six hours back.
# catchupWindow: 6h
# overlapPolicy: all

# How often to try again when it fails.
# retryPolicy: {maxRetries: 2, retryDelay: 10s}

command: echo "hello at $EVERTICK_RUN_SCHEDULED_FOR"
"""


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@output_option
def init(folder: Path, output: str) -> None:
    """Write a first job, with comments, into a folder.

    The folder is made where there is none. A file that is there already is never overwritten (exit code 6).

    \b
    Example:
      evertick init jobs
    """
    from evertick.errors import Conflict

    file = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(JOB)
    except FileExistsError:
        raise Conflict(
            f"'{file if file.exists() else folder}' is there already, and was left as it is. "
            f"Next: evertick upcoming {folder}, or name another folder."
        ) from None
    except OSError as error:
        raise Conflict(f"'{file}' cannot be written: {error.strerror}. Name another folder.") from error
    show(output, {"file": str(file)}, lambda: show_text(str(file)), name="file")
    note(f"Next: evertick serve {folder}")
