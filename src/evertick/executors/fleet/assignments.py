"""What this scheduler has assigned to the fleet and its results: no connection, no clock, no thread.

`tell` hands lines to a member and may fail in silence. Therefore everything that was not answered is said again: when
a member is back, when the connection is, and now and then; no member does anything twice.
"""

from __future__ import annotations

import base64
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages, validation
from evertick.executors.fleet.bundles import Bundle
from evertick.executors.fleet.log_copy import LogCopies
from evertick.executors.fleet.log_sync import LogFetcher
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.merge_results import NotEnded, PartEnd
from evertick.executors.fleet.parts import Part, Phase, Task, task_of_order, task_of_question
from evertick.executors.protocol import LaunchMessage, split_key
from evertick.model.lifecycle import LOST, RunState
from evertick.model.member import Member
from evertick.model.report import (
    AttemptQuestion,
    AttemptSeen,
    LaunchRefused,
    MembersSeen,
    Report,
    RunStarted,
    RunUnknown,
    StepsSeen,
    SubRunUnwanted,
    SubRunWanted,
)
from evertick.model.resources import Resources
from evertick.model.routing import FLEET
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd
from evertick.routing.placement import Placement, parse_placement

log = logging.getLogger("evertick.fleet")

AGAIN_SECONDS = 10.0
"""How often what is not settled is asked for again, whether or not there is a reason to."""
GIVEN_UP_MAX = 10_000
STRANGERS_MAX = 10_000
DEAF_SECONDS = 2.0
"""A tick that comes later than this was held up with everything else here, so that nobody could be heard."""


