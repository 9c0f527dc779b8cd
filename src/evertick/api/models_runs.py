"""How answers about runs look: lines of the ledger, steps, logs, gaps."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from evertick.api.models_base import Moment, Shape
from evertick.model.facts import WaitKind
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.loss import LossReason
from evertick.model.policy import Missed


class Parent(Shape):
    run: str
    via: str | None = Field(description="The step that asked for this run, or the constraint that was broken.")


class Wait(Shape):
    kind: WaitKind
    since: Moment
    name: str = Field(description="Of the queue or the executor, or how the job was held.")
    runs: list[str] = Field(description="The runs that held the places.")
    jobs: list[str] = Field(description="The jobs whose success was missing.")
    detail: str
    limit: int | None = Field(description="Places that the queue has.")


class RunBase(Shape):
    run: str
    job: str
    scheduled_for: Moment
    state: RunState
    reason: SkipReason | None
    trigger: Trigger
    attempt: int
    started_at: Moment | None
    finished_at: Moment | None
    duration_seconds: float | None
    lateness_seconds: float | None = Field(description="Of an occurrence; a requested run has no time to be late for.")
    exit_code: int | None
    detail: str
    loss: LossReason | None = Field(description="Why its newest attempt was lost, where it was.")
    missed_by: Missed | None = Field(description="Of an occurrence that was missed: the rule that kept it or did not.")
    executor: str
    decided_at: Moment
    decided_by: str
    through: Moment | None = Field(description="Of a gap: its last occurrence.")
    occurrences: int
    request: str | None
    params: Any
    resumed_from: str | None
    waits: list[Wait] = Field(description="What it waited for, first to last.")
    running_steps: list[str] = Field(description="The steps that run now.")
    parents: list[Parent] = Field(description="The runs that this one exists because of; `trigger` says in which way.")


class Run(RunBase):
    """A line of the ledger: a run, or a skip with its reason."""

    job_name: str
    timezone: str


class StepBase(Shape):
    name: str
    attempt: int
    tries: int
    started_at: Moment | None
    finished_at: Moment | None
    duration_seconds: float | None
    exit_code: int | None
    detail: str
    output: str | None
    is_output_cut: bool
    sub_run: str | None
    reused_from: str | None
    has_log: bool
    cpu_seconds: float
    max_rss_bytes: int | None


class Step(StepBase):
    state: str


class AttemptStep(StepBase):
    state: str | None = Field(description="null: all that is known of it is its log.")
    log_bytes: int | None


class Attempt(Shape):
    attempt: int
    state: str
    started_at: Moment | None
    finished_at: Moment | None
    exit_code: int | None
    detail: str
    loss: LossReason | None = Field(description="Why it was lost, where it was.")
    executor: str
    definition: str | None
    steps: list[AttemptStep]


class LogFile(Shape):
    attempt: int
    step: str
    size: int
    is_complete: bool


class AbsentLog(Shape):
    """An attempt whose log is kept where it cannot be read from now."""

    attempt: int
    place: str = Field(description="What has it, in words.")
    kind: Literal["node", "member", "store"]
    name: str = Field(description="Of the node or member that has it.")
    cause: Literal[
        "unreachable",
        "not-kept",
        "away",
        "unknown",
        "no-answer",
        "too-old",
        "busy",
        "fleet-unreachable",
        "not-understood",
    ]
    last_seen_at: Moment | None = Field(description="When a member that does not answer was last heard.")
    is_partial: bool = Field(description="Whether a part of it can be read.")
    reason: str
    text: str = Field(description="The same as a sentence.")


class RunDetail(Run):
    steps: list[Step]
    attempts: list[Attempt]
    depends: dict[str, list[str]]
    logs: list[LogFile]
    absent_logs: list[AbsentLog]
    definition: str | None = Field(description="The digest of what its job was; /runs/{run}/definition has the text.")
    is_definition_current: bool | None = Field(description="null: its job is gone, or what it was is not known.")
    can_cancel: bool
    can_retry: bool
    can_retry_failed: bool
    blocked_by: list[str]


class DefinitionChange(Shape):
    side: Literal["both", "before", "after"] = Field(description="Where the line is: then, now, or both.")
    text: str


class RunDefinition(Shape):
    """What a job was when an attempt of a run was launched, without values that may be secrets."""

    run: str
    job: str
    attempt: int
    digest: str
    text: str
    is_current: bool | None = Field(description="null: the job is gone.")
    changes: list[DefinitionChange] = Field(description="Every line, then and now; empty where the job is gone.")


class RunPage(Shape):
    items: list[Run]
    next: str | None = Field(description="Hand it back as `cursor`; null: this was the last page.")


class LogFiles(Shape):
    items: list[LogFile]


class LogText(Shape):
    run: str
    attempt: int
    step: str
    text: str
    offset: int
    first_line: int | None = Field(description="The number of the first line, where `lines` asked for it.")
    next_offset: int = Field(description="In bytes; where to go on reading.")
    size: int
    is_complete: bool


class LogHit(Shape):
    line: int
    offset: int = Field(description="Where the line begins, in bytes.")


class LogHits(Shape):
    run: str
    attempt: int
    step: str
    items: list[LogHit] = Field(description="The first 1,000 of them.")
    total: int
    searched_bytes: int = Field(description="Less than `size` where the log is too long to be searched as a whole.")
    size: int


class Gap(Shape):
    """A stretch of occurrences that were skipped as one."""

    run: str
    job: str
    at: Moment
    through: Moment | None
    occurrences: int
    reason: SkipReason | None
    detail: str
    decided_at: Moment


class GapPage(Shape):
    items: list[Gap]
    next: str | None
