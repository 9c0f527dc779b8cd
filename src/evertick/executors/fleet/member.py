"""A member of the fleet: a Dask worker that passes launches to its keeper, and the keeper's reports back.

Attempts run in the keeper, as on a scheduler's own machine: its journal has their results, and a restarted worker finds
them again. The worker itself decides and stores nothing.
"""

from __future__ import annotations

import base64
import logging
import os
import secrets
import threading
import time
from pathlib import Path

import psutil
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin
from tornado.ioloop import PeriodicCallback

from evertick import __version__
from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.fleet.bundle_folder import BundleFolder
from evertick.executors.fleet.bundles import BundleError
from evertick.executors.fleet.member_logs import answer_about_logs
from evertick.executors.fleet.reservations import Reservations
from evertick.executors.fleet.settings import LEASE_US
from evertick.executors.keeper.environment import inherited, write_member_file
from evertick.executors.keeper.lease import lease_from
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper_client import KeeperClient
from evertick.executors.logs import Logs
from evertick.executors.paths import private_folder
from evertick.executors.protocol import Message
from evertick.model.instant import DAY
from evertick.model.member import Labels
from evertick.model.resources import Resources, resources_of, resources_text
from evertick.model.run import RunKey
from evertick.settings.parts import KeeperSettings

log = logging.getLogger("evertick.fleet")

BEAT_MS = 1_000
TIDY_MS = 600_000
LOGS_KEPT_US = 3 * DAY
"""The scheduler has copies of the logs; these are for when it was unreachable."""
OWN_VERBS = (
    messages.LOGS,
    messages.LIST_LOGS,
    messages.READ_LOG,
    messages.CORDON,
    messages.NEEDS,
    messages.BUNDLE,
    messages.BUNDLE_PIECE,
    messages.LEAVE,
)
PUSHED_MAX = 64 * 1024
"""Bytes of a log that are sent with the end of its attempt; more must be requested."""
_CORDONED = "cordoned"


