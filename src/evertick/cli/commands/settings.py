"""`evertick settings`: the effective settings and where each is set."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.output import Column, Row, Table, note, output_option, show


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option(
    "--config", metavar="FILE", help="Settings file; default: EVERTICK_CONFIG, else the folder's evertick.toml."
)
@click.option("--changed", is_flag=True, help="Only settings that differ from the default.")
@output_option
def settings(folder: Path, config: str | None, changed: bool, output: str) -> None:
    """Show the effective settings and where each is set.

    For a secret, the output names where it is stored, not its value. An invalid settings file is reported with its line
    (exit code 2).

    \b
    Examples:
      evertick settings jobs --changed
      evertick settings -o json
    """
    from evertick.settings import Settings
    from evertick.settings.catalogue import lines

    found = Settings.load(folder, overrides={"config": config})
    shown = [line for line in lines(found) if not changed or line.origin != "default"]
    for warning in found.warnings:
        note(warning)
    rows: list[Row] = [line._asdict() for line in shown]
    columns = (
        Column("Setting", "key", "bold cyan"),
        Column("Value", "value", wrap=True),
        Column("Set in", "origin", "green"),
        Column("Variable", "variable", "dim", optional=True),
        Column("Description", "meaning", wrap=True, optional=True),
    )
    show(output, rows, Table(columns, rows), name="key")
    file = folder / "evertick.toml"
    note(f"Read from {found.config}." if found.config else f"There is no settings file; to add one, create {file}.")
