"""What a job runs: its steps and the order that their dependencies set."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from evertick.definitions.fields.values import flag_of, line_of, text_of, texts_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.job import Step
from evertick.planning.workflow import find_cycle

STEPS_MAX = 1_000
NAME_MAX = 100
ONLY_STEP = "main"
"""The name of the one step of a job that is a single command."""


def read_steps(node: Node, report: Report) -> tuple[Step, ...]:
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
        section = Section(item, f"steps[{index}]", report)
        named = _read_name(section, report)
        needed = _read_depends(section, report)
        step = _read_step(section, named, needed, report)
        if named is None:
            continue
        name, place = named
        if name in places:
            reason = f"the step '{name}' is written twice: on line {places[name].line} and on line {place.line}."
            report.error(place, section.field("name"), reason, "Rename one of them.")
            continue
        places[name], depends[name] = place, needed
        steps.append(step)
    _report_order(places, depends, report)
    return tuple(steps)


def read_command(node: Node, field: str, report: Report) -> tuple[tuple[str, ...], bool] | None:
    """The words of a command and whether they are one text for the shell."""
    if isinstance(node, ListNode):
        words = [_word(item, field, report) for item in node.items]
        if not words:
            report.error(node, field, f"'{field}' is an empty list.", "Write for example [python, report.py].")
        kept = tuple(word for word in words if word is not None)
        return (kept, False) if kept and len(kept) == len(words) else None
    text = text_of(node, field, report)
    return None if text is None else ((text,), True)


def _word(node: Node, field: str, report: Report) -> str | None:
    """One argument; an empty one is fine, when it is written as ''."""
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    report.error(node, field, f"every word of '{field}' must be a text, not {kind_of(node)}.", "Put it in quotes.")
    return None


def _read_name(section: Section, report: Report) -> tuple[str, Node] | None:
    node = section.take("name")
    if node is None:
        if "name" not in section:
            report.error(section.node, section.field("name"), f"'{section.path}' has no name.", "Add 'name'.")
        return None
    name = line_of(node, section.field("name"), report, longest=NAME_MAX)
    return None if name is None else (name, node)


def _read_depends(section: Section, report: Report) -> tuple[tuple[Node, str], ...]:
    node = section.take("depends")
    return (texts_of(node, section.field("depends"), report) or ()) if node else ()


def _read_step(
    section: Section, named: tuple[str, Node] | None, needed: tuple[tuple[Node, str], ...], report: Report
) -> Step:
    owner = f"step '{named[0]}'" if named else f"'{section.path}'"
    node = section.take("command")
    if node is None and "command" not in section:
        report.error(section.node, section.field("command"), f"{owner} has no command.", "Add 'command'.")
    command = read_command(node, section.field("command"), report) if node else None
    tolerated = section.take("continueOnFailure")
    goes_on = flag_of(tolerated, section.field("continueOnFailure"), report) if tolerated else None
    section.finish(owner)
    words, shell = command or ((), False)
    return Step(
        name=named[0] if named else "",
        command=words,
        shell=shell,
        depends=tuple(dict.fromkeys(name for _place, name in needed)),
        continue_on_failure=bool(goes_on),
    )


def _report_order(places: dict[str, Node], depends: dict[str, tuple[tuple[Node, str], ...]], report: Report) -> None:
    for name, needed in depends.items():
        for place, other in needed:
            if other not in places:
                near = report.suggest(other, places) or f"Steps are: {_shortened(places)}."
                report.error(place, "depends", f"step '{name}' depends on '{other[:60]}', which is not a step.", near)
    cycle = find_cycle({name: [other for _place, other in needed] for name, needed in depends.items()})
    if cycle is not None:
        way = " -> ".join(cycle)
        what = (
            f"step '{cycle[0]}' depends on itself."
            if len(cycle) == 2
            else f"steps depend on each other in a circle: {way}."
        )
        report.error(places[cycle[0]], "depends", what, "Remove one of these dependencies.")


def _shortened(names: Iterable[str]) -> str:
    first = list(islice(names, 11))
    return ", ".join(first[:10]) + (", ..." if len(first) > 10 else "")
