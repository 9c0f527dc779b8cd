"""`evertick schema`: the JSON Schema of job files."""

from __future__ import annotations

import click

from evertick.cli.output import Column, Table, output_as, show


@click.command()
@output_as("json")
def schema(output: str) -> None:
    """Print the JSON Schema of job files, for editors.

    Save it to a file and reference that file in the first line of a job file:

    \b
      # yaml-language-server: $schema=job.schema.json

    \b
    Example:
      evertick schema > jobs/job.schema.json
    """
    from evertick.definitions.schema import job_schema

    found = job_schema()
    fields = [
        {"field": name, "meaning": str(one.get("description", "")).strip()} for name, one in found["properties"].items()
    ]
    columns = (Column("Field", "field", "cyan"), Column("Meaning", "meaning", wrap=True))
    show(output, found, Table(columns, fields), rows=fields, name="field")
