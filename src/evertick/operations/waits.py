"""What a run waits or waited for: the queue and its holders, the jobs before it, the fleet, the run in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evertick.model.facts import Parent, Wait, WaitKind, read_facts
from evertick.model.instant import Instant
from evertick.model.job import AfterEnd, Job
from evertick.model.lifecycle import ACTIVE, SKIPPED, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.results.runs import Blocker
from evertick.operations.rules import NO_RULING, Ruling, origin_of, overlap_words
from evertick.operations.submission import find_run
from evertick.operations.time_text import time_text
from evertick.store import RunFilter, Store

_PARENTS = {
    Trigger.CHAINED: "after",
    Trigger.SUBJOB: "a step of",
    Trigger.ITEM: "an item of",
    Trigger.RETRY: "a retry of",
}
_VERBS = {AfterEnd.SUCCESS: "succeed", AfterEnd.FAILURE: "fail", AfterEnd.END: "end"}


class Waiting(NamedTuple):
    """What a run that waits now waits for."""

    blockers: tuple[Blocker, ...] = ()
    other: LedgerRow | None = None
    """The first of those in the way."""
    ruling: Ruling = NO_RULING


def find_waits(store: Store, row: LedgerRow, jobs: Mapping[str, Job]) -> Waiting:
    """What holds a waiting run back, as the ledger has it now; the last that was noted is what it waits for."""
    waits, job = read_facts(row.facts).waits, jobs.get(row.key.job_id)
    for wait in (*reversed(waits), Wait(WaitKind.OVERLAP, row.changed_at)):
        found = _now(store, wait, row, job, jobs)
        if found.blockers:
            rule, origin = found.ruling.rule, found.ruling.origin
            policy, place = rule or None, None if origin is None else str(origin)
            blockers = tuple(replace(one, policy=policy, policy_from=place) for one in found.blockers)
            return found._replace(blockers=blockers)
    return Waiting((Blocker(None, f"waiting{f': {row.detail}' if row.detail else ' for its turn'}"),))


def noted_blocker(row: LedgerRow) -> Blocker | None:
    """What a waiting run waits for, as its own line of the ledger notes it; None: it notes nothing."""
    waits = read_facts(row.facts).waits
    if not waits:
        return Blocker(None, row.detail) if row.detail else None
    wait = waits[-1]
    text = row.detail or f"waiting {_past(wait)}"
    job = wait.jobs[0] if len(wait.jobs) == 1 else None
    return Blocker(wait.kind, text, wait.name or None, wait.limit or None, job, wait.runs)


def _now(store: Store, wait: Wait, row: LedgerRow, job: Job | None, jobs: Mapping[str, Job]) -> Waiting:
    match wait.kind:
        case WaitKind.QUEUE:
            members = {row.key.job_id, *(one.id for one in jobs.values() if one.queue == wait.name)}
            held = _holders(store, members, row.key)
            names = f"held by {_names(held)}" if held else "which has room now"
            limit = f" of {wait.limit:,} place{'' if wait.limit == 1 else 's'}" if wait.limit else ""
            ruling = Ruling(f"queue: {wait.name}", origin_of(job, "queue")) if job else NO_RULING
            text = f"waiting for a place in the queue '{wait.name}'{limit}, {names}"
            place = Blocker(wait.kind, text, wait.name, wait.limit or None, runs=_ids(held))
            return Waiting((place,), next(iter(held), None), ruling)
        case WaitKind.AFTER:
            before = [(name, _newest(store, name)) for name in wait.jobs]
            after = job.after if job else None
            rule = Ruling(f"after: {after.named}", origin_of(job, "after")) if job and after else NO_RULING
            verb = _VERBS[after.on if after else AfterEnd.SUCCESS]
            others = tuple(
                Blocker(
                    wait.kind,
                    f"waiting for '{name}' to {verb}; {_of_newest(found)}",
                    job=name,
                    runs=() if found is None else (found.key.run_id,),
                )
                for name, found in before
            )
            return Waiting(others, next((found for _, found in before if found), None), rule)
        case WaitKind.EXECUTOR:
            ruling = Ruling(f"executor: {wait.name}", origin_of(job, "executor")) if job else NO_RULING
            text = f"waiting for a member of '{wait.name}' that can take it: {wait.detail}"
            return Waiting((Blocker(wait.kind, text, wait.name),), None, ruling)
        case WaitKind.OVERLAP:
            held = _holders(store, {row.key.job_id}, row.key)
            if not held:
                return Waiting()
            ruling = Ruling(overlap_words(job), origin_of(job, "overlap")) if job else NO_RULING
            return Waiting((Blocker(wait.kind, f"waiting for {_names(held)}", runs=_ids(held)),), held[0], ruling)
        case WaitKind.RATE:
            return Waiting((Blocker(wait.kind, "waiting for the delay between starts of its backfill"),))
        case WaitKind.HOLD:
            return Waiting((Blocker(wait.kind, f"waiting because its job is {wait.name}", wait.name),))


def waited_sentences(row: LedgerRow, zone: str, beside: Instant) -> list[str]:
    """What a run that has started, or will not any more, waited for."""
    return [
        f"waited {_past(wait)} from {time_text(wait.since, zone, beside)} on" for wait in read_facts(row.facts).waits
    ]


def _past(wait: Wait) -> str:
    match wait.kind:
        case WaitKind.QUEUE:
            by = f" (held by {_listed(wait.runs)})" if wait.runs else ""
            return f"for a place in the queue '{wait.name}'{by}"
        case WaitKind.AFTER:
            return f"for {_listed([repr(name) for name in wait.jobs])} to succeed"
        case WaitKind.EXECUTOR:
            return f"for a member of '{wait.name}' ({wait.detail})"
        case WaitKind.OVERLAP:
            return f"for {_listed(wait.runs)}"
        case WaitKind.RATE:
            return "for the delay between starts of its backfill"
        case WaitKind.HOLD:
            return f"because its job was {wait.name}"


def parent_sentences(store: Store, row: LedgerRow) -> list[str]:
    """The runs that a run exists because of, each with the state it is in now."""
    return [_parent(store, row, parent) for parent in read_facts(row.facts).parents]


def _parent(store: Store, row: LedgerRow, parent: Parent) -> str:
    found = find_run(store, RunKey.from_run_id(parent.run))
    state = "which the ledger no longer has" if found is None else f"which is {_state(found)}"
    word = _PARENTS.get(row.trigger, "because of")
    is_step = row.trigger in (Trigger.SUBJOB, Trigger.ITEM)
    via = f" (step '{parent.via}')" if parent.via and is_step else ""
    rule = f", which violated {parent.via}" if parent.via and not is_step else ""
    return f"{word} {parent.run}{via}, {state}{rule}"


def _holders(store: Store, job_ids: set[str], but: RunKey) -> list[LedgerRow]:
    rows = store.query(RunFilter(job_ids=sorted(job_ids), states=tuple(ACTIVE), oldest_first=True), limit=10).rows
    return [one for one in rows if one.key != but]


def _newest(store: Store, job_id: str) -> LedgerRow | None:
    states = tuple(state for state in type(SKIPPED) if state is not SKIPPED)
    return next(iter(store.query(RunFilter(job_ids=[job_id], states=states), limit=1).rows), None)


def _of_newest(found: LedgerRow | None) -> str:
    return "it has no run yet" if found is None else f"its newest run {found.key.run_id} is {_state(found)}"


def _names(rows: Sequence[LedgerRow]) -> str:
    return _listed([f"{row.key.run_id} ({_state(row)})" for row in rows])


def _ids(rows: Sequence[LedgerRow]) -> tuple[str, ...]:
    return tuple(row.key.run_id for row in rows)


def _state(row: LedgerRow) -> str:
    return f"{row.state}: {row.reason}" if row.reason else str(row.state)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
