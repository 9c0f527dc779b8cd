"""`evertick cron`: explain a cron expression and show its next times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Row, Table, output_option, show, show_text
from evertick.cli.tables import show_tables
from evertick.cli.times import MOMENT, local_text, offset_text
from evertick.model.duration import duration_text
from evertick.model.instant import from_text

if TYPE_CHECKING:
    from evertick.planning.cron import Cron

FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week")
YEAR_US = 366 * 86_400 * 1_000_000

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
    from evertick.model.instant import from_datetime, to_datetime, to_text

    parsed = _parsed(expression, timezone, name)
    fires = [from_datetime(moment) for moment in parsed.upcoming(to_datetime(after), count)]
    rows: list[Row] = [
        {
            "scheduled_for": to_text(fire),
            "local": local_text(fire, parsed.timezone),
            "offset": offset_text(fire, parsed.timezone),
            "timezone": parsed.timezone,
            "wait_seconds": (fire - after) / 1_000_000,
        }
        for fire in fires
    ]
    columns = (
        Column("In", lambda row: duration_text(round(row["wait_seconds"] * 1_000_000)), "green", right=True),
        Column("Local time", "local", "bold"),
        Column("Zone", lambda row: f"{row['timezone']} {row['offset']}", optional=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    show(output, rows, Table(columns, rows), name="scheduled_for")


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
    from evertick.model.instant import from_datetime, to_datetime, to_text
    from evertick.planning.cron_grammar import ALIASES

    parsed = _parsed(expression, timezone, name)
    words = ALIASES.get(parsed.text, parsed.text).split()
    written = words if len(words) == len(FIELDS) else ["0", *words]
    notes = [
        (from_datetime(note.at), note.text)
        for note in parsed.dst_notes(to_datetime(after), to_datetime(after + YEAR_US))
    ]
    upcoming = parsed.upcoming(to_datetime(after), 3)
    data = {
        "expression": expression,
        "timezone": parsed.timezone,
        "meaning": parsed.describe(),
        "fields": dict(zip((label.replace(" ", "_") for label in FIELDS), written, strict=True)),
        "dst_notes": [{"at": to_text(at), "text": text} for at, text in notes],
        "next": [to_text(from_datetime(moment)) for moment in upcoming],
    }
    show(output, data, lambda: _show_preview(data), name="expression")


def _show_preview(data: dict[str, Any]) -> None:
    show_text(data["meaning"], bold=True)
    rows: list[Row] = [{"field": label.replace("_", " "), "written": text} for label, text in data["fields"].items()]
    show_text()
    show_tables(Table((Column("Field", "field"), Column("Value", "written", "bold")), rows))
    show_text()
    zone = data["timezone"]
    if not data["dst_notes"]:
        show_text(f"Daylight saving time: no effect in {zone} in the coming year.")
        return
    show_text(f"Daylight saving time in {zone} in the coming year:")
    for change in data["dst_notes"]:
        show_text(f"  {local_text(from_text(change['at']), zone)}  {change['text']}")


def _parsed(expression: str, timezone: str | None, name: str) -> Cron:
    from evertick.planning.cron import Cron
    from evertick.settings import Settings

    return Cron.parse(expression, timezone or Settings.from_environment().timezone, name)
