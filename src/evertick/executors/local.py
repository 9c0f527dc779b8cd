"""Runs attempts on this machine: sends them to keepers and reports their results."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zlib import crc32

from evertick.executor import Attempt, AttemptId, Capabilities, KeeperHealth, Member
from evertick.executors import protocol
from evertick.executors.keeper.environment import inherited
from evertick.executors.keeper.lease import UNLIMITED, lease_from
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper_client import KeeperClient
from evertick.executors.keeper_process import keeper_folders
from evertick.executors.paths import private_folder
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
from evertick.routing.lanes import Admission, Lanes
from evertick.settings.parts import LaneSettings, LocalSettings

CLOSE_SECONDS = 5.0


class LocalExecutor:
    """Attempts run in keepers, which outlive this process; the next one receives their results."""

    name = "local"

    def __init__(
        self,
        state_folder: Path | str,
        settings: LocalSettings | None = None,
        lanes: LaneSettings | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        # Absolute: the keeper has another working folder.
        self._state = Path(state_folder).absolute()
        self._settings = settings or LocalSettings()
        self._environ = os.environ if environ is None else environ
        self._encoder = protocol.LaunchEncoder(self._environ)
        self._report: Callable[[Report], None] = _not_open
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._clients: list[KeeperClient] = []
        self._incarnations: dict[KeeperClient, str] = {}
        self._lanes: Lanes[AttemptId] = Lanes(lanes or LaneSettings())
        self._launches: dict[AttemptId, bytes] = {}
        """Unanswered launches, sent again when a connection was lost."""
        self._sent: set[AttemptId] = set()
        """Launches that a keeper may have received: they cannot be refused here any more."""
        self._running: dict[AttemptId, KeeperClient] = {}
        self._stops: dict[AttemptId, bytes] = {}
        self._asked: dict[AttemptId, set[KeeperClient]] = {}
        """Attempts being reconciled, and the keepers that have not answered yet."""
        self._confirmed: set[AttemptId] = set()
        """Attempts that the ledger has recorded; sent again to a keeper that may not know."""
        self._reporting = 0
        """Threads that have received messages and not yet reported all of them."""
        self._problem = ""
        self._lease = protocol.encode(protocol.LEASE, *UNLIMITED)
        """The first line to each keeper; empty: this node has no lease on its runs yet."""

    # The executor contract

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sub_runs=self, leases=self, lanes=self, keepers=self)

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        logs = private_folder(self._state / "logs")
        # Folders of an earlier setting with more keepers count: their keepers may know attempts.
        count = max([self._settings.keepers, *(int(path.name[7:]) + 1 for path in keeper_folders(self._state))])
        environ = inherited(self._environ)
        for number in range(count):
            folder = private_folder(self._state / f"keeper-{number}")
            timeout_us = self._settings.keeper_timeout_us
            client = KeeperClient(folder, logs, self._settings.keeper, environ, self, keeper_timeout_us=timeout_us)
            self._clients.append(client)
            client.start()
            if (folder / protocol.SOCKET).exists():
                client.wake()  # it may have results to deliver

    def launch(self, attempt: Attempt) -> None:
        attempt_id = AttemptId(attempt.key, attempt.attempt)
        now = time.time_ns() // 1_000
        # The limit is given by the wall clock, which may be set; a keeper compares it with the clock since boot.
        ahead = now - boottime_us()
        valid_until = None if attempt.valid_until is None else attempt.valid_until - ahead
        line = self._encoder.message_for(attempt, valid_until).to_line()
        with self._lock:
            if self._has(attempt_id):
                admission = Admission.NOW
            else:
                admission = self._lanes.offer(attempt_id, attempt.key.job_id, now)
            if admission is not Admission.NEVER:
                self._launches[attempt_id] = line
        if admission is Admission.NOW:
            self._send(attempt_id, line)
        elif admission is Admission.NEVER:
            reason = "too many launches are in progress"
            self._report(LaunchRefused(attempt.key, attempt.attempt, reason, attempt.fence))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        attempt_id = AttemptId(key, attempt)
        line = protocol.encode(protocol.STOP, *key, attempt, detail)
        with self._lock:
            was_waiting = self._lanes.withdraw(attempt_id)
            if was_waiting:
                self._launches.pop(attempt_id, None)
                self._changed.notify_all()
            elif self._has(attempt_id) or not self._all_connected():
                self._stops[attempt_id] = line  # sent again to a keeper that is not connected now
        if was_waiting:
            self._report(RunFinished(key, attempt, time.time_ns() // 1_000, CANCELLED, None, detail))
            return
        for client in self._clients:
            client.send(line)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        with self._lock:
            # One that is being launched is answered by its launch.
            asked = [
                attempt_id for key, attempt in runs if (attempt_id := AttemptId(key, attempt)) not in self._launches
            ]
            for attempt_id in asked:
                self._asked[attempt_id] = set(self._clients)
        for line in protocol.encode_attempts(protocol.RECONCILE, asked):
            for client in self._clients:
                client.send(line)

    def members(self) -> Sequence[Member]:
        is_silent = any(keeper.is_silent for keeper in self.keepers())
        with self._lock:
            return (Member(self.name, is_healthy=not (self._problem or is_silent), running=len(self._running)),)

    def close(self) -> None:
        """Disconnect; attempts continue, and the next process that opens the folder receives their results."""
        for client in self._clients:
            client.close(CLOSE_SECONDS)
        self._clients = []

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        """A keeper that is not connected now asks again when it is."""
        fields = (step, number, end.state, end.detail, dict(end.outputs))
        line = protocol.encode(protocol.SUB_RUN_ENDED, *key, attempt, *fields)
        for client in self._clients:
            if client.is_connected:
                client.send(line)

    # The contract of a leased executor

    def live_by_lease(self) -> None:
        self._lease = b""

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        lease = lease_from(asked_at, lease_us, self._settings.keeper.kill_after_us, epoch, vouched_until)
        self._lease = line = protocol.encode(protocol.LEASE, *lease)
        for client in self._clients:
            if client.is_connected:
                client.send(line)

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        attempt_ids = [AttemptId(key, attempt) for key, attempt in runs]
        for client in self._clients:
            own = [attempt_id for attempt_id in attempt_ids if self._client_of(attempt_id) is client]
            with self._lock:
                is_connected = client.is_connected
                self._confirmed.update(attempt_id for attempt_id in own if self._has(attempt_id) or not is_connected)
            for line in protocol.encode_attempts(protocol.CONFIRMED, own) if is_connected else ():
                client.send(line)

    def is_idle(self) -> bool:
        with self._lock:
            is_known = all(client.is_connected or not _has_socket(client) for client in self._clients)
            return is_known and not self._asked and self._has_nothing()

    # Beyond the contract

    def lanes(self) -> dict[str, dict[str, int]]:
        """How full the lanes are now."""
        with self._lock:
            return self._lanes.load()

    def keepers(self) -> tuple[KeeperHealth, ...]:
        return tuple(
            KeeperHealth(client.folder.name, client.pid, client.silent_seconds, client.replaced)
            for client in self._clients
        )

    def drain(self, timeout: float) -> bool:
        """Wait until nothing launches or runs; False on timeout."""
        with self._changed:
            return self._changed.wait_for(self._has_nothing, timeout)

    def stop_all(self, detail: str) -> None:
        with self._lock:
            attempt_ids = [*self._launches, *self._running]
        for key, attempt in attempt_ids:
            self.stop(key, attempt, detail)

    def dismiss_keepers(self) -> None:
        """Ask the keepers to exit as soon as nothing runs; the next launch starts new ones."""
        for client in self._clients:
            if _has_socket(client):
                client.send(protocol.encode(protocol.LEAVE))

    def _has(self, attempt_id: AttemptId) -> bool:
        return attempt_id in self._launches or attempt_id in self._running

    def _all_connected(self) -> bool:
        return all(client.is_connected for client in self._clients)

    def _has_nothing(self) -> bool:
        return not self._launches and not self._running and not self._reporting

    # KeeperListener: called from the clients' threads

    def keeper_connected(self, client: KeeperClient, incarnation: str) -> None:
        """Send again whatever was not answered: it may have been lost, and a keeper does nothing twice."""
        with self._lock:
            self._problem = ""
            is_another = self._incarnations.get(client) not in {None, incarnation}
            self._incarnations[client] = incarnation
            again = [
                attempt_id
                for attempt_id in self._launches
                if self._client_of(attempt_id) is client
                and (attempt_id in self._sent or self._lanes.is_under_way(attempt_id))
            ]
            self._sent.update(again)
            lines = [*(self._launches[attempt_id] for attempt_id in again), *self._stops.values()]
            confirmed = [attempt_id for attempt_id in self._confirmed if self._client_of(attempt_id) is client]
            self._confirmed.difference_update(attempt_id for attempt_id in confirmed if not self._has(attempt_id))
            lines = [*protocol.encode_attempts(protocol.CONFIRMED, confirmed), *lines]
            if self._lease:
                lines.insert(0, self._lease)
            if self._all_connected():
                self._stops = {attempt_id: line for attempt_id, line in self._stops.items() if self._has(attempt_id)}
            asked = [attempt_id for attempt_id, clients in self._asked.items() if client in clients]
            if is_another:
                # A new keeper: ask whether it knows the attempts that the one before it had started.
                running = [one for one, at in self._running.items() if at is client and one not in asked]
                for attempt_id in running:
                    self._asked[attempt_id] = {client}
                asked += running
        for line in (*lines, *protocol.encode_attempts(protocol.RECONCILE, asked)):
            client.send(line)

    def needs_keeper(self, client: KeeperClient) -> bool:
        with self._lock:
            has_launches = any(self._client_of(attempt_id) is client for attempt_id in self._launches)
            is_asked = any(client in clients for clients in self._asked.values())
            return has_launches or is_asked or client in self._running.values()

    def keeper_failed(self, client: KeeperClient, reason: str) -> None:
        """Refuse the launches that no keeper has received, so that they can be tried again."""
        with self._lock:
            self._problem = reason
            refused = [one for one in self._launches if self._client_of(one) is client and one not in self._sent]
            for attempt_id in refused:
                del self._launches[attempt_id]
                if not self._lanes.withdraw(attempt_id):
                    self._lanes.ended(attempt_id, 0, is_measured=False)
            self._changed.notify_all()
        for key, attempt in refused:
            self._report(LaunchRefused(key, attempt, reason))

    def keeper_sent(self, client: KeeperClient, messages: list[protocol.Message]) -> None:
        serial = 0
        reports: list[Report] = []
        next_ids: list[AttemptId] = []
        now = time.time_ns() // 1_000
        with self._lock:
            for verb, job_id, scheduled_for, origin, attempt, *fields in messages:
                attempt_id = AttemptId(RunKey(job_id, scheduled_for, origin), attempt)
                if verb == protocol.SUB_RUN_WANTED:
                    reports.append(SubRunWanted(*attempt_id, *fields))
                    continue
                if verb == protocol.SUB_RUN_UNWANTED:
                    reports.append(SubRunUnwanted(*attempt_id, *fields))
                    continue
                if verb == protocol.STEPS:
                    reports.append(StepsSeen(*attempt_id, fields[0]))
                    continue
                if verb == protocol.UNKNOWN:
                    if self._may_be_elsewhere(attempt_id, client):
                        continue
                elif verb == protocol.FINISHED:
                    serial = max(serial, fields[4])
                reports.append(self._settle(verb, attempt_id, client, fields))
                self._asked.pop(attempt_id, None)
                next_ids += self._lanes.ended(attempt_id, now, is_measured=verb == protocol.STARTED)
            turns = [(one, self._launches[one]) for one in next_ids if one in self._launches]
            self._reporting += 1
        for attempt_id, line in turns:
            self._send(attempt_id, line)
        try:
            for report in reports:
                self._report(report)
        finally:
            with self._changed:
                self._reporting -= 1
                self._changed.notify_all()
        if serial:
            # Only after the reports: a keeper does not repeat what was acknowledged.
            client.send(protocol.encode(protocol.DELIVERED, serial))

    def _settle(self, verb: str, attempt_id: AttemptId, client: KeeperClient, fields: protocol.Message) -> Report:
        self._launches.pop(attempt_id, None)
        self._sent.discard(attempt_id)
        if verb == protocol.STARTED:
            self._running[attempt_id] = client
            return RunStarted(*attempt_id, fields[0])
        was_running = self._running.pop(attempt_id, None) is not None
        self._stops.pop(attempt_id, None)
        self._confirmed.discard(attempt_id)
        if verb == protocol.FINISHED:
            end = protocol.Finished(*fields)
            if end.state == LOST:
                reason = read_keeper_loss(end.cause) or LossReason.KEEPER
                return RunLost(*attempt_id, end.detail, end.steps, at=end.at, reason=reason)
            state = RunState(end.state)
            return RunFinished(*attempt_id, end.at, state, end.exit_code, end.detail, end.steps, broken=end.cause)
        if verb == protocol.REFUSED:
            return LaunchRefused(*attempt_id, *fields[:2])
        if was_running:
            detail = "its keeper was lost, and the next keeper has no record of it"
            return RunLost(*attempt_id, detail, reason=LossReason.PROCESS_GONE)
        return RunUnknown(*attempt_id)

    def _may_be_elsewhere(self, attempt_id: AttemptId, client: KeeperClient) -> bool:
        """Whether another keeper may still have it: an attempt is unknown only if all keepers report it as unknown."""
        waiting = self._asked.get(attempt_id)
        if waiting is None:
            return True  # another keeper has answered
        waiting.discard(client)
        return bool(waiting)

    def keeper_tick(self) -> bool:
        """Send launches whose turn has come by time; True while any wait."""
        with self._lock:
            if not self._lanes.has_waiting:
                return False
            turns = self._lanes.overdue(time.time_ns() // 1_000)
            lines = [(attempt_id, self._launches[attempt_id]) for attempt_id in turns]
        for attempt_id, line in lines:
            self._send(attempt_id, line)
        return True

    def _send(self, attempt_id: AttemptId, line: bytes) -> None:
        client = self._client_of(attempt_id)
        if client.is_connected:
            self._sent.add(attempt_id)
        client.send(line)

    def _client_of(self, attempt_id: AttemptId) -> KeeperClient:
        job_id = attempt_id.key.job_id.encode("utf-8", "surrogatepass")
        return self._clients[crc32(job_id) % self._settings.keepers]


def _has_socket(client: KeeperClient) -> bool:
    return (client.folder / protocol.SOCKET).exists()


def _not_open(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
