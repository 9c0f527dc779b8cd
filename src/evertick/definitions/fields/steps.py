"""The steps of a job, their order, and what each of them receives."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from evertick.definitions.catalogue.limits import PATH_MAX, REPEATS_MAX, STEP_NAME_MAX, STEPS_MAX
from evertick.definitions.catalogue.work import CONTINUE_ON, HANDLER, HANDLERS, REPEAT, STEP
from evertick.definitions.fields.command_place import CommandPlace, move_command
from evertick.definitions.fields.conditions import read_condition, read_conditions
from evertick.definitions.fields.confinement import read_sandbox, read_user
from evertick.definitions.fields.each import part_check, read_each, report_lists
from evertick.definitions.fields.environment import read_env
from evertick.definitions.fields.kinds import read_kind
from evertick.definitions.fields.retry import read_step_retry
from evertick.definitions.fields.values import (
    duration_of,
    flag_of,
    integer_of,
    line_of,
    name_of,
    path_of,
    read_command,
    text_of,
    texts_of,
)
from evertick.definitions.nodes import ListNode, MapNode, Node, kind_of
from evertick.definitions.report import Report, Section, section_of
from evertick.model.work import NO_HANDLERS, STOP_ON_FAILURE, Command, ContinueOn, Handlers, Repeat, Step, SubJob
from evertick.planning.workflow import find_cycle

ONLY_STEP = "main"
"""The name of the one step of a job that is a single command."""
TOLERATE_FAILURE = ContinueOn(failure=True)

_NOWHERE = Command(())
"""Replaces the kind of a step with an error, which never reaches a job."""


def read_steps(node: Node, job_id: str, report: Report, place: CommandPlace | None = None) -> tuple[Step, ...]:
    """The steps of a job, whose commands run in that place if it has one."""
    if not isinstance(node, ListNode) or not node.items:
        found = "an empty list" if isinstance(node, ListNode) else kind_of(node)
        hint = "Write '- name: ...' and 'command: ...' for each."
        report.error(node, "steps", f"'steps' must be a list of steps, not {found}.", hint)
        return ()
    if len(node.items) > STEPS_MAX:
        report.error(
            node, "steps", f"'steps' has {len(node.items):,} steps; {STEPS_MAX:,} are allowed.", "Split the job."
        )
        return ()
    places: dict[str, Node] = {}
    depends: dict[str, tuple[tuple[Node, str], ...]] = {}
    steps: list[Step] = []
    for index, item in enumerate(node.items):
        if not isinstance(item, MapNode):
            path = f"steps[{index}]"
            report.error(
                item, path, f"'{path}' must be a map, not {kind_of(item)}.", "Write 'name' and 'command' in it."
            )
            continue
        section = Section(item, f"steps[{index}]", report, STEP)
        named = _read_name(section, report)
        needed = _read_depends(section, report)
        step, needed = _read_step(section, named, needed, report, place)
        if isinstance(step.kind, SubJob) and step.kind.job_id == job_id:
            reason = f"step '{step.name}' runs job '{job_id}', which is the one it belongs to."
            report.error(section.key("job"), section.field("job"), reason, "Name another job.")
        if named is None:
            continue
        name, at = named
        if name in places:
            reason = f"the step '{name}' is written twice: on line {places[name].line} and on line {at.line}."
            report.error(at, section.field("name"), reason, "Rename one of them.")
            continue
        places[name], depends[name] = at, needed
        steps.append(step)
    _report_order(places, depends, report)
    report_lists(steps, places, report)
    return tuple(steps)


def read_handlers(job: Section, report: Report, place: CommandPlace | None = None) -> Handlers:
    """`handlers: {onFailure: ...}`, or the same names at the job."""
    node = job.take("handlers")
    inside = section_of(node, "handlers", report, HANDLERS, "handlers: {onFailure: ...}") if node else None
    found: dict[str, Step] = {}
    for name in HANDLERS:
        for section in (job, inside):
            written = section.take(name) if section else None
            if section is None or written is None:
                continue
            step = _read_handler(written, name, section.field(name), report, place)
            if name in found:
                lines = f"on line {job.key(name).line} and on line {section.key(name).line}"
                report.error(
                    section.key(name), section.field(name), f"'{name}' is written twice: {lines}.", "Keep one."
                )
            elif step is not None:
                found[name] = step
    if inside is not None:
        inside.finish("'handlers'")
    if not found:
        return NO_HANDLERS
    return Handlers(*(found.get(name) for name in HANDLERS))


def _read_handler(node: Node, name: str, path: str, report: Report, place: CommandPlace | None) -> Step | None:
    if not isinstance(node, MapNode):
        command = read_command(node, path, report)
        if command is None:
            return None
        return Step(name, command if place is None else move_command(command, place, node, path, report))
    section = Section(node, path, report, HANDLER)
    owner = f"'{path}'"
    kind = read_kind(section, owner, report, place)
    env = section.take("env")
    step = Step(
        name,
        kind or _NOWHERE,
        env=read_env(env, section.field("env"), report) if env else (),
        working_dir=read_folder(section, "workingDir", report),
        user=read_user(section, kind, report),
        sandbox=read_sandbox(section, kind, report),
        timeout_us=_read_duration(section, "timeout", report),
        retry=read_step_retry(section, report),
    )
    section.finish(owner)
    return step


def read_folder(section: Section, name: str, report: Report) -> str | None:
    node = section.take(name)
    return path_of(node, section.field(name), report, longest=PATH_MAX) if node else None


def _read_name(section: Section, report: Report) -> tuple[str, Node] | None:
    node = section.take("name")
    if node is None:
        if "name" not in section:
            report.error(section.node, section.field("name"), f"'{section.path}' has no name.", "Add 'name'.")
        return None
    name = line_of(node, section.field("name"), report, longest=STEP_NAME_MAX)
    if name in HANDLERS:
        reason = f"'{name}' is the name of a handler, and cannot be a step's."
        report.error(node, section.field("name"), reason, "Rename the step.")
        return None
    return None if name is None else (name, node)


def _read_depends(section: Section, report: Report) -> tuple[tuple[Node, str], ...]:
    node = section.take("depends")
    return (texts_of(node, section.field("depends"), report) or ()) if node else ()


def _read_step(
    section: Section,
    named: tuple[str, Node] | None,
    needed: tuple[tuple[Node, str], ...],
    report: Report,
    place: CommandPlace | None,
) -> tuple[Step, tuple[tuple[Node, str], ...]]:
    """The step, and the places of what it depends on: the step that prints its list is among them."""
    owner = f"step '{named[0]}'" if named else f"'{section.path}'"
    each, source = read_each(section, report)
    needed = (*needed, *source)
    report.has_part = part_check(each)
    kind = read_kind(section, owner, report, place)
    env, conditions, output = section.take("env"), section.take("preconditions"), section.take("output")
    variables = read_env(env, section.field("env"), report) if env else ()
    report.has_part = None
    step = Step(
        name=named[0] if named else "",
        kind=kind or _NOWHERE,
        depends=tuple(dict.fromkeys(name for _place, name in needed)),
        env=variables,
        working_dir=read_folder(section, "workingDir", report),
        user=read_user(section, kind, report),
        sandbox=read_sandbox(section, kind, report),
        timeout_us=_read_duration(section, "timeout", report),
        retry=read_step_retry(section, report),
        repeat=_read_repeat(section, report),
        continue_on=_read_continue_on(section, report),
        preconditions=read_conditions(conditions, section.field("preconditions"), report) if conditions else (),
        output=_read_output(output, section.field("output"), report) if output else None,
        each=each,
    )
    section.finish(owner)
    return step, needed


def _read_duration(section: Section, name: str, report: Report) -> int | None:
    node = section.take(name)
    return duration_of(node, section.field(name), report) if node else None


def _read_output(node: Node, field: str, report: Report) -> str | None:
    text = text_of(node, field, report)
    return None if text is None else name_of(node, text, field, report)


def _read_repeat(section: Section, report: Report) -> Repeat | None:
    node = section.take("repeat")
    fields = section_of(node, section.field("repeat"), report, REPEAT, "repeat: {interval: 10s}") if node else None
    if fields is None:
        return None
    interval_us: int | None = None
    for name in ("interval", "every"):
        place = fields.take(name)
        if place is not None:
            interval_us = duration_of(place, fields.field(name), report, allow_subsecond=True)
    fields.contradict("interval", "every", "")
    if "interval" not in fields and "every" not in fields:
        report.error(fields.node, fields.path, f"'{fields.path}' does not say how often.", "Add 'interval: 10s'.")
    limit, until = fields.take("limit"), fields.take("until")
    repeat = Repeat(
        interval_us or 0,
        integer_of(limit, fields.field("limit"), report, 1, REPEATS_MAX) if limit else None,
        read_condition(until, fields.field("until"), report) if until else None,
    )
    fields.finish(f"'{fields.path}'")
    return repeat


def _read_continue_on(section: Section, report: Report) -> ContinueOn:
    simple, node = section.take("continueOnFailure"), section.take("continueOn")
    section.contradict("continueOnFailure", "continueOn", "both say after which results later steps run")
    goes_on = flag_of(simple, section.field("continueOnFailure"), report) if simple else None
    path = section.field("continueOn")
    fields = section_of(node, path, report, CONTINUE_ON, "continueOn: {failure: true}") if node else None
    if fields is None:
        return TOLERATE_FAILURE if goes_on else STOP_ON_FAILURE
    flags = {}
    for name in ("failure", "skipped", "markSuccess"):
        place = fields.take(name)
        flags[name] = bool(flag_of(place, fields.field(name), report)) if place else False
    codes = fields.take("exitCodes")
    items = codes.items if isinstance(codes, ListNode) else (codes,) if codes else ()
    exits = [integer_of(item, fields.field("exitCodes"), report, 0, 255) for item in items]
    fields.finish(f"'{path}'")
    if flags["markSuccess"] and not (flags["failure"] or flags["skipped"] or exits):
        reason = f"'{path}.markSuccess' has no effect without another field."
        report.warn(fields.key("markSuccess"), path, reason, "Add 'failure: true' or 'exitCodes'.")
    known = tuple(dict.fromkeys(code for code in exits if code is not None))
    return ContinueOn(flags["failure"], flags["skipped"], known, flags["markSuccess"])


def _report_order(places: dict[str, Node], depends: dict[str, tuple[tuple[Node, str], ...]], report: Report) -> None:
    for name, needed in depends.items():
        for place, other in needed:
            if other not in places:
                near = report.suggest(other, places) or f"Known steps: {_shortened(places)}."
                report.error(place, "depends", f"step '{name}' depends on '{other[:60]}', which is not a step.", near)
    cycle = find_cycle({name: [other for _place, other in needed] for name, needed in depends.items()})
    if cycle is not None:
        way = " -> ".join(cycle)
        what = (
            f"step '{cycle[0]}' depends on itself."
            if len(cycle) == 2
            else f"steps depend on each other in a cycle: {way}."
        )
        report.error(places[cycle[0]], "depends", what, "Remove one of these dependencies.")


def _shortened(names: Iterable[str]) -> str:
    first = list(islice(names, 11))
    return ", ".join(first[:10]) + (", ..." if len(first) > 10 else "")
