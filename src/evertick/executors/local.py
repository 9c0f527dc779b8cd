"""Running attempts on this machine: hands them to keepers, and says what becomes of them."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from evertick.errors import SettingsError
from evertick.executor import Attempt, KeeperHealth, Member
from evertick.executors import wire
from evertick.executors.keeper.attempt_state import Ticket
from evertick.executors.keeper.environment import inherited
from evertick.executors.keeper.lease import UNLIMITED, lease_from
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper_client import KeeperClient
from evertick.executors.orders import Orders
from evertick.executors.settings import LocalSettings
from evertick.model.lifecycle import CANCELLED, LOST, RunState
from evertick.model.loss import LossReason, read_keeper_loss
from evertick.model.report import (
    LaunchRefused,
    Report,
    RunFinished,
    RunLost,
    RunStarted,
    RunUnknown,
    StepsSeen,
    SubRunUnwanted,
    SubRunWanted,
)
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd
from evertick.routing.lanes import Lanes, Turn

log = logging.getLogger("evertick.local")

CLOSE_SECONDS = 5.0
TICKETS_PER_LINE = 1_000


class LocalExecutor:
    """Attempts live in keepers, not here: they outlive this process, and the next one is told how they ended."""

    name = "local"

    def __init__(
        self,
        state_folder: Path | str,
        settings: LocalSettings | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        # The keeper works elsewhere: for it, the folder must mean the same.
        self._state = Path(state_folder).absolute()
        self._settings = settings or LocalSettings()
        self._environ = os.environ if environ is None else environ
        self._orders = Orders(self._environ)
        self._report: Callable[[Report], None] = _nowhere
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._links: list[KeeperClient] = []
        self._incarnations: dict[KeeperClient, str] = {}
        self._lanes: Lanes[Ticket] = Lanes(self._settings.lanes)
        self._launches: dict[Ticket, bytes] = {}
        """Not answered yet; sent again when the connection was lost."""
        self._sent: set[Ticket] = set()
        """Those of them that a keeper may have taken: they cannot be refused any more."""
        self._running: dict[Ticket, KeeperClient] = {}
        self._stops: dict[Ticket, bytes] = {}
        self._questions: dict[Ticket, set[KeeperClient]] = {}
        """Asked of these keepers, and not answered."""
        self._confirmed: set[Ticket] = set()
        """The ledger knows of them; said again to a keeper that may not have heard it."""
        self._being_told = 0
        """Threads that have taken messages in and not yet reported all of them."""
        self._trouble = ""
        self._lease = wire.line(wire.LEASE, *UNLIMITED)
        """What a keeper hears first; empty: this node does not hold its runs yet."""

    # The contract

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        logs = private_folder(self._state / "logs")
        # Also those of an earlier, larger setting: they may know attempts that we are asked about.
        before = [path for path in self._state.glob("keeper-*") if path.name[7:].isdigit()]
        count = max([self._settings.keepers, *(int(path.name[7:]) + 1 for path in before)])
        environ = inherited(self._environ)
        for number in range(count):
            folder = private_folder(self._state / f"keeper-{number}")
            told = (self._connected, self._heard, self._failed, self._tick, self._is_needed)
            timeout_us = self._settings.keeper_timeout_us
            link = KeeperClient(folder, logs, self._settings.keeper, environ, *told, keeper_timeout_us=timeout_us)
            self._links.append(link)
            link.start()
            if (folder / wire.SOCKET).exists():
                link.wake()  # it may have something to say

    def launch(self, attempt: Attempt) -> None:
        ticket = Ticket(attempt.key, attempt.attempt)
        now = time.time_ns() // 1_000
        # By the clock that nobody sets; what both clocks say now is as far apart then.
        ahead = now - boottime_us()
        valid_until = None if attempt.valid_until is None else attempt.valid_until - ahead
        line = self._orders.order_of(attempt, valid_until).to_line()
        with self._lock:
            if self._knows(ticket):
                turn = Turn.NOW
            else:
                turn = self._lanes.offer(ticket, attempt.key.job_id, now)
            if turn is not Turn.NEVER:
                self._launches[ticket] = line
        if turn is Turn.NOW:
            self._send(ticket, line)
        elif turn is Turn.NEVER:
            self._report(LaunchRefused(attempt.key, attempt.attempt, "too many launches are under way"))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        ticket = Ticket(key, attempt)
        line = wire.line(wire.STOP, *key, attempt, detail)
        with self._lock:
            was_waiting = self._lanes.withdraw(ticket)
            if was_waiting:
                self._launches.pop(ticket, None)
                self._changed.notify_all()
            elif self._knows(ticket) or not self._all_connected():
                self._stops[ticket] = line  # said again to a keeper that does not hear it now
        if was_waiting:
            self._report(RunFinished(key, attempt, time.time_ns() // 1_000, CANCELLED, None, detail))
            return
        for link in self._links:
            link.send(line)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        tickets = [Ticket(key, attempt) for key, attempt in runs]
        with self._lock:
            # One that is about to be launched is answered by its launch.
            asked = [ticket for ticket in tickets if ticket not in self._launches]
            for ticket in asked:
                self._questions[ticket] = set(self._links)
        for line in _in_portions(wire.RECONCILE, asked):
            for link in self._links:
                link.send(line)

    def members(self) -> Sequence[Member]:
        is_silent = any(keeper.is_silent for keeper in self.keepers())
        with self._lock:
            return (Member(self.name, is_healthy=not (self._trouble or is_silent), running=len(self._running)),)

    def close(self) -> None:
        """Let go; what runs goes on, and is told to whoever opens the folder next."""
        for link in self._links:
            link.close(CLOSE_SECONDS)
        self._links = []

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        """A keeper that does not hear it asks again when it is back."""
        line = wire.line(wire.SUB_RUN, *key, attempt, step, number, end.state, end.detail, dict(end.outputs))
        for link in self._links:
            if link.is_connected:
                link.send(line)

    # Of one that lives by a lease

    def live_by_lease(self) -> None:
        self._lease = b""

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        lease = lease_from(asked_at, lease_us, self._settings.keeper.grace_us, epoch, vouched_until)
        self._lease = line = wire.line(wire.LEASE, *lease)
        for link in self._links:
            if link.is_connected:
                link.send(line)

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        tickets = [Ticket(key, attempt) for key, attempt in runs]
        for link in self._links:
            mine = [ticket for ticket in tickets if self._link_of(ticket) is link]
            with self._lock:
                is_heard = link.is_connected
                self._confirmed.update(ticket for ticket in mine if self._knows(ticket) or not is_heard)
            for line in _in_portions(wire.CONFIRMED, mine) if is_heard else ():
                link.send(line)

    def is_idle(self) -> bool:
        with self._lock:
            has_keepers = [(link.folder / wire.SOCKET).exists() for link in self._links]
            is_heard = all(link.is_connected or not there for link, there in zip(self._links, has_keepers, strict=True))
            return is_heard and not self._questions and self._has_nothing()

    # Beyond the contract

    def lanes(self) -> dict[str, dict[str, int]]:
        """How full the lanes are; the counts of one moment."""
        with self._lock:
            return self._lanes.load()

    def keepers(self) -> tuple[KeeperHealth, ...]:
        return tuple(
            KeeperHealth(link.folder.name, link.pid, link.silent_seconds, link.replaced) for link in self._links
        )

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is launching or running; whether that came true in time."""
        with self._changed:
            return self._changed.wait_for(self._has_nothing, timeout)

    def stop_all(self, detail: str) -> None:
        """End everything that was launched here."""
        with self._lock:
            tickets = [*self._launches, *self._running]
        for key, attempt in tickets:
            self.stop(key, attempt, detail)

    def dismiss_keepers(self) -> None:
        """Ask the keepers to go as soon as nothing runs; the next launch starts new ones."""
        for link in self._links:
            if (link.folder / wire.SOCKET).exists():
                link.send(wire.line(wire.LEAVE))

    def _knows(self, ticket: Ticket) -> bool:
        return ticket in self._launches or ticket in self._running

    def _all_connected(self) -> bool:
        return all(link.is_connected for link in self._links)

    def _has_nothing(self) -> bool:
        return not self._launches and not self._running and not self._being_told

    # What keepers say

    def _connected(self, link: KeeperClient, incarnation: str) -> None:
        """Say again whatever was not answered: it may have been lost with the connection, and is never done twice."""
        with self._lock:
            self._trouble = ""
            is_another = self._incarnations.get(link) not in {None, incarnation}
            self._incarnations[link] = incarnation
            again = [
                ticket
                for ticket in self._launches
                if self._link_of(ticket) is link and (ticket in self._sent or self._lanes.is_under_way(ticket))
            ]
            self._sent.update(again)
            lines = [*(self._launches[ticket] for ticket in again), *self._stops.values()]
            confirmed = [ticket for ticket in self._confirmed if self._link_of(ticket) is link]
            self._confirmed.difference_update(ticket for ticket in confirmed if not self._knows(ticket))
            lines = [*_in_portions(wire.CONFIRMED, confirmed), *lines]
            if self._lease:
                lines.insert(0, self._lease)
            if self._all_connected():
                self._stops = {ticket: line for ticket, line in self._stops.items() if self._knows(ticket)}
            asked = [ticket for ticket, links in self._questions.items() if link in links]
            if is_another:
                # Another keeper than before: whether it knows what that one had started, it must say.
                mine = [ticket for ticket, at in self._running.items() if at is link and ticket not in asked]
                for ticket in mine:
                    self._questions[ticket] = {link}
                asked += mine
        for line in (*lines, *_in_portions(wire.RECONCILE, asked)):
            link.send(line)

    def _is_needed(self, link: KeeperClient) -> bool:
        """Whether something is to be heard from it."""
        with self._lock:
            has_launches = any(self._link_of(ticket) is link for ticket in self._launches)
            is_asked = any(link in links for links in self._questions.values())
            return has_launches or is_asked or link in self._running.values()

    def _failed(self, link: KeeperClient, reason: str) -> None:
        """There is no keeper to be had: whoever waits for it is told, and may offer the attempt again."""
        with self._lock:
            self._trouble = reason
            refused = [
                ticket for ticket in self._launches if self._link_of(ticket) is link and ticket not in self._sent
            ]
            for ticket in refused:
                del self._launches[ticket]
                if not self._lanes.withdraw(ticket):
                    self._lanes.ended(ticket, 0, is_measured=False)
            self._changed.notify_all()
        for key, attempt in refused:
            self._report(LaunchRefused(key, attempt, reason))

    def _heard(self, link: KeeperClient, messages: list[list[Any]]) -> None:
        serial = 0
        reports: list[Report] = []
        following: list[Ticket] = []
        now = time.time_ns() // 1_000
        with self._lock:
            for verb, job_id, scheduled_for, origin, attempt, *rest in messages:
                key = RunKey(job_id, scheduled_for, origin)
                ticket = Ticket(key, attempt)
                if verb == wire.CALL:
                    reports.append(SubRunWanted(key, attempt, *rest))
                    continue
                if verb == wire.HANG_UP:
                    reports.append(SubRunUnwanted(key, attempt, *rest))
                    continue
                if verb == wire.STEPS:
                    reports.append(StepsSeen(key, attempt, rest[0]))
                    continue
                if verb == wire.UNKNOWN:
                    if self._is_known_elsewhere(ticket, link):
                        continue
                elif verb == wire.FINISHED:
                    serial = max(serial, rest[4])
                reports.append(self._settled(verb, ticket, link, rest))
                self._questions.pop(ticket, None)
                following += self._lanes.ended(ticket, now, is_measured=verb == wire.STARTED)
            turns = [(ticket, self._launches[ticket]) for ticket in following if ticket in self._launches]
            self._being_told += 1
        for ticket, line in turns:
            self._send(ticket, line)
        try:
            for report in reports:
                self._report(report)
        finally:
            with self._changed:
                self._being_told -= 1
                self._changed.notify_all()
        if serial:
            # Only now: what was delivered is not said again.
            link.send(wire.line(wire.DELIVERED, serial))

    def _settled(self, verb: str, ticket: Ticket, link: KeeperClient, rest: list[Any]) -> Report:
        key, attempt = ticket
        self._launches.pop(ticket, None)
        self._sent.discard(ticket)
        if verb == wire.STARTED:
            self._running[ticket] = link
            return RunStarted(key, attempt, rest[0])
        was_running = self._running.pop(ticket, None) is not None
        self._stops.pop(ticket, None)
        self._confirmed.discard(ticket)
        if verb == wire.FINISHED:
            end = wire.Finished(*rest)
            if end.state == LOST:
                reason = read_keeper_loss(end.cause) or LossReason.KEEPER
                return RunLost(key, attempt, end.detail, end.steps, at=end.at, reason=reason)
            state = RunState(end.state)
            return RunFinished(key, attempt, end.at, state, end.exit_code, end.detail, end.steps, broken=end.cause)
        if verb == wire.REFUSED:
            return LaunchRefused(key, attempt, rest[0])
        if was_running:
            detail = "its keeper was lost, and the next one knows nothing of it"
            return RunLost(key, attempt, detail, reason=LossReason.PROCESS_GONE)
        return RunUnknown(key, attempt)

    def _is_known_elsewhere(self, ticket: Ticket, link: KeeperClient) -> bool:
        """Whether another keeper may still say that it has it: unknown is only what is unknown to all."""
        waiting = self._questions.get(ticket)
        if waiting is None:
            return True  # answered by another one meanwhile
        waiting.discard(link)
        return bool(waiting)

    def _tick(self) -> bool:
        """Whether the link has to come back soon because launches wait for those before them."""
        with self._lock:
            if not self._lanes.has_waiting:
                return False
            turns = self._lanes.overdue(time.time_ns() // 1_000)
            lines = [(ticket, self._launches[ticket]) for ticket in turns]
        for ticket, line in lines:
            self._send(ticket, line)
        return True

    # What is sent

    def _send(self, ticket: Ticket, line: bytes) -> None:
        link = self._link_of(ticket)
        if link.is_connected:
            self._sent.add(ticket)
        link.send(line)

    def _link_of(self, ticket: Ticket) -> KeeperClient:
        return self._links[crc32(ticket.key.job_id.encode("utf-8", "surrogatepass")) % self._settings.keepers]


def state_folder(path: Path) -> Path:
    """The same for the folder of all that a node keeps: without it there is nothing to begin with."""
    try:
        return private_folder(path)
    except OSError as error:
        raise SettingsError(
            f"the folder '{path}' for the scheduler's state cannot be used: {error.strerror}. "
            "Make it writable, or choose another with the setting 'state' (EVERTICK_STATE)."
        ) from error


def private_folder(path: Path) -> Path:
    """The folder, made if needed; refused when others could put something into it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise SettingsError(f"the folder {path} belongs to another user. Choose another state folder.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def _in_portions(verb: str, tickets: Sequence[Ticket]) -> Iterator[bytes]:
    """Because a line has a limit, and a restart may have a hundred thousand questions."""
    for start in range(0, len(tickets), TICKETS_PER_LINE):
        portion = tickets[start : start + TICKETS_PER_LINE]
        yield wire.line(verb, [[*ticket.key, ticket.attempt] for ticket in portion])


def _nowhere(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
