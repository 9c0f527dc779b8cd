"""What must hold before, during and after a run of a job, and what happens if it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from evertick.definitions.catalogue.field import Fields
from evertick.definitions.catalogue.job import (
    ACTION,
    AFTER,
    CONSTRAINTS,
    HOOK,
    REQUIRED_JOBS,
    RUNS_LIMIT,
    TIME_LIMIT,
)
from evertick.definitions.catalogue.limits import ACTIONS_MAX, JOBS_MAX, PARALLEL_MAX
from evertick.definitions.catalogue.words import ACTIONS, KILL_TARGETS
from evertick.definitions.catalogue.work import SECRET
from evertick.definitions.fields.notify import read_address
from evertick.definitions.fields.values import choice_of, duration_of, flag_of, integer_of, job_of, url_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section, contradiction, section_of
from evertick.model.constraint import (
    Action,
    ActionKind,
    Constraint,
    MaxAllowedRunTime,
    MaxConcurrentRuns,
    MaxExpectedRunTime,
    PostRunHook,
    PreRunHook,
    RequirePreviousSuccess,
)
from evertick.model.job import After, AfterEnd, AfterMode, Origin
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.work import Value

T = TypeVar("T")

_WORDS: Final = {word: kind for word, kind in ACTIONS.items() if kind not in {ActionKind.START_JOB, ActionKind.WEBHOOK}}
_ACTION_SHAPE: Final = "Write retry, kill, skipNext, {startJob: id} or {webhook: https://...}."


@dataclass(frozen=True, slots=True)
class JobConstraints:
    """The constraints of a job, and what they mean for its overlap rule and its timeout."""

    found: tuple[Constraint, ...] = ()
    section: Section | None = None

    def limited(self, policy: Policy, origins: dict[str, Origin], job: Section, report: Report) -> Policy:
        """`maxConcurrentRuns: n` is the overlap rule `parallel(n)`; every other rule already means 1."""
        runs = next((one for one in self.found if isinstance(one, MaxConcurrentRuns)), None)
        if runs is None or self.section is None:
            return policy
        overlap, key = policy.overlap, self.section.key("maxConcurrentRuns")
        is_same = overlap.limit == runs.limit and (runs.limit == 1 or overlap.kind is OverlapKind.PARALLEL)
        if is_same:
            return policy
        for name in ("overlap", "blockStrategy", "overlapPolicy"):
            if name in job:
                why = f"'{overlap}' is not {runs.limit} at once"
                contradiction(job.key(name), key, lambda text: text, why, report)
                return policy
        origins["overlap"] = report.origin(key)
        return replace(policy, overlap=Overlap(OverlapKind.PARALLEL, runs.limit, overlap.scope))

    def timeout(self, timeout_us: int | None, job: Section, report: Report) -> int | None:
        """`maxAllowedRunTime` is the timeout."""
        allowed = next((one for one in self.found if isinstance(one, MaxAllowedRunTime)), None)
        if allowed is None or self.section is None:
            return timeout_us
        if timeout_us is not None and timeout_us != allowed.duration_us:
            why = "both say when a run is ended"
            contradiction(job.key("timeout"), self.section.key("maxAllowedRunTime"), lambda text: text, why, report)
        return allowed.duration_us

    def hooks(self, kind: type[PreRunHook | PostRunHook]) -> tuple[Value, ...]:
        """The addresses to call before and after a run."""
        return tuple(one.url for one in self.found if isinstance(one, kind))


def read_constraints(job: Section, own_id: str, report: Report) -> JobConstraints:
    node = job.take("constraints")
    shape = "constraints: {maxExpectedRunTime: 30m}"
    section = section_of(node, "constraints", report, CONSTRAINTS, shape) if node else None
    if section is None:
        return JobConstraints()
    found = _Reader(section, own_id, report).all()
    section.finish("'constraints'")
    return JobConstraints(found, section)


def _read_hook(node: Node, field: str, report: Report) -> Value | None:
    """An address that an executor calls, or the secret that holds it."""
    return read_address(node, field, report) if isinstance(node, MapNode) else url_of(node, field, report)


class _Reader:
    def __init__(self, section: Section, own_id: str, report: Report) -> None:
        self._section, self._own_id, self._report = section, own_id, report

    def all(self) -> tuple[Constraint, ...]:
        found: list[Constraint] = []
        runs = self._limit("maxConcurrentRuns", RUNS_LIMIT, "value", self._count)
        if runs:
            found.append(MaxConcurrentRuns(*runs))
        before: tuple[Value, tuple[Action, ...]] | None = self._limit("preRunHook", HOOK, "url", _read_hook)
        if before:
            found.append(PreRunHook(*before))
        behind: tuple[Value, tuple[Action, ...]] | None = self._limit("postRunHook", HOOK, "url", _read_hook)
        if behind:
            found.append(PostRunHook(*behind))
        expected = self._limit("maxExpectedRunTime", TIME_LIMIT, "value", duration_of)
        if expected:
            found.append(MaxExpectedRunTime(*expected))
        allowed = self._limit("maxAllowedRunTime", TIME_LIMIT, "value", duration_of)
        if allowed:
            found.append(MaxAllowedRunTime(*allowed))
        if expected and allowed and expected[0] >= allowed[0]:
            self._section.contradict(
                "maxExpectedRunTime", "maxAllowedRunTime", "a run would end before it is reported as late"
            )
        required = self._required()
        if required:
            found.append(required)
        return tuple(found)

    def _limit(
        self, name: str, fields: Fields, value: str, read: Callable[[Node, str, Report], T | None]
    ) -> tuple[T, tuple[Action, ...]] | None:
        """A plain value, or a map with the value and `onViolation`."""
        node = self._section.take(name)
        if node is None:
            return None
        path = self._section.field(name)
        if not isinstance(node, MapNode) or (fields is HOOK and _is_secret(node)):
            found = read(node, path, self._report)
            return None if found is None else (found, ())
        section = Section(node, path, self._report, fields)
        place = section.take(value)
        if place is None and value not in section:
            self._report.error(node, path, f"'{path}' has no '{value}'.", f"Add '{value}'.")
        found = read(place, section.field(value), self._report) if place else None
        actions = self._actions(section)
        section.finish(f"'{path}'")
        return None if found is None else (found, actions)

    def _count(self, node: Node, field: str, report: Report) -> int | None:
        return integer_of(node, field, report, 1, PARALLEL_MAX)

    def _required(self) -> RequirePreviousSuccess | None:
        node = self._section.take("requirePreviousSuccess")
        path = self._section.field("requirePreviousSuccess")
        if node is None:
            return None
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return RequirePreviousSuccess() if flag_of(node, path, self._report) else None
        if not isinstance(node, MapNode):
            return RequirePreviousSuccess(self._jobs(node, path))
        section = Section(node, path, self._report, REQUIRED_JOBS)
        place = section.take("jobs")
        jobs = self._jobs(place, section.field("jobs")) if place else ()
        actions = self._actions(section)
        section.finish(f"'{path}'")
        return RequirePreviousSuccess(jobs, actions)

    def _jobs(self, node: Node, path: str) -> tuple[str, ...]:
        """A job may require its own success; this is represented by the empty list."""
        jobs = read_jobs(node, path, None, self._report)
        return () if jobs == (self._own_id,) else jobs

    def _actions(self, section: Section) -> tuple[Action, ...]:
        node, path = section.take("onViolation"), section.field("onViolation")
        if node is None:
            return ()
        items = node.items if isinstance(node, ListNode) else (node,)
        if not items or len(items) > ACTIONS_MAX:
            reason = f"'{path}' has {len(items):,} actions; it needs 1 to {ACTIONS_MAX}."
            self._report.error(node, path, reason, _ACTION_SHAPE)
        found = (self._action(item, path) for item in items[:ACTIONS_MAX])
        return tuple(action for action in found if action is not None)

    def _action(self, node: Node, path: str) -> Action | None:
        if isinstance(node, ListNode):
            self._report.error(node, path, f"an action must be a word or a map, not {kind_of(node)}.", _ACTION_SHAPE)
            return None
        if isinstance(node, ScalarNode):
            kind = choice_of(node, path, self._report, _WORDS)
            return None if kind is None else Action(kind)
        section = Section(node, path, self._report, ACTION)
        names = [key.text for key, _value in node.entries]
        if len(names) != 1:
            self._report.error(node, path, "an action is a map with one field.", _ACTION_SHAPE)
        job, url, target = (section.take(name) for name in ACTION)
        section.finish(f"an action of '{path}'")
        if job is not None:
            return self._start_job(job, section.field("startJob"))
        if url is not None:
            address = read_address(url, section.field("webhook"), self._report)
            return None if address is None else Action(ActionKind.WEBHOOK, url=address)
        whom = choice_of(target, section.field("kill"), self._report, KILL_TARGETS) if target else None
        return None if whom is None else Action(ActionKind.KILL, target=whom)

    def _start_job(self, node: Node, path: str) -> Action | None:
        job_id = job_of(node, path, self._report)
        if job_id == self._own_id:
            self._report.error(node, path, f"job '{job_id}' would start itself.", "Write retry instead.")
            return None
        return None if job_id is None else Action(ActionKind.START_JOB, job_id=job_id)


def _is_secret(node: MapNode) -> bool:
    return bool(node.entries) and all(key.text in SECRET for key, _value in node.entries)


_MODES = {str(mode): mode for mode in AfterMode}
_ENDS = {str(end): end for end in AfterEnd}


def read_after(node: Node, field: str, own_id: str, report: Report) -> After | None:
    """`after: fetch`, a list, or `{jobs: [...], mode: any, on: failure}`."""
    if not isinstance(node, MapNode):
        jobs = read_jobs(node, field, own_id, report)
        return After(jobs) if jobs else None
    section = Section(node, field, report, AFTER)
    place, word, end = section.take("jobs"), section.take("mode"), section.take("on")
    if place is None and "jobs" not in section:
        report.error(node, field, f"'{field}' names no job.", "Add 'jobs: [...]'.")
    jobs = read_jobs(place, section.field("jobs"), own_id, report) if place else ()
    mode = choice_of(word, section.field("mode"), report, _MODES) if word else None
    on = choice_of(end, section.field("on"), report, _ENDS) if end else None
    section.finish(f"'{field}'")
    return After(jobs, mode or AfterMode.ALL, on or AfterEnd.SUCCESS) if jobs else None


def read_jobs(node: Node, field: str, own_id: str | None, report: Report) -> tuple[str, ...]:
    """One job or a list of jobs; with `own_id`, the job itself is not allowed."""
    items = node.items if isinstance(node, ListNode) else (node,)
    if not items:
        report.error(node, field, f"'{field}' is an empty list.", "Name a job, or remove the field.")
    if len(items) > JOBS_MAX:
        report.error(node, field, f"'{field}' names {len(items):,} jobs; {JOBS_MAX} are allowed.")
    found: list[str] = []
    for item in items[:JOBS_MAX]:
        job_id = job_of(item, field, report)
        if job_id is not None and job_id == own_id:
            report.error(item, field, f"job '{own_id}' waits for itself.", "Name another job.")
        elif job_id is not None:
            found.append(job_id)
    return tuple(dict.fromkeys(found))
