"""The server side of a keeper: accepts connections of schedulers and passes their messages to the supervisor."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from typing import Protocol

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.keeper.lease import Lease
from evertick.executors.protocol import LaunchMessage, Message
from evertick.model.lifecycle import RunState
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd

BACKLOG_MAX = 64 * 1024 * 1024
"""Unsent bytes for a scheduler that does not read; then it is disconnected; a new connection receives them again."""


class Handler(Protocol):
    """What the messages of a scheduler are passed to."""

    def launch(self, launch: LaunchMessage, instance: str) -> None: ...
    def stop(self, attempt_id: AttemptId, detail: str) -> None: ...
    def reconcile(self, attempt_ids: list[AttemptId], fence: int) -> None: ...
    def delivered(self, serial: int) -> None: ...
    def sub_run_ended(self, attempt_id: AttemptId, step: str, number: int, end: SubRunEnd) -> None: ...
    def renew(self, lease: Lease, instance: str) -> None: ...
    def confirm(self, attempt_ids: list[AttemptId]) -> None: ...
    def open_reports(self) -> list[bytes]: ...
    def leave(self) -> None: ...


class Server:
    """All connections of a keeper."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._connections: set[Connection] = set()
        self._connected_seconds = 0.0
        self._connected_at = 0.0
        self.disconnected_at = time.monotonic()
        """When the last scheduler disconnected, or the keeper started."""
        self.handler: Handler | None = None

    @property
    def is_connected(self) -> bool:
        return bool(self._connections)

    def connected_seconds(self) -> float:
        """A clock that runs only while a scheduler is connected."""
        return self._connected_seconds + (time.monotonic() - self._connected_at if self._connections else 0.0)

    def send(self, lines: bytes) -> None:
        """To every scheduler."""
        for connection in tuple(self._connections):
            connection.send(lines)

    def add(self, connection: Connection) -> None:
        assert self.handler is not None
        # First: it sends what is queued to the others, and the new connection must get the hello before anything.
        reports = self.handler.open_reports()
        if not self._connections:
            self._connected_at = time.monotonic()
        self._connections.add(connection)
        # A scheduler of an earlier version expects no more fields.
        verbs = (protocol.PING, protocol.ITEMS) if connection.has_instance else ()
        hello = protocol.encode(protocol.HELLO, protocol.VERSION, os.getpid(), self._incarnation, *verbs)
        connection.send(hello + b"".join(reports))

    def remove(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            if not self._connections:
                self._connected_seconds += time.monotonic() - self._connected_at
                self.disconnected_at = time.monotonic()


class Connection(asyncio.Protocol):
    """The connection of one scheduler. Messages are checked; an invalid one closes this connection only."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._has_greeted = False
        self._instance = ""
        self.has_instance = False
        """Whether its hello names its process: schedulers of earlier versions do not."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if protocol.peer_uid(transport.get_extra_info("socket")) not in {os.geteuid(), 0}:
            sys.stderr.write("connection.refused reason=another-user\n")
            transport.abort()

    def data_received(self, data: bytes) -> None:
        *rows, self._buffer = (self._buffer + data).split(b"\n") if self._buffer else data.split(b"\n")
        try:
            for row in rows:
                self._handle(protocol.decode(row))
            if len(self._buffer) > protocol.MESSAGE_MAX:
                raise ValueError(f"a line is longer than {protocol.MESSAGE_MAX:,} bytes")
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            sys.stderr.write(f"connection.closed reason={type(error).__name__}\n")
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._server.remove(self)

    def send(self, lines: bytes) -> None:
        assert self._transport is not None
        if self._transport.get_write_buffer_size() > BACKLOG_MAX:
            self._transport.abort()
        elif not self._transport.is_closing():
            self._transport.write(lines)

    def _handle(self, message: Message) -> None:
        handler = self._server.handler
        assert handler is not None
        verb, *fields = message
        if not self._has_greeted:
            if verb != protocol.HELLO:
                raise ValueError("the first line must be a hello")
            self._has_greeted = True
            self.has_instance = len(fields) > 1
            self._instance = str(fields[1]) if self.has_instance else secrets.token_hex(8)
            self._server.add(self)
            return
        match verb:
            case protocol.LAUNCH:
                handler.launch(_checked(LaunchMessage.from_fields(fields)), self._instance)
            case protocol.STOP:
                *attempt_id, detail = fields
                handler.stop(_attempt_id(attempt_id), str(detail))
            case protocol.RECONCILE:
                handler.reconcile([_attempt_id(one) for one in fields[0]], int(fields[1]) if len(fields) > 1 else 0)
            case protocol.DELIVERED:
                handler.delivered(int(fields[0]))
            case protocol.SUB_RUN_ENDED:
                step, number, state, detail, outputs, *of_item = fields[4:]
                texts = {str(name): str(value) for name, value in outputs.items()}
                end = SubRunEnd(RunState(state), str(detail), texts, *map(str, of_item))
                handler.sub_run_ended(_attempt_id(fields[:4]), str(step), int(number), end)
            case protocol.LEASE:
                handler.renew(_lease(fields), self._instance)
            case protocol.CONFIRMED:
                handler.confirm([_attempt_id(one) for one in fields[0]])
            case protocol.PING:
                self.send(protocol.encode(protocol.PONG))
            case protocol.LEAVE:
                handler.leave()
            case _:
                raise ValueError("unknown verb")


def _attempt_id(fields: Message) -> AttemptId:
    job_id, scheduled_for, origin, attempt = fields
    if not (
        isinstance(job_id, str) and type(scheduled_for) is int and isinstance(origin, str) and type(attempt) is int
    ):
        raise ValueError("an attempt must be a job, an instant, an origin and a number")
    return AttemptId(RunKey(job_id, scheduled_for, origin), attempt)


def _lease(fields: Message) -> Lease:
    if len(fields) != len(Lease._fields) or not all(type(field) is int for field in fields):
        raise ValueError("a lease must be instants and an epoch")
    return Lease(*fields)


def _checked(launch: LaunchMessage) -> LaunchMessage:
    _attempt_id([*launch.key, launch.attempt])
    texts = (launch.trigger, launch.params, launch.work)
    if type(launch.fence) is not int or not all(isinstance(text, str) for text in texts):
        raise ValueError("a launch must have a fence, a trigger, parameters and work")
    if not isinstance(launch.secrets, dict):
        raise ValueError("secrets must be names and values")
    if launch.valid_until is not None and type(launch.valid_until) is not int:
        raise ValueError("'valid_until' must be an instant")
    return launch
