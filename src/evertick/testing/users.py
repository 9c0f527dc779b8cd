"""Simulated users: they edit definitions and send requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from evertick.loop.messages import DefinitionEventsLost, DefinitionsChanged
from evertick.model.answer import Refusal, read_answer
from evertick.model.blackout import AddedBlackout, blackout_text
from evertick.model.instant import MINUTE, SECOND, Instant
from evertick.model.job import Job
from evertick.model.ledger import Batch, Request, RequestKind, StoredBlackout
from evertick.model.policy import Missed, OnExecutorLost, Overlap, OverlapKind
from evertick.model.run import RunKey
from evertick.operations.requests import (
    backfill_request,
    cancel_request,
    pause_request,
    resume_request,
    trigger_request,
)
from evertick.planning.schedules import compile_all, occurrences
from evertick.testing.faults import Faults
from evertick.testing.invariants import Violation
from evertick.testing.node import Node
from evertick.testing.scenario import Ownership, Scenario, draw_job, draw_policy, draw_schedules, is_at_most_once
from evertick.testing.timeline import Timeline, Trace
from evertick.testing.unreliable import Backend

RESCAN_US = 10 * MINUTE
SETTLED_US = 30 * MINUTE
"""After this long every node knows a job, even if events were lost."""


class Users:
    """A folder of definitions that is edited, and requests that are put into the ledger, some of them twice."""

    def __init__(
        self,
        scenario: Scenario,
        timeline: Timeline,
        random: Random,
        backend: Backend,
        nodes: Sequence[Node],
        faults: Callable[[], Faults],
        trace: Trace,
    ) -> None:
        self._scenario = scenario
        self._timeline = timeline
        self._random = random
        self._backend = backend
        self._nodes = nodes
        self._faults = faults
        self._trace = trace
        self.jobs = {job.id: job for job in (*scenario.jobs, *scenario.chains, *scenario.called)}
        self._there_since = dict.fromkeys(self.jobs, scenario.start)
        self._requests: list[Request] = []
        self._next_id = 1
        self._blackout_luck = Random(f"added blackouts of world {scenario.seed}")
        self._blackouts: dict[str, AddedBlackout] = {}
        self._is_calm = False

    def definitions(self) -> Sequence[Job]:
        return tuple(self.jobs.values())

    def there_since(self, job_id: str) -> Instant | None:
        """None: it is not there."""
        return self._there_since.get(job_id)

    def begin(self) -> None:
        for node in self._nodes:
            self._timeline.after(self._random.randrange(RESCAN_US), self._rescan, node)
        self._go_on(self._faults().edits_per_hour, self._edit)
        self._go_on(self._faults().requests_per_hour, self._ask)
        self._go_on_with_blackouts()

    def _go_on(self, per_hour: float, action: Callable[[], None]) -> None:
        if per_hour:
            self._timeline.after(int(self._random.expovariate(per_hour) * 60 * MINUTE), action)

    def _rescan(self, node: Node) -> None:
        """Events are only a hint: from time to time every node reads everything again."""
        node.receive(DefinitionEventsLost())
        self._timeline.after(RESCAN_US, self._rescan, node)

    # Definitions

    def _edit(self) -> None:
        if self._is_calm:
            return
        self._go_on(self._faults().edits_per_hour, self._edit)
        random = self._random
        job = self.jobs.get(f"job-{random.randrange(len(self._scenario.jobs) + 2)}")
        period_us = self._scenario.run_max_us // 2
        start, length_us = self._scenario.start, self._scenario.length_us
        if job is None:
            missing = [name for name in self._names() if name not in self.jobs]
            if missing:
                drawn = draw_job(random, random.choice(missing), start, length_us, period_us)
                self._write(self._scenario.settled(drawn))
            return
        match random.randrange(6):
            case 0 | 1:
                self._write(replace(job, schedules=draw_schedules(random, job.id, start, length_us, period_us)))
            case 2:
                lost = OnExecutorLost.FAIL if is_at_most_once(job.id) else OnExecutorLost.RETRY
                self._write(replace(job, policy=draw_policy(random, lost)))
            case 3:
                self._write(replace(job, enabled=not job.enabled))
            case 4:
                self._delete(job.id)
            case 5:
                self._delete(job.id)
                again = replace(job, enabled=True)
                self._timeline.after(random.choice((SECOND, 30 * SECOND, 2 * MINUTE)), self._write, again)

    def _names(self) -> list[str]:
        return [f"job-{number}" for number in range(len(self._scenario.jobs) + 2)]

    def _write(self, job: Job) -> None:
        self._trace.add("users", "write %s: %s enabled=%s", job.id, job.schedules, job.enabled)
        if job.id not in self.jobs:
            self._there_since[job.id] = self._timeline.now
        self.jobs[job.id] = job
        self._spread(job.id)
        if self._is_calm:
            # When every node has seen the file: of a job that is not there nothing can be asked.
            self._timeline.after(RESCAN_US + MINUTE, self._let_go, job.id)

    def _delete(self, job_id: str) -> None:
        self._trace.add("users", "delete %s", job_id)
        if self.jobs.pop(job_id, None) is not None:
            del self._there_since[job_id]
            self._spread(job_id)

    def _spread(self, job_id: str) -> None:
        for node in self._nodes:
            if self._random.random() >= self._faults().lost_event:
                self._timeline.after(self._random.randrange(2 * SECOND), self._notice, node, job_id)

    def _notice(self, node: Node, job_id: str) -> None:
        """The watcher of a node looks at the file, as it is by now."""
        job = self.jobs.get(job_id)
        node.receive(DefinitionsChanged(jobs=[job]) if job else DefinitionsChanged(removed=[job_id]))

    # Requests

    def _ask(self) -> None:
        if self._is_calm:
            return
        self._go_on(self._faults().requests_per_hour, self._ask)
        random, now = self._random, self._timeline.now
        job_id = random.choice(self._names())
        request_id = f"r{self._next_id}"
        self._next_id += 1
        if self._scenario.ownership is Ownership.NONE:
            # Each node would hear of another's pause too late or never: only what has a key of its own is asked for.
            self._submit(trigger_request(request_id, job_id, now, by="someone"))
            return
        match random.randrange(10):
            case 0 | 1 | 2:
                request = trigger_request(request_id, job_id, now, by="someone", params='{"a":1}')
            case 3 | 4:
                run_id = self._some_run(job_id) if random.random() < 0.7 else None
                request = cancel_request(request_id, job_id, now, run_id=run_id, by="someone")
            case 5 | 6:
                request = pause_request(request_id, job_id, now, note="for a while")
            case 7 | 8:
                keep = random.choice((None, *Missed))
                request = resume_request(request_id, job_id, now, keep=keep)
            case _:
                request = self._backfill(request_id, job_id)
        self._submit(request)

    def _some_run(self, job_id: str) -> str | None:
        runs = [key for key in self._backend.watch.rows if key.job_id == job_id]
        return self._random.choice(runs[-5:]).run_id if runs else None

    def _backfill(self, request_id: str, job_id: str) -> Request:
        now, job = self._timeline.now, self.jobs.get(job_id)
        instants: list[Instant] = []
        if job is not None:
            instants = occurrences(compile_all(job.schedules), now - 24 * 60 * MINUTE, now)[-5:]
        overlap = self._random.choice((Overlap(OverlapKind.WAIT), Overlap(OverlapKind.PARALLEL, 2)))
        gap_us = self._random.choice((0, 20 * SECOND))
        return backfill_request(request_id, job_id, now, instants, overlap=overlap, gap_us=gap_us)

    def _submit(self, request: Request) -> None:
        self._trace.add("users", "ask for %s of %s (%s)", request.kind, request.job_id, request.id)
        self._requests.append(request)
        self._put(request)
        if self._random.random() < 0.1:
            self._timeline.after(self._random.randrange(5 * MINUTE), self._put, request)

    def _put(self, request: Request) -> None:
        """Users try until the store is back."""
        if self._timeline.now < self._backend.away_until:
            # Who asks again asks now: what was asked for before is out of date by then.
            again = request._replace(submitted_at=self._timeline.now + 10 * SECOND)
            self._timeline.after(10 * SECOND, self._put, again)
        elif self._is_calm and request.kind is RequestKind.PAUSE:
            # It did not get through in time; no later request would resume the job.
            self._requests = [one for one in self._requests if one.id != request.id]
        else:
            self._backend.commit(Batch(by=f"request/{request.id}", requests=[request]))

    # Blackouts, by a draw of their own, so that the worlds without them stay as they were

    def _go_on_with_blackouts(self) -> None:
        per_hour = self._faults().blackouts_per_hour
        if per_hour:
            self._timeline.after(int(self._blackout_luck.expovariate(per_hour) * 60 * MINUTE), self._add_blackout)

    def _add_blackout(self) -> None:
        if self._is_calm:
            return
        self._go_on_with_blackouts()
        luck, period_us = self._blackout_luck, self._scenario.run_max_us // 2
        start = self._timeline.now + luck.choice((0, 0, 1)) * luck.randrange(2 * period_us)
        if luck.random() < 0.5:
            start = max(start - start % period_us, self._timeline.now)  # at an occurrence
        # It is over before the world is: the checks at the end expect every job to be planned.
        end = min(start + luck.randrange(1, 5 * period_us), self._scenario.start + self._scenario.length_us)
        if end <= start:
            return
        jobs = () if luck.random() < 0.3 else tuple(luck.sample(self._names(), 2))
        number = f"b{len(self._blackouts) + 1}"
        self._keep_blackout(AddedBlackout(number, start, end, "drawn", jobs, is_for_all=not jobs))
        if luck.random() < 0.5:
            self._timeline.after(luck.randrange(3 * period_us), self._remove_blackout, number)

    def _keep_blackout(self, blackout: AddedBlackout) -> None:
        if self._timeline.now < self._backend.away_until:
            self._timeline.after(10 * SECOND, self._keep_blackout, blackout)
            return
        self._trace.add("users", "add %s of %s", blackout.window, blackout.jobs or "all")
        self._blackouts[blackout.id] = blackout
        self._backend.commit(Batch(by="users", blackouts=[StoredBlackout(blackout.id, blackout_text(blackout))]))

    def _remove_blackout(self, blackout_id: str) -> None:
        if self._timeline.now < self._backend.away_until:
            self._timeline.after(10 * SECOND, self._remove_blackout, blackout_id)
            return
        known = self._blackouts.get(blackout_id)
        if known is not None:
            self._trace.add("users", "remove %s", known.window)
            left = known.ended(self._timeline.now)
            text = None if left is None else blackout_text(left)
            self._backend.commit(Batch(by="users", blackouts=[StoredBlackout(blackout_id, text)]))

    # When things have calmed down

    def end_faults(self) -> None:
        """Resume everything that is held, so that all waiting runs can end."""
        self._is_calm = True
        for job in list(self.jobs.values()):
            self._write(replace(job, enabled=True))

    def _let_go(self, job_id: str) -> None:
        if self._scenario.ownership is not Ownership.NONE:
            request_id = f"r{self._next_id}"
            self._next_id += 1
            self._submit(resume_request(request_id, job_id, self._timeline.now))

    def unanswered(self) -> list[str]:
        answered = {one.id for one in self._backend.store.requests([one.id for one in self._requests]) if one.answer}
        return [request.id for request in self._requests if request.id not in answered]

    def check_answers(self) -> None:
        """Checks that the ledger agrees with every answer that a person received."""
        for request in self._backend.store.requests([request.id for request in self._requests]):
            answer = read_answer(request.answer or "")
            since = self._there_since.get(request.job_id)
            if answer.refusal is Refusal.NOT_FOUND and since is not None and since < request.submitted_at - SETTLED_US:
                raise Violation(f"{request.kind} {request.id}: job {request.job_id} was there, the answer is {answer}")
            if answer.run_id and RunKey.from_run_id(answer.run_id) not in self._backend.watch.rows:
                raise Violation(f"trigger {request.id} was answered, but its run is not in the ledger")
            if answer.planned is not None:
                runs = sum(key.origin == request.id for key in self._backend.watch.rows)
                if runs != answer.planned:
                    raise Violation(f"backfill {request.id} was answered with {answer}, but {runs} are in the ledger")
