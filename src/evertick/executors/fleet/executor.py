"""Runs attempts on the members of a fleet, through a thread that stays connected to its hub."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evertick.errors import EvertickError, ExecutorUnavailable
from evertick.executor import Attempt, Capabilities
from evertick.executors.fleet import messages
from evertick.executors.fleet.assignments import Assignments
from evertick.executors.fleet.bundles import BundleError, Packer
from evertick.executors.fleet.log_sync import LogCopies
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.settings import certificates_of, need_dask
from evertick.executors.protocol import LaunchEncoder, LaunchMessage
from evertick.model.instant import Instant
from evertick.model.member import Member
from evertick.model.report import AttemptQuestion, LaunchRefused, Report
from evertick.model.resources import Resources
from evertick.model.routing import FLEET
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd
from evertick.settings.parts import FleetSettings

if TYPE_CHECKING:
    from evertick.executors.fleet.control import Control

log = logging.getLogger("evertick.fleet")

TICK_SECONDS = 0.25
RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
CLOSE_SECONDS = 5.0
QUIET_SECONDS = 15.0
"""Reconnect when nothing, not even a beat, was received for this long."""


class _BundledLaunch(NamedTuple):
    """A launch that waits for the bundle in `path`."""

    launch: LaunchMessage
    placed: str
    needs: Resources
    path: str
    until: Instant | None


class FleetExecutor:
    """Attempts run on members. Only the thread touches their state; other threads queue calls."""

    name = FLEET

    def __init__(
        self, state_folder: Path | str, settings: FleetSettings, *, environ: Mapping[str, str] | None = None
    ) -> None:
        need_dask()
        self._state = Path(state_folder).absolute()
        self._settings = settings
        self._encoder = LaunchEncoder(os.environ if environ is None else environ)
        self._calls: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._thread = threading.Thread(target=self._run, name="evertick-fleet", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._is_ready = threading.Event()
        self._assignments: Assignments | None = None
        self._control: object | None = None
        self._bundles = Packer()
        self._packing: dict[tuple[RunKey, int], str] = {}
        """Attempts whose bundle is being packed, and why they are not launched any more, if so."""
        self._packers: set[asyncio.Task[None]] = set()

    # The contract

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sub_runs=self, placement=self)

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._assignments = Assignments(Membership(self._settings), LogCopies(self._state), self._send, report)
        self._thread.start()
        self._is_ready.wait()

    def launch(self, attempt: Attempt) -> None:
        launch, placed = self._encoder.message_for(attempt), attempt.executor
        needs = () if attempt.borrows else attempt.job.routing.resources
        assignments = self._assignments
        assert assignments is not None, "launch() before open()"
        path, until = attempt.job.routing.bundle, attempt.valid_until
        if path:
            bundled = _BundledLaunch(launch, placed, needs, path, until)
            self._call_soon(lambda: self._pack_and_launch(assignments, bundled))
        else:
            self._call_soon(
                lambda: assignments.launch(launch, placed, time.monotonic(), needs, valid_us=_left_us(until))
            )

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        assignments = self._assignments
        assert assignments is not None, "stop() before open()"
        self._call_soon(lambda: self._stop(assignments, key, attempt, detail))

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        self.reconcile_placed([AttemptQuestion(key, attempt, FLEET) for key, attempt in runs])

    def reconcile_placed(self, runs: Sequence[AttemptQuestion]) -> None:
        assignments = self._assignments
        assert assignments is not None, "reconcile() before open()"
        self._call_soon(lambda: assignments.reconcile(runs, time.monotonic()))

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        assignments = self._assignments
        assert assignments is not None, "sub_run_ended() before open()"
        self._call_soon(lambda: assignments.sub_run_ended(key, attempt, step, number, end))

    def members(self) -> Sequence[Member]:
        return self._assignments.members if self._assignments is not None else ()

    def close(self) -> None:
        """Disconnect; attempts continue, and the next process receives their results."""
        if self._loop is not None and self._closing is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(CLOSE_SECONDS)

    # The thread

    def _pack_and_launch(self, assignments: Assignments, bundled: _BundledLaunch) -> None:
        """In the background: a large bundle takes a while, and messages of members must be handled meanwhile."""
        attempt_id = (bundled.launch.key, bundled.launch.attempt)
        if attempt_id in self._packing:
            return
        self._packing[attempt_id] = ""
        task = asyncio.get_running_loop().create_task(self._packed(assignments, bundled))
        self._packers.add(task)
        task.add_done_callback(self._packers.discard)

    async def _packed(self, assignments: Assignments, bundled: _BundledLaunch) -> None:
        launch = bundled.launch
        try:
            bundle = await asyncio.to_thread(self._bundles.pack, bundled.path)
        except BundleError as error:
            bundle, why = None, str(error)
        else:
            why = self._packing[launch.key, launch.attempt]
        del self._packing[launch.key, launch.attempt]
        left_us = _left_us(bundled.until)
        if not why and left_us is not None and left_us <= 0:
            # The packed bundle is cached here and on the member for the next launch.
            why = "packing its bundle took longer than this node's lease on its jobs"
        if bundle is None or why:
            self._report(LaunchRefused(launch.key, launch.attempt, why, launch.fence))
        else:
            assignments.launch(launch, bundled.placed, time.monotonic(), bundled.needs, bundle, left_us)

    def _stop(self, assignments: Assignments, key: RunKey, attempt: int, detail: str) -> None:
        if (key, attempt) in self._packing:
            self._packing[key, attempt] = detail or "it was stopped"
        assignments.stop(key, attempt, detail)

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(self._run_calls)
            except RuntimeError:
                log.warning("fleet.closed_already")

    def _run_calls(self) -> None:
        self._is_woken = False
        while self._calls:
            call = self._calls.popleft()
            try:
                call()
            except Exception:
                log.exception("fleet.call_failed")

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._is_ready.set()
        parts = (self._stay_connected(), self._tick(), self._look_after_certificate())
        work = [asyncio.create_task(part) for part in parts]
        closing = asyncio.create_task(self._closing.wait())
        done, _ = await asyncio.wait([*work, closing], return_when=asyncio.FIRST_COMPLETED)
        left = {*work, closing}
        while left:
            # Repeatedly: a task that finishes an await just then misses the cancellation.
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=TICK_SECONDS)
        for task in done:
            if task is not closing and not task.cancelled() and (error := task.exception()):
                log.error("fleet.failed", exc_info=error)

    async def _tick(self) -> None:
        assert self._assignments is not None
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self._assignments.tick(time.monotonic())
            except Exception:
                # A defect with one attempt must not affect the others.
                log.exception("fleet.tick_failed")

    async def _look_after_certificate(self) -> None:
        """The next connection uses a new certificate; the hub closes those with the former one in time."""
        certificates = certificates_of(self._settings)
        if certificates is None:
            await asyncio.Event().wait()
            return
        from evertick.executors.fleet.renewal import LOOK_SECONDS, renew_if_due

        while True:
            try:
                pause = await asyncio.to_thread(renew_if_due, Path(certificates.cert).parent)
            except (EvertickError, OSError, ValueError) as error:
                pause = LOOK_SECONDS
                log.warning("fleet.certificate_not_renewed reason=%s", error)
            await asyncio.sleep(pause)

    async def _stay_connected(self) -> None:
        # Imported on use: only schedulers with a fleet need it.
        from evertick.executors.fleet.control import Control

        assignments, tries = self._assignments, 0
        assert assignments is not None
        while True:
            control = None
            try:
                control = await Control.open(self._settings)
                self._control = control
                tries = 0
                log.info("fleet.connected url=%s", self._settings.url)
                assignments.connected(time.monotonic())
                while True:
                    for message in await _next(control, self._settings.url):
                        try:
                            self._take(assignments, message)
                        except Exception:
                            log.exception("fleet.message_failed")
            except EvertickError as error:
                # Certificates that cannot be read now may be readable later.
                log.warning("fleet.unreachable reason=%s", error)
            finally:
                self._control = None
                assignments.disconnected(time.monotonic())
                if control is not None:
                    await control.close()
            await asyncio.sleep(RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)])
            tries += 1

    def _take(self, assignments: Assignments, message: Mapping[str, object]) -> None:
        now, instant = time.monotonic(), time.time_ns() // 1_000
        assignments.listening(now)
        match message:
            case {"lines": bytes(lines), "member": str(member)}:
                assignments.receive(member, lines, now)
            case {"card": dict(heartbeat), "address": str(address)}:
                assignments.heartbeat(heartbeat, address, now, instant)
            case {"cards": list(heartbeats) | tuple(heartbeats)}:
                absent = message.get("absent")
                assignments.heartbeats(heartbeats, now, instant, absent if isinstance(absent, list | tuple) else ())
            case {"gone": str(member)}:
                assignments.gone(member, now)
            case {messages.FORGOTTEN: str(member)}:
                assignments.forgotten(member, now)

    def _send(self, member: str, lines: bytes) -> None:
        from evertick.executors.fleet.control import Control

        if isinstance(self._control, Control):
            self._control.send(member, lines)


def _left_us(until: Instant | None) -> int | None:
    """How long a launch is still valid."""
    return None if until is None else until - time.time_ns() // 1_000


async def _next(control: Control, url: str) -> Sequence[Mapping[str, object]]:
    """The next messages; a connection without any counts as dead."""
    try:
        return await asyncio.wait_for(control.read(), QUIET_SECONDS)
    except TimeoutError as error:
        raise ExecutorUnavailable(f"the fleet at {url} has not responded for {QUIET_SECONDS:g} s") from error
