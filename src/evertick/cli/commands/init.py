"""`evertick init`: create a first job file."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.output import note, output_option, show, show_text

NAME = "hello.yaml"
JOB = """\
# A first job. Edit it while the scheduler runs: changes apply at once.
description: Says hello every minute

# Five fields: minute hour day month weekday. Also: {every: 20s}, {at: 2027-01-01T09:00:00Z}.
schedule: "* * * * *"

# Time zone of the schedule; default: the system's.
# timezone: Europe/Berlin

# Run occurrences that were missed while the scheduler was down, up to six hours back.
# missed: all
# catchupWindow: 6h
# overlap: wait

# Retry a failed run.
# retryPolicy: {maxRetries: 2, retryDelay: 10s}

# It runs in the folder of this file, so './hello.sh' is a script beside it; workingDir changes that.
command: echo "hello at $EVERTICK_RUN_SCHEDULED_FOR"
"""


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@output_option
def init(folder: Path, output: str) -> None:
    """Create a first job file.

    The command creates FOLDER if needed and writes hello.yaml, with comments. It never overwrites a file (exit code 6).

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
            f"'{file if file.exists() else folder}' already exists. "
            f"Next: evertick upcoming {folder}, or choose another folder."
        ) from None
    except OSError as error:
        raise Conflict(f"cannot write '{file}': {error.strerror}. Choose another folder.") from error
    show(output, {"file": str(file)}, lambda: show_text(str(file)), name="file")
    note(f"Next: evertick serve {folder}")
