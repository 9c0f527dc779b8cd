"""Parses a job file: text in, a job or all of its errors out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.definitions.catalogue.job import JOB
from evertick.definitions.catalogue.limits import PRIORITY_MAX, QUEUE_MAX, TAG_MAX, TAGS_MAX
from evertick.definitions.fields.calendar import apply_calendar, read_calendar
from evertick.definitions.fields.constraints import read_after, read_constraints
from evertick.definitions.fields.deadline import read_expectation
from evertick.definitions.fields.environment import placed
from evertick.definitions.fields.notify import read_notify
from evertick.definitions.fields.policy import check_jitter, read_policy, report_contradictions
from evertick.definitions.fields.routing import attended, read_routing
from evertick.definitions.fields.schedule import Form, Timetable, Zone, read_schedule, read_zone
from evertick.definitions.fields.values import (
    NAME_MAX,
    duration_of,
    flag_of,
    integer_of,
    job_id_of,
    line_of,
    text_of,
    texts_of,
)
from evertick.definitions.fields.work import mentions_work, read_work
from evertick.definitions.nodes import MapNode, Node, kind_of
from evertick.definitions.parsed_file import PIPELINE_NAMES, Parsed
from evertick.definitions.report import Report, Section
from evertick.definitions.yaml import read_yaml
from evertick.errors import DefinitionError
from evertick.model.blackout import Blackout
from evertick.model.definition import definition_digest
from evertick.model.instant import from_datetime
from evertick.model.job import DEFAULT_ORIGIN, After, Job, Origin
from evertick.model.notify import Channel, Route
from evertick.model.policy import Policy
from evertick.settings import Settings


class _Source(NamedTuple):
    """What the place of a file says about its job."""

    stem: str
    folder: str
    """Its path."""
    is_pipeline: bool


def parse_definition(
    source: str | bytes, file: str, settings: Settings | None = None, *, folder: str | None = None
) -> Parsed:
    """The job of one file. `file` is shown in errors, and gives the id where the text gives none.

    A file called `pipeline.yaml` is a pipeline: the folder it lies in gives its id, and is where it works. `folder` is
    the path of that folder where `file` does not tell it.
    """
    report = Report(file)
    settings = settings or Settings()
    document = read_yaml(source, settings.limits.file_bytes)
    for problem in document.problems:
        error = DefinitionError(problem.reason, hint=problem.hint, file=file, line=problem.line, column=problem.column)
        report.add(error)
    root = document.root
    if root is None:
        if not document.problems:
            report.error(None, "", "the file is empty.", "A job needs at least a 'schedule' and a 'command'.")
        return Parsed(None, report.errors)
    if not isinstance(root, MapNode):
        hint = "Write fields such as 'schedule: ...' and 'command: ...'."
        report.error(root, "", f"a job must be a map of fields, not {kind_of(root)}.", hint)
        return Parsed(None, report.errors)
    path = PurePath(file)
    is_pipeline = path.name in PIPELINE_NAMES
    place = _Source(path.stem, folder or str(path.parent), is_pipeline)
    job = _read_job(Section(root, "", report, JOB), place, settings, report)
    # Warnings rest on a whole reading: with an error in the file some would be false.
    if report.errors:
        return Parsed(None, report.errors)
    return Parsed(replace(job, definition=definition_digest(job)), (), report.warnings)


_BLACKOUTS: Final = Origin(note="the setting 'blackouts'")
_LOCATED: Final = ("calendar", "steps", "constraints", "user", "sandbox")
"""Fields whose place is kept as it is, for `explain`."""


def _read_job(section: Section, source: _Source, settings: Settings, report: Report) -> Job:
    stem, is_pipeline = source.stem, source.is_pipeline
    folder = PurePath(source.folder).name if is_pipeline else ""
    name_node = section.take("name")
    name = line_of(name_node, "name", report, longest=NAME_MAX) if name_node else None
    job_id = _read_id(folder or name or stem, name_node if not folder else None, report)
    description = section.take("description")
    zone = _read_zone(section, settings, report)
    node = section.take("schedule")
    timetable = read_schedule(node, zone, job_id, report) if node else Timetable()
    calendar = section.take("calendar")
    rule = read_calendar(calendar, settings, report) if calendar else None
    starts = timetable.starts
    if calendar is not None and rule is not None:
        starts = apply_calendar(rule, starts, zone.name, calendar, report)
    block = timetable.block
    report_contradictions(section, block, report)
    policy, policy_origins, written = read_policy(section, block, is_pipeline, report)
    policy = _settled(policy, policy_origins, settings)
    if policy.jitter_us:
        check_jitter(policy.jitter_us, starts, section, report)
    expectation, expectation_origin = read_expectation(section, starts, zone.name, report)
    policy = replace(policy, expectation=expectation)
    constrained = read_constraints(section, job_id, report)
    unlimited = policy
    policy = constrained.limited(policy, policy_origins, section, report)
    if policy.overlap != unlimited.overlap:
        written["overlap"] = f"maxConcurrentRuns: {policy.overlap.limit}"
    routing, routing_origins = read_routing(section, policy, source.folder, report)
    enabled, enabled_origin = _read_enabled(section, block, report)
    priority = section.take("priority")
    work = read_work(section, block, is_pipeline, constrained, job_id, report)
    routing, routing_origins = attended(routing, routing_origins, work)
    if not routing.is_remote:
        work = placed(work, source.folder)
    elif is_pipeline and work.working_dir is None:
        # Its data lies beside it.
        work = replace(work, working_dir=os.path.abspath(source.folder))
    after, after_origin = _read_after(section, block, job_id, report)
    tags = _read_tags(section, report)
    blackouts = _blackouts_of(job_id, tags, settings)
    retention, history = section.take("logRetention"), section.take("historyRetention")
    job = Job(
        id=job_id,
        name=name or _shown(folder or stem, job_id),
        schedules=starts,
        stops=timetable.stops,
        restarts=timetable.restarts,
        policy=policy,
        priority=(integer_of(priority, "priority", report, -PRIORITY_MAX, PRIORITY_MAX) or 0) if priority else 0,
        enabled=enabled,
        timezone=zone.name,
        work=work,
        routing=routing,
        after=after,
        constraints=constrained.found,
        notify=_read_notify(section, block, dict(settings.notifications.channels), report),
        queue=_read_queue(section, settings, report),
        history_retention_us=duration_of(history, "historyRetention", report) if history else None,
        log_retention_us=duration_of(retention, "logRetention", report) if retention else None,
        tags=tags,
        blackouts=blackouts,
        description=(text_of(description, "description", report) or "") if description else "",
        file=report.file,
        origins=MappingProxyType(
            {
                "id": Origin(note="the folder")
                if folder
                else (report.origin(name_node) if name and name_node else Origin(note="the file's name")),
                "timezone": zone.origin,
                "schedule": report.origin(node) if node else Origin(note="not written"),
                "enabled": enabled_origin,
                "priority": report.origin(priority) if priority else DEFAULT_ORIGIN,
                **{f"blackout.{index}": _BLACKOUTS for index in range(len(blackouts))},
                **{name: report.origin(section.key(name)) for name in _LOCATED if name in section},
                **after_origin,
                **timetable.origins,
                **policy_origins,
                **expectation_origin,
                **routing_origins,
                **({"queue": report.origin(section.key("queue"))} if "queue" in section else {}),
            }
        ),
        written=MappingProxyType(written),
    )
    for scope in (block, section):
        if scope is not None:
            _finish(scope, job_id)
    # With another error in the file it may be that one which took the work away.
    if not work.steps and not mentions_work(section) and not report.errors:
        report.error(None, "steps", f"job '{job_id}' has nothing to run.", "Add 'command' or 'steps'.")
    if timetable.form is Form.PLAIN and not timetable.starts and after is None:
        report.warn(node, "schedule", f"job '{job_id}' never starts by itself.", "Add 'start' to its schedule.")
    if timetable.starts or after is not None:
        for param in (param for param in work.params if param.default is None):
            reason = f"the parameter '{param.name}' has no default, so every run that the schedule starts fails."
            report.warn(section.key("params"), "params", reason, "Add 'default'.")
    return job


def _blackouts_of(job_id: str, tags: tuple[str, ...], settings: Settings) -> tuple[Blackout, ...]:
    found: list[Blackout] = []
    for rule in settings.blackouts:
        if rule.concerns(job_id, tags):
            start, end = rule.window(settings.timezone)
            found.append(Blackout(from_datetime(start), from_datetime(end), rule.reason))
    return tuple(found)


def _finish(section: Section, job_id: str) -> None:
    if section.path:
        section.finish(f"the schedule of job '{job_id}'")
        return
    hint = "Write it inside the block: 'schedule: {cron: ..., missedExecution: run}'."
    section.refuse("missedExecution", "'missedExecution' belongs to the block form of 'schedule'.", hint)
    section.finish(f"job '{job_id}'")


def _read_id(written: str, node: Node | None, report: Report) -> str:
    job_id = job_id_of(written)
    if not job_id:
        reason = f"'{written[:60]}' gives no job id: it has no letter a-z and no digit."
        report.error(node, "name", reason, "Write a 'name' that has some, for example 'report-2'.")
    return job_id


def _shown(written: str, job_id: str) -> str:
    """A file's name may hold anything; what people are shown may not."""
    return written if written.isprintable() else job_id


