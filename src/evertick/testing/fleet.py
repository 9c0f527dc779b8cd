"""A fleet that runs nothing: its members come and go, and what each was given ends, or is lost with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from evertick.executors.fleet.joining import PartEnd, joined, report_of
from evertick.loop.effects import Launch
from evertick.model.instant import HOUR, MILLISECOND, MINUTE, SECOND, Instant
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.member import Member
from evertick.model.policy import OnExecutorLost
from evertick.model.report import LaunchRefused, MembersSeen, Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.routing import FLEET
from evertick.model.run import RunKey
from evertick.routing.placement import Placement, parse_placement
from evertick.testing.caller import Caller
from evertick.testing.faults import Faults
from evertick.testing.invariants import Violation
from evertick.testing.timeline import Timeline

LEASE_US: Final = 2 * MINUTE
"""A member that is away for longer is given up, with all that it has."""
WHOLE: Final = -1
"""In place of the number of a shard: the attempt is in one place."""


class _Attempt:
    __slots__ = ("end", "key", "number", "parts", "placement", "started_at", "watchers")

    def __init__(self, key: RunKey, number: int, placement: Placement, started_at: Instant) -> None:
        self.key, self.number, self.placement, self.started_at = key, number, placement, started_at
        wanted = {shard.number: shard.member for shard in placement.wanted} or {WHOLE: placement.member}
        self.parts: dict[int, str | PartEnd] = dict(wanted)
        """What each part is: with whom, or how it ended."""
        self.end: Report | None = None
        self.watchers: dict[str, None] = {}

    def conclude(self) -> Report | None:
        """What becomes of the whole, once every part has ended."""
        ends = {number: part for number, part in self.parts.items() if isinstance(part, PartEnd)}
        if len(ends) < len(self.parts):
            return None
        if WHOLE in ends:
            return report_of(self.key, self.number, ends[WHOLE])
        return joined(self.key, self.number, self.placement, ends)


class SimulatedFleet:
    """It knows an attempt by its key and number, for ever, and never starts it twice."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        faults: Callable[[], Faults],
        tell: Callable[[str, Report], None],
        answer: Callable[[Caller, Report], None],
        names: Sequence[str],
        run_max_us: int,
    ) -> None:
        self._timeline, self._random, self._faults = timeline, random, faults
        self._tell, self._answer_to = tell, answer
        self._run_max_us = run_max_us
        self._away: dict[str, Instant] = {}
        """Since when."""
        self._names = names
        self._nodes: dict[str, None] = {}
        self._attempts: dict[tuple[RunKey, int], _Attempt] = {}
        self._fences: dict[RunKey, int] = {}
        self._done: defaultdict[RunKey, set[int]] = defaultdict(set)
        """Shards that have succeeded: no attempt may carry them out again."""
        self._channels: dict[RunKey, Instant] = {}
        self.started = 0
        self.is_calm = False

    # What nodes ask for

    def open(self, caller: Caller) -> None:
        self._nodes[caller.node] = None
        self._timeline.after(self._random.randrange(5 * SECOND), self._show, caller.node)

    def launch(self, caller: Caller, launch: Launch) -> None:
        self._send(launch.key, self._arrive, caller, launch)

    def stop(self, key: RunKey, number: int) -> None:
        self._send(key, self._stop, key, number)

    def reconcile(self, caller: Caller, key: RunKey, number: int) -> None:
        self._send(key, self._answer, caller, key, number)

    def _send(self, key: RunKey, action: Callable[..., None], *args: object) -> None:
        """What is said about one run arrives in the order it was said."""
        at = max(self._timeline.now + self._random.randrange(20 * MILLISECOND), self._channels.get(key, 0) + 1)
        self._channels[key] = at
        self._timeline.at(at, action, *args)

    # Members

    def begin(self) -> None:
        if self._faults().member_outages_per_hour:
            for name in self._names:
                self._later_away(name)

    def calm_down(self) -> None:
        """Nobody goes any more, and everybody comes back."""
        self.is_calm = True
        self._away.clear()
        self._show_all()

    def _later_away(self, name: str) -> None:
        wait_us = int(self._random.expovariate(self._faults().member_outages_per_hour) * HOUR)
        self._timeline.after(wait_us, self._go_away, name)

    def _go_away(self, name: str) -> None:
        if self.is_calm:
            return
        self._away[name] = self._timeline.now
        away_us = self._random.randrange(SECOND, 3 * LEASE_US)
        self._timeline.after(LEASE_US, self._give_up, name, self._timeline.now)
        self._timeline.after(away_us, self._come_back, name)
        self._show_all()

    def _give_up(self, name: str, since: Instant) -> None:
        if self._away.get(name) == since:
            for attempt in list(self._attempts.values()):
                for number, part in list(attempt.parts.items()):
                    if part == name and attempt.end is None:
                        self._part_ended(attempt, number, LOST)
            self._show_all()

    def _come_back(self, name: str) -> None:
        self._away.pop(name, None)
        self._show_all()
        if not self.is_calm:
            self._later_away(name)

    def _show_all(self) -> None:
        for node in self._nodes:
            self._show(node)

    def _show(self, node: str) -> None:
        members = [
            Member(
                name,
                is_healthy=name not in self._away,
                running=0,
                labels=(("kind", "even" if number % 2 == 0 else "odd"),),
                is_awaited=name in self._away and self._timeline.now - self._away[name] < LEASE_US,
            )
            for number, name in enumerate(self._names)
        ]
        self._tell(node, MembersSeen(FLEET, members))

    # Attempts

    def _arrive(self, caller: Caller, launch: Launch) -> None:
        key, number = launch.key, launch.attempt
        placement = parse_placement(launch.executor)
        if placement.executor != FLEET or not placement.members:
            raise Violation(f"{key.run_id} is for the fleet, and was launched on {launch.executor!r}")
        if (key, number) in self._attempts:
            self._answer(caller, key, number)
        elif launch.fence < self._fences.get(key, 0):
            self._refuse(caller, LaunchRefused(key, number, "a newer owner launched this run"))
        elif set(placement.members) & self._away.keys() or self._random.random() < self._faults().refusal:
            self._refuse(caller, LaunchRefused(key, number, "away, or full"))
        else:
            self._start(caller, launch, placement)

    def _start(self, caller: Caller, launch: Launch, placement: Placement) -> None:
        key, number = launch.key, launch.attempt
        self._refuse_second_start(launch, placement)
        self._fences[key] = launch.fence
        attempt = self._attempts[key, number] = _Attempt(key, number, placement, self._timeline.now)
        attempt.watchers[caller.node] = None
        self.started += 1
        longest_us = 20 * SECOND if self.is_calm else self._run_max_us
        for part in attempt.parts:
            lasts_us = int(longest_us * self._random.random() ** 3) + MILLISECOND
            self._timeline.after(lasts_us, self._finish, attempt, part)
        self._report(attempt, RunStarted(key, number, attempt.started_at))

    def _refuse_second_start(self, launch: Launch, placement: Placement) -> None:
        key = launch.key
        for before in (one for (known, _), one in self._attempts.items() if known == key):
            is_known = isinstance(before.end, RunFinished) and before.end.state in (FAILED, TIMED_OUT)
            if launch.job.policy.on_executor_lost is OnExecutorLost.FAIL and not is_known:
                raise Violation(f"{key.run_id} runs at most once, and nobody knows how {before.number} ended")
        again = self._done[key] & {shard.number for shard in placement.wanted}
        if again and launch.attempt > 1:
            raise Violation(f"{key.run_id}: the shards {sorted(again)} had succeeded and were started again")

    def _finish(self, attempt: _Attempt, part: int) -> None:
        with_whom = attempt.parts[part]
        if attempt.end is not None or isinstance(with_whom, PartEnd):
            return
        if with_whom in self._away:
            # It ended unheard: told when its member is back, unless that was given up by then.
            self._timeline.after(10 * SECOND, self._finish, attempt, part)
            return
        luck, failure = self._random.random(), self._faults().failure
        self._part_ended(attempt, part, SUCCEEDED if luck >= failure else FAILED)

    def _stop(self, key: RunKey, number: int) -> None:
        attempt = self._attempts.get((key, number))
        if attempt is not None and attempt.end is None:
            for part in attempt.parts:
                self._timeline.after(self._random.randrange(5 * SECOND), self._part_ended, attempt, part, CANCELLED)

    def _part_ended(self, attempt: _Attempt, part: int, state: RunState) -> None:
        member = attempt.parts[part]
        if attempt.end is not None or isinstance(member, PartEnd):
            return
        attempt.parts[part] = PartEnd(member, state, self._timeline.now, int(state is not SUCCEEDED))
        attempt.end = attempt.conclude()
        if attempt.end is not None:
            if isinstance(attempt.end, RunFinished | RunLost) and attempt.placement.shards:
                # Of what was reported: until then it may be carried out again.
                told = parse_placement(attempt.end.executor)
                self._done[attempt.key] |= {shard.number for shard in told.shards if shard.is_done}
            self._report(attempt, attempt.end)

    def _answer(self, caller: Caller, key: RunKey, number: int) -> None:
        attempt = self._attempts.get((key, number))
        if attempt is None:
            self._refuse(caller, RunUnknown(key, number))
            return
        attempt.watchers[caller.node] = None
        self._tell_one(caller.node, attempt.end or RunStarted(key, number, attempt.started_at))

    # How it is told

    def _refuse(self, caller: Caller, report: LaunchRefused | RunUnknown) -> None:
        self._timeline.after(self._random.randrange(20 * MILLISECOND), self._answer_to, caller, report)

    def _report(self, attempt: _Attempt, report: Report) -> None:
        for node in attempt.watchers:
            self._tell_one(node, report)

    def _tell_one(self, node: str, report: Report) -> None:
        for delay_us in self._faults().delays_us(self._random):
            self._timeline.after(delay_us, self._tell, node, report)
