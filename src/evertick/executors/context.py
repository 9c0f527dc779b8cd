"""The context of a run, as a function or a program of a job reads it."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, TypedDict

from evertick.model import run_variables as variables
from evertick.model.instant import to_datetime
from evertick.model.run import RunKey
from evertick.planning.run_dates import RunDates
from evertick.planning.zones import find_zone

LOGGER = "evertick.jobs"


class StopRequested(Exception):
    """Raised by `RunContext.checkpoint`: the run was cancelled or timed out, or the scheduler is stopping."""


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs as the program has configured it, and writes records from INFO up to the run's own log."""

    def __init__(
        self, logger: logging.Logger, extra: Mapping[str, object], write: Callable[[str], object] | None
    ) -> None:
        super().__init__(logger, extra)
        self._write = write

    def log(self, level: int, msg: object, *args: object, **known: Any) -> None:
        if self._write is not None and level >= logging.INFO:
            raised = known.get("exc_info")
            raised = (
                sys.exc_info() if raised is True else (type(raised), raised, raised.__traceback__) if raised else None
            )
            record = self.logger.makeRecord(self.logger.name, level, "", 0, msg, args, raised)
            self._write(_FORM.format(record) + "\n")
        super().log(level, msg, *args, **known)


_FORM = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


class PlainContext(TypedDict):
    """A `RunContext` for another process: times as text."""

    job_id: str
    run_id: str
    attempt: int
    scheduled_for: str
    trigger: str
    params: Mapping[str, str]
    previous_success: str | None
    fence: int
    timezone: str
    previous: str | None
    next: str | None


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a function is called for: passed to a parameter annotated with this class.

    `run_id` is the same for every attempt of a run, so it is a key for idempotent work.
    """

    job_id: str
    run_id: str
    attempt: int
    """1 for the first try."""
    scheduled_for: datetime
    """When the run was due, UTC, even if it starts late or is a retry."""
    trigger: str
    """Why the run exists: `scheduler`, `catchup`, `manual`, `backfill` ..."""
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The parameters of the request."""
    previous_success: datetime | None = None
    """When the newest successful run was due."""
    fence: int = 0
    """A fencing token that grows with each change of owner: reject writes with an older one."""
    member: str = ""
    """The fleet member that it runs on; empty on a scheduler's own machine."""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The labels of that member."""
    timezone: str = "UTC"
    """The zone of the job."""
    previous: datetime | None = None
    """The occurrence before this one, in the zone of the job."""
    next: datetime | None = None
    """The occurrence behind this one, in the zone of the job."""
    item: str | Mapping[str, str] | None = None
    """The value of the item, of a step with `each`; by name where it has several parts."""
    _stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    _write: Callable[[str], object] | None = field(default=None, repr=False, compare=False)

    @property
    def local(self) -> datetime:
        """`scheduled_for` in the zone of the job."""
        return self.scheduled_for.astimezone(find_zone(self.timezone))

    @property
    def date(self) -> date:
        """The date that the run is for, in the zone of the job, even if it starts late or is a retry."""
        return self.local.date()

    @property
    def log(self) -> RunLogger:
        """The logger `evertick.jobs.<job>`, with the run in every record; it also writes to the run's log."""
        extra = {"job": self.job_id, "run": self.run_id, "attempt": self.attempt}
        return RunLogger(logging.getLogger(f"{LOGGER}.{self.job_id}"), extra, self._write)

    @property
    def is_stopping(self) -> bool:
        """Whether this run should stop. A thread cannot be killed: a long function checks this from time to time."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or the run should stop; True if it should."""
        return self._stop.wait(seconds)

    def checkpoint(self) -> None:
        """Raise `StopRequested` if the run should stop."""
        if self._stop.is_set():
            raise StopRequested(f"Run {self.run_id} was asked to stop.")

    def to_plain(self) -> PlainContext:
        return {
            "job_id": self.job_id,
            "run_id": self.run_id,
            "attempt": self.attempt,
            "scheduled_for": self.scheduled_for.isoformat(),
            "trigger": self.trigger,
            "params": dict(self.params),
            "previous_success": self.previous_success.isoformat() if self.previous_success else None,
            "fence": self.fence,
            "timezone": self.timezone,
            "previous": self.previous.isoformat() if self.previous else None,
            "next": self.next.isoformat() if self.next else None,
        }

    @classmethod
    def from_plain(cls, plain: PlainContext, write: Callable[[str], object] | None = None) -> RunContext:
        previous = plain["previous_success"]
        return cls(
            plain["job_id"],
            plain["run_id"],
            plain["attempt"],
            datetime.fromisoformat(plain["scheduled_for"]),
            plain["trigger"],
            MappingProxyType(plain["params"]),
            datetime.fromisoformat(previous) if previous else None,
            plain["fence"],
            timezone=plain["timezone"],
            previous=_local(plain["previous"], plain["timezone"]),
            next=_local(plain["next"], plain["timezone"]),
            _write=write,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> RunContext:
        """The run that this process was started for, read from its environment variables."""
        if variables.RUN_ID not in environ:
            raise LookupError(f"This process was not started for a run: {variables.RUN_ID} is not set.")
        previous = environ.get(variables.PREVIOUS_SUCCESS)
        return cls(
            environ[variables.JOB],
            environ[variables.RUN_ID],
            int(environ[variables.ATTEMPT]),
            datetime.fromisoformat(environ[variables.SCHEDULED_FOR]),
            environ[variables.TRIGGER],
            MappingProxyType(
                {name: str(value) for name, value in json.loads(environ.get(variables.PARAMS) or "{}").items()}
            ),
            datetime.fromisoformat(previous) if previous else None,
            int(environ[variables.FENCE]),
            environ.get(variables.MEMBER, ""),
            MappingProxyType(json.loads(environ.get(variables.MEMBER_LABELS) or "{}")),
            zone := environ.get(variables.TIMEZONE, "UTC"),
            _local(environ.get(variables.PREVIOUS), zone),
            _local(environ.get(variables.NEXT), zone),
            _item(environ),
        )

    @classmethod
    def of(
        cls,
        key: RunKey,
        attempt: int,
        trigger: str,
        params: Mapping[str, str],
        dates: RunDates,
        fence: int,
        write: Callable[[str], object] | None = None,
    ) -> RunContext:
        success = None if dates.previous_success_for is None else to_datetime(dates.previous_success_for)
        due = to_datetime(key.scheduled_for)
        known = MappingProxyType(dict(params))
        return cls(
            key.job_id,
            key.run_id,
            attempt,
            due,
            trigger,
            known,
            success,
            fence,
            timezone=dates.timezone,
            previous=None if dates.previous_for is None else dates.local(dates.previous_for),
            next=None if dates.next_for is None else dates.local(dates.next_for),
            _write=write,
        )


def _item(environ: Mapping[str, str]) -> str | Mapping[str, str] | None:
    text = environ.get(variables.ITEM)
    if text is None or not any(name.startswith(f"{variables.ITEM}_") for name in environ):
        return text
    return MappingProxyType(json.loads(text))


def _local(text: str | None, timezone: str) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(find_zone(timezone)) if text else None