def _read_zone(section: Section, settings: Settings, report: Report) -> Zone:
    node = section.take("timezone")
    named = read_zone(node, "timezone", report) if node else None
    return named or Zone(settings.timezone, Origin(note=settings.timezone_origin))


def _settled(policy: Policy, origins: dict[str, Origin], settings: Settings) -> Policy:
    """What the settings say for jobs that do not say it themselves."""
    policy = replace(policy, backlog_max=settings.jobs.backlog)
    if origins["grace"] != DEFAULT_ORIGIN or "jobs.grace" not in settings.origins:
        return policy
    origins["grace"] = Origin(note=f"setting {settings.origins['jobs.grace']}")
    return replace(policy, grace_us=settings.jobs.grace_us)


def _read_enabled(section: Section, block: Section | None, report: Report) -> tuple[bool, Origin]:
    """Written at the job or in its schedule block; in both it is a contradiction, reported elsewhere."""
    enabled, origin = True, DEFAULT_ORIGIN
    for scope in (section, block):
        node = scope.take("enabled") if scope else None
        if scope is None or node is None:
            continue
        flag = flag_of(node, scope.field("enabled"), report)
        if flag is not None:
            enabled, origin = flag, report.origin(node)
    return enabled, origin


def _read_tags(section: Section, report: Report) -> tuple[str, ...]:
    node = section.take("tags")
    found = texts_of(node, "tags", report) if node else None
    tags = [line_of(place, "tags", report, longest=TAG_MAX) for place, _text in found or ()]
    if node and len(tags) > TAGS_MAX:
        report.error(node, "tags", f"'tags' has {len(tags):,} tags; {TAGS_MAX} are allowed.")
    return tuple(dict.fromkeys(tag for tag in tags if tag is not None))


