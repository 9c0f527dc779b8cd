"""Running attempts on this machine: hands them to keepers, and says what becomes of them."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from evertick.errors import SettingsError
from evertick.executor import Attempt, AttemptId, KeeperHealth, Member
from evertick.executors import protocol
from evertick.executors.keeper.environment import inherited
from evertick.executors.keeper.lease import UNLIMITED, lease_from
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper_client import KeeperClient
from evertick.executors.protocol import LaunchEncoder
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
        self._encoder = LaunchEncoder(self._environ)
        self._report: Callable[[Report], None] = _nowhere
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._links: list[KeeperClient] = []
        self._incarnations: dict[KeeperClient, str] = {}
        self._lanes: Lanes[AttemptId] = Lanes(self._settings.lanes)
        self._launches: dict[AttemptId, bytes] = {}
        """Not answered yet; sent again when the connection was lost."""
        self._sent: set[AttemptId] = set()
        """Those of them that a keeper may have taken: they cannot be refused any more."""
        self._running: dict[AttemptId, KeeperClient] = {}
        self._stops: dict[AttemptId, bytes] = {}
        self._questions: dict[AttemptId, set[KeeperClient]] = {}
        """Asked of these keepers, and not answered."""
        self._confirmed: set[AttemptId] = set()
        """The ledger knows of them; said again to a keeper that may not have heard it."""
        self._being_told = 0
        """Threads that have taken messages in and not yet reported all of them."""
        self._trouble = ""
        self._lease = protocol.encode(protocol.LEASE, *UNLIMITED)
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
            if (folder / protocol.SOCKET).exists():
                link.wake()  # it may have something to say

    def launch(self, attempt: Attempt) -> None:
        attempt_id = AttemptId(attempt.key, attempt.attempt)
        now = time.time_ns() // 1_000
        # By the clock that nobody sets; what both clocks say now is as far apart then.
        ahead = now - boottime_us()
        valid_until = None if attempt.valid_until is None else attempt.valid_until - ahead
        line = self._encoder.message_for(attempt, valid_until).to_line()
        with self._lock:
            if self._knows(attempt_id):
                turn = Turn.NOW
            else:
                turn = self._lanes.offer(attempt_id, attempt.key.job_id, now)
            if turn is not Turn.NEVER:
                self._launches[attempt_id] = line
        if turn is Turn.NOW:
            self._send(attempt_id, line)
        elif turn is Turn.NEVER:
            self._report(LaunchRefused(attempt.key, attempt.attempt, "too many launches are under way"))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        attempt_id = AttemptId(key, attempt)
        line = protocol.encode(protocol.STOP, *key, attempt, detail)
        with self._lock:
            was_waiting = self._lanes.withdraw(attempt_id)
            if was_waiting:
                self._launches.pop(attempt_id, None)
                self._changed.notify_all()
            elif self._knows(attempt_id) or not self._all_connected():
                self._stops[attempt_id] = line  # said again to a keeper that does not hear it now
        if was_waiting:
            self._report(RunFinished(key, attempt, time.time_ns() // 1_000, CANCELLED, None, detail))
            return
        for link in self._links:
            link.send(line)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        attempt_ids = [AttemptId(key, attempt) for key, attempt in runs]
        with self._lock:
            # One that is about to be launched is answered by its launch.
            asked = [attempt_id for attempt_id in attempt_ids if attempt_id not in self._launches]
            for attempt_id in asked:
                self._questions[attempt_id] = set(self._links)
        for line in protocol.encode_attempts(protocol.RECONCILE, asked):
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
        line = protocol.encode(
            protocol.SUB_RUN_ENDED, *key, attempt, step, number, end.state, end.detail, dict(end.outputs)
        )
        for link in self._links:
            if link.is_connected:
                link.send(line)

    # Of one that lives by a lease

    def live_by_lease(self) -> None:
        self._lease = b""

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        lease = lease_from(asked_at, lease_us, self._settings.keeper.grace_us, epoch, vouched_until)
        self._lease = line = protocol.encode(protocol.LEASE, *lease)
        for link in self._links:
            if link.is_connected:
                link.send(line)

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        attempt_ids = [AttemptId(key, attempt) for key, attempt in runs]
        for link in self._links:
            mine = [attempt_id for attempt_id in attempt_ids if self._link_of(attempt_id) is link]
            with self._lock:
                is_heard = link.is_connected
                self._confirmed.update(attempt_id for attempt_id in mine if self._knows(attempt_id) or not is_heard)
            for line in protocol.encode_attempts(protocol.CONFIRMED, mine) if is_heard else ():
                link.send(line)

    def is_idle(self) -> bool:
        with self._lock:
            has_keepers = [(link.folder / protocol.SOCKET).exists() for link in self._links]
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
            attempt_ids = [*self._launches, *self._running]
        for key, attempt in attempt_ids:
            self.stop(key, attempt, detail)

    def dismiss_keepers(self) -> None:
        """Ask the keepers to go as soon as nothing runs; the next launch starts new ones."""
        for link in self._links:
            if (link.folder / protocol.SOCKET).exists():
                link.send(protocol.encode(protocol.LEAVE))

    def _knows(self, attempt_id: AttemptId) -> bool:
        return attempt_id in self._launches or attempt_id in self._running

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
                attempt_id
                for attempt_id in self._launches
                if self._link_of(attempt_id) is link
                and (attempt_id in self._sent or self._lanes.is_under_way(attempt_id))
            ]
            self._sent.update(again)
            lines = [*(self._launches[attempt_id] for attempt_id in again), *self._stops.values()]
            confirmed = [attempt_id for attempt_id in self._confirmed if self._link_of(attempt_id) is link]
            self._confirmed.difference_update(attempt_id for attempt_id in confirmed if not self._knows(attempt_id))
            lines = [*protocol.encode_attempts(protocol.CONFIRMED, confirmed), *lines]
            if self._lease:
                lines.insert(0, self._lease)
            if self._all_connected():
                self._stops = {attempt_id: line for attempt_id, line in self._stops.items() if self._knows(attempt_id)}
            asked = [attempt_id for attempt_id, links in self._questions.items() if link in links]
            if is_another:
                # Another keeper than before: whether it knows what that one had started, it must say.
                mine = [
                    attempt_id for attempt_id, at in self._running.items() if at is link and attempt_id not in asked
                ]
                for attempt_id in mine:
                    self._questions[attempt_id] = {link}
                asked += mine
        for line in (*lines, *protocol.encode_attempts(protocol.RECONCILE, asked)):
            link.send(line)

    def _is_needed(self, link: KeeperClient) -> bool:
        """Whether something is to be heard from it."""
        with self._lock:
            has_launches = any(self._link_of(attempt_id) is link for attempt_id in self._launches)
            is_asked = any(link in links for links in self._questions.values())
            return has_launches or is_asked or link in self._running.values()

    def _failed(self, link: KeeperClient, reason: str) -> None:
        """There is no keeper to be had: whoever waits for it is told, and may offer the attempt again."""
        with self._lock:
            self._trouble = reason
            refused = [
                attempt_id
                for attempt_id in self._launches
                if self._link_of(attempt_id) is link and attempt_id not in self._sent
            ]
            for attempt_id in refused:
                del self._launches[attempt_id]
                if not self._lanes.withdraw(attempt_id):
                    self._lanes.ended(attempt_id, 0, is_measured=False)
            self._changed.notify_all()
        for key, attempt in refused:
            self._report(LaunchRefused(key, attempt, reason))

    def _heard(self, link: KeeperClient, messages: list[list[Any]]) -> None:
        serial = 0
        reports: list[Report] = []
        following: list[AttemptId] = []
        now = time.time_ns() // 1_000
        with self._lock:
            for verb, job_id, scheduled_for, origin, attempt, *rest in messages:
                key = RunKey(job_id, scheduled_for, origin)
                attempt_id = AttemptId(key, attempt)
                if verb == protocol.SUB_RUN_WANTED:
                    reports.append(SubRunWanted(key, attempt, *rest))
                    continue
                if verb == protocol.SUB_RUN_UNWANTED:
                    reports.append(SubRunUnwanted(key, attempt, *rest))
                    continue
                if verb == protocol.STEPS:
                    reports.append(StepsSeen(key, attempt, rest[0]))
                    continue
                if verb == protocol.UNKNOWN:
                    if self._is_known_elsewhere(attempt_id, link):
                        continue
                elif verb == protocol.FINISHED:
                    serial = max(serial, rest[4])
                reports.append(self._settled(verb, attempt_id, link, rest))
                self._questions.pop(attempt_id, None)
                following += self._lanes.ended(attempt_id, now, is_measured=verb == protocol.STARTED)
            turns = [
                (attempt_id, self._launches[attempt_id]) for attempt_id in following if attempt_id in self._launches
            ]
            self._being_told += 1
        for attempt_id, line in turns:
            self._send(attempt_id, line)
        try:
            for report in reports:
                self._report(report)
        finally:
            with self._changed:
                self._being_told -= 1
                self._changed.notify_all()
        if serial:
            # Only now: what was delivered is not said again.
            link.send(protocol.encode(protocol.DELIVERED, serial))

    def _settled(self, verb: str, attempt_id: AttemptId, link: KeeperClient, rest: list[Any]) -> Report:
        key, attempt = attempt_id
        self._launches.pop(attempt_id, None)
        self._sent.discard(attempt_id)
        if verb == protocol.STARTED:
            self._running[attempt_id] = link
            return RunStarted(key, attempt, rest[0])
        was_running = self._running.pop(attempt_id, None) is not None
        self._stops.pop(attempt_id, None)
        self._confirmed.discard(attempt_id)
        if verb == protocol.FINISHED:
            end = protocol.Finished(*rest)
            if end.state == LOST:
                reason = read_keeper_loss(end.cause) or LossReason.KEEPER
                return RunLost(key, attempt, end.detail, end.steps, at=end.at, reason=reason)
            state = RunState(end.state)
            return RunFinished(key, attempt, end.at, state, end.exit_code, end.detail, end.steps, broken=end.cause)
        if verb == protocol.REFUSED:
            return LaunchRefused(key, attempt, rest[0])
        if was_running:
            detail = "its keeper was lost, and the next one knows nothing of it"
            return RunLost(key, attempt, detail, reason=LossReason.PROCESS_GONE)
        return RunUnknown(key, attempt)

    def _is_known_elsewhere(self, attempt_id: AttemptId, link: KeeperClient) -> bool:
        """Whether another keeper may still say that it has it: unknown is only what is unknown to all."""
        waiting = self._questions.get(attempt_id)
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
            lines = [(attempt_id, self._launches[attempt_id]) for attempt_id in turns]
        for attempt_id, line in lines:
            self._send(attempt_id, line)
        return True

    # What is sent

    def _send(self, attempt_id: AttemptId, line: bytes) -> None:
        link = self._link_of(attempt_id)
        if link.is_connected:
            self._sent.add(attempt_id)
        link.send(line)

    def _link_of(self, attempt_id: AttemptId) -> KeeperClient:
        return self._links[crc32(attempt_id.key.job_id.encode("utf-8", "surrogatepass")) % self._settings.keepers]


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


def _nowhere(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
