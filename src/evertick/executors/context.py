"""What a function is told about the run that it is called for."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from evertick.model import run_variables as variables
from evertick.model.instant import to_datetime
from evertick.model.run import RunKey

LOGGER = "evertick.jobs"


class StopRequested(Exception):
    """The run was cancelled, took too long, or the scheduler stops; raised by `RunContext.checkpoint`."""


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """Hands records on as the program has set it up; from INFO on they are in the run's own log, whatever that is."""

    def __init__(
        self, logger: logging.Logger, extra: Mapping[str, object], write: Callable[[str], object] | None
    ) -> None:
        super().__init__(logger, extra)
        self._keep = write

    def log(self, level: int, msg: object, *args: object, **known: Any) -> None:
        if self._keep is not None and level >= logging.INFO:
            raised = known.get("exc_info")
            raised = (
                sys.exc_info() if raised is True else (type(raised), raised, raised.__traceback__) if raised else None
            )
            record = self.logger.makeRecord(self.logger.name, level, "", 0, msg, args, raised)
            self._keep(_FORM.format(record) + "\n")
        super().log(level, msg, *args, **known)


_FORM = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


@dataclass(frozen=True, slots=True)
class RunContext:
    """Handed to a function that has a parameter annotated with this class.

    `run_id` and `attempt` together are a key for doing things once: a run may be tried again after a crash.
    """

    job_id: str
    run_id: str
    attempt: int
    """1 for the first try."""
    scheduled_for: datetime
    """The time it was due, UTC; of a late or repeated run too."""
    trigger: str
    """Why the run exists: `scheduler`, `catchup`, `manual`, `backfill` ..."""
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What was given with the request."""
    previous_success: datetime | None = None
    """The time for which the newest successful run was due."""
    fence: int = 0
    """Grows with every change of hands: refuse what comes with an older one."""
    member: str = ""
    """The member of the fleet that it runs on; empty on a scheduler's own machine."""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Those of that member."""
    _stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    _write: Callable[[str], object] | None = field(default=None, repr=False, compare=False)

    @property
    def log(self) -> RunLogger:
        """A logger that names the run in every record, `evertick.jobs.<job>`, and keeps what is said with the run."""
        extra = {"job": self.job_id, "run": self.run_id, "attempt": self.attempt}
        return RunLogger(logging.getLogger(f"{LOGGER}.{self.job_id}"), extra, self._write)

    @property
    def is_stopping(self) -> bool:
        """Whether this run is to end. A thread cannot be killed: a long function looks here from time to time."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than until the run is to end; whether it is."""
        return self._stop.wait(seconds)

    def checkpoint(self) -> None:
        """Raise `StopRequested` where the run is to end, go on otherwise."""
        if self._stop.is_set():
            raise StopRequested(f"the run {self.run_id} was asked to end")

    def to_plain(self) -> dict[str, Any]:
        """For a process of its own."""
        return {
            "job_id": self.job_id,
            "run_id": self.run_id,
            "attempt": self.attempt,
            "scheduled_for": self.scheduled_for.isoformat(),
            "trigger": self.trigger,
            "params": dict(self.params),
            "previous_success": self.previous_success.isoformat() if self.previous_success else None,
            "fence": self.fence,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], write: Callable[[str], object] | None = None) -> RunContext:
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
            _write=write,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> RunContext:
        """For a program that a job starts, on whichever machine: the run it is for, as its environment tells."""
        if variables.RUN_ID not in environ:
            raise LookupError(f"this process was not started for a run: {variables.RUN_ID} is not set")
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
        )

    @classmethod
    def of(
        cls,
        key: RunKey,
        attempt: int,
        trigger: str,
        params: Mapping[str, str],
        previous_success_at: int | None,
        fence: int,
        write: Callable[[str], object] | None = None,
    ) -> RunContext:
        previous = None if previous_success_at is None else to_datetime(previous_success_at)
        due = to_datetime(key.scheduled_for)
        known = MappingProxyType(dict(params))
        return cls(key.job_id, key.run_id, attempt, due, trigger, known, previous, fence, _write=write)
