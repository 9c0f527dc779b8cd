"""Where the next attempt of a run is placed, and which runs share that place.

A job that runs on this machine has one place. For a job on the fleet, the known members and the places where it ran
before (according to the ledger) decide; a run that no member can take waits, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evertick.loop.effects import LookUpPlacements
from evertick.loop.job_state import JobState
from evertick.loop.messages import MembersSeen, PlacementsSeen
from evertick.loop.runs import Lane, OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.facts import Wait, WaitKind, with_wait
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import LAUNCHING, RUNNING
from evertick.model.member import Member, has_room
from evertick.model.policy import OverlapKind, Scope
from evertick.model.resources import Resources, resources_of, total
from evertick.model.run import RunKey
from evertick.planning.admission import may_leave_queue
from evertick.routing.placement import parse_placement
from evertick.routing.selection import NoPlacement, PlacementRequest, is_ready, place
from evertick.routing.strategies import HISTORY, ROTATING

NO_EXECUTOR = "no-executor"


class OverlappingRuns(NamedTuple):
    """The runs that the overlap rule compares an occurrence with."""

    active: Sequence[OpenRun]
    waiting: Sequence[OpenRun]


def members_seen(state: State, message: MembersSeen) -> list[str]:
    """Update the members; returns the jobs whose runs could not be placed before, in the order of their turns."""
    state.members[message.executor] = tuple(message.members)
    turns: dict[str, tuple[int, int, int]] = {}
    for key in list(state.unplaced):
        job = state.jobs.get(key.job_id)
        if job is None or job.find(key) is None:
            del state.unplaced[key]
            continue
        # As within one instant: a free place must not always go to the same jobs.
        mine = (-job.job.priority, job.last_started_at, key.scheduled_for)
        turns[key.job_id] = min(mine, turns.get(key.job_id, mine))
    return sorted(turns, key=lambda job_id: (turns[job_id], job_id))


def placements_seen(state: State, message: PlacementsSeen) -> list[str]:
    """Where a job ran last is known; its runs may continue."""
    if message.job_id not in state.placement_lookups:
        return []  # a duplicate
    state.placement_lookups.discard(message.job_id)
    job = state.jobs.get(message.job_id)
    if job is None:
        return []
    before = [member for text in message.placements for member in parse_placement(text).members]
    job.placements = tuple((*before, *(job.placements or ()))[-HISTORY:])
    return [message.job_id]


def find_place(state: State, turn: Turn, job: JobState, run: OpenRun, left_out: frozenset[str] = frozenset()) -> bool:
    """Choose where the next attempt runs, and note it in the run; False: it has to wait."""
    routing = job.job.routing
    if not routing.is_remote:
        run.executor = state.local_executor
        return True
    if not routing.has_members:
        run.executor = routing.executor
        return True
    if routing.strategy in ROTATING and job.placements is None:
        if job.job.id not in state.placement_lookups:
            state.placement_lookups.add(job.job.id)
            turn.do(LookUpPlacements(job.job.id))
        return False
    members = _members(state, routing.executor, turn.now)
    before = parse_placement(run.executor) if run.executor else None
    if before is not None and run.attempt == 0:
        if _is_by_member(job, job.lane_of(run.key)) and _are_ready(before.members, members, routing.resources):
            return True  # it has waited for its turn there
        if before.shards:
            before = None
    lender = ""
    if run.is_item:
        members = [member for member in members if member.runs_items]
        lender = _lender_of(job, run) if routing.resources else ""
    request = PlacementRequest(
        routing,
        [_without(member, routing.resources) if member.name == lender else member for member in members],
        job.job.id,
        run.key.run_id,
        run.attempt + 1,
        _used(job, run),
        _busy(job, of_items=run.is_item),
        before,
        left_out,
    )
    placed = place(request)
    if isinstance(placed, NoPlacement):
        _wait_for_a_member(state, turn, job, run, placed)
        return False
    no_placement = state.unplaced.pop(run.key, None)
    if no_placement is not None:
        # It says why it is late; that there is no executor is no longer true.
        turn.note(run, f"it waited for an executor: {no_placement.why}")
        run.has_wait_detail = False
    run.executor = str(placed)
    run.borrows = bool(lender) and placed.member == lender
    return True


def note_placed(state: State, job: JobState, run: OpenRun) -> None:
    """An attempt is being sent to its place."""
    if not job.job.routing.has_members:
        return
    members = parse_placement(run.executor).members
    job.placements = (*(job.placements or ()), *members)[-HISTORY:]
    for member in members:
        state.placed.setdefault(member, {})[run.key] = run
        if job.job.routing.resources and not run.borrows:
            state.reserved.setdefault(member, {})[run.key] = run


def _lender_of(job: JobState, run: OpenRun) -> str:
    """The member on which an item may use what its parent has reserved there; empty: another item does so."""
    asked = run.facts.parents[0].run
    parent = job.find(RunKey.from_run_id(asked))
    others = (other for lane in (job.lanes or {}).values() if lane.is_of_item for other in lane.active.values())
    is_taken = any(one.borrows and one is not run and one.facts.parents[0].run == asked for one in others)
    return "" if parent is None or is_taken else parse_placement(parent.executor).member


def _without(member: Member, resources: Resources) -> Member:
    """The member without what a waiting run has reserved: it uses none of it meanwhile."""
    lent = dict(resources)
    return member._replace(used=resources_of({name: max(0, used - lent.get(name, 0)) for name, used in member.used}))


def _wait_for_a_member(state: State, turn: Turn, job: JobState, run: OpenRun, no_placement: NoPlacement) -> None:
    if state.unplaced.get(run.key) == no_placement:
        return
    policy = job.job.policy
    if run.key not in state.unplaced and policy.max_delay_us is not None:
        # Checked again when its window ends, whichever members join or leave until then.
        state.ring.put(run.latest_start(policy) + policy.max_delay_us + 1, run)
    state.unplaced[run.key] = no_placement
    run.facts = with_wait(
        run.facts, Wait(WaitKind.EXECUTOR, turn.now, job.job.routing.executor, detail=no_placement.why)
    )
    turn.note(run, f"{NO_EXECUTOR}: {no_placement.why}")
    turn.log("run.without_executor", run=run.key.run_id, why=no_placement.why)


def _members(state: State, executor: str, now: Instant) -> list[Member]:
    """The members as last reported, plus what was placed there since."""
    lenders = _lenders(state)
    return [
        _with_placed(state, member, now, lenders)._replace(
            used=_used_resources(state, member) if member.offers else (),
        )
        for member in state.members.get(executor, ())
    ]


def _lenders(state: State) -> frozenset[RunKey]:
    """Runs that wait for other runs: each lends its slot, or those could wait for it forever."""
    return frozenset(one.wanted.key for one in state.sub_runs.values() if one.wanted.waits)


def _with_placed(state: State, member: Member, now: Instant, lenders: frozenset[RunKey]) -> Member:
    placed = _count_placed(state, member, now)
    lent = sum(key in lenders for key in state.placed.get(member.name, ())) if lenders and member.slots else 0
    # The member's own count may be a second old, in either direction: the larger one counts.
    busy, running = max(member.running - member.waiting, placed - lent), max(member.running, placed)
    return member._replace(running=running, waiting=running - busy)


def _used_resources(state: State, member: Member) -> Resources:
    """The resources that its attempts use: as the member reports, plus the attempts placed there since."""
    reserved = state.reserved.get(member.name)
    if not reserved:
        return member.used
    asked = []
    for key, run in list(reserved.items()):
        job = state.jobs.get(key.job_id)
        if job is None or not _is_on(run, member.name):
            del reserved[key]
        else:
            asked.append(job.job.routing.resources)
    ours, known = total(asked), dict(member.used)
    return resources_of({name: max(known.get(name, 0), ours.get(name, 0)) for name in {*known, *ours}})


def _count_placed(state: State, member: Member, now: Instant) -> int:
    """Attempts that were placed on a member and have not ended; without a limit of slots this may be a second old."""
    name = member.name
    placed = state.placed.get(name)
    if not placed:
        return 0
    if not member.slots:
        # Thousands may run there, and the number only tells which of two members has less to do.
        if 0 <= now - state.counted_at.get(name, 0) < SECOND:
            return len(placed)
        state.counted_at[name] = now
    for key, run in list(placed.items()):
        if not _is_on(run, name):
            del placed[key]
    return len(placed)


def _is_on(run: OpenRun, member: str) -> bool:
    return run.state in (LAUNCHING, RUNNING) and member in parse_placement(run.executor).members


def _are_ready(names: Sequence[str], members: Sequence[Member], resources: Resources) -> bool:
    ready = {member.name for member in members if is_ready(member) and has_room(member, resources)}
    return bool(names) and ready.issuperset(names)


def _used(job: JobState, run: OpenRun) -> Sequence[str]:
    """Where the job ran, and where its runs will run that wait for their turn on a certain member."""
    lane, used = job.lane_of(run.key), job.placements or ()
    if not _is_by_member(job, lane):
        return used
    return (*used, *(name for other in lane.waiting for name in parse_placement(other.executor).members))


def _busy(job: JobState, *, of_items: bool) -> frozenset[str]:
    """The members on which the job is active; for an item those with items, or runs could keep theirs from starting."""
    lanes = (job.lanes or {}).values()
    return frozenset(
        name
        for lane in lanes
        for run in lane.active.values()
        if run.state in (LAUNCHING, RUNNING) and run.is_item is of_items
        for name in parse_placement(run.executor).members
    )


# --- the overlap rule, for a job that is judged on each member by itself


def _is_by_member(job: JobState, lane: Lane) -> bool:
    return job.job.routing.has_members and job.overlap_of(lane).scope is Scope.EXECUTOR


def neighbours(job: JobState, lane: Lane, run: OpenRun, others: Iterable[OpenRun]) -> list[OpenRun]:
    """The other runs that the overlap rule compares a run with."""
    if not _is_by_member(job, lane):
        return list(others)
    mine = set(parse_placement(run.executor).members)
    return [other for other in others if mine.intersection(parse_placement(other.executor).members)]


def overlapping_runs(
    state: State, turn: Turn, job: JobState, lane: Lane, run: OpenRun, in_line: Sequence[OpenRun]
) -> OverlappingRuns | None:
    """The active and waiting runs in the way of a run; None: it has no place yet."""
    active = list(lane.active.values())
    if not _is_by_member(job, lane):
        return OverlappingRuns(active, in_line)
    others = [*active, *in_line]
    left_out: frozenset[str] = frozenset()
    if job.overlap_of(lane).kind is OverlapKind.SKIP:
        # A broadcast goes to the members that are free; the shards of the others are left out.
        left_out = frozenset(name for other in others for name in parse_placement(other.executor).members)
    if not find_place(state, turn, job, run, left_out):
        return None
    if not parse_placement(run.executor).members:
        return OverlappingRuns(active, in_line)  # a broadcast that found every member busy
    return OverlappingRuns(neighbours(job, lane, run, active), neighbours(job, lane, run, in_line))


def next_to_go(job: JobState, lane: Lane, waiting: Iterable[OpenRun]) -> OpenRun | None:
    """The oldest waiting run that the overlap rule lets start."""
    overlap = job.overlap_of(lane)
    if not _is_by_member(job, lane):
        return next(iter(waiting), None) if may_leave_queue(overlap, len(lane.active)) else None
    active = list(lane.active.values())
    return next((run for run in waiting if may_leave_queue(overlap, len(neighbours(job, lane, run, active)))), None)
