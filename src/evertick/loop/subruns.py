"""Steps that are runs of other jobs, and items that run elsewhere: requested, with the result reported to the step.

A step's keeper asks again whenever it connects to a new scheduler, and the key of the requested run is always the same,
so nothing here has to survive a crash. A run of a job of this node is entered at once and its end is seen here; a run
of another node's job is requested durably, and read from the ledger until it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from evertick.loop import items, requests
from evertick.loop.effects import LookUpSubRuns, ReportSubRunEnd
from evertick.loop.items import Grant
from evertick.loop.job_state import Hold, JobState
from evertick.loop.messages import CancelRun, SubRunsSeen, SubRunUnwanted, SubRunWanted, TriggerJob
from evertick.loop.runs import AwaitedSubRun, OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.answer import read_answer
from evertick.model.facts import Parent
from evertick.model.ledger import Request, RequestKind
from evertick.model.lifecycle import FAILED, PLANNED, TERMINAL, Trigger
from evertick.model.routing import FLEET
from evertick.model.run import Change, Entry, LedgerRow, RunKey
from evertick.model.steps import FAILED as STEP_FAILED
from evertick.model.steps import SUCCEEDED as STEP_SUCCEEDED
from evertick.model.steps import read_steps, steps_text
from evertick.model.subrun import SubRunEnd, old_sub_run_key, sub_run_key
from evertick.model.work import Step, SubJob, spreads_items
from evertick.planning.items import step_of
from evertick.routing.placement import executor_of

TRIES_MAX = 1_000
"""How many attempts of one step a member of the fleet may report as waiting for a run."""


def wanted(state: State, turn: Turn, message: SubRunWanted) -> None:
    """A step requests a run, for the first time or again."""
    key = _key_of(state, message)
    awaited = AwaitedSubRun(message, key)
    if message.is_from_member and not state.owns(message.key.job_id):
        # The owner of its job knows what the step may request; its member asks there too.
        return
    state.sub_runs[key] = awaited
    if items.is_item(message):
        if items.grant(state, awaited) is Grant.YES:
            items.submit(state, turn, awaited)
    elif _may_ask(state, message):
        _submit(state, turn, awaited)
    # Otherwise an earlier definition requested it, or a member that may not: the ledger knows which.


def _key_of(state: State, message: SubRunWanted | SubRunUnwanted) -> RunKey:
    """The key of the run: a step that began under an earlier version has named it in another way."""
    asked = (message.job_id, message.key, message.attempt, message.step, message.number)
    parent = state.jobs.get(message.key.job_id)
    run = parent.find(message.key) if parent else None
    # Items are newer than those names, and a run with a thousand of them would be read as often.
    if run is not None and '"sub_run"' in run.steps and step_of(message.step) is None:
        old = old_sub_run_key(*asked)
        if any(step.sub_run == old.run_id for step in read_steps(run.steps)):
            return old
    return sub_run_key(*asked)


def _may_ask(state: State, message: SubRunWanted) -> bool:
    """A member of the fleet may request runs for its own attempts only, not others by their name.

    This also holds if the job of its attempt was deleted, or has moved to another node.
    """
    if not message.is_from_member:
        return True
    parent = state.jobs.get(message.key.job_id)
    step = _asking_step(_steps_of(parent), message.step)
    return step is not None and isinstance(step.kind, SubJob) and step.kind.job_id == message.job_id


def _steps_of(job: JobState | None) -> Mapping[str, Step]:
    return {step.name: step for step in job.job.work.all_steps} if job is not None else {}


def _asking_step(steps: Mapping[str, Step], name: str) -> Step | None:
    """The step of that name, or the one whose item has it."""
    owner, step = steps.get(step_of(name) or ""), steps.get(name)
    if owner is not None and owner.each is not None:
        return owner
    return step if step is not None and step.each is None else None


def _may_return(state: State, job_id: str) -> bool:
    """Whether the definition of a job is missing for the moment, as while its file is written."""
    job = state.jobs.get(job_id)
    return job is not None and not job.is_gone and job_id not in state.definitions


def _submit(state: State, turn: Turn, awaited: AwaitedSubRun) -> None:
    message, key, _is_stopped = awaited
    detail = f"for step {message.step!r} of {message.key.run_id}"
    parent = Parent(message.key.run_id, message.step)
    if not state.owns(key.job_id):
        payload = {
            "trigger": Trigger.SUBJOB,
            "params": message.params,
            "scheduled_for": key.scheduled_for,
            "detail": detail,
            "parents": [list(parent)],
        }
        request = Request(key.origin, RequestKind.TRIGGER, key.job_id, json.dumps(payload), turn.now, "step")
        turn.request(request)
        return
    job = state.jobs.get(key.job_id)
    if job is None or job.hold is Hold.RETIRED:
        _report_end(state, turn, awaited, SubRunEnd(FAILED, f"unknown job {key.job_id!r}"))
    elif job.find(key) is None:
        # If the ledger has it already, because it ended, it refuses the entry, and the end is read.
        known = (key.origin, key.job_id, key.scheduled_for, Trigger.SUBJOB, message.params)
        asked = TriggerJob(*known, detail=detail, parents=(parent,))
        requests.trigger(state, turn, asked)


def look_up(state: State, turn: Turn) -> None:
    """Ask the ledger about runs whose end this node does not see."""
    if not state.sub_runs or state.is_looking_up or turn.now < state.next_look_up_at:
        return
    state.next_look_up_at = turn.now + state.settings.interval_us
    unseen = [key for key, awaited in state.sub_runs.items() if not (awaited.wanted.waits and _is_open(state, key))]
    if unseen:
        # One at a time: with a ledger slower than the interval, questions would accumulate without end.
        state.is_looking_up = True
        turn.do(LookUpSubRuns(unseen))


def _is_open(state: State, key: RunKey) -> bool:
    job = state.jobs.get(key.job_id)
    return job is not None and job.find(key) is not None


def seen(state: State, turn: Turn, message: SubRunsSeen) -> None:
    """What the ledger has about them."""
    state.is_looking_up = False
    state.next_look_up_at = turn.now + state.settings.interval_us
    for key, answer, row in message.found:
        awaited = state.sub_runs.get(key)
        if awaited is None:
            continue
        if row is not None:
            if row.state in TERMINAL:
                reason = f"skipped: {row.reason}" if row.reason is not None else ""
                _report_end(state, turn, awaited, _end_of(awaited, row, row.detail or reason))
            elif not awaited.wanted.waits:
                _report_end(state, turn, awaited, SubRunEnd(PLANNED))
        elif answer and (said := read_answer(answer)).refusal is not None:
            _report_end(state, turn, awaited, SubRunEnd(FAILED, said.text or said.refusal))
        elif answer is not None:
            continue
        elif items.is_item(awaited.wanted):
            _settle_item(state, turn, awaited)
        elif _may_ask(state, awaited.wanted):
            _submit(state, turn, awaited)  # the request was lost; an existing run stays as it is
        elif not _is_open(state, key) and not _may_return(state, awaited.wanted.key.job_id):
            reason = f"no step {awaited.wanted.step!r} of its job runs that job"
            _report_end(state, turn, awaited, SubRunEnd(FAILED, reason))


def _settle_item(state: State, turn: Turn, awaited: AwaitedSubRun) -> None:
    """The ledger has no run of the item that it knows of."""
    if _is_open(state, awaited.key):
        return
    if awaited.is_stopped:
        _report_end(state, turn, awaited, items.STOPPED)
        return
    match items.grant(state, awaited):
        case Grant.YES:
            items.submit(state, turn, awaited)
        case Grant.NO:
            _report_end(state, turn, awaited, items.NOT_HERE)
        case Grant.LATER:
            pass  # it is judged again with the next look into the ledger


def unwanted(state: State, turn: Turn, message: SubRunUnwanted) -> None:
    """The step was stopped while it waited: stop the run that it waited for."""
    key = _key_of(state, message)
    awaited, end = state.sub_runs.get(key), state.sub_run_ends.get(key)
    _cancel(state, turn, key, message.key)
    if awaited is None or not items.is_item(awaited.wanted):
        return
    # An attempt has ended when its items have: until then the overlap rule of the job must count it.
    state.sub_runs[key] = awaited._replace(is_stopped=True)
    if end is not None:
        state.sub_run_ends[key] = end


def settle(state: State, turn: Turn) -> None:
    """Runs ended in this turn: note it for the steps that waited for them, and stop what they waited for."""
    while turn.parted:
        run, detail = turn.parted.pop()
        awaited = state.sub_runs.get(run.key)
        if awaited is not None and run.state in TERMINAL:
            state.sub_run_ends[run.key] = _end_of(awaited, run, detail)
        for key in _waited_for(state, run):
            _cancel(state, turn, key, run.key)


def recorded(state: State, turn: Turn, ends: Iterable[Change | Entry], refused: Collection[RunKey]) -> None:
    """The ledger has these ends: report them to the steps that waited for them.

    Not before: if this node died in between, the run would be repeated, and could end in another way.
    """
    for one in ends:
        end = state.sub_run_ends.pop(one.key, None) if one.state in TERMINAL else None
        awaited = state.sub_runs.get(one.key)
        if end is not None and awaited is not None and one.key not in refused:
            _report_end(state, turn, awaited, end)


def _waited_for(state: State, run: OpenRun) -> list[RunKey]:
    """The runs that an attempt still waits for, according to its steps and to the requests here, and its items."""
    own = _items_of(state, run)
    if not (state.sub_runs or run.steps):
        return own
    found = {one.key for one in state.sub_runs.values() if one.wanted.key == run.key and one.wanted.waits}
    if '"sub_run"' in run.steps:
        waiting = [
            one for one in read_steps(run.steps) if one.sub_run and one.state not in (STEP_SUCCEEDED, STEP_FAILED)
        ]
        if executor_of(run.executor) == FLEET:
            # A member may name any number: only those that a step of the job can have are considered.
            steps = _steps_of(state.jobs.get(run.key.job_id))
            by_name = {one.name: one for one in waiting}
            asking = {name: step for name in by_name if (step := _asking_step(steps, name)) is not None}
            waiting = [by_name[name] for name in _as_many_as_run(asking)]
            waiting = [one for one in waiting if _is_its_own(one.sub_run, run, one.name)]
        found.update(RunKey.from_run_id(one.sub_run) for one in waiting)
    return sorted(found.union(own))


def _items_of(state: State, run: OpenRun) -> list[RunKey]:
    """Its open items: they name it, also where its keeper was killed before it could report that it had asked."""
    job = state.jobs.get(run.key.job_id)
    if job is None or not job.lanes or run.is_item or (len(job.lanes) == 1 and "" in job.lanes):
        return []
    lanes = [lane for lane in job.lanes.values() if lane.is_of_item]
    run_id = run.key.run_id
    items_here = (one for lane in lanes for one in (*lane.active.values(), *lane.waiting))
    return sorted(one.key for one in items_here if any(parent.run == run_id for parent in one.facts.parents))


def _as_many_as_run(asking: Mapping[str, Step]) -> list[str]:
    """Those that are runs; of the items of one step, no more than it has at once."""
    left: dict[str, int] = {}
    found = []
    for name, step in asking.items():
        if isinstance(step.kind, SubJob) or spreads_items(step):
            left.setdefault(step.name, step.each.max_parallel if step.each is not None else 1)
            left[step.name] -= 1
            if left[step.name] >= 0:
                found.append(name)
    return found


def _is_its_own(run_id: str, run: OpenRun, step: str) -> bool:
    """Whether that step requested the run: a member might name another run to have it stopped with its own."""
    job_id = run_id.partition("@")[0]
    asked = [(job_id, run.key, run.attempt, step, number) for number in range(1, TRIES_MAX + 1)]
    return any(run_id in (sub_run_key(*one).run_id, old_sub_run_key(*one).run_id) for one in asked)


def _cancel(state: State, turn: Turn, key: RunKey, parent: RunKey) -> None:
    state.sub_runs.pop(key, None)
    state.sub_run_ends.pop(key, None)
    request_id, by = f"{key.origin}-stop", f"the end of {parent.run_id}, which was waiting for it"
    payload = json.dumps({"run_id": key.run_id})
    # Durable in any case: after a crash before the executor receives it, the run must not continue.
    turn.request(Request(request_id, RequestKind.CANCEL, key.job_id, payload, turn.now, by))
    requests.cancel_runs(state, turn, CancelRun(request_id, key.job_id, key, by))


def _end_of(awaited: AwaitedSubRun, run: OpenRun | LedgerRow, detail: str) -> SubRunEnd:
    steps = read_steps(run.steps)
    if items.is_item(awaited.wanted):
        own = steps_text(step for step in steps if step.name == awaited.wanted.step and step.attempt == run.attempt)
        return SubRunEnd(run.state, detail, steps=own, executor=run.executor)
    outputs = {step.name: step.output for step in steps if step.output is not None}
    cut = {step.name for step in steps if step.is_output_cut}
    return SubRunEnd(run.state, detail, {name: value for name, value in outputs.items() if name not in cut})


def _report_end(state: State, turn: Turn, awaited: AwaitedSubRun, end: SubRunEnd) -> None:
    state.sub_runs.pop(awaited.key, None)
    state.sub_run_ends.pop(awaited.key, None)
    wanted = awaited.wanted
    turn.do(ReportSubRunEnd(wanted.key, wanted.attempt, wanted.step, wanted.number, end))
