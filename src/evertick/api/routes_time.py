"""The routes about time (overview, timeline, calendar, cron) and about the system (executors, queues, nodes)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated
from zoneinfo import available_timezones

from fastapi import Path, Query
from pydantic import Field

from evertick.api.app_state import Members
from evertick.api.route_decorators import At, Body, Moment, RequestId, Routes, Text, Who, Words
from evertick.definitions.catalogue.limits import TAG_MAX
from evertick.errors import Conflict
from evertick.model.lifecycle import JobStatus
from evertick.operations import routes as table
from evertick.operations.blackouts import NAMES_MAX, REASON_MAX
from evertick.operations.protocol import enums_of
from evertick.operations.results.attention import Attention
from evertick.operations.results.base import Result
from evertick.operations.results.blackouts import BlackoutChange, Blackouts
from evertick.operations.results.schedule import (
    Calendar,
    CronPreview,
    Load,
    Overview,
    Plan,
    Timeline,
    TimelineGroup,
    TimelineSort,
    Upcoming,
)
from evertick.operations.results.system import Executors, ForgottenNode, Nodes, Queues, Status, Verification
from evertick.operations.tokens import Role
from evertick.settings import is_zone


@dataclass(frozen=True, slots=True)
class Zones(Result):
    items: tuple[str, ...]


routes = Routes("time")
machinery = Routes("machinery")


@routes.serve(table.ATTENTION, Role.VIEWER)
def get_attention(at: At) -> Attention:
    """Get what needs attention now, worst first, with the action that most likely helps."""
    return at.operations.attention()


@routes.serve(table.OVERVIEW, Role.VIEWER)
def get_overview(at: At) -> Overview:
    """Get what runs, failed, comes next and was skipped in the last day."""
    return at.operations.overview()


@routes.serve(table.TIMELINE, Role.VIEWER)
def get_timeline(
    at: At,
    start: Annotated[str, Query(alias="from", max_length=64)],
    end: Annotated[str, Query(alias="to", max_length=64)],
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    search: Text = "",
    tag: Words = [],  # noqa: B006
    state: Words = [],  # noqa: B006
    cells: Annotated[int, Query(ge=1, le=2_000, description="A lane with more runs has counts instead.")] = 240,
    sort: Annotated[TimelineSort, Query(description="`worst`: what needs attention first.")] = TimelineSort.NAME,
    group: Annotated[TimelineGroup, Query(description="The jobs of a group share a lane.")] = TimelineGroup.NONE,
    unfolded: Annotated[
        list[str], Query(alias="open", max_length=50, description="Groups to show with one lane per job.")
    ] = [],  # noqa: B006
) -> Timeline:
    """Get the runs, gaps and coming occurrences of jobs in a period, one lane per job."""
    statuses = enums_of("status", state, JobStatus)
    return at.operations.timeline(
        *(start, end, offset, limit, search, tag, statuses, cells), sort=sort, group=group, unfolded=unfolded
    )


@routes.serve(table.CALENDAR, Role.VIEWER)
def get_calendar(
    at: At,
    start: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    end: Annotated[str | None, Query(alias="to", max_length=64)] = None,
    zone: Annotated[str | None, Query(max_length=64)] = None,
) -> Calendar:
    """Get the outcomes of all jobs by day."""
    return at.operations.calendar(None, start, end, zone or at.settings.timezone)


@routes.serve(table.UPCOMING, Role.VIEWER)
def list_upcoming(
    at: At,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    to: Moment = None,
    once: Annotated[bool, Query(description="Only the first occurrence of each job.")] = False,
    excluded: Annotated[bool, Query(description="Also occurrences that a calendar excludes.")] = False,
) -> Upcoming:
    """List the next occurrences of all jobs."""
    return at.operations.upcoming(limit, to, once=once, excluded=excluded)


@routes.serve(table.PLAN, Role.VIEWER)
def get_plan(
    at: At,
    to: Annotated[str, Query(max_length=64)],
    job: Words = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Plan:
    """List what would run or be skipped until a time."""
    return at.operations.plan(to, job, limit)


@routes.serve(table.LOAD, Role.VIEWER)
def get_load(at: At, to: Annotated[str, Query(max_length=64)]) -> Load:
    """Count the starts in each minute until a time."""
    return at.operations.load(to)


@routes.serve(table.CRON, Role.VIEWER)
def explain_cron(
    at: At,
    expression: Annotated[str, Query(max_length=300)],
    timezone: Annotated[str | None, Query(max_length=64)] = None,
    count: Annotated[int, Query(ge=1, le=1_000)] = 10,
    after: Moment = None,
    name: Annotated[str, Query(max_length=255, description="The id of the job, from which `H` is computed.")] = "",
) -> CronPreview:
    """Explain a cron expression: its meaning, its next times, and how daylight saving affects them."""
    return at.operations.cron(expression, timezone or at.settings.timezone, count, after, name)


class BlackoutBody(Body):
    start: str = Field("now", alias="from", max_length=64, description="In the past: now.")
    end: str = Field(alias="to", max_length=64, description="Not included.")
    jobs: list[Annotated[str, Field(max_length=255)]] = Field(default_factory=list, max_length=NAMES_MAX)
    tags: list[Annotated[str, Field(max_length=TAG_MAX)]] = Field(default_factory=list, max_length=NAMES_MAX)
    is_for_all: bool = Field(False, alias="all")
    reason: str = Field("", max_length=REASON_MAX)
    timezone: str | None = Field(None, max_length=64, description="Of times without an offset.")
    preview: bool = False


@routes.serve(table.BLACKOUTS, Role.VIEWER)
def list_blackouts(at: At, over: Annotated[bool, Query(description="Also those that are over.")] = False) -> Blackouts:
    """List the blackouts of the settings and those that were added at run time."""
    return at.operations.blackouts(over)


@routes.serve(table.ADD_BLACKOUT, Role.OPERATOR)
def add_blackout(at: At, who: Who, body: BlackoutBody, request: RequestId) -> BlackoutChange:
    """Add a blackout, or preview which occurrences would be in it."""
    times = (body.start, body.end, body.jobs, body.tags, body.is_for_all, body.reason, body.timezone, body.preview)
    return at.operations.add_blackout(*times, request_id=request, by=who.name)


@routes.serve(table.REMOVE_BLACKOUT, Role.OPERATOR)
def remove_blackout(
    at: At,
    blackout: Annotated[str, Path(max_length=255, description="The id of a blackout.")],
    preview: Annotated[bool, Query(description="Change nothing.")] = False,
) -> BlackoutChange:
    """Remove a blackout; if it lasts, it ends now, by the rules of a resume."""
    return at.operations.remove_blackout(blackout, preview)


@routes.get("/zones", Role.VIEWER)
def list_zones() -> Zones:
    """List the time zones that schedules may use."""
    return _zones()


@machinery.serve(table.EXECUTORS, Role.VIEWER)
def list_executors(at: At) -> Executors:
    """List the executors, their health and their runs."""
    return at.operations.executors()


@machinery.post("/executors/{executor}/members/{member}/drain", Role.OPERATOR)
def drain_member(
    at: At, executor: Annotated[str, Path(max_length=255)], member: Annotated[str, Path(max_length=255)]
) -> Status:
    """Drain a member: it gets no new runs, and its present runs continue."""
    told = _members(at, executor).drain(executor, member, is_draining=True)
    return Status(True, told)


@machinery.post("/executors/{executor}/members/{member}/undrain", Role.OPERATOR)
def undrain_member(
    at: At, executor: Annotated[str, Path(max_length=255)], member: Annotated[str, Path(max_length=255)]
) -> Status:
    """Let a drained member accept runs again."""
    told = _members(at, executor).drain(executor, member, is_draining=False)
    return Status(True, told)


class RemoveBody(Body):
    force: bool = Field(False, description="Remove it even if it has runs, which are then lost.")


@machinery.post("/executors/{executor}/members/{member}/remove", Role.ADMIN)
def remove_member(
    at: At,
    executor: Annotated[str, Path(max_length=255)],
    member: Annotated[str, Path(max_length=255)],
    body: RemoveBody | None = None,
) -> Status:
    """Remove a member: its process ends and does not start again."""
    told = _members(at, executor).remove(executor, member, by_force=body.force if body else False)
    return Status(True, told)


@machinery.post("/executors/{executor}/members/{member}/forget", Role.ADMIN)
def forget_member(
    at: At, executor: Annotated[str, Path(max_length=255)], member: Annotated[str, Path(max_length=255)]
) -> Status:
    """Remove an absent member from the list, so that its name can be used again."""
    told = _members(at, executor).forget(executor, member)
    return Status(True, told)


@machinery.serve(table.QUEUES, Role.VIEWER)
def list_queues(at: At) -> Queues:
    """List the queues that jobs share, with their active and waiting runs."""
    return at.operations.queues()


@machinery.serve(table.NODES, Role.VIEWER)
def list_nodes(at: At) -> Nodes:
    """List the nodes that schedule, and how many buckets of jobs each owns."""
    return at.operations.nodes()


class ForgetBody(Body):
    force: bool = Field(False, description="Also if the node is alive: it then ends its local runs.")


@machinery.serve(table.FORGET_NODE, Role.ADMIN)
def forget_node(
    at: At, who: Who, node: Annotated[str, Path(max_length=255)], body: ForgetBody | None = None
) -> ForgottenNode:
    """Declare that a node does not return: its runs are retried or lost now instead of when its lease ends."""
    return at.operations.forget_node(node, body.force if body else False, by=who.name)


@machinery.serve(table.STATUS, Role.VIEWER)
def get_status(at: At) -> Status:
    """Get the report of this node's scheduler."""
    return at.operations.status()


@machinery.serve(table.VERIFY, Role.OPERATOR)
def verify_ledger(at: At) -> Verification:
    """Verify that the ledger has every occurrence exactly once. It reads the whole ledger, which may take a while."""
    return at.operations.verify()


def _members(at: At, executor: str) -> Members:
    if at.members is None:
        raise Conflict(f"the executor '{executor}' has no members.")
    return at.members


@cache
def _zones() -> Zones:
    return Zones(tuple(sorted(filter(is_zone, available_timezones()))))
