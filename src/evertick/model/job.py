"""A job: what to run, when, and under which policies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from evertick.model.policy import Policy
from evertick.model.schedule import AtSpec, ScheduleSpec

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a job; `depends` names the steps that must end first."""

    name: str
    command: tuple[str, ...] = ()
    """The argument vector; a single text runs in the shell when `shell` is set."""
    shell: bool = False
    depends: tuple[str, ...] = ()
    continue_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    name: str = ""
    schedules: tuple[ScheduleSpec, ...] = ()
    """When it starts."""
    stops: tuple[ScheduleSpec, ...] = ()
    restarts: tuple[ScheduleSpec, ...] = ()
    policy: Policy = field(default_factory=Policy)
    priority: int = 0
    enabled: bool = True
    timezone: str = "UTC"
    """The zone its times are shown in, and that its schedules are read in unless they name their own."""
    steps: tuple[Step, ...] = ()
    tags: tuple[str, ...] = ()
    description: str = ""
    pipeline: Mapping[str, object] | None = field(default=None, hash=False)
    """What a pipeline says beside its schedule (`input`, `map`, `reduce` ...), as plain data."""
    file: str | None = None
    origins: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    """Where each effective value came from: `file:line`, a default of its form, or a setting."""

    @property
    def fingerprint(self) -> str:
        """Changes exactly when the start schedules do; entries planned under another one are superseded."""
        return fingerprint_of(self.schedules)

    @property
    def is_one_off(self) -> bool:
        return bool(self.schedules) and all(isinstance(spec, AtSpec) for spec in self.schedules)


def fingerprint_of(schedules: tuple[ScheduleSpec, ...]) -> str:
    text = "\n".join(sorted(repr(spec) for spec in schedules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
