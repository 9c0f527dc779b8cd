"""The routes about time and the whole: the timeline, the overview, what is next, days, expressions, the machinery."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any
from zoneinfo import available_timezones

from fastapi import Path, Query
from pydantic import Field

from evertick.api import models_machinery, models_time
from evertick.api.app_state import Members
from evertick.api.models_base import Shape
from evertick.api.route_decorators import At, Moment, Routes, Text, Who, Words, items
from evertick.errors import Conflict
from evertick.operations.tokens import Role
from evertick.settings import is_zone

routes = Routes("time")
machinery = Routes("machinery")


@routes.get("/overview", Role.VIEWER, models_time.Overview)
def get_overview(at: At) -> Any:
    """What runs, what failed, what is next, what was missed: the last day at a glance."""
    known = {"timezone": at.settings.timezone, "node": at.node, "version": at.version}
    return at.operations.overview().told_with(known)


@routes.get("/timeline", Role.VIEWER, models_time.Timeline)
def get_timeline(
    at: At,
    start: Annotated[str, Query(alias="from", max_length=64)],
    end: Annotated[str, Query(alias="to", max_length=64)],
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    search: Text = "",
    tag: Words = [],  # noqa: B006
    state: Words = [],  # noqa: B006
    cells: Annotated[int, Query(ge=1, le=2_000, description="How many columns of time a screen can tell apart.")] = 240,
) -> Any:
    """Lanes of jobs in time: what was, what was left out, what is to come."""
    return at.operations.timeline(start, end, offset, limit, search, tag, state, cells)


@routes.get("/calendar", Role.VIEWER, models_time.Calendar)
def get_calendar(
    at: At,
    start: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    end: Annotated[str | None, Query(alias="to", max_length=64)] = None,
    zone: Annotated[str | None, Query(max_length=64)] = None,
) -> Any:
    """How each day was, over all jobs."""
    return at.operations.calendar(None, start, end, zone or at.settings.timezone)


@routes.get("/upcoming", Role.VIEWER, models_time.Upcoming)
def list_upcoming(
    at: At,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    to: Moment = None,
    once: Annotated[bool, Query(description="Each job once, when it is due first.")] = False,
) -> Any:
    """What runs next, over all jobs."""
    return at.operations.upcoming(None, limit, to, is_once=once)


@routes.get("/plan", Role.VIEWER, models_time.Plan)
def get_plan(
    at: At,
    to: Annotated[str, Query(max_length=64)],
    job: Words = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Any:
    """What would fire until a time, with what would be skipped as things are now."""
    return at.operations.plan(to, job, limit)


@routes.get("/load", Role.VIEWER, models_time.Load)
def get_load(at: At, to: Annotated[str, Query(max_length=64)]) -> Any:
    """How many starts each minute up to a time has."""
    return at.operations.load(to)


@routes.get("/cron", Role.VIEWER, models_time.CronAnswer)
def explain_cron(
    at: At,
    expression: Annotated[str, Query(max_length=300)],
    timezone: Annotated[str | None, Query(max_length=64)] = None,
    count: Annotated[int, Query(ge=1, le=1_000)] = 10,
    after: Moment = None,
    name: Annotated[str, Query(max_length=255, description="The job's id, which 'H' is computed from.")] = "",
) -> Any:
    """What an expression means, when it fires, and what daylight saving does to it."""
    return at.operations.cron(expression, timezone or at.settings.timezone, count, after, name)


@routes.get("/zones", Role.VIEWER, models_time.Zones)
def list_zones() -> Any:
    """The time zones that schedules may name."""
    return items(_zones())


@machinery.get("/executors", Role.VIEWER, models_machinery.Executors)
def list_executors(at: At) -> Any:
    """The places that run attempts, their health and what runs there."""
    return at.operations.executors()


@machinery.post("/executors/{executor}/members/{member}/drain", Role.OPERATOR, models_machinery.Status)
def drain_member(
    at: At, executor: Annotated[str, Path(max_length=255)], member: Annotated[str, Path(max_length=255)]
) -> Any:
    """Give a member nothing more to run; what runs there goes on."""
    told = _members(at, executor).drain(executor, member, is_draining=True)
    return {"is_scheduler_running": True, "status": dict(told)}


@machinery.post("/executors/{executor}/members/{member}/undrain", Role.OPERATOR, models_machinery.Status)
def undrain_member(
    at: At, executor: Annotated[str, Path(max_length=255)], member: Annotated[str, Path(max_length=255)]
) -> Any:
    """Let a member run things again."""
    told = _members(at, executor).drain(executor, member, is_draining=False)
    return {"is_scheduler_running": True, "status": dict(told)}


class RemoveBody(Shape):
    force: bool = Field(False, description="Also when it runs something, which is lost then.")


@machinery.post("/executors/{executor}/members/{member}/remove", Role.ADMIN, models_machinery.Status)
def remove_member(
    at: At,
    executor: Annotated[str, Path(max_length=255)],
    member: Annotated[str, Path(max_length=255)],
    body: RemoveBody | None = None,
) -> Any:
    """Let a member leave for good: its process ends, and does not start again."""
    told = _members(at, executor).remove(executor, member, by_force=body.force if body else False)
    return {"is_scheduler_running": True, "status": dict(told)}


@machinery.post("/executors/{executor}/members/{member}/forget", Role.ADMIN, models_machinery.Status)
def forget_member(
    at: At, executor: Annotated[str, Path(max_length=255)], member: Annotated[str, Path(max_length=255)]
) -> Any:
    """Drop a member that is away from the list, and free its name."""
    told = _members(at, executor).forget(executor, member)
    return {"is_scheduler_running": True, "status": dict(told)}


@machinery.get("/queues", Role.VIEWER, models_machinery.Queues)
def list_queues(at: At) -> Any:
    """The named limits that jobs share: who is in, who waits and for what."""
    return at.operations.queues()


@machinery.get("/nodes", Role.VIEWER, models_machinery.Nodes)
def list_nodes(at: At) -> Any:
    """The nodes that schedule, and how many buckets of jobs each has."""
    return at.operations.nodes()


class ForgetBody(Shape):
    force: bool = Field(False, description="Also when the node is alive: it then ends what it runs on its machine.")


@machinery.post("/nodes/{node}/forget", Role.ADMIN, models_machinery.ForgottenNode)
def forget_node(at: At, who: Who, node: Annotated[str, Path(max_length=255)], body: ForgetBody | None = None) -> Any:
    """Say that a node does not come back: its runs are retried or lost now, and not when its lease is over."""
    return at.operations.forget_node(node, body.force if body else False, by=who.name)


@machinery.get("/status", Role.VIEWER, models_machinery.Status)
def get_status(at: At) -> Any:
    """What the scheduler of this node tells about itself."""
    status = at.operations.status()
    return {"is_scheduler_running": status is not None or at.operations.is_scheduler_running(), "status": status}


@machinery.get("/ledger/verify", Role.OPERATOR, models_machinery.Proof)
def verify_ledger(at: At) -> Any:
    """Whether the ledger holds every occurrence, once. It reads all of it, and may take a while."""
    return at.operations.verify()


def _members(at: At, executor: str) -> Members:
    if at.members is None:
        raise Conflict(f"the executor '{executor}' has no members that could be drained.")
    return at.members


@cache
def _zones() -> list[str]:
    return sorted(filter(is_zone, available_timezones()))