class Assignments:
    def __init__(
        self,
        membership: Membership,
        copies: LogCopies,
        tell: Callable[[str, bytes], None],
        report: Callable[[Report], None],
    ) -> None:
        self.membership = membership
        self._logs = LogFetcher(copies, tell, membership.is_heard)
        self._tell = tell
        self._report = report
        self._tasks: dict[AttemptId, Task] = {}
        self._parts: dict[AttemptId, tuple[Task, Part]] = {}
        self._given_up: dict[AttemptId, str] = {}
        """Attempts that were reported lost, and the member that had them: when it is back, they are ended."""
        self._strangers: dict[AttemptId, dict[AttemptId, str]] = {}
        """Attempts that members have and that nobody here asked for: the loop may want them ended."""
        self._strangers_told_at = 0.0
        self._ticked_at: float | None = None
        self._shown: tuple[Member, ...] | None = None
        self.members: Sequence[Member] = ()

    # What the loop wants

    def launch(
        self,
        order: LaunchMessage,
        placed: str,
        now: float,
        needs: Resources = (),
        bundle: Bundle | None = None,
        valid_us: int | None = None,
    ) -> None:
        """`valid_us` is how long it may still be started: an order that arrives later may be another node's by then."""
        known = self._tasks.get(AttemptId(order.key, order.attempt))
        if known is not None:
            known.owes_answer = True
            for part in known.parts:
                self._ask_again(part, now)
            return
        placement = parse_placement(placed)
        if not placement.members:
            # Nobody has chosen: the first that is there, so that saying it again reaches the same one.
            placement = Placement(FLEET, next(iter(self.membership.there()), ""))
        away = [name for name in placement.members if not self.membership.is_there(name)]
        if away or not placement.members:
            reason = f"the member {away[0]} is away" if away else "no member of the fleet is there"
            self._report(LaunchRefused(order.key, order.attempt, reason))
            return
        limits = {} if valid_us is None else self._limits(placement.members, now, valid_us)
        task = task_of_order(order, placement, now, needs, bundle, limits)
        self._keep(task)
        for part in task.parts:
            self._send_order(part)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        attempt_id = AttemptId(key, attempt)
        task = self._tasks.get(attempt_id)
        if task is not None:
            task.stop_detail = detail
            for part in task.parts:
                self._stop_part(task, part)
            return
        line = protocol.encode(protocol.STOP, *key, attempt, detail)
        for member in self.membership.there():
            self._tell(member, line)
        for stranger, member in self._strangers.pop(attempt_id, {}).items():
            self._tell(member, protocol.encode(protocol.STOP, *stranger.key, stranger.attempt, detail))

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        """A step waits for it; a member that does not hear it asks again."""
        task = self._tasks.get(AttemptId(key, attempt))
        for part in task.parts if task is not None else ():
            if part.member and part.phase is not Phase.ENDED:
                words = (step, number, end.state, end.detail, dict(end.outputs))
                self._tell(
                    part.member,
                    protocol.encode(protocol.SUB_RUN_ENDED, *part.attempt_id.key, part.attempt_id.attempt, *words),
                )

    def reconcile(self, runs: Iterable[AttemptQuestion], now: float) -> None:
        for asked in runs:
            task = self._tasks.get(AttemptId(asked.key, asked.attempt))
            if task is None:
                task = task_of_question(asked, parse_placement(asked.executor), now)
                if not task.parts:
                    self._report(RunUnknown(asked.key, asked.attempt))
                    continue
                self._keep(task)
            task.owes_answer = True
            for part in task.parts:
                self._ask_again(part, now)

    def _limits(self, members: Sequence[str], now: float, valid_us: int) -> dict[str, int]:
        clocks = {member: self.membership.boottime_of(member, now) for member in members}
        return {member: clock + valid_us for member, clock in clocks.items() if clock is not None}

    def _keep(self, task: Task) -> None:
        self._tasks[task.attempt_id] = task
        for part in task.parts:
            self._parts[part.attempt_id] = (task, part)

    # What the fleet says

    def connected(self, now: float) -> None:
        self.membership.connected(now)

    def listening(self, now: float) -> None:
        """The fleet can be heard: something was said, by whomever."""
        self.membership.heard(now)

    def disconnected(self, now: float) -> None:
        self.membership.disconnected()
        self._show(now)

    def card(self, plain: Mapping[str, Any], address: str, now: float, instant: int, age: float = 0.0) -> None:
        self._take_card(plain, address, now, instant, age)
        self._show(now)

    def cards(
        self,
        all_of_them: Sequence[Mapping[str, Any]],
        now: float,
        instant: int,
        absent: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Everyone that is there, at once: with only the first of them known, a broadcast would go to it alone."""
        for one in absent:
            with contextlib.suppress(ValueError):  # one that makes no sense is not there
                self.membership.remembered(validation.card_of(one["card"]), one["address"], now, instant, one["age"])
        for one in all_of_them:
            self._take_card(one["card"], one["address"], now, instant, one["age"])
        self._show(now)

    def _take_card(self, plain: Mapping[str, Any], address: str, now: float, instant: int, age: float) -> None:
        try:
            card = validation.card_of(plain)
        except ValueError as error:
            log.warning("fleet.card_not_understood address=%s reason=%s", address, error)
            return
        back = self.membership.shown(card, address, now, instant, age)
        if back is not None:
            self._welcome(back, now)

    def gone(self, member: str, now: float) -> None:
        self.membership.left(member)
        self._show(now)

    def forgotten(self, member: str, now: float) -> None:
        self.membership.forgotten(member)
        self._show(now)

    def heard(self, member: str, lines: bytes, now: float) -> None:
        for words in messages.rows_of(lines):
            try:
                self._hear(member, words, now)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                log.warning("fleet.not_understood member=%s verb=%s reason=%s", member, words[0], error)

    def tick(self, now: float) -> None:
        """What must be looked at although nobody said anything."""
        if self._ticked_at is not None and now - self._ticked_at > DEAF_SECONDS and self.membership.is_connected:
            # It was we who stood still: what members said meanwhile is still to be read.
            self.membership.connected(now)
        self._ticked_at = now
        for task, part in tuple(self._parts.values()):
            if part.phase is Phase.ENDED:
                continue
            if part.member and self.membership.is_given_up(part.member, now):
                self._give_up(task, part, now)
            elif not part.member:
                self._close_question(task, part, now)
            elif now - part.since > AGAIN_SECONDS:
                self._ask_again(part, now)
        if now - self._strangers_told_at >= AGAIN_SECONDS:
            self._strangers_told_at = now
            for whole in self._strangers:
                self._report(AttemptSeen(*whole))
        self._logs.tick(now, self._running)
        self._show(now)

    # One line

    def _hear(self, member: str, words: list[Any], now: float) -> None:
        verb, attempt_id, rest = validation.attempt_id_of(words)
        if verb in (messages.LOG, messages.LOGS_END):
            self._logs.take(verb, member, attempt_id, rest, self._holder_of(attempt_id))
            return
        task, part = self._parts.get(attempt_id, (None, None))
        if task is None or part is None:
            self._hear_of_stranger(verb, member, attempt_id, rest)
            return
        if not part.member and verb in (protocol.STARTED, protocol.FINISHED):
            part.member = member
            task.found_at = str(Placement(FLEET, member))
        if part.member and part.member != member:
            # Given to another one since: only that one's word counts, and what this one has must end.
            if verb == protocol.STARTED:
                self._tell(
                    member,
                    protocol.encode(
                        protocol.STOP, *attempt_id.key, attempt_id.attempt, "it was given to another member"
                    ),
                )
            return
        part.since = now
        match verb:
            case messages.WANT_BUNDLE:
                self._send_piece(part, member, rest)
            case protocol.STARTED:
                self._started(task, part, self.membership.ours(member, validation.instant_of(rest[0])))
            case protocol.STEPS if part.number is None:
                self._report(StepsSeen(task.key, task.attempt, validation.steps_of(rest[0])))
            case protocol.SUB_RUN_WANTED:
                # The shards of a broadcast ask for the same run: it is made once for all of them.
                self._report(SubRunWanted(task.key, task.attempt, *validation.call_of(rest), is_from_member=True))
            case protocol.SUB_RUN_UNWANTED:
                self._report(SubRunUnwanted(task.key, task.attempt, *validation.hang_up_of(rest)))
            case protocol.FINISHED:
                said = validation.finished_of(rest)
                state, at = RunState(said.state), self.membership.ours(member, said.at)
                end = PartEnd(member, state, at, said.exit_code, said.detail, said.steps, said.cause)
                self._logs.ended(attempt_id, member)
                self._ended(task, part, end)
                if said.serial:
                    self._tell(member, protocol.encode(protocol.DELIVERED, said.serial))
            case protocol.REFUSED:
                # Every scheduler hears it: a late order of the former owner may be the one that was refused.
                if part.phase is Phase.SENT and validation.fence_of(rest[1:]) in (None, part.fence):
                    part.refusal = validation.text_of(rest[0])
                    self._refused(task, part)
            case protocol.UNKNOWN:
                # Said to one with an older fence, it does not keep orders of that one from being taken.
                if (fence := validation.fence_of(rest)) is None or fence >= part.fence:
                    self._unknown(task, part, member)

    def _send_piece(self, part: Part, member: str, rest: list[Any]) -> None:
        digest, offset = validation.text_of(rest[0]), validation.offset_of(rest[1])
        if part.bundle is not None and part.bundle.digest == digest:
            piece = base64.b64encode(part.bundle.data[offset : offset + messages.PIECE]).decode("ascii")
            key, attempt = part.attempt_id
            self._tell(member, protocol.encode(messages.BUNDLE_PIECE, *key, attempt, digest, offset, piece))

    def _started(self, task: Task, part: Part, at: int) -> None:
        part.phase = Phase.RUNNING
        if task.stop_detail is not None:
            self._stop_part(task, part)
        if not task.has_started or task.owes_answer:
            task.has_started, task.owes_answer = True, False
            self._report(RunStarted(task.key, task.attempt, at, task.found_at))

    def _refused(self, task: Task, part: Part) -> None:
        """Its member has not taken it; of an order that was said again, the next one may be taken all the same."""
        if part.sent > 1:
            part.phase = Phase.REFUSED
            self._tell(part.member, part.question)  # behind them: when it is answered they have been, too
        else:
            self._ended(task, part, PartEnd(part.member, NotEnded.REFUSED, 0, None, part.refusal))

    def _unknown(self, task: Task, part: Part, member: str) -> None:
        if part.phase is Phase.REFUSED:
            self._ended(task, part, PartEnd(member, NotEnded.REFUSED, 0, None, part.refusal))
        elif part.phase is Phase.RUNNING:
            detail = f"{member} was started anew, and knows nothing of it"
            self._ended(task, part, PartEnd(member, LOST, 0, None, detail))
        elif part.phase is Phase.ASKED and part.member:
            self._ended(task, part, PartEnd(member, NotEnded.UNKNOWN, 0))
        elif part.phase is Phase.ASKED:
            part.asked.discard(member)
            if not part.asked:
                self._ended(task, part, PartEnd("", NotEnded.UNKNOWN, 0))

    def _ended(self, task: Task, part: Part, end: PartEnd) -> None:
        part.phase, part.end = Phase.ENDED, end
        outcome = task.outcome()
        if outcome is None:
            return
        del self._tasks[task.attempt_id]
        for one in task.parts:
            self._parts.pop(one.attempt_id, None)
        if task.has_started and isinstance(outcome, LaunchRefused):
            raise AssertionError(f"{task.key.run_id} was refused after it had started")
        self._report(outcome)

    def _hear_of_stranger(self, verb: str, member: str, attempt_id: AttemptId, rest: list[Any]) -> None:
        if attempt_id in self._given_up:
            if verb == protocol.STARTED:
                log.warning(
                    "attempt.late member=%s run=%s attempt=%s", member, attempt_id.key.run_id, attempt_id.attempt
                )
                detail = "it was given up while its member was away"
                self._tell(member, protocol.encode(protocol.STOP, *attempt_id.key, attempt_id.attempt, detail))
            elif verb == protocol.FINISHED:
                log.warning("attempt.result_refused member=%s run=%s", member, attempt_id.key.run_id)
                del self._given_up[attempt_id]
                self._tell(member, protocol.encode(protocol.DELIVERED, validation.finished_of(rest).serial))
        elif verb == protocol.STARTED:
            # Perhaps another node's; if it is ours, the loop knows whether it is still wanted.
            whole = AttemptId(split_key(attempt_id.key)[0], attempt_id.attempt)
            if whole not in self._strangers and len(self._strangers) >= STRANGERS_MAX:
                return
            self._strangers.setdefault(whole, {})[attempt_id] = member
            self._report(AttemptSeen(*whole))
        elif verb == protocol.FINISHED:
            self._strangers.pop(AttemptId(split_key(attempt_id.key)[0], attempt_id.attempt), None)

    # Saying it again

    def _welcome(self, member: str, now: float) -> None:
        """A member is there, for the first time or again: whatever concerns it may have been lost on the way."""
        for whole, those in list(self._strangers.items()):
            # It says again what it has.
            self._strangers[whole] = {attempt_id: had for attempt_id, had in those.items() if had != member}
            if not self._strangers[whole]:
                del self._strangers[whole]
        for task, part in tuple(self._parts.values()):
            if part.phase is Phase.ENDED or part.member not in (member, ""):
                continue
            if not part.member:
                part.asked.add(member)
                self._tell(member, part.question)
                continue
            self._ask_again(part, now)
            if task.stop_detail is not None:
                self._stop_part(task, part)
        for attempt_id in [attempt_id for attempt_id, had in self._given_up.items() if had == member]:
            self._tell(
                member, protocol.encode(protocol.STOP, *attempt_id.key, attempt_id.attempt, "it was given up meanwhile")
            )

    def _ask_again(self, part: Part, now: float) -> None:
        part.since = now
        if part.phase is Phase.SENT:
            self._send_order(part)
        elif part.phase is not Phase.ENDED and part.member:
            self._tell(part.member, part.question)
        elif part.phase is Phase.ASKED:
            for member in self.membership.there():
                part.asked.add(member)
                self._tell(member, part.question)

    def _send_order(self, part: Part) -> None:
        part.sent += 1
        self._tell(part.member, part.order)

    def _stop_part(self, task: Task, part: Part) -> None:
        if part.phase is not Phase.ENDED and part.member:
            self._tell(
                part.member,
                protocol.encode(protocol.STOP, *part.attempt_id.key, part.attempt_id.attempt, task.stop_detail),
            )

    # Giving up

    def _give_up(self, task: Task, part: Part, now: float) -> None:
        silence = self.membership.silence_of(part.member, now)
        detail = f"the member {part.member} has been silent for {silence:.0f} s"
        log.warning("attempt.given_up member=%s run=%s", part.member, task.key.run_id)
        while len(self._given_up) >= GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[part.attempt_id] = part.member
        self._logs.ended(part.attempt_id, part.member)
        self._ended(task, part, PartEnd(part.member, LOST, 0, None, detail))

    def _close_question(self, task: Task, part: Part, now: float) -> None:
        """Nobody knows who has it: those who are there have to answer, and the others had their time to come."""
        part.asked = {member for member in part.asked if not self.membership.is_given_up(member, now)}
        if not part.asked and self.membership.is_given_up("", now) and now - task.since > AGAIN_SECONDS:
            self._ended(task, part, PartEnd("", NotEnded.UNKNOWN, 0))
        elif part.asked and now - part.since > AGAIN_SECONDS:
            self._ask_again(part, now)

    # Who is there, and has what

    def _running(self) -> list[tuple[AttemptId, str]]:
        return [(part.attempt_id, part.member) for _, part in self._parts.values() if part.phase is Phase.RUNNING]

    def _holder_of(self, attempt_id: AttemptId) -> str | None:
        """The member that carries an attempt out; None when it has ended, or is not ours."""
        _, part = self._parts.get(attempt_id, (None, None))
        return part.member if part is not None and part.phase is not Phase.ENDED else None

    def _show(self, now: float) -> None:
        self.members = members = tuple(self.membership.usable(now))
        # What only people look at is no news for the loop; of the load, only what makes one the less loaded.
        shown = tuple(
            member._replace(seen_at=0, cpu_percent=round(member.cpu_percent, -1), memory_bytes=0) for member in members
        )
        if shown != self._shown:
            self._shown = shown
            self._report(MembersSeen(FLEET, members))
