"""Which one-off times of a job are past, and would never run for a scheduler that sees them for the first time."""

from __future__ import annotations

from evertick.errors import DefinitionError
from evertick.model.instant import Instant, to_text
from evertick.model.job import Job
from evertick.model.schedule import AtSpec
from evertick.planning.misfire import is_missed


def past_one_offs(job: Job, now: Instant) -> list[DefinitionError]:
    """A warning for each, on the line of the schedule."""
    origin = job.origins.get("schedule", "")
    file, _, line = origin.rpartition(":")
    return [
        DefinitionError(
            f"'at' of job '{job.id}' is {to_text(spec.instant)}, which is in the past: "
            "a scheduler that sees the job for the first time does not run it.",
            hint=f"Write a future time, or run it now: evertick trigger {job.id}.",
            file=file or job.file,
            line=int(line) if line.isdigit() else None,
            field="schedule",
        )
        for spec in job.schedules
        if isinstance(spec, AtSpec) and is_missed(spec.instant, now, job.policy.grace_us)
    ]
