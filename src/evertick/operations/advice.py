"""Which rule of a job led to a skip, where it was written, and what to write to get the other behaviour."""

from __future__ import annotations

from typing import NamedTuple

from evertick.model.duration import format_duration
from evertick.model.job import Job
from evertick.model.lifecycle import SkipReason
from evertick.model.policy import Missed
from evertick.operations.rules import is_overlap_policy, missed_words, origin_of, overlap_words


class Ruling(NamedTuple):
    rule: str = ""
    """The rule in the words of a job file; empty: no rule of the job."""
    origin: str = ""
    advice: str = ""


NO_RULING = Ruling()


def ruling_on(reason: SkipReason, job: Job, *, was_missed: bool) -> Ruling:
    """The rule behind a skip. `was_missed` tells a skip at a start from one while the job was active."""
    policy = job.policy
    match reason:
        case SkipReason.OVERLAP | SkipReason.SUPERSEDED if not was_missed:
            return Ruling(overlap_words(job), origin_of(job, "overlap"), f"to run every occurrence {_queue(job)}")
        case SkipReason.MISSED if policy.catchup_window_us is not None and policy.missed is not Missed.NONE:
            window = format_duration(policy.catchup_window_us)
            return Ruling(
                f"catchupWindow: {window}",
                origin_of(job, "catchup_window"),
                f"to reach further back: a catchupWindow longer than {window}",
            )
        case SkipReason.OVERLAP | SkipReason.SUPERSEDED | SkipReason.MISSED | SkipReason.PAUSED:
            return Ruling(missed_words(job), origin_of(job, "missed"), f"to run what was missed: {_keep(job)}")
        case SkipReason.LATE:
            delay = "no bound" if policy.max_delay_us is None else str(policy.max_delay_us // 60_000_000)
            return Ruling(
                f"maxDelayMinutes: {delay}",
                origin_of(job, "max_delay"),
                "to let it start later: a larger maxDelayMinutes",
            )
        case SkipReason.ALREADY_SUCCEEDED:
            return Ruling(
                "skipIfSuccessful: true",
                origin_of(job, "skip_if_successful"),
                "to run it all the same: skipIfSuccessful: false",
            )
        case SkipReason.CAP:
            return Ruling(
                f"at most {policy.backlog_max:,} runs wait",
                origin_of(job, "backlog_max"),
                "to need fewer of them: a shorter catchupWindow, or overlapPolicy: latest",
            )
        case SkipReason.DISABLED:
            return Ruling(f"enabled: {str(job.enabled).lower()}", origin_of(job, "enabled"), "to run it: enabled: true")
        case SkipReason.CONDITION:
            origin = origin_of(job, "constraints") if job.constraints else job.file or ""
            return Ruling("a condition of the job", origin, "to run without it: remove the condition")
        case SkipReason.NO_EXECUTOR | SkipReason.SATURATED:
            return Ruling(advice="to run it: start an executor, or give the one there is more room")


def _queue(job: Job) -> str:
    return "one after another: " + ("overlapPolicy: all" if is_overlap_policy(job) else "overlap: wait")


def _keep(job: Job) -> str:
    return "overlapPolicy: all" if job.policy.catchup_window_us is not None else "missed: all"
