"""The attempts that this scheduler has assigned to members, and their results: no connection, no clock, no thread.

`send` sends lines to a member and may fail silently. So everything unanswered is sent again: when a member is back,
when the connection is, and now and then; no member does anything twice.
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
from evertick.executors.fleet.foreign_attempts import ForeignAttempts
from evertick.executors.fleet.log_sync import LogCopies, LogFetcher
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.task import NotEnded, Part, PartEnd, Phase, Task, task_of_launch, task_of_question
from evertick.executors.protocol import LaunchMessage, Message
from evertick.model.lifecycle import LOST, RunState
from evertick.model.member import Member
from evertick.model.report import (
    AttemptQuestion,
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

RETRY_SECONDS = 10.0
"""How often unanswered launches and questions are sent again."""
DEAF_SECONDS = 2.0
"""A tick later than this was delayed with everything else here: no message of a member could arrive meanwhile."""


class Assignments:
    def __init__(
        self,
        membership: Membership,
        copies: LogCopies,
        send: Callable[[str, bytes], None],
        report: Callable[[Report], None],
    ) -> None:
        self.membership = membership
        self._logs = LogFetcher(copies, send, membership.is_heard)
        self._send = send
        self._report = report
        self._tasks: dict[AttemptId, Task] = {}
        self._parts: dict[AttemptId, tuple[Task, Part]] = {}
        self._foreign = ForeignAttempts(send, report)
        self._foreign_reported_at = 0.0
        self._ticked_at: float | None = None
        self._reported_members: tuple[Member, ...] | None = None
        self.members: Sequence[Member] = ()

    # Requests of the loop

    def launch(
        self,
        launch: LaunchMessage,
        placed: str,
        now: float,
        needs: Resources = (),
        bundle: Bundle | None = None,
        valid_us: int | None = None,
    ) -> None:
        """`valid_us` is how long it may still be started: after that another node may launch it."""
        known = self._tasks.get(launch.attempt_id)
        if known is not None:
            known.owes_answer = True
            for part in known.parts:
                self._resend(part, now)
            return
        placement = parse_placement(placed)
        if not placement.members:
            # No member was chosen: take the first connected one, so that a repeated launch reaches the same one.
            placement = Placement(FLEET, next(iter(self.membership.connected_names()), ""))
        away = [name for name in placement.members if not self.membership.is_member_connected(name)]
        if away or not placement.members:
            reason = f"the member {away[0]} is not connected" if away else "no member of the fleet is connected"
            self._report(LaunchRefused(launch.key, launch.attempt, reason, launch.fence))
            return
        limits = {} if valid_us is None else self._limits(placement.members, now, valid_us)
        task = task_of_launch(launch, placement, now, needs, bundle, limits)
        self._keep(task)
        for part in task.parts:
            self._send_launch(part)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        attempt_id = AttemptId(key, attempt)
        task = self._tasks.get(attempt_id)
        if task is not None:
            task.stop_detail = detail
            for part in task.parts:
                self._stop_part(task, part)
            return
        line = protocol.encode(protocol.STOP, *key, attempt, detail)
        for member in self.membership.connected_names():
            self._send(member, line)
        self._foreign.stop(attempt_id, detail)

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        """A step waits for it; a member that does not receive it asks again."""
        task = self._tasks.get(AttemptId(key, attempt))
        for part in task.parts if task is not None else ():
            if part.member and part.phase is not Phase.ENDED:
                words: tuple[object, ...] = (step, number, end.state, end.detail, dict(end.outputs))
                # Members of an earlier version know no more fields, and ask for no items.
                words += (end.steps, end.executor) if end.steps else ()
                self._send(
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
            task.ask_under(asked.fence)
            task.owes_answer = True
            for part in task.parts:
                self._resend(part, now)

    def _limits(self, members: Sequence[str], now: float, valid_us: int) -> dict[str, int]:
        clocks = {member: self.membership.boottime_of(member, now) for member in members}
        return {member: clock + valid_us for member, clock in clocks.items() if clock is not None}

    def _keep(self, task: Task) -> None:
        self._tasks[task.attempt_id] = task
        for part in task.parts:
            self._parts[part.attempt_id] = (task, part)

    # Messages of the fleet

    def connected(self, now: float) -> None:
        self.membership.connected(now)

    def listening(self, now: float) -> None:
        """Anything was received: the connection works."""
        self.membership.received(now)

    def disconnected(self, now: float) -> None:
        self.membership.disconnected()
        self._report_members(now)

    def heartbeat(self, plain: Mapping[str, object], address: str, now: float, instant: int, age: float = 0.0) -> None:
        self._take_heartbeat(plain, address, now, instant, age)
        self._report_members(now)

    def heartbeats(
        self,
        connected: Sequence[Mapping[str, Any]],
        now: float,
        instant: int,
        absent: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """All members at once: with only the first of them known, a broadcast would go to it alone."""
        for one in absent:
            with contextlib.suppress(ValueError):  # an invalid heartbeat is ignored
                self.membership.restored(validation.heartbeat_of(one["card"]), one["address"], now, instant, one["age"])
        for one in connected:
            self._take_heartbeat(one["card"], one["address"], now, instant, one["age"])
        self._report_members(now)

    def _take_heartbeat(self, plain: Mapping[str, object], address: str, now: float, instant: int, age: float) -> None:
        try:
            heartbeat = validation.heartbeat_of(plain)
        except ValueError as error:
            log.warning("fleet.heartbeat_invalid address=%s reason=%s", address, error)
            return
        back = self.membership.seen(heartbeat, address, now, instant, age)
        if back is not None:
            self._resend_to(back, now)

    def gone(self, member: str, now: float) -> None:
        self.membership.disconnect(member)
        self._report_members(now)

    def forgotten(self, member: str, now: float) -> None:
        self.membership.forget(member)
        self._report_members(now)

    def receive(self, member: str, lines: bytes, now: float) -> None:
        for words in messages.rows_of(lines):
            try:
                self._receive(member, words, now)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                log.warning("fleet.message_invalid member=%s verb=%s reason=%s", member, words[0], error)

    def tick(self, now: float) -> None:
        """Timeouts and retries."""
        if self._ticked_at is not None and now - self._ticked_at > DEAF_SECONDS and self.membership.is_connected:
            # This process was suspended: messages of members are still unread.
            self.membership.connected(now)
        self._ticked_at = now
        for task, part in tuple(self._parts.values()):
            if part.phase is Phase.ENDED:
                continue
            if part.member and self.membership.is_given_up(part.member, now):
                self._give_up(task, part, now)
            elif not part.member:
                self._close_question(task, part, now)
            elif now - part.since > RETRY_SECONDS:
                self._resend(part, now)
        if now - self._foreign_reported_at >= RETRY_SECONDS:
            self._foreign_reported_at = now
            self._foreign.report_again()
        self._logs.tick(now, self._running)
        self._report_members(now)

    # One message

    def _receive(self, member: str, words: Message, now: float) -> None:
        verb, attempt_id, rest = validation.attempt_id_of(words)
        if verb in (messages.LOG, messages.LOGS_END):
            self._logs.take(verb, member, attempt_id, rest, self._holder_of(attempt_id))
            return
        task, part = self._parts.get(attempt_id, (None, None))
        if task is None or part is None:
            self._foreign.receive(verb, member, attempt_id, rest)
            return
        if not part.member and verb in (protocol.STARTED, protocol.FINISHED):
            part.member = member
            task.found_at = str(Placement(FLEET, member))
        if part.member and part.member != member:
            # Assigned to another member since: only that one's reports count, and this one must stop.
            if verb == protocol.STARTED:
                self._send(
                    member,
                    protocol.encode(
                        protocol.STOP, *attempt_id.key, attempt_id.attempt, "it was assigned to another member"
                    ),
                )
            return
        part.since = now
        match verb:
            case messages.WANT_BUNDLE:
                self._send_piece(part, member, rest)
            case protocol.STARTED:
                self._started(task, part, self.membership.to_our_clock(member, validation.instant_of(rest[0])))
            case protocol.STEPS if part.number is None:
                self._report(StepsSeen(task.key, task.attempt, validation.steps_of(rest[0])))
            case protocol.SUB_RUN_WANTED:
                # The shards of a broadcast request the same sub-run: it is created once for all of them.
                self._report(
                    SubRunWanted(task.key, task.attempt, *validation.sub_run_wanted_of(rest), is_from_member=True)
                )
            case protocol.SUB_RUN_UNWANTED:
                self._report(SubRunUnwanted(task.key, task.attempt, *validation.sub_run_unwanted_of(rest)))
            case protocol.FINISHED:
                finished = validation.finished_of(rest)
                state, at = RunState(finished.state), self.membership.to_our_clock(member, finished.at)
                end = PartEnd(member, state, at, finished.exit_code, finished.detail, finished.steps, finished.cause)
                self._logs.ended(attempt_id, member)
                self._ended(task, part, end)
                if finished.serial:
                    self._send(member, protocol.encode(protocol.DELIVERED, finished.serial))
            case protocol.REFUSED:
                # Every scheduler gets it: a late launch of the former owner may be the one that was refused.
                if part.phase is Phase.SENT and validation.fence_of(rest[1:]) in (None, part.fence):
                    part.refusal = validation.text_of(rest[0])
                    self._refused(task, part)
            case protocol.UNKNOWN:
                # An answer to an older fence does not block launches with a newer one.
                if (fence := validation.fence_of(rest)) is None or fence >= part.fence:
                    self._unknown(task, part, member, now)

    def _send_piece(self, part: Part, member: str, rest: Message) -> None:
        digest, offset = validation.text_of(rest[0]), validation.offset_of(rest[1])
        if part.bundle is not None and part.bundle.digest == digest:
            piece = base64.b64encode(part.bundle.data[offset : offset + messages.PIECE]).decode("ascii")
            key, attempt = part.attempt_id
            self._send(member, protocol.encode(messages.BUNDLE_PIECE, *key, attempt, digest, offset, piece))

    def _started(self, task: Task, part: Part, at: int) -> None:
        part.phase = Phase.RUNNING
        if task.stop_detail is not None:
            self._stop_part(task, part)
        if not task.has_started or task.owes_answer:
            task.has_started, task.owes_answer = True, False
            self._report(RunStarted(task.key, task.attempt, at, task.found_at))

    def _refused(self, task: Task, part: Part) -> None:
        """Its member refused it; of a launch that was sent again, the next copy may still be accepted."""
        if part.sent > 1:
            part.phase = Phase.REFUSED
            self._send(part.member, part.question)  # sent after them: its answer comes after theirs
        else:
            self._ended(task, part, PartEnd(part.member, NotEnded.REFUSED, 0, None, part.refusal))

    def _unknown(self, task: Task, part: Part, member: str, now: float) -> None:
        if part.phase is Phase.REFUSED:
            self._ended(task, part, PartEnd(member, NotEnded.REFUSED, 0, None, part.refusal))
        elif part.phase is Phase.RUNNING:
            detail = f"{member} was restarted and has no record of it"
            self._ended(task, part, PartEnd(member, LOST, 0, None, detail))
        elif part.phase is Phase.ASKED and part.member:
            self._ended(task, part, PartEnd(member, NotEnded.UNKNOWN, 0))
        elif part.phase is Phase.ASKED:
            part.asked.discard(member)
            part.denied.add(member)
            self._close_question(task, part, now)

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

    # Sending again

    def _resend_to(self, member: str, now: float) -> None:
        """A member has connected: whatever was sent to it may have been lost."""
        self._foreign.member_returned(member)
        for task, part in tuple(self._parts.values()):
            if part.phase is Phase.ENDED or part.member not in (member, ""):
                continue
            if not part.member:
                part.denied.discard(member)  # it may be another machine under this name
                part.asked.add(member)
                self._send(member, part.question)
                continue
            self._resend(part, now)
            if task.stop_detail is not None:
                self._stop_part(task, part)
        self._foreign.stop_given_up(member)

    def _resend(self, part: Part, now: float) -> None:
        part.since = now
        if part.phase is Phase.SENT:
            self._send_launch(part)
        elif part.phase is not Phase.ENDED and part.member:
            self._send(part.member, part.question)
        elif part.phase is Phase.ASKED:
            for member in self.membership.connected_names():
                if member not in part.denied:
                    part.asked.add(member)
                    self._send(member, part.question)

    def _send_launch(self, part: Part) -> None:
        part.sent += 1
        self._send(part.member, part.launch)

    def _stop_part(self, task: Task, part: Part) -> None:
        if part.phase is not Phase.ENDED and part.member:
            self._send(
                part.member,
                protocol.encode(protocol.STOP, *part.attempt_id.key, part.attempt_id.attempt, task.stop_detail),
            )

    # Giving up

    def _give_up(self, task: Task, part: Part, now: float) -> None:
        silence = self.membership.silence_of(part.member, now)
        detail = f"the member {part.member} has been silent for {silence:.0f} s"
        log.warning("attempt.given_up member=%s run=%s", part.member, task.key.run_id)
        self._foreign.give_up(part.attempt_id, part.member)
        self._logs.ended(part.attempt_id, part.member)
        self._ended(task, part, PartEnd(part.member, LOST, 0, None, detail))

    def _close_question(self, task: Task, part: Part, now: float) -> None:
        """Its member is unknown: it may be any one that has not denied it, until that one's lease is over."""
        part.asked = {member for member in part.asked if not self.membership.is_given_up(member, now)}
        if part.asked:
            if now - part.since > RETRY_SECONDS:
                self._resend(part, now)
            return
        if not part.denied.issuperset(self.membership.awaited_names(now)):
            return  # asked when it connects
        had_time = self.membership.is_given_up("", now) and now - task.since > RETRY_SECONDS
        if part.denied or had_time:
            self._ended(task, part, PartEnd("", NotEnded.UNKNOWN, 0))

    # Members, and what they run

    def _running(self) -> list[tuple[AttemptId, str]]:
        return [(part.attempt_id, part.member) for _, part in self._parts.values() if part.phase is Phase.RUNNING]

    def _holder_of(self, attempt_id: AttemptId) -> str | None:
        """The member that runs an attempt; None if it has ended or is not ours."""
        _, part = self._parts.get(attempt_id, (None, None))
        return part.member if part is not None and part.phase is not Phase.ENDED else None

    def _report_members(self, now: float) -> None:
        self.members = members = tuple(self.membership.usable(now))
        # The loop needs no report of fields that only people read, and of the load only large changes.
        shown = tuple(
            member._replace(seen_at=0, cpu_percent=round(member.cpu_percent, -1), memory_bytes=0) for member in members
        )
        if shown != self._reported_members:
            self._reported_members = shown
            self._report(MembersSeen(FLEET, members))
