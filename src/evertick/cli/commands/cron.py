"""`evertick cron`: explain a cron expression and show its next times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Row, Table, output_option, show, show_text
from evertick.cli.tables import show_tables
from evertick.cli.times import MOMENT
from evertick.model.duration import duration_text
from evertick.model.instant import Instant

if TYPE_CHECKING:
    from evertick.operations.results.schedule import CronPreview

expression_argument = click.argument("expression", metavar="EXPR")
timezone_option = click.option(
    "--timezone", metavar="ZONE", help="IANA name of a time zone; default: EVERTICK_TIMEZONE, else the system's."
)
name_option = click.option("--name", default="", metavar="JOB", help="The job's id, from which 'H' is computed.")
after_option = click.option(
    "--after", type=MOMENT, default="now", metavar="TIME", show_default=True, help="Start from this time."
)


@click.group(cls=SuggestingGroup)
def cron() -> None:
    """Explain a cron expression and show its next times.

    \b
    Example:
      evertick cron next "*/15 9-17 * * MON-FRI" --timezone Europe/Berlin
    """


@cron.command("next")
@expression_argument
@timezone_option
@click.option("--count", "-n", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Number of times.")
@after_option
@name_option
@output_option
def next_fires(expression: str, timezone: str | None, count: int, after: int, name: str, output: str) -> None:
    """Show the next times of a cron expression.

    \b
    Examples:
      evertick cron next "0 9 * * MON-FRI" --timezone America/New_York
      evertick cron next "@daily" --after 2027-03-27T00:00:00Z --count 3 -o json
    """
    found = _preview(expression, timezone, after, name, count)
    columns = (
        Column("In", lambda fire: duration_text(round(fire.wait_seconds * 1_000_000)), "green", right=True),
        Column("Local time", "local", "bold"),
        Column("Zone", lambda fire: f"{fire.timezone} {fire.offset}", optional=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    show(output, found.next, Table(columns, found.next), name="scheduled_for")


@cron.command("explain")
@expression_argument
@timezone_option
@after_option
@name_option
@output_option
def explain(expression: str, timezone: str | None, after: int, name: str, output: str) -> None:
    """Explain a cron expression in English, with the effects of daylight saving time in the coming year.

    \b
    Example:
      evertick cron explain "30 2 * * *" --timezone Europe/Berlin
    """
    found = _preview(expression, timezone, after, name, 3)
    show(output, found, lambda: _show_preview(found), name="expression")


def _show_preview(found: CronPreview) -> None:
    show_text(found.meaning, bold=True)
    rows: list[Row] = [{"field": name.replace("_", " "), "written": text} for name, text in found.fields.items()]
    show_text()
    show_tables(Table((Column("Field", "field"), Column("Value", "written", "bold")), rows))
    show_text()
    if not found.dst_notes:
        show_text(f"Daylight saving time: no effect in {found.timezone} in the coming year.")
        return
    show_text(f"Daylight saving time in {found.timezone} in the coming year:")
    for note in found.dst_notes:
        show_text(f"  {note.local}  {note.text}")


def _preview(expression: str, timezone: str | None, after: Instant, name: str, count: int) -> CronPreview:
    from evertick.operations.cron_preview import preview_cron
    from evertick.planning.cron import Cron
    from evertick.settings import Settings

    parsed = Cron.parse(expression, timezone or Settings.from_environment().timezone, name)
    return preview_cron(parsed, expression, after, count)
