"""Executors that run nothing: they keep the executor contract, and fail in every other way."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from random import Random

from evertick.loop.effects import Launch, ReportSubRunEnd
from evertick.model.instant import HOUR, MILLISECOND, MINUTE, SECOND, Instant
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT, RunState, Trigger
from evertick.model.policy import OnExecutorLost
from evertick.model.report import (
    AttemptQuestion,
    LaunchRefused,
    Report,
    RunFinished,
    RunHeartbeat,
    RunLost,
    RunStarted,
    RunUnknown,
    StepsSeen,
    SubRunUnwanted,
    SubRunWanted,
)
from evertick.model.run import RunKey
from evertick.testing.faults import Faults
from evertick.testing.fleet import SimulatedFleet
from evertick.testing.invariants import Violation
from evertick.testing.keepers import SimulatedKeeper
from evertick.testing.subcalls import NUMBER, Call, SubRunWatch, call_of
from evertick.testing.timeline import Caller, Timeline

LEASE_US = 2 * MINUTE
"""How long a member of the fleet may be silent."""
BEATS_PER_LEASE = 3
RETOLD_US = 2 * HOUR
"""How long a machine keeps the outcome of a run for a process that has not received it."""


class _Attempt:
    __slots__ = ("call", "end", "is_dead", "is_mute", "key", "lease_us", "number", "place", "started_at", "watchers")

    def __init__(self, key: RunKey, number: int, started_at: Instant, place: str, lease_us: int | None) -> None:
        self.key = key
        self.place = place
        self.number = number
        self.started_at = started_at
        self.lease_us = lease_us
        self.call: Call | None = None
        """The run of another job that it waits for."""
        self.end: RunFinished | None = None
        self.is_dead = False
        """Gone without a result."""
        self.is_mute = False
        """Running or gone, without a heartbeat."""
        self.watchers: dict[str, None] = {}
        """The nodes that launched it or asked about it: they receive its outcome."""

    @property
    def is_going_on(self) -> bool:
        return self.end is None and not self.is_dead


class SimulatedExecutors:
    """All executors of a world.

    Each node has one of its own, which outlives its processes and knows nothing of the others; or all share a fleet.
    An executor identifies an attempt by its key and number, and never starts it twice.
    """

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        faults: Callable[[], Faults],
        report: Callable[[str, Report], None],
        answer: Callable[[Caller, Report], None],
        run_max_us: int,
        *,
        is_shared: bool,
        is_overlap_kept: bool,
        fleet: SimulatedFleet | None = None,
        routed: Collection[str] = (),
        has_keepers: bool = False,
        sub_runs: SubRunWatch | None = None,
    ) -> None:
        self._timeline = timeline
        self._random = random
        self._faults = faults
        self._send_report = report
        self._answer_to = answer
        self._run_max_us = run_max_us
        self._is_shared = is_shared
        self._is_overlap_kept = is_overlap_kept
        self._fleet = fleet
        self._routed = routed
        """The jobs whose runs go to a member that the loop has chosen."""
        self._here: defaultdict[str, list[_Attempt]] = defaultdict(list)
        self._running: defaultdict[tuple[str, str], dict[_Attempt, None]] = defaultdict(dict)
        self._attempts: dict[tuple[str, RunKey, int], _Attempt] = {}
        self._starts: defaultdict[RunKey, list[_Attempt]] = defaultdict(list)
        self._fences: dict[RunKey, int] = {}
        self._channels: dict[RunKey, Instant] = {}
        self._sub_runs = sub_runs or SubRunWatch()
        self._has_keepers = has_keepers
        """Whether runs on a machine end with the lease of its node."""
        self._keepers: dict[str, SimulatedKeeper] = {}
        self._on_the_way: Counter[str] = Counter()
        """Launches, by machine."""
        self.started = 0
        self.is_calm = False

    def keeper_of(self, node: str) -> SimulatedKeeper | None:
        """None: no lease covers the runs here."""
        if not self._has_keepers:
            return None
        place = f"local@{node}"
        if place not in self._keepers:

            def running() -> list[tuple[RunKey, int]]:
                if self._on_the_way[place]:
                    return [*self._going_on(place), (RunKey("on the way", 0), 0)]
                return self._going_on(place)

            def end(key: RunKey, number: int) -> None:
                self._end_by_lease(place, key, number)

            # By luck of its own, so that worlds without keepers stay as they were.
            luck = Random(f"keeper of {node} {self._timeline.now}")
            self._keepers[place] = SimulatedKeeper(self._timeline, luck, running, end)
        return self._keepers[place]

    def _going_on(self, place: str) -> list[tuple[RunKey, int]]:
        self._here[place] = [one for one in self._here[place] if one.is_going_on or self._is_recent(one)]
        return [(one.key, one.number) for one in self._here[place] if one.is_going_on]

    def _is_recent(self, attempt: _Attempt) -> bool:
        return attempt.started_at > self._timeline.now - RETOLD_US

    def _end_by_lease(self, place: str, key: RunKey, number: int) -> None:
        attempt = self._attempts.get((place, key, number))
        if attempt is None or not attempt.is_going_on:
            return
        attempt.is_dead = True
        lost = RunLost(key, number, "the lease of its node is over", at=self._timeline.now)
        self._report(attempt, lost)

    # What nodes ask for

    def open(self, caller: Caller) -> None:
        """A process starts: it receives recent outcomes of its machine, which no process may have received."""
        if self._fleet is not None and self._routed:
            self._fleet.open(caller)
        for attempt in self._here[self._place(caller)]:
            is_recent = attempt.started_at > self._timeline.now - RETOLD_US
            if not self._is_shared and is_recent and (attempt.end is not None or attempt.is_dead):
                self._answer(caller, attempt.key, attempt.number)
            elif attempt.call is not None:
                attempt.watchers[caller.node] = None
                self._report_call(caller.node, attempt)

    def launch(self, caller: Caller, launch: Launch) -> None:
        fleet = self._fleet_of(launch.key)
        if fleet is not None:
            fleet.launch(caller, launch)
            return
        self._on_the_way[self._place(caller)] += 1
        self._send(launch.key, self._arrive, caller, launch)

    def stop(self, caller: Caller, key: RunKey, attempt: int) -> None:
        fleet = self._fleet_of(key)
        if fleet is not None:
            fleet.stop(caller, key, attempt)
            return
        self._send(key, self._stop, caller, key, attempt)

    def sub_run_ended(self, caller: Caller, told: ReportSubRunEnd) -> None:
        """A step waits for it; a step that does not receive it asks again."""
        fleet = self._fleet_of(told.key)
        if fleet is not None:
            fleet.sub_run_ended(caller, *told)
            return
        self._send(told.key, self._receive_sub_run_end, caller, told)

    def reconcile(self, caller: Caller, runs: Sequence[AttemptQuestion]) -> None:
        for asked in runs:
            fleet = self._fleet_of(asked.key)
            if fleet is not None:
                fleet.reconcile(caller, [asked])
            else:
                self._send(asked.key, self._answer, caller, asked.key, asked.attempt)

    def _fleet_of(self, key: RunKey) -> SimulatedFleet | None:
        return self._fleet if key.job_id in self._routed else None

    def _send(self, key: RunKey, action: Callable[..., None], *args: object) -> None:
        """Reports about one run arrive in order."""
        at = max(self._timeline.now + self._random.randrange(20 * MILLISECOND), self._channels.get(key, 0) + 1)
        self._channels[key] = at
        self._timeline.at(at, action, *args)

    # What they do

    def _arrive(self, caller: Caller, launch: Launch) -> None:
        key, number = launch.key, launch.attempt
        place = self._place(caller)
        self._on_the_way[place] -= 1
        known, keeper = self._find(caller, key, number), self._keepers.get(place)
        is_confirmed, process = launch.is_confirmed, caller.incarnation
        why_not = keeper.why_not(launch.valid_until, process, is_confirmed=is_confirmed) if keeper is not None else None
        if known is not None:
            if keeper is not None and why_not is None:
                keeper.accept_again(key, number, process, is_confirmed=is_confirmed)
            self._answer(caller, key, number)
        elif launch.fence < self._fences.get(key, 0):
            self._refuse(caller, LaunchRefused(key, number, "a newer owner launched this run", launch.fence))
        elif self._random.random() < self._faults().refusal:
            self._refuse(caller, LaunchRefused(key, number, "full", launch.fence))
        elif why_not is not None:
            self._refuse(caller, LaunchRefused(key, number, why_not, launch.fence))
        else:
            self._start(caller, launch)
            if keeper is not None:
                keeper.accept(key, number, process, is_confirmed=is_confirmed)

    def _find(self, caller: Caller, key: RunKey, number: int) -> _Attempt | None:
        return self._attempts.get((self._place(caller), key, number))

    def _place(self, caller: Caller) -> str:
        return "fleet" if self._is_shared else f"local@{caller.node}"

    def _start(self, caller: Caller, launch: Launch) -> None:
        key, number, random = launch.key, launch.attempt, self._random
        if launch.job.policy.on_executor_lost is OnExecutorLost.FAIL:
            self._refuse_second_start(key, number)
        if self._has_keepers:
            self._refuse_copies(key, number)
        self._fences[key] = launch.fence
        lease_us = LEASE_US if self._is_shared and random.random() < 0.5 else None
        place = self._place(caller)
        attempt = _Attempt(key, number, self._timeline.now, place, lease_us)
        attempt.watchers[caller.node] = None
        self._attempts[place, key, number] = attempt
        self._starts[key].append(attempt)
        self._here[place].append(attempt)
        self._count_running(attempt, launch)
        self.started += 1
        faults, luck = self._faults(), random.random()
        longest_us = 20 * SECOND if self.is_calm else self._run_max_us
        lasts_us = int(longest_us * random.random() ** 3) + MILLISECOND
        if luck < faults.death:
            self._timeline.after(lasts_us, self._die, attempt)
        elif luck < faults.death + faults.silence and lease_us is not None:
            attempt.is_mute = True
            self._timeline.after(LEASE_US * 2 + lasts_us, self._return if luck * 1e6 % 2 < 1 else self._vanish, attempt)
        elif (call := call_of(launch.job, launch.trigger)) is not None and luck * 1e4 % 1 < 0.7:
            self._timeline.after(lasts_us // 2, self._ask, attempt, call)
        else:
            self._timeline.after(lasts_us, self._finish, attempt)
        self._report(attempt, RunStarted(key, number, attempt.started_at, place, lease_us))
        if lease_us is not None and not attempt.is_mute:
            self._timeline.after(lease_us // BEATS_PER_LEASE, self._beat, attempt)

    def _refuse_second_start(self, key: RunKey, number: int) -> None:
        """At most once: a second attempt only after the first came to an end that is known."""
        for before in self._starts[key]:
            if before.number == number or before.end is None or before.end.state not in (FAILED, TIMED_OUT):
                raise Violation(
                    f"{key.run_id} runs at most once: attempt {number} began, and nobody knows how attempt "
                    f"{before.number} on {before.place} ended"
                )

    def _refuse_copies(self, key: RunKey, number: int) -> None:
        """Never two of a run at once, wherever they are and whatever the ledger knows of them."""
        for before in self._starts[key]:
            if before.is_going_on:
                raise Violation(f"{key.run_id}: attempt {number} began beside {before.number} on {before.place}")

    def _count_running(self, attempt: _Attempt, launch: Launch) -> None:
        """Judged by what really runs, whatever the ledger says: runs that were given up as lost do not count."""
        is_backfill = launch.trigger is Trigger.BACKFILL
        limit = json.loads(launch.params)["limit"] if is_backfill else launch.job.policy.overlap.limit
        lane = self._running[launch.key.job_id, launch.key.origin if is_backfill else ""]
        for other in [other for other in lane if other.end is not None or other.is_dead]:
            del lane[other]
        lane[attempt] = None
        busy = {other.key: None for other in lane if not other.is_mute}
        if self._is_overlap_kept and len(busy) > limit:
            runs = ", ".join(key.run_id for key in busy)
            raise Violation(f"{launch.key.run_id} was started: {len(busy)} are running ({runs}), {limit} may")

    def _stop(self, caller: Caller, key: RunKey, number: int) -> None:
        attempt = self._find(caller, key, number)
        if attempt is not None and attempt.end is None and not attempt.is_dead:
            self._timeline.after(self._random.randrange(5 * SECOND), self._cancel, attempt)

    def _cancel(self, attempt: _Attempt) -> None:
        if attempt.call is not None and attempt.is_going_on:
            call, attempt.call = attempt.call, None
            self._report(attempt, SubRunUnwanted(attempt.key, attempt.number, call.step, NUMBER, call.job_id))
        self._end(attempt, CANCELLED)

    def _answer(self, caller: Caller, key: RunKey, number: int) -> None:
        """Answer truthfully about an attempt."""
        attempt, node = self._find(caller, key, number), caller.node
        if attempt is None:
            self._refuse(caller, RunUnknown(key, number))
            return
        attempt.watchers[node] = None
        if attempt.end is not None:
            self._report_one(node, attempt.end)
        elif attempt.is_dead:
            self._report_one(node, RunLost(key, number, "its executor died"))
        else:
            self._report_one(node, RunStarted(key, number, attempt.started_at, attempt.place, attempt.lease_us))
            self._report_call(node, attempt)

    # Runs of other jobs

    def _ask(self, attempt: _Attempt, call: Call) -> None:
        if attempt.is_going_on:
            attempt.call = call
            for node in attempt.watchers:
                self._report_call(node, attempt)

    def _report_call(self, node: str, attempt: _Attempt) -> None:
        """Sent to every process that knows the attempt, until one answers."""
        call, known = attempt.call, (attempt.key, attempt.number)
        if call is not None and attempt.is_going_on:
            self._report_one(node, StepsSeen(*known, call.steps_for(*known)))
            self._report_one(node, SubRunWanted(*known, call.step, NUMBER, call.job_id, ""))

    def _receive_sub_run_end(self, caller: Caller, told: ReportSubRunEnd) -> None:
        attempt = self._find(caller, told.key, told.attempt)
        if attempt is not None and attempt.is_going_on and attempt.call is not None:
            key = attempt.call.key_for(attempt.key, attempt.number)
            attempt.call = None
            self._end(attempt, self._sub_runs.report(key, told.end.state))

    # Outcomes of attempts

    def _finish(self, attempt: _Attempt) -> None:
        luck, failure = self._random.random(), self._faults().failure
        self._end(attempt, SUCCEEDED if luck >= failure else FAILED if luck < failure * 0.8 else TIMED_OUT)

    def _end(self, attempt: _Attempt, state: RunState) -> None:
        if attempt.end is None and not attempt.is_dead:
            attempt.end = RunFinished(
                attempt.key, attempt.number, self._timeline.now, state, int(state is not SUCCEEDED)
            )
            self._report(attempt, attempt.end)

    def _return(self, attempt: _Attempt) -> None:
        """A zombie: it was given up long ago, and comes with a result."""
        attempt.is_mute = False
        self._finish(attempt)

    def _vanish(self, attempt: _Attempt) -> None:
        attempt.is_dead = True

    def _die(self, attempt: _Attempt) -> None:
        if attempt.end is None:
            attempt.is_dead = True
            self._report(attempt, RunLost(attempt.key, attempt.number, "its executor died"))

    def _beat(self, attempt: _Attempt) -> None:
        if attempt.end is None and not attempt.is_dead:
            for node in attempt.watchers:
                self._send_report(node, RunHeartbeat(attempt.key, attempt.number))
            self._timeline.after(LEASE_US // BEATS_PER_LEASE, self._beat, attempt)

    # Reports

    def _refuse(self, caller: Caller, report: LaunchRefused | RunUnknown) -> None:
        """Refuse the launch: reported once, possibly late, and only to the process that asked."""
        is_late = self._random.random() < self._faults().late_report
        longest_us = self._faults().report_delay_max_us if is_late else 20 * MILLISECOND
        self._timeline.after(self._random.randrange(longest_us), self._answer_to, caller, report)

    def _report(self, attempt: _Attempt, report: Report) -> None:
        if not attempt.is_mute or isinstance(report, RunStarted):
            for node in attempt.watchers:
                self._report_one(node, report)

    def _report_one(self, node: str, report: Report) -> None:
        for delay_us in self._faults().delays_us(self._random):
            self._timeline.after(delay_us, self._send_report, node, report)
