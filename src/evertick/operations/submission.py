"""Submits requests to the ledger, waits for their answers, and finds which nodes are alive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.answer import Answer, Refusal, read_answer
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import Batch, JobRecord, Request, bucket_of, nodes_alive
from evertick.model.params import problem_with
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.resume_point import RESUME
from evertick.store import RunFilter, Store, find_line


def submit(store: Store, *requests: Request) -> None:
    """Put requests into the ledger, once each; the node that owns the job executes them and answers there."""
    if requests:
        store.commit(Batch(by=f"request/{requests[0].id}", requests=requests))


def answer_to(store: Store, request_id: str) -> Answer | None:
    """The scheduler's answer; None until there is one. A refusal is raised."""
    found = store.requests([request_id])
    return answer_in(found[0]) if found else None


def answer_in(request: Request) -> Answer | None:
    """The answer in a request; None if it has none yet. A refusal is raised."""
    if request.answer is None:
        return None
    answer = read_answer(request.answer)
    if answer.refusal is None:
        return answer
    reason = f"{answer.text or answer.refusal}."
    if answer.refusal is Refusal.NOT_FOUND:
        raise NotFound(f"{reason} Next: list the jobs")
    raise Conflict(f"{reason} Next: check the status of job '{request.job_id}'")


def live_nodes(store: Store, now: Instant) -> tuple[str, ...]:
    """The nodes that gave a sign of life in a ledger that several may share."""
    return tuple(sorted(nodes_alive(store.lease((), "", 0, now))))


def find_record(store: Store, job_id: str, jobs: Mapping[str, Job]) -> JobRecord | None:
    """What the ledger keeps about a job; None for one that only the folder knows. Neither: the nearest are named."""
    record = _records(store, job_id).get(job_id)
    if record is None and job_id not in jobs:
        raise no_such_job(job_id, {*jobs, *(record.job_id for record in store.load().jobs)})
    return record


def is_known(store: Store, job_id: str, jobs: Mapping[str, Job]) -> bool:
    """Whether a job is defined or in the ledger."""
    # A job of the ledger has a schedule line, which is found without reading all jobs of its bucket.
    return job_id in jobs or bool(store.schedules([job_id])) or job_id in _records(store, job_id)


def _records(store: Store, job_id: str) -> dict[str, JobRecord]:
    return {record.job_id: record for record in store.load([bucket_of(job_id)]).jobs}


def no_such_job(job_id: str, known: Iterable[str]) -> NotFound:
    names = sorted(known)
    near = tuple(get_close_matches(job_id, names, n=3, cutoff=0.5))
    hint = "" if near else " Next: list the jobs" if names else " There are no jobs yet."
    return NotFound(f"unknown job '{job_id}'.{hint}", near)


def read_run_id(text: str) -> RunKey:
    """The key of a run, as `history` shows it."""
    job_id, at, _ = text.partition("@")
    if job_id and at:
        try:
            key = RunKey.from_run_id(text)
            if key.run_id:  # a time out of range could be read, and never be written again
                return key
        except (ValueError, OverflowError):
            pass
    raise InvalidArgument(f"invalid run id '{text}'.", hint="Write the job and the time: job@2026-03-02T09:00:00Z.")


def find_run(store: Store, key: RunKey) -> LedgerRow | None:
    return find_line(store, key)


def lines_at(store: Store, job_id: str, at: Instant) -> Sequence[LedgerRow]:
    """Every line about one instant of a job: its occurrence, a gap around it, and requested runs."""
    return store.query(RunFilter(job_ids=[job_id], since=at, until=at + 1), limit=1_000).rows


def params_text(job: Job | None, given: Mapping[str, str]) -> str:
    """Parameters for a run as JSON, once each is known to be one that the job takes."""
    if RESUME in given:
        raise InvalidArgument(f"the parameter '{RESUME}' is reserved.", field=RESUME)
    if job is not None:
        _check_params(job, given)
    return json.dumps(dict(given)) if given else ""


def _check_params(job: Job, given: Mapping[str, str]) -> None:
    declared = {param.name: param for param in job.work.params}
    for name, value in given.items():
        if name not in declared:
            if not declared:
                continue  # it is in EVERTICK_RUN_PARAMS, for a job that reads that
            near = get_close_matches(name, declared, n=1, cutoff=0.5)
            hint = f"Did you mean '{near[0]}'?" if near else f"Parameters: {', '.join(declared)}."
            raise InvalidArgument(f"job '{job.id}' has no parameter '{name}'.", hint=hint, field=name)
        problem = problem_with(declared[name], value)
        if problem is not None:
            raise InvalidArgument(f"the parameter '{name}' of job '{job.id}' {problem}.", field=name)
    for name, param in declared.items():
        if param.default is None and name not in given:
            raise InvalidArgument(
                f"the parameter '{name}' of job '{job.id}' has no default.",
                hint="Give it a value.",
                field=name,
            )