def _read_after(
    section: Section, block: Section | None, job_id: str, report: Report
) -> tuple[After | None, dict[str, Origin]]:
    """Written at the job or in its schedule block; in both it is a contradiction, reported elsewhere."""
    after, origin = None, {}
    for scope in (section, block):
        node = scope.take("after") if scope else None
        if scope is not None and node is not None:
            after, origin = read_after(node, scope.field("after"), job_id, report), {"after": report.origin(node)}
    return after, origin


def _read_notify(
    section: Section, block: Section | None, channels: Mapping[str, Channel], report: Report
) -> tuple[Route, ...]:
    routes: tuple[Route, ...] = ()
    for scope in (section, block):
        node = scope.take("notify") if scope else None
        if scope is not None and node is not None:
            routes = read_notify(node, scope.field("notify"), channels, report)
    return routes


def _read_queue(section: Section, settings: Settings, report: Report) -> str | None:
    node = section.take("queue")
    name = line_of(node, "queue", report, longest=QUEUE_MAX) if node else None
    if name is not None and job_id_of(name) != name:
        reason = f"'queue' cannot be '{name}': it is written in lower case, with digits, '-', '_' and '.'."
        report.error(node, "queue", reason, f"Write {job_id_of(name)}." if job_id_of(name) else "Write batch.")
        return name
    known = [queue for queue, _limit in settings.queues]
    if name is not None and name not in known:
        near = report.suggest(name, known)
        hint = f"{f'{near} Otherwise add' if near else 'Add'} '{name} = 2' below [queues] in evertick.toml."
        report.error(node, "queue", f"the settings define no queue '{name}'.", hint)
    return name
