"""Which other jobs a job waits for."""

from __future__ import annotations

from evertick.definitions.catalogue.job import AFTER
from evertick.definitions.catalogue.limits import JOBS_MAX
from evertick.definitions.fields.values import choice_of, job_of
from evertick.definitions.nodes import ListNode, MapNode, Node
from evertick.definitions.report import Report, Section
from evertick.model.chain import After, AfterMode

_MODES = {str(mode): mode for mode in AfterMode}


def read_after(node: Node, field: str, own_id: str, report: Report) -> After | None:
    """`after: fetch`, a list, or `{jobs: [...], mode: any}`."""
    if not isinstance(node, MapNode):
        jobs = read_jobs(node, field, own_id, report)
        return After(jobs) if jobs else None
    section = Section(node, field, report, AFTER)
    place, word = section.take("jobs"), section.take("mode")
    if place is None and "jobs" not in section:
        report.error(node, field, f"'{field}' names no job.", "Add 'jobs: [...]'.")
    jobs = read_jobs(place, section.field("jobs"), own_id, report) if place else ()
    mode = choice_of(word, section.field("mode"), report, _MODES) if word else None
    section.finish(f"'{field}'")
    return After(jobs, mode or AfterMode.ALL) if jobs else None


def read_jobs(node: Node, field: str, own_id: str | None, report: Report) -> tuple[str, ...]:
    """One job or a list of them, none of which is the job itself, where `own_id` is given."""
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