class MemberPlugin(WorkerPlugin):
    """Makes a Dask worker a member. Everything but the keeper client runs on the worker's event loop."""

    name = "evertick-member"

    def __init__(
        self, name: str, labels: Labels, folder: str, slots: int = 0, lease_us: int = LEASE_US, offers: Resources = ()
    ) -> None:
        self._name = name
        self._labels = labels
        self._folder = Path(folder).absolute()
        self._slots = slots
        self._offers = offers
        self._reservations = Reservations(self._folder, offers)
        self._lease_us = lease_us
        """Without the fleet for this long, the keeper has ended its attempts: others may start them."""
        self._settings = KeeperSettings()
        self._open: dict[AttemptId, None] = {}
        self._calls: dict[tuple[AttemptId, str, int], bytes] = {}
        """Sub-runs that steps wait for: by attempt, step and try."""
        self._incarnation = ""
        self._cpu_percent, self._measured_at = 0.0, 0.0
        self._bundled: dict[AttemptId, str] = {}
        """The digest of an attempt's bundle."""
        self._held: dict[AttemptId, Message] = {}
        """Launches that wait for their bundle."""
        self._unpacking: set[str] = set()
        self.is_cordoned = False
        """As stored in its folder; kept in memory, because every launch checks it."""
        self.has_left = False
        """Whether it was removed for good."""

    async def setup(self, worker: Worker) -> None:
        self._worker = worker
        self._thread = threading.get_ident()
        private_folder(self._folder)
        logs = private_folder(self._folder / "logs")
        keeper = private_folder(self._folder / "keeper-0")
        write_member_file(keeper, self._name, dict(self._labels))
        self._logs = Logs(self._folder)
        self._bundles = BundleFolder(self._folder / "bundles")
        self.is_cordoned = (self._folder / _CORDONED).exists()
        self._keeper = KeeperClient(keeper, logs, self._settings, inherited(os.environ), self)
        self._keeper.start()
        # At once, not with the first launch: attempts of an earlier worker must be reported or ended.
        self._keeper.wake()
        worker.stream_handlers[messages.HEAR] = self._receive
        worker.stream_handlers[messages.ACK] = self._acknowledged
        self._beat = PeriodicCallback(self._send_heartbeat, BEAT_MS)
        self._beat.start()
        self._tidying = PeriodicCallback(self._tidy, TIDY_MS)
        self._tidying.start()

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        self._beat.stop()
        self._tidying.stop()
        self._keeper.close(5.0)

    async def _tidy(self) -> None:
        before = time.time_ns() // 1_000 - LOGS_KEPT_US
        removed = await self._worker.loop.run_in_executor(None, self._logs.prune_logs, before)
        if removed:
            log.info("member.logs_removed runs=%d", removed)
        in_use = frozenset(self._bundled.values())
        dropped = await self._worker.loop.run_in_executor(None, self._bundles.tidy, in_use)
        if dropped:
            log.info("member.bundles_removed bundles=%d", dropped)

    # From the schedulers

    def _receive(self, lines: bytes) -> None:
        try:
            rows = messages.rows_of(lines)
        except ValueError as error:
            log.warning("member.message_invalid reason=%s", error)
            return
        passed_on: list[bytes] = []
        for words in rows:
            if words[0] == protocol.LAUNCH and self.is_cordoned:
                self._refuse(words, "the member is cordoned")
            elif words[0] == protocol.LAUNCH and not self._keeper.is_connected:
                self._refuse(words, "the keeper of the member has not started yet")
            elif words[0] in OWN_VERBS:
                self._handle(words)
            elif words[0] == protocol.LAUNCH and (missing := self._reservations.take(_attempt_id(words), self._open)):
                # Two schedulers may have counted on the same resources.
                self._refuse(words, f"the member has no room for {resources_text(missing)}")
            elif (
                words[0] == protocol.LAUNCH
                and _attempt_id(words) in self._bundled
                and _attempt_id(words) not in self._open
            ):
                self._launch_bundled(words)
            elif words[0] == protocol.STOP and _attempt_id(words) in self._held:
                self._refuse(self._held[_attempt_id(words)], "it was stopped before its bundle arrived")
            else:
                if words[0] == protocol.RECONCILE:
                    self._request_sub_runs(words[1])
                elif words[0] == protocol.SUB_RUN_ENDED:
                    self._calls.pop((_attempt_id(words), words[5], words[6]), None)
                passed_on.append(protocol.encode(*words))
        if passed_on:
            self._keeper.send_now(b"".join(passed_on))

    def _acknowledged(self, stamp: int) -> None:
        """Only an acknowledged heartbeat renews the lease: both directions work."""
        if type(stamp) is int and 0 < stamp <= boottime_us():
            lease = lease_from(stamp, self._lease_us, self._settings.kill_after_us, epoch=0)
            self._keeper.send(protocol.encode(protocol.LEASE, *lease))

    def _request_sub_runs(self, asked: list[Message]) -> None:
        """A scheduler that asks about an attempt may not know its sub-runs."""
        attempt_ids = {_attempt_id(["", *one]) for one in asked}
        self._send_lines(
            b"".join(line for (attempt_id, _, _), line in self._calls.items() if attempt_id in attempt_ids)
        )

    def _refuse(self, words: Message, detail: str) -> None:
        attempt_id = _attempt_id(words)
        if attempt_id in self._open:
            self._keeper.send(protocol.encode(*words))  # the keeper has it, and reports it again
        else:
            self._held.pop(attempt_id, None)
            self._bundled.pop(attempt_id, None)
            self._reservations.give_back(attempt_id)
            self._send_lines(protocol.encode(protocol.REFUSED, *words[1:5], detail, words[5]))

    # Bundles

    def _launch_bundled(self, words: Message) -> None:
        """Launch an attempt with its bundle, or hold it until the bundle has arrived; a repeated launch asks again."""
        attempt_id = _attempt_id(words)
        digest = self._bundled[attempt_id]
        if self._bundles.has(digest):
            self._held.pop(attempt_id, None)
            self._keeper.send_now(protocol.encode(*self._bundles.launched_with(digest, words)))
            return
        self._held[attempt_id] = words
        self._want(attempt_id, digest)

    def _want(self, attempt_id: AttemptId, digest: str) -> None:
        if digest not in self._unpacking:
            offset = self._bundles.missing_from(digest)
            self._send_lines(protocol.encode(messages.WANT_BUNDLE, *attempt_id.key, attempt_id.attempt, digest, offset))

    def _take_piece(self, attempt_id: AttemptId, digest: str, offset: int, piece: str) -> None:
        if digest in self._unpacking or digest != self._bundled.get(attempt_id) or self._bundles.has(digest):
            return
        if not self._bundles.add(digest, offset, piece):
            self._want(attempt_id, digest)
            return
        self._unpacking.add(digest)
        self._worker.loop.add_callback(self._install, digest)

    async def _install(self, digest: str) -> None:
        try:
            await self._worker.loop.run_in_executor(None, self._bundles.install, digest)
            problem = ""
        except (BundleError, OSError) as error:
            problem = f"its bundle cannot be used: {error}"
        self._unpacking.discard(digest)
        for attempt_id, words in [one for one in self._held.items() if self._bundled.get(one[0]) == digest]:
            if problem:
                self._refuse(words, problem)
            else:
                self._launch_bundled(words)
                log.info("member.bundle_used digest=%s run=%s", digest[:12], attempt_id.key.run_id)

    def _handle(self, words: Message) -> None:
        match words[0]:
            case messages.LOGS:
                attempt_id = _attempt_id(words)
                self._send_lines(b"".join(self._pieces(attempt_id, words[5], messages.PIECE)))
            case messages.LIST_LOGS | messages.READ_LOG:
                self._worker.loop.add_callback(self._answer, words)
            case messages.BUNDLE:
                try:
                    self._bundles.begin(words[5], words[6], self._bundled.values())
                except BundleError as error:
                    self._refuse(words, f"its bundle cannot be used: {error}")
                else:
                    self._bundled[_attempt_id(words)] = words[5]
            case messages.BUNDLE_PIECE:
                self._take_piece(_attempt_id(words), *words[5:8])
            case messages.NEEDS:
                self._reservations.ask(_attempt_id(words), resources_of(words[5]))
            case messages.CORDON:
                if words[1]:
                    (self._folder / _CORDONED).touch()
                else:
                    (self._folder / _CORDONED).unlink(missing_ok=True)
                self.is_cordoned = bool(words[1])
                self._send_heartbeat()
            case messages.LEAVE:
                self.has_left = True
                self._send_heartbeat()  # so that schedulers do not wait for it
                for attempt_id in self._open:
                    self._keeper.send(
                        protocol.encode(protocol.STOP, *attempt_id.key, attempt_id.attempt, "its member was removed")
                    )
                self._keeper.send(protocol.encode(protocol.LEAVE))
                self._worker.loop.add_callback(self._worker.close, reason="it was asked to leave")

    def _pieces(self, attempt_id: AttemptId, offsets: dict[str, int], most: int) -> list[bytes]:
        """What the scheduler does not have of an attempt's logs."""
        key, attempt = attempt_id
        lines, is_all = [], True
        for file in self._logs.list_logs(key):
            if file.attempt != attempt:
                continue
            offset = int(offsets.get(file.step, 0))
            piece = self._logs.read_log(key, attempt, file.step, offset, most)
            is_all = is_all and piece.is_complete
            if piece.data or piece.is_complete:
                data = base64.b64encode(piece.data).decode("ascii")
                lines.append(protocol.encode(messages.LOG, *key, attempt, file.step, offset, data, piece.is_complete))
        if is_all and attempt_id not in self._open:
            lines.append(protocol.encode(messages.LOGS_END, *key, attempt))
        return lines

    async def _answer(self, words: Message) -> None:
        """Answer a question about a log, in a thread, because disks are slow."""
        try:
            asker, line = await self._worker.loop.run_in_executor(None, answer_about_logs, self._logs, words)
        except (ValueError, TypeError, OSError) as error:
            log.warning("member.logs_not_sent reason=%r", error)
            return
        self._send({"op": messages.ANSWER, "to": asker, "lines": line})

    # KeeperListener: called from the client's thread

    def keeper_connected(self, client: KeeperClient, incarnation: str) -> None:  # noqa: ARG002 - as the client calls it
        self._worker.loop.add_callback(self._begin, incarnation)

    def keeper_sent(self, client: KeeperClient, messages: list[protocol.Message]) -> None:  # noqa: ARG002
        self._worker.loop.add_callback(self._pass_on, messages)

    def keeper_failed(self, client: KeeperClient, reason: str) -> None:  # noqa: ARG002
        log.warning("member.without_keeper reason=%s", reason)

    def keeper_tick(self) -> bool:
        return False

    def needs_keeper(self, client: KeeperClient) -> bool:  # noqa: ARG002
        return True

    # On the worker's loop again

    def _begin(self, incarnation: str) -> None:
        """A keeper has connected and reports its attempts: schedulers must ask for the rest."""
        self._open.clear()
        self._incarnation = f"{incarnation}/{secrets.token_hex(4)}"
        self._send_heartbeat()

    def _pass_on(self, messages: list[Message]) -> None:
        lines = []
        was_full, used = self._is_full, self._reservations.used(self._open)
        for words in messages:
            attempt_id = _attempt_id(words)
            if words[0] == protocol.STARTED:
                self._open[attempt_id] = None
            elif words[0] == protocol.SUB_RUN_WANTED:
                self._calls[attempt_id, words[5], words[6]] = protocol.encode(*words)
            elif words[0] == protocol.SUB_RUN_UNWANTED:
                self._calls.pop((attempt_id, words[5], words[6]), None)
            elif words[0] in (protocol.REFUSED, protocol.UNKNOWN):
                # After this answer another member may get it: it must not be launched here.
                self._held.pop(attempt_id, None)
                self._bundled.pop(attempt_id, None)
                self._reservations.give_back(attempt_id)
            elif words[0] == protocol.FINISHED:
                self._open.pop(attempt_id, None)
                self._reservations.give_back(attempt_id)
                self._bundled.pop(attempt_id, None)
                self._calls = {call: line for call, line in self._calls.items() if call[0] != attempt_id}
                # With the end, so that most logs need not be requested, and outlive this machine.
                lines += self._pieces(attempt_id, {}, PUSHED_MAX)
            lines.append(protocol.encode(*words))
        self._send_lines(b"".join(lines))
        if (was_full and not self._is_full) or (used and used != self._reservations.used(self._open)):
            self._send_heartbeat()  # at once: an attempt may wait for the slot

    @property
    def _waiting(self) -> int:
        """How many open attempts wait for other runs: they lend their slots."""
        return len({attempt_id for attempt_id, _, _ in self._calls} & self._open.keys()) if self._calls else 0

    @property
    def _is_full(self) -> bool:
        return 0 < self._slots <= len(self._open) - self._waiting

    def _send_heartbeat(self) -> None:
        if not self._incarnation:
            return  # without a keeper nothing can run here
        now = time.monotonic()
        if now - self._measured_at > BEAT_MS / 2_000:
            # Of the machine: the keeper's processes use it, not this one.
            self._measured_at, self._cpu_percent = now, psutil.cpu_percent(None)
        heartbeat = messages.Heartbeat(
            self._name,
            self._labels,
            not (self.is_cordoned or self.has_left),
            self._slots,
            len(self._open),
            __version__,
            self._incarnation,
            self._cpu_percent,
            int(self._worker.monitor.recent().get("memory") or 0),
            time.time_ns() // 1_000,
            boottime_us(),
            self._lease_us,
            self.has_left,
            self._offers,
            self._reservations.used(self._open),
            answers_logs=True,
            waiting=self._waiting,
            runs_items=self._keeper.runs_items,
        )
        self._send({"op": messages.HEARTBEAT, "card": heartbeat.to_plain()})

    def _send_lines(self, lines: bytes) -> None:
        if lines:
            self._send({"op": messages.SAY, "lines": lines})

    def _send(self, message: dict[str, object]) -> None:
        try:
            self._worker.batched_stream.send(message)
        except Exception as error:  # the stream is closed; Dask ends this worker then
            log.info("member.message_not_sent reason=%s", type(error).__name__)


def _attempt_id(words: Message) -> AttemptId:
    _, job_id, scheduled_for, origin, attempt, *_ = words
    return AttemptId(RunKey(str(job_id), int(scheduled_for), str(origin)), int(attempt))


def read_labels(texts: tuple[str, ...]) -> Labels:
    """`gpu=true` and the like, as they are written at the command line."""
    return tuple(sorted((name.strip(), value.strip()) for name, _, value in (text.partition("=") for text in texts)))
