"""Where an attempt is put: one of the members that match, by the job's strategy, or all; or why it has to wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evertick.model.job import Job
from evertick.model.member import Closed, Labels, Member, has_room
from evertick.model.resources import Resources, amount_text, lacking, resources_text
from evertick.model.routing import Routing, Strategy
from evertick.routing.placement import Placement, Shard
from evertick.routing.strategies import STRATEGIES, RoutingContext

PLACEMENT_TEXT_MAX = 4_000
"""Characters that the ledger has for where an attempt is: some hundred members."""


class PlacementRequest(NamedTuple):
    """An attempt that needs a place, and all that is known for choosing one."""

    routing: Routing
    members: Sequence[Member]
    """Everyone that is known, whether or not it can be chosen."""
    job_id: str
    run_id: str
    attempt: int
    used: Sequence[str] = ()
    """Where the job ran before, oldest first."""
    busy: frozenset[str] = frozenset()
    """Members on which the job is active."""
    before: Placement | None = None
    """Where this run was tried last."""
    left_out: frozenset[str] = frozenset()
    """Members that a broadcast passes over, because the job is active there."""


class NoPlacement(NamedTuple):
    """It has to wait."""

    why: str
    is_full: bool = False
    """Whether there are members that could take it if they were not full."""


def place(request: PlacementRequest) -> Placement | NoPlacement:
    if request.routing.strategy is Strategy.SHARDING_BROADCAST:
        return _broadcast(request)
    routing = request.routing
    ready = [
        member
        for member in matching(routing.labels, request.members)
        if is_ready(member) and has_room(member, routing.resources)
    ]
    if not ready:
        return explain_no_placement(request.routing, request.members)
    last_tried = request.before.member if request.before else ""
    seed = f"{request.run_id}/{request.attempt}"
    context = RoutingContext(
        sorted(member.name for member in ready),
        request.job_id,
        seed,
        request.used,
        last_tried,
        request.busy,
        {member.name: member.free_slots for member in ready},
        {member.name: member.cpu_percent for member in ready},
    )
    chosen = STRATEGIES[request.routing.strategy](context)
    if chosen is None:
        return NoPlacement(f"it is active on {_members(len(ready))} that could take it")
    return Placement(request.routing.executor, chosen)


def _broadcast(request: PlacementRequest) -> Placement | NoPlacement:
    """One shard for each member; of a run that was tried before, only the shards that have not succeeded."""
    routing = request.routing
    found = [member for member in matching(routing.labels, request.members) if could_take(member, routing)]
    awaited = sorted(member.name for member in found if member.is_awaited and member.is_open)
    if awaited:
        # A member that restarts, or returns after the others, still has its part of the work to do.
        return NoPlacement(f"of {_members(len(found))}: {', '.join(awaited[:3])} may reconnect in a moment")
    # A full member is not left out: a shard that no member runs would be work left undone.
    there = [member for member in found if member.is_healthy and member.is_open]
    busy = [member.name for member in there if not has_room(member, routing.resources)]
    names = sorted(member.name for member in there)
    if busy:
        wanted = resources_text(routing.resources)
        return NoPlacement(
            f"of {_members(len(found))}: {', '.join(sorted(busy)[:3])} has no room for {wanted}", is_full=True
        )
    if not names:
        return explain_no_placement(request.routing, request.members)
    if request.before is not None and request.before.shards:
        return request.before._replace(shards=tuple(_again(shard, names) for shard in request.before.shards))
    shards = tuple(Shard(number, "" if name in request.left_out else name) for number, name in enumerate(names))
    placed = Placement(request.routing.executor, shards=shards)
    if len(str(placed)) + len(shards) > PLACEMENT_TEXT_MAX:
        return NoPlacement(f"a broadcast to {_members(len(names))} does not fit into an entry of the ledger")
    return placed


def _again(shard: Shard, names: Sequence[str]) -> Shard:
    """The same shard, where it was if that can be, else with the next one by name."""
    if not shard.is_wanted or shard.member in names:
        return shard
    return shard._replace(member=next((name for name in names if name > shard.member), names[0]))


def matching(labels: Labels, members: Sequence[Member]) -> list[Member]:
    wanted = set(labels)
    return [member for member in members if wanted <= set(member.labels)]


def could_take(member: Member, routing: Routing) -> bool:
    """Whether it could if nothing ran there."""
    return set(routing.labels) <= set(member.labels) and not lacking(routing.resources, member.offers)


class Unplaceable(NamedTuple):
    job: Job
    why: str


def unplaceable(jobs: Iterable[Job], executor: str, members: Sequence[Member]) -> list[Unplaceable]:
    """The jobs that no member could ever take, even if nothing ran there; none where no member is known."""
    return [
        Unplaceable(job, explain_no_placement(job.routing, members).why)
        for job in jobs
        if members and job.routing.executor == executor and not any(could_take(one, job.routing) for one in members)
    ]


def is_ready(member: Member) -> bool:
    return member.is_healthy and member.is_open and not member.is_full


def explain_no_placement(routing: Routing, members: Sequence[Member]) -> NoPlacement:
    """What is missing, and how many there are."""
    wanted = ", ".join(f"{name}={value}" for name, value in routing.labels)
    if not members:
        return NoPlacement(f"no member of the {routing.executor} is connected")
    found = matching(routing.labels, members)
    if not found:
        return NoPlacement(f"of {_members(len(members))}: none has {wanted}")
    having = f"of {_members(len(found))}{f' with {wanted}' if wanted else ''}"
    able = [member for member in found if could_take(member, routing)]
    if not able:
        return NoPlacement(f"{having}: none offers {_what_none_offers(routing.resources, found)}")
    away = sum(not member.is_healthy for member in able)
    closed = [member.closed for member in able if member.is_healthy and not member.is_open]
    outlasting = closed.count(Closed.LEASE_TOO_LONG)
    there = [member for member in able if member.is_healthy and member.is_open]
    full = sum(member.is_full for member in there)
    tight = sum(not member.is_full and not has_room(member, routing.resources) for member in there)
    small = len(found) - len(able)
    resources = resources_text(routing.resources)
    counts = (
        (away, "away"),
        (len(closed) - outlasting, "cordoned"),
        (outlasting, "with a lease that is longer than fleet.lease"),
        (full, "full"),
        (tight, f"without room for {resources}"),
        (small, f"without {resources}"),
    )
    states = ", ".join(f"{count} {word}" for count, word in counts if count)
    return NoPlacement(f"{having}: {states}", is_full=full + tight > 0)


def _what_none_offers(wanted: Resources, members: Sequence[Member]) -> str:
    """The first wanted amount that is more than any of them has, and the most there is; else all together."""
    for name, amount in wanted:
        most = max(dict(member.offers).get(name, 0) for member in members)
        if most < amount:
            known = f" (the maximum is {amount_text(name, most)})" if most else ""
            return f"{name}={amount_text(name, amount)}{known}"
    return f"{resources_text(wanted)} together"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"
