"""What a cron expression of Quartz is in our dialect."""

from __future__ import annotations

import re


def from_quartz(text: str) -> tuple[str, str | None]:
    """The expression with six fields, and what was lost on the way; ValueError when it is none of Quartz's."""
    fields = text.split()
    if len(fields) not in (6, 7):
        raise ValueError(f"'{text}' has {len(fields)} fields; Quartz has six or seven")
    second, minute, hour, day, month, weekday = fields[:6]
    year = fields[6] if len(fields) == 7 else "*"
    lost = None if year == "*" else f"the year '{year}': it fires every year here."
    return " ".join((second, minute, hour, day, month, _weekday(weekday))), lost


def _weekday(field: str) -> str:
    """Quartz counts from Sunday as 1; we do from Sunday as 0. Names are the same."""
    if field.upper() == "L":
        return "6"
    return ",".join(_weekday_part(part) for part in field.split(","))


def _weekday_part(part: str) -> str:
    """Numbers behind `/` and `#` count something else."""
    days, mark, rest = re.fullmatch(r"([^/#]*)([/#]?)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
    return re.sub(r"[0-9]+", lambda found: str(int(found[0]) - 1), days) + mark + rest
