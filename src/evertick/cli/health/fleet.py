"""Whether the fleet is as it should be: its members are there, and one of them could run each job of the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evertick.cli.health.finding import FAIL, OK, WARN

if TYPE_CHECKING:
    from evertick.model.job import Job
    from evertick.settings import Settings

Told = Iterator[tuple[str, ...]]


def check_fleet(settings: Settings, jobs: Mapping[str, Job]) -> Told:
    from evertick.errors import EvertickError
    from evertick.executors.fleet.admin import list_members
    from evertick.model.duration import format_duration
    from evertick.model.member import Closed
    from evertick.model.routing import FLEET
    from evertick.routing.selection import unplaceable
    from evertick.wiring import fleet_settings

    fleet = fleet_settings(settings)
    if fleet is None:
        return
    try:
        members = list_members(fleet)
    except EvertickError as error:
        yield FAIL, str(error), "start it: evertick fleet start"
        return
    there = [member.name for member in members if member.is_healthy]
    missing = [name for name in fleet.expected if name not in there]
    if missing:
        yield FAIL, f"missing: {', '.join(missing)}", "start them with 'evertick fleet join', or change fleet.expected"
    else:
        yield OK, f"{len(there)} of {len(members)} members are there"
    for member in members:
        if member.is_healthy and member.closed is Closed.LEASE_TOO_LONG:
            own, ours = format_duration(member.lease_us), format_duration(fleet.lease_us)
            yield (
                FAIL,
                f"{member.name} is given nothing: its lease ({own}) is longer than fleet.lease ({ours})",
                f"start it with --lease {fleet.lease_us / 1_000_000:g}, or set fleet.lease to {own}",
            )
    for job, why in unplaceable([jobs[job_id] for job_id in sorted(jobs)], FLEET, members):
        yield WARN, f"no member could ever run {job.id}: {why}", "change the job, or let a member join that can"
