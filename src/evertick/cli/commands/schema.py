"""`evertick schema`: what a job file looks like, for editors."""

from __future__ import annotations

import click

from evertick.cli.output import show_json


@click.command()
def schema() -> None:
    """Print the JSON Schema of job files, for the completion of editors.

    Write it to a file and name that file in the first line of a job:

    \b
      # yaml-language-server: $schema=job.schema.json

    \b
    Example:
      evertick schema > jobs/job.schema.json
    """
    from evertick.definitions.schema import job_schema

    show_json(job_schema())
