"""What does a cron expression mean, and when is it due?"""

from __future__ import annotations

from evertick.model.instant import DAY, SECOND, Instant, from_datetime, to_datetime
from evertick.operations.results.schedule import ClockNote, CronFire, CronPreview
from evertick.operations.time_text import local_text, offset_text
from evertick.planning.cron import Cron
from evertick.planning.cron_grammar import ALIASES

FIRES_MAX = 10_000
YEAR_US = 366 * DAY
FIELDS = ("second", "minute", "hour", "day_of_month", "month", "day_of_week")


def preview_cron(parsed: Cron, expression: str, start: Instant, count: int) -> CronPreview:
    """Clock changes are those of the coming year; `expression` is as it was written."""
    words = ALIASES.get(parsed.text, parsed.text).split()
    written = words if len(words) == len(FIELDS) else ["0", *words]
    notes = clock_notes(parsed, start)
    texts = {note.at: note.text for note in notes}
    fires = [from_datetime(moment) for moment in parsed.upcoming(to_datetime(start), count)]
    return CronPreview(
        expression=expression,
        timezone=parsed.timezone,
        meaning=parsed.describe(),
        fields=dict(zip(FIELDS, written, strict=True)),
        dst_notes=notes,
        next=tuple(
            CronFire(
                scheduled_for=to_datetime(at),
                local=local_text(at, parsed.timezone),
                offset=offset_text(at, parsed.timezone),
                timezone=parsed.timezone,
                wait_seconds=(at - start) / SECOND,
                note=texts.get(to_datetime(at)),
            )
            for at in fires
        ),
    )


def clock_notes(cron: Cron, start: Instant) -> tuple[ClockNote, ...]:
    """What the clock changes of the coming year do to its occurrences."""
    notes = cron.dst_notes(to_datetime(start), to_datetime(start + YEAR_US))
    instants = [(from_datetime(note.at), note.text) for note in notes]
    return tuple(ClockNote(to_datetime(at), local_text(at, cron.timezone), text) for at, text in instants)
