"""Attempts on members that this scheduler does not track: given up earlier, or launched by another process."""

from __future__ import annotations

import logging
from collections.abc import Callable

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import validation
from evertick.model.report import AttemptSeen, Report

log = logging.getLogger("evertick.fleet")

GIVEN_UP_MAX = 10_000
FOREIGN_MAX = 10_000


class ForeignAttempts:
    """`send` sends a line to a member and may fail silently."""

    def __init__(self, send: Callable[[str, bytes], None], report: Callable[[Report], None]) -> None:
        self._send = send
        self._report = report
        self._given_up: dict[AttemptId, str] = {}
        """Attempts reported lost, and their member: when it is back, they are stopped."""
        self._running: dict[AttemptId, dict[AttemptId, str]] = {}
        """Attempts launched elsewhere, by the whole attempt: its parts and their members. The loop may stop them."""

    def give_up(self, attempt_id: AttemptId, member: str) -> None:
        while len(self._given_up) >= GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[attempt_id] = member

    def receive(self, verb: str, member: str, attempt_id: AttemptId, fields: protocol.Message) -> None:
        if attempt_id in self._given_up:
            if verb == protocol.STARTED:
                run_id, attempt = attempt_id.key.run_id, attempt_id.attempt
                log.warning("attempt.late member=%s run=%s attempt=%s", member, run_id, attempt)
                self._stop(member, attempt_id, "it was given up while its member was disconnected")
            elif verb == protocol.FINISHED:
                log.warning("attempt.result_refused member=%s run=%s", member, attempt_id.key.run_id)
                del self._given_up[attempt_id]
                self._send(member, protocol.encode(protocol.DELIVERED, validation.finished_of(fields).serial))
        elif verb == protocol.STARTED:
            # Perhaps another node's; if it is ours, the loop knows whether it is still wanted.
            whole = _whole(attempt_id)
            if whole not in self._running and len(self._running) >= FOREIGN_MAX:
                return
            self._running.setdefault(whole, {})[attempt_id] = member
            self._report(AttemptSeen(*whole))
        elif verb == protocol.FINISHED:
            self._running.pop(_whole(attempt_id), None)

    def stop(self, attempt_id: AttemptId, detail: str) -> None:
        for part_id, member in self._running.pop(attempt_id, {}).items():
            self._stop(member, part_id, detail)

    def report_again(self) -> None:
        for whole in self._running:
            self._report(AttemptSeen(*whole))

    def member_returned(self, member: str) -> None:
        """It reports its attempts again; those that were given up are stopped."""
        for whole, parts in list(self._running.items()):
            self._running[whole] = {part_id: holder for part_id, holder in parts.items() if holder != member}
            if not self._running[whole]:
                del self._running[whole]

    def stop_given_up(self, member: str) -> None:
        for attempt_id in [attempt_id for attempt_id, holder in self._given_up.items() if holder == member]:
            self._stop(member, attempt_id, "it was given up meanwhile")

    def _stop(self, member: str, attempt_id: AttemptId, detail: str) -> None:
        self._send(member, protocol.encode(protocol.STOP, *attempt_id.key, attempt_id.attempt, detail))


def _whole(attempt_id: AttemptId) -> AttemptId:
    return AttemptId(protocol.split_key(attempt_id.key)[0], attempt_id.attempt)
