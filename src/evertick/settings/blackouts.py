"""The blackouts that the settings declare, as they are written: which jobs each of them concerns, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from evertick.model.blackout import concerns
from evertick.settings.kinds import InvalidSetting, Kind

BLACKOUTS_MAX: Final = 1_000
_KEYS: Final = ("from", "to", "timezone", "reason", "jobs", "tags", "all")
_HINT: Final = 'Write from = "2027-03-06T22:00", to = "2027-03-07T04:00", reason = "...", and jobs, tags or all = true.'


@dataclass(frozen=True, slots=True)
class BlackoutRule:
    """A stretch, and the jobs that it concerns: those of an id, of a tag, or all."""

    start: datetime
    end: datetime
    timezone: str | None = None
    """Of times without an offset; None: that of the settings."""
    reason: str = ""
    jobs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    is_for_all: bool = False
    origin: str = field(default="", compare=False)
    """The file and line it is in."""

    def concerns(self, job_id: str, tags: Collection[str]) -> bool:
        return concerns(self.is_for_all, self.jobs, self.tags, job_id, tags)

    def window(self, timezone: str) -> tuple[datetime, datetime]:
        """Its start and end, with zones."""
        zone = ZoneInfo(self.timezone or timezone)
        start, end = (at if at.tzinfo else at.replace(tzinfo=zone) for at in (self.start, self.end))
        return start.astimezone(UTC), end.astimezone(UTC)


def unknown_names(
    rules: Iterable[BlackoutRule], timezone: str, jobs: Mapping[str, Collection[str]], now: datetime
) -> Iterator[str]:
    """What blackouts that are not over name, and no job is or has; `jobs` has the tags of each job."""
    known = {tag for tags in jobs.values() for tag in tags}
    for rule in rules:
        if rule.window(timezone)[1] <= now:
            continue
        where = f"the blackout from {rule.start:%Y-%m-%d %H:%M} to {rule.end:%Y-%m-%d %H:%M}"
        yield from (f"{where} names the unknown job '{name}'" for name in rule.jobs if name not in jobs)
        yield from (f"{where} names the tag '{tag}', which no job has" for tag in rule.tags if tag not in known)


def _blackouts(value: object) -> tuple[BlackoutRule, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, Mapping) for one in value):
        raise InvalidSetting("it is not a list of tables", f"Write [[blackouts]] above each. {_HINT}")
    if len(value) > BLACKOUTS_MAX:
        raise InvalidSetting(f"there are more than {BLACKOUTS_MAX:,}", "Remove those that are over.")
    return tuple(_rule(one) for one in value)


def _rule(written: Mapping[str, object]) -> BlackoutRule:
    others = set(written) - set(_KEYS)
    if others:
        raise InvalidSetting(f"it has the unknown key '{min(others)}'", f"The keys are {', '.join(_KEYS)}.")
    timezone, reason = written.get("timezone"), written.get("reason", "")
    if timezone is not None and not (isinstance(timezone, str) and timezone in available_timezones()):
        raise InvalidSetting(f"{str(timezone)[:40]!r} is not a time zone", "Write a name such as Europe/Berlin.")
    if not isinstance(reason, str) or not reason.isprintable():
        raise InvalidSetting("its reason is not one line of text", _HINT)
    jobs, tags = (_names(key, written.get(key, ())) for key in ("jobs", "tags"))
    is_for_all = written.get("all", False)
    if not isinstance(is_for_all, bool) or is_for_all == bool(jobs or tags):
        raise InvalidSetting(
            "it does not say which jobs it concerns", "Write jobs = [...], tags = [...], or all = true."
        )
    start, end = _moment(written.get("from"), "from"), _moment(written.get("to"), "to")
    rule = BlackoutRule(start, end, timezone, reason.strip(), jobs, tags, is_for_all)
    first, last = rule.window("UTC")
    if last <= first:
        raise InvalidSetting(f"it ends at {end}, which is not after its start, {start}", _HINT)
    return rule


def _names(key: str, value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item.strip() for item in items):
        raise InvalidSetting(f"'{key}' is not a list of names", _HINT)
    return tuple(item.strip() for item in items)


def _moment(value: object, key: str) -> datetime:
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise InvalidSetting(f"'{key}' is {str(value)[:40]!r}, which is not a date and time", _HINT) from None
    if not 1971 <= found.year < 2200:
        raise InvalidSetting(f"'{key}' is in the year {found.year}", "Write a year from 1971 to 2199.")
    return found


def _show(value: tuple[BlackoutRule, ...]) -> str:
    return ", ".join(f"{one.start:%Y-%m-%d %H:%M} to {one.end:%Y-%m-%d %H:%M}" for one in value)


BLACKOUTS: Final = Kind("list of blackouts", _blackouts, _show, has_variable=False)
