"""What does the ledger keep of an occurrence that is entered ahead of its time?"""

from __future__ import annotations

from evertick.model.blackout import Blackout, blackout_at
from evertick.model.facts import NO_FACTS, Facts, facts_text
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.schedule import has_calendar
from evertick.planning.jitter import starts_at
from evertick.planning.schedules import exclusion_of


def planned_facts(job: Job, at: Instant) -> str:
    """When its run starts, if jitter delays it, or the calendar or blackout that prevents it; empty: nothing."""
    why = exclusion_of(job.schedules, at) if has_calendar(job.schedules) else None
    if why is not None:
        return facts_text(why.facts)
    inside = blackout_at(job.blackouts, at) if job.blackouts else None
    if inside is None and not job.policy.jitter_us:
        return ""
    facts = NO_FACTS if inside is None else blackout_facts(inside)
    return facts_text(facts._replace(starts_at=starts_at(job, at)) if job.policy.jitter_us else facts)


def blackout_facts(blackout: Blackout) -> Facts:
    """Why an occurrence inside a blackout does not run."""
    return Facts(held_since=blackout.start, held_until=blackout.end)
