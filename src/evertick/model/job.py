"""A job: what to run, when, and under which policies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from evertick.model.blackout import AddedBlackout, Blackout
from evertick.model.constraint import Constraint
from evertick.model.lifecycle import TERMINAL, RunState
from evertick.model.notify import Route
from evertick.model.policy import Policy
from evertick.model.routing import Routing
from evertick.model.schedule import ScheduleSpec, has_calendar
from evertick.model.work import NOTHING, Step, Work


class AfterMode(StrEnum):
    ALL = "all"
    """When each of them has ended as required."""
    ANY = "any"
    """When any of them has."""


class AfterEnd(StrEnum):
    """Which end of a run of another job counts. A skipped occurrence is not a run, and never counts."""

    SUCCESS = "success"
    FAILURE = "failure"
    """Failed, timed out or lost, and no attempt is left."""
    END = "end"
    """Any end, a cancelled run included."""


_COUNTS = {
    AfterEnd.SUCCESS: frozenset({RunState.SUCCEEDED}),
    AfterEnd.FAILURE: frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.LOST}),
    AfterEnd.END: TERMINAL - {RunState.SKIPPED},
}


@dataclass(frozen=True, slots=True)
class After:
    """Jobs whose end starts this one; next to a schedule, an occurrence waits for it."""

    jobs: tuple[str, ...]
    mode: AfterMode = AfterMode.ALL
    on: AfterEnd = AfterEnd.SUCCESS

    def counts(self, state: RunState) -> bool:
        return state in _COUNTS[self.on]

    def __str__(self) -> str:
        """`any of a, b`, and which end counts if that is not a success."""
        return f"{self.mode} of {self.named}"

    @property
    def named(self) -> str:
        on = "" if self.on is AfterEnd.SUCCESS else f", on {self.on}"
        return f"{', '.join(self.jobs)}{on}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value of a job was set: on a line of a file, or as the note says."""

    file: str | None = None
    line: int | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.file is None:
            return self.note
        return self.file if self.line is None else f"{self.file}:{self.line}"


DEFAULT_ORIGIN: Final = Origin(note="default")

# One object of each for all jobs with the defaults: a node may have a million jobs.
_NO_ORIGINS: Mapping[str, Origin] = MappingProxyType({})
_NOT_WRITTEN: Mapping[str, str] = MappingProxyType({})
_POLICY = Policy()
_HERE = Routing()


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    name: str = ""
    schedules: tuple[ScheduleSpec, ...] = ()
    """When it starts."""
    stops: tuple[ScheduleSpec, ...] = ()
    restarts: tuple[ScheduleSpec, ...] = ()
    policy: Policy = _POLICY
    priority: int = 0
    enabled: bool = True
    timezone: str = "UTC"
    """The zone in which its times are shown, and its schedules are read unless they name their own."""
    work: Work = NOTHING
    """What it runs."""
    routing: Routing = _HERE
    """Where it runs."""
    after: After | None = None
    constraints: tuple[Constraint, ...] = ()
    notify: tuple[Route, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    """When it is not planned: by the settings, then those that were added at run time."""
    queue: str | None = None
    """The named limit that its runs share with those of other jobs; the settings say how many may run."""
    history_retention_us: int | None = None
    """How long the ledger keeps its runs once they ended; None: as the settings say."""
    log_retention_us: int | None = None
    """How long the logs of its runs are kept; None: as the settings say."""
    tags: tuple[str, ...] = ()
    description: str = ""
    invalid: str = ""
    """Why it cannot run as it is defined: it is held in error. Only a job that a program has stored is known then."""
    file: str | None = None
    origins: Mapping[str, Origin] = field(default_factory=lambda: _NO_ORIGINS, compare=False, repr=False)
    """Where each effective value came from: `file:line`, a default of its form, or a setting."""
    written: Mapping[str, str] = field(default_factory=lambda: _NOT_WRITTEN, compare=False, repr=False)
    """The rules as the definition writes them, by the value they decide: `overlapPolicy: all` for `missed`."""
    definition: str = field(default="", compare=False, repr=False)
    """The digest of `model.definition`'s text of it; empty: the ledger does not have it."""

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.work.steps

    @property
    def is_unconditional(self) -> bool:
        """Whether nothing but an earlier run can keep a due run from starting, as far as the definition says."""
        is_always_due = not has_calendar(self.schedules) and self.after is None and not self.constraints
        policy = self.policy
        has_no_limit = self.queue is None and not self.routing.has_members
        return is_always_due and has_no_limit and policy.max_delay_us is None and not policy.skip_if_successful

    @property
    def fingerprint(self) -> str:
        """Changes exactly when the start schedules do; entries planned under another one are superseded."""
        return fingerprint_of(self.schedules)

    def with_blackouts(self, added: Iterable[AddedBlackout]) -> Job:
        """The job with those of the added blackouts that concern it."""
        mine = tuple(one.window for one in added if one.concerns(self.id, self.tags))
        return replace(self, blackouts=(*self.blackouts, *mine)) if mine else self


def fingerprint_of(schedules: tuple[ScheduleSpec, ...]) -> str:
    text = "\n".join(sorted(repr(spec) for spec in schedules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
