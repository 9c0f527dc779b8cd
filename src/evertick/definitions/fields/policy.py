"""Which rules a job has for missed, overlapping, late and failed runs: from its fields to a `Policy`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from evertick.definitions.catalogue.job import WINDOW
from evertick.definitions.catalogue.limits import DELAY_MINUTES_MAX, PARALLEL_MAX
from evertick.definitions.catalogue.words import (
    BLOCK_STRATEGIES,
    BLOCK_STRATEGY_ALIASES,
    MISFIRES,
    MISSED,
    MISSED_EXECUTIONS,
    ON_EXECUTOR_LOST,
    OVERLAP_POLICIES,
    OVERLAPS,
    SCOPES,
)
from evertick.definitions.fields.retry import PIPELINE_DEFAULT, read_retry
from evertick.definitions.fields.values import choice_of, duration_of, flag_of, fold, integer_of
from evertick.definitions.nodes import Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section, contradiction, section_of
from evertick.model.duration import format_duration
from evertick.model.instant import MINUTE
from evertick.model.job import DEFAULT_ORIGIN, Origin
from evertick.model.policy import (
    GRACE_US,
    MISFIRE_GRACE_US,
    Missed,
    OnExecutorLost,
    Overlap,
    OverlapKind,
    Policy,
    Scope,
)
from evertick.model.schedule import ScheduleSpec
from evertick.planning.jitter import shortest_distance

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_KEPT = "both say which missed occurrences are kept"
_ACTIVE = "both say what happens while the job is active"
# In the order in which they are shown. A dotted name is inside the schedule block.
CONTRADICTIONS: Final = (
    ("missed", "overlapPolicy", _KEPT),
    ("missed", "misfire", _KEPT),
    ("missed", "schedule.missedExecution", _KEPT),
    ("misfire", "catchupWindow", "a misfire strategy has no window"),
    ("misfire", "overlapPolicy", _KEPT),
    ("misfire", "schedule.missedExecution", _KEPT),
    ("schedule.missedExecution", "catchupWindow", _KEPT),
    ("schedule.missedExecution", "overlapPolicy", _KEPT),
    ("overlapPolicy", "overlap", _ACTIVE),
    ("overlapPolicy", "blockStrategy", _ACTIVE),
    ("overlap", "blockStrategy", _ACTIVE),
    ("window", "schedule.window", "it is set in two places"),
    ("enabled", "schedule.enabled", "it is set in two places"),
    ("retryPolicy", "schedule.retryPolicy", "it is set in two places"),
    ("maxRetries", "retryPolicy", "both say how often to retry"),
    ("maxRetries", "schedule.retryPolicy", "both say how often to retry"),
    ("after", "schedule.after", "it is set in two places"),
    ("condition", "schedule.condition", "it is set in two places"),
    ("notify", "schedule.notify", "it is set in two places"),
    ("command", "steps", "a job has one command, or steps"),
    ("expectBy", "expectWithin", "a job has one deadline for each occurrence"),
)

_CALL: Final = re.compile(r"([A-Za-z_-]+)(?:[ ]?\([ ]*([0-9]{1,9})[ ]*\))?")


class _Read(Protocol[T_co]):
    def __call__(self, node: Node, field: str, report: Report, /) -> T_co | None: ...


def report_contradictions(job: Section, block: Section | None, report: Report) -> None:
    for first, second, why in CONTRADICTIONS:
        one, two = _key(job, block, first), _key(job, block, second)
        if one is None or two is None:
            continue
        contradiction(one, two, lambda name: name, why, report)


def _key(job: Section, block: Section | None, name: str) -> ScalarNode | None:
    section, field = (block, name.removeprefix("schedule.")) if name.startswith("schedule.") else (job, name)
    return section.key(field) if section is not None and field in section else None


def read_policy(
    job: Section, block: Section | None, is_pipeline: bool, report: Report
) -> tuple[Policy, dict[str, Origin], dict[str, str]]:
    """The policy of a job, where each value is set, and the words it was written with.

    The kind of file decides the defaults.
    """
    reader = _Reader(job, block, is_pipeline, report)
    missed, window_us = reader.missed()
    overlap = reader.overlap()
    retry, retry_origins = read_retry(job, block, is_pipeline, report)
    policy = Policy(
        missed=missed,
        catchup_window_us=window_us,
        # An explicit `none` also applies to one-offs; the default `none` does not.
        run_missed_one_off=missed is not Missed.NONE or not reader.is_missed_written,
        overlap=overlap,
        grace_us=reader.grace(),
        jitter_us=reader.simple("jitter", "jitter", duration_of, default=0),
        max_delay_us=reader.max_delay(),
        skip_if_successful=reader.simple("skipIfSuccessful", "skip_if_successful", flag_of, default=False),
        retry=retry,
        on_executor_lost=reader.choice("onExecutorLost", "on_executor_lost", ON_EXECUTOR_LOST, OnExecutorLost.RETRY),
    )
    return policy, {**reader.origins, **retry_origins}, reader.written


def check_jitter(jitter_us: int, schedules: Sequence[ScheduleSpec], job: Section, report: Report) -> None:
    """It must end before the next occurrence, and needs occurrences."""
    key = job.key("jitter")
    if not schedules:
        reason = "'jitter' has no effect without a schedule: it delays the start of occurrences."
        report.error(key, "jitter", reason, "Add 'schedule', or remove 'jitter'.")
        return
    shortest_us = shortest_distance(schedules)
    if shortest_us is not None and jitter_us >= shortest_us:
        written, shortest = format_duration(jitter_us), format_duration(shortest_us)
        reason = f"'jitter' is {written}, but two occurrences can be {shortest} apart."
        report.error(key, "jitter", reason, f"Write less than {shortest}, so that runs start in their order.")


class _Reader:
    def __init__(self, job: Section, block: Section | None, is_pipeline: bool, report: Report) -> None:
        self._job, self._block, self._is_pipeline, self._report = job, block, is_pipeline, report
        self.origins: dict[str, Origin] = {}
        self.written: dict[str, str] = {}
        self._catchup_overlap: Overlap | None = None
        # Each is read, and so checked, whether or not another one decides.
        self._window_us = self._read("catchupWindow", duration_of)
        self._policy = self._chosen(job, "overlapPolicy", OVERLAP_POLICIES)
        self._misfire = self._chosen(job, "misfire", MISFIRES)
        self._missed = self._chosen(job, "missed", MISSED)
        self._execution = self._chosen(block, "missedExecution", MISSED_EXECUTIONS) if block else None

    @property
    def is_missed_written(self) -> bool:
        return any(value is not None for value in (self._missed, self._misfire, self._execution))

    def missed(self) -> tuple[Missed, int | None]:
        """Which missed occurrences run, and how far back."""
        window_us = self._window_us
        self.origins["catchup_window"] = self._line("catchupWindow") if window_us else DEFAULT_ORIGIN
        for name, section, value in (
            ("missed", self._job, self._missed),
            ("misfire", self._job, self._misfire),
            ("missedExecution", self._block, self._execution),
        ):
            if value is not None and section is not None:
                self.origins["missed"] = self._report.origin(section.key(name))
                self.written["missed"] = section.words(name)
                if name == "missed" and value is Missed.NONE and "catchupWindow" in self._job:
                    self._nothing_in_window()
                return value, window_us
        if window_us is not None:
            return self._caught_up(), window_us
        if self._policy is not None and "catchupWindow" not in self._job:
            self._report.warn(
                self._job.key("overlapPolicy"),
                "overlapPolicy",
                "'overlapPolicy' has no effect without 'catchupWindow'.",
                "Add 'catchupWindow', or use 'overlap' for a rule that always holds.",
            )
        self.origins["missed"] = PIPELINE_DEFAULT if self._is_pipeline else DEFAULT_ORIGIN
        return (Missed.LATEST if self._is_pipeline else Missed.NONE), None

    def _caught_up(self) -> Missed:
        if self._policy is None:
            missed, self._catchup_overlap = OVERLAP_POLICIES["skip"]
            self.origins["missed"] = self.origins["overlap"] = Origin(note="default of catchupWindow")
        else:
            missed, self._catchup_overlap = self._policy
            self.origins["missed"] = self.origins["overlap"] = self._line("overlapPolicy")
            self.written["missed"] = self.written["overlap"] = self._job.words("overlapPolicy")
        return missed

    def _nothing_in_window(self) -> None:
        one, two = self._job.key("missed"), self._job.key("catchupWindow")
        reason = f"'missed: none' on line {one.line} and 'catchupWindow' on line {two.line} contradict each other."
        self._report.error(one, "missed", reason, "Remove one of them.")

    def overlap(self) -> Overlap:
        """What an occurrence does when its job is active; called after `missed`, which may decide it."""
        overlap = self._catchup_overlap
        for name, words in (("overlap", OVERLAPS), ("blockStrategy", BLOCK_STRATEGIES)):
            node = self._job.take(name)
            written = _read_overlap(node, name, words, self._report) if node else None
            if written is not None:
                overlap = written
                self.origins["overlap"] = self._line(name)
                self.written["overlap"] = self._job.words(name)
        if overlap is None:
            overlap = Overlap()
            self.origins["overlap"] = DEFAULT_ORIGIN
        scope = self.choice("scope", "scope", SCOPES, Scope.CLUSTER)
        return replace(overlap, scope=scope)

    def grace(self) -> int:
        default = (
            (MISFIRE_GRACE_US, Origin(note="default of misfire"))
            if self._misfire is not None
            else (GRACE_US, DEFAULT_ORIGIN)
        )
        grace_us = self._read("grace", duration_of)
        self.origins["grace"] = self._line("grace") if grace_us else default[1]
        return grace_us or default[0]

    def max_delay(self) -> int | None:
        """`window: {maxDelayMinutes: 30}`, in the job or in its schedule block."""
        delay_us = None
        self.origins["max_delay"] = DEFAULT_ORIGIN
        for section in (self._job, self._block):
            node = section.take("window") if section else None
            if section is None or node is None:
                continue
            window = section_of(node, section.field("window"), self._report, WINDOW, "window: {maxDelayMinutes: 30}")
            if window is None:
                continue
            minutes = window.take("maxDelayMinutes")
            if minutes is not None:
                count = integer_of(minutes, window.field("maxDelayMinutes"), self._report, 1, DELAY_MINUTES_MAX)
                delay_us = count * MINUTE if count else None
                self.origins["max_delay"] = self._report.origin(minutes)
            elif not window.node.entries:
                hint = "Write window: {maxDelayMinutes: 30}."
                self._report.error(node, window.path, f"'{window.path}' does not say how late is too late.", hint)
            window.finish(f"'{window.path}'")
        return delay_us

    def choice(self, field: str, origin: str, words: dict[str, T], default: T) -> T:
        value = self._chosen(self._job, field, words)
        self.origins[origin] = self._line(field) if value is not None else DEFAULT_ORIGIN
        return default if value is None else value

    def simple(self, field: str, origin: str, read: _Read[T], default: T) -> T:
        value = self._read(field, read)
        self.origins[origin] = self._line(field) if value is not None else DEFAULT_ORIGIN
        return default if value is None else value

    def _chosen(self, section: Section, field: str, words: dict[str, T]) -> T | None:
        node = section.take(field)
        return choice_of(node, section.field(field), self._report, words) if node else None

    def _read(self, field: str, read: _Read[T]) -> T | None:
        node = self._job.take(field)
        return read(node, field, self._report) if node else None

    def _line(self, field: str) -> Origin:
        return self._report.origin(self._job.key(field))


def _read_overlap(node: Node, field: str, words: dict[str, OverlapKind], report: Report) -> Overlap | None:
    """A word, and for the parallel one how many: `parallel(3)`."""
    many = next(word for word, kind in words.items() if kind is OverlapKind.PARALLEL)
    shown = ", ".join(f"{word}(n)" if word == many else word for word in words)
    if not isinstance(node, ScalarNode):
        report.error(node, field, f"'{field}' must be one of {shown}, not {kind_of(node)}.")
        return None
    call = _CALL.fullmatch(node.text.strip())
    kinds = {fold(word): kind for word, kind in words.items()}
    if field == "blockStrategy":
        kinds |= {fold(alias): words[word] for alias, word in BLOCK_STRATEGY_ALIASES.items()}
    kind = kinds.get(fold(call[1])) if call else None
    if call is None or kind is None:
        hint = report.suggest(node.text, words) or f"Write one of {shown}."
        report.error(node, field, f"'{field}' cannot be '{node.text[:60]}'; it is one of {shown}.", hint)
        return None
    limit = int(call[2]) if call[2] else None
    if kind is not OverlapKind.PARALLEL:
        if limit is None:
            return Overlap(kind)
        report.error(node, field, f"'{field}: {call[1]}' takes no number.", f"Write {call[1]}, or {many}({limit}).")
        return None
    if limit is None or not 1 <= limit <= PARALLEL_MAX:
        report.error(
            node, field, f"'{field}: {call[1]}' needs a number from 1 to {PARALLEL_MAX:,}.", f"Write {many}(2)."
        )
        return None
    return Overlap(kind, limit)
