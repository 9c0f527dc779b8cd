"""Relays messages between schedulers and members: a plugin of Dask's scheduler, to which all of them connect.

It decides nothing: Dask says which members are connected, and a member's messages go to every connected scheduler. It
remembers disconnected members for operators. If it dies, members and schedulers reconnect to the next one and send
again what was not answered.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any

from distributed import Scheduler
from distributed.batched import BatchedSend
from distributed.comm.core import Comm, CommClosedError
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from evertick.executors.fleet import messages
from evertick.executors.fleet.identity import Role
from evertick.executors.fleet.registry import MemberRegistry
from evertick.executors.fleet.validation import heartbeat_of

log = logging.getLogger("evertick.fleet")

INTERVAL = "1ms"
"""How long messages to a scheduler are batched."""
GONE_MAX = 1_000
BEAT_MS = 1_000
"""How often schedulers get a sign of life, so that a dead connection is not taken for silent members."""


class Relay(SchedulerPlugin):
    name = "evertick-relay"

    def __init__(self, names: MemberRegistry | None = None) -> None:
        self._names = names
        self._controls: set[BatchedSend] = set()
        self._askers: dict[str, BatchedSend] = {}
        """Connections with one question, by the name that they chose: they get the answer and nothing else."""
        self._heartbeats: dict[str, dict[str, Any]] = {}
        """Heartbeats by the worker's address."""
        self._seen: dict[str, float] = {}
        self._addresses: dict[str, str] = {}
        """Addresses by the member's name."""
        self._gone: dict[str, tuple[dict[str, object], str, float]] = {}
        """Disconnected members by name: last heartbeat, address, and when it was seen."""

    async def start(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        scheduler.handlers[messages.CONTROL] = self._control
        scheduler.stream_handlers[messages.SAY] = self._forward
        scheduler.stream_handlers[messages.HEARTBEAT] = self._shown
        scheduler.stream_handlers[messages.ANSWER] = self._answered
        self._beat = PeriodicCallback(lambda: self._broadcast({messages.BEAT: True}), BEAT_MS)
        self._beat.start()

    async def close(self) -> None:
        self._beat.stop()

    # Members

    def _shown(self, card: dict[str, object], worker: str) -> None:  # the parameters are the keys of the message
        try:
            # Only the known fields are passed on.
            heartbeat = heartbeat_of(card).to_plain()
        except ValueError as error:
            log.warning("member.heartbeat_invalid address=%s reason=%s", worker, error)
            return
        name = heartbeat["name"]
        known = self._scheduler.workers.get(worker)
        if known is None:
            return  # Dask has dropped it; it will reconnect
        if str(known.name) != name:
            # Dask allows a name once, so no member can act for another.
            log.warning("member.name_differs address=%s name=%s", worker, name)
            return
        is_news = worker not in self._heartbeats
        self._heartbeats[worker], self._seen[worker] = heartbeat, time.monotonic()
        self._gone.pop(str(name), None)
        self._addresses[str(name)] = worker
        if is_news:
            log.info("member.joined member=%s address=%s", name, worker)
        self._broadcast({"card": heartbeat, "address": worker})
        if heartbeat.get("stamp") and worker in self._scheduler.stream_comms:
            # Schedulers get this heartbeat before anything later, so silence counts from it.
            self._scheduler.worker_send(worker, {"op": messages.ACK, "stamp": heartbeat["stamp"]})

    def _forward(self, lines: bytes, worker: str) -> None:
        heartbeat = self._heartbeats.get(worker)
        if heartbeat is not None and isinstance(lines, bytes):
            self._broadcast({"member": heartbeat["name"], "lines": lines})

    def _answered(self, to: str, lines: bytes, worker: str) -> None:
        heartbeat, out = self._heartbeats.get(worker), self._askers.get(to) if isinstance(to, str) else None
        if heartbeat is not None and out is not None and isinstance(lines, bytes):
            with contextlib.suppress(CommClosedError):
                out.send({"member": heartbeat["name"], "lines": lines})

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: object) -> None:  # noqa: ARG002 - as Dask calls it
        heartbeat = self._heartbeats.pop(worker, None)
        seen = self._seen.pop(worker, 0.0)
        if heartbeat is not None and self._addresses.get(heartbeat["name"]) == worker:
            del self._addresses[heartbeat["name"]]
            log.info("member.left member=%s address=%s", heartbeat["name"], worker)
            if not heartbeat["is_leaving"]:
                while len(self._gone) >= GONE_MAX:
                    del self._gone[next(iter(self._gone))]
                self._gone[heartbeat["name"]] = (heartbeat, worker, seen)
            self._broadcast({"gone": heartbeat["name"]})

    # Schedulers

    async def _control(self, comm: Comm, protocol: int = 0, asker: str = "", **_: object) -> Status:
        """A scheduler, or a connection with one question; its stream lasts until one side closes it."""
        peer = getattr(comm, "peer", None)
        if peer is not None and peer.role is not Role.SCHEDULER:
            log.warning("control.refused role=%s name=%s address=%s", peer.role, peer.name, comm.peer_address)
            await comm.write({"refused": f"the certificate belongs to the {peer.role} {peer.name}, not to a scheduler"})
            await comm.close()
            return Status.dont_reply
        if protocol != messages.PROTOCOL:
            await comm.write({"refused": f"this fleet speaks protocol {messages.PROTOCOL}, not {protocol}"})
            await comm.close()
            return Status.dont_reply
        out = BatchedSend(interval=INTERVAL, loop=self._scheduler.loop)
        out.start(comm)
        now = time.monotonic()
        heartbeats = [
            {"card": heartbeat, "address": address, "age": now - self._seen[address]}
            for address, heartbeat in self._heartbeats.items()
        ]
        absent = [
            {"card": heartbeat, "address": address, "age": now - seen}
            for heartbeat, address, seen in self._gone.values()
        ]
        out.send({"cards": heartbeats, "absent": absent})
        is_asker = isinstance(asker, str) and 0 < len(asker) <= messages.ASKER_MAX and asker not in self._askers
        if is_asker:
            self._askers[asker] = out
        else:
            self._controls.add(out)
        try:
            while True:
                for message in _all(await comm.read()):
                    match message:
                        case {"member": str(member), "lines": bytes(lines)}:
                            self._pass_on(member, lines)
                        case {messages.RELEASE: str(member)}:
                            self._forget(member)
        except (CommClosedError, OSError):
            pass
        finally:
            self._controls.discard(out)
            if is_asker:
                del self._askers[asker]
            out.abort()
        return Status.dont_reply

    def _forget(self, member: str) -> None:
        """Free the name, and drop its member from the list."""
        is_named = self._names is not None and self._names.release(member)
        is_known = self._gone.pop(member, None) is not None or is_named
        self._broadcast({messages.FORGOTTEN: member, "is_known": is_known})

    def _pass_on(self, member: str, lines: bytes) -> None:
        """A message to a disconnected member is dropped; the scheduler sends it again when the member is back."""
        address = self._addresses.get(member)
        if address is not None and address in self._scheduler.stream_comms:
            self._scheduler.worker_send(address, {"op": messages.HEAR, "lines": lines})

    def _broadcast(self, message: dict[str, object]) -> None:
        for out in tuple(self._controls):
            try:
                out.send(message)
            except CommClosedError:
                self._controls.discard(out)


def _all(messages: Any) -> tuple[dict[str, Any], ...]:
    return tuple(messages) if isinstance(messages, list | tuple) else (messages,)
