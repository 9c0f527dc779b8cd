"""How schedulers reach a keeper: connections, the messages on them, and when a keeper may go."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from typing import Any

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.keeper.lease import Lease
from evertick.executors.keeper.supervisor import Supervisor
from evertick.executors.protocol import MESSAGE_MAX, LaunchMessage, decode
from evertick.model.lifecycle import RunState
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd

BACKLOG_MAX = 64 * 1024 * 1024
"""Bytes that wait for a scheduler that does not read; it is let go then, and told again when it comes back."""


class Server:
    """All connections of a keeper."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._connections: set[Connection] = set()
        self._connected_seconds = 0.0
        self._since = 0.0
        self.left_at = time.monotonic()
        """When the last scheduler went, or the keeper began."""
        self.supervisor: Supervisor | None = None

    @property
    def is_connected(self) -> bool:
        return bool(self._connections)

    def connected_seconds(self) -> float:
        """A clock that only runs while a scheduler is there to be told."""
        return self._connected_seconds + (time.monotonic() - self._since if self._connections else 0.0)

    def say(self, lines: bytes) -> None:
        for connection in tuple(self._connections):
            connection.send(lines)

    def add(self, connection: Connection) -> None:
        assert self.supervisor is not None
        known = self.supervisor.greet()  # first: what it says to all others must not come before our greeting
        if not self._connections:
            self._since = time.monotonic()
        self._connections.add(connection)
        # A scheduler of an earlier version does not expect to be told more.
        skills = (protocol.PING,) if connection.names_itself else ()
        hello = protocol.encode(protocol.HELLO, protocol.VERSION, os.getpid(), self._incarnation, *skills)
        connection.send(hello + b"".join(known))

    def remove(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            if not self._connections:
                self._connected_seconds += time.monotonic() - self._since
                self.left_at = time.monotonic()


class Connection(asyncio.Protocol):
    """One scheduler. What it says is checked; who talks nonsense is shown the door, and nobody else notices."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._has_greeted = False
        self._instance = ""
        self.names_itself = False
        """Whether it says which process it is: schedulers of earlier versions do not."""

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
                self._hear(decode(row))
            if len(self._buffer) > MESSAGE_MAX:
                raise ValueError(f"a line is longer than {MESSAGE_MAX:,} bytes")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
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

    def _hear(self, words: list[Any]) -> None:
        supervisor = self._server.supervisor
        assert supervisor is not None
        verb, rest = words[0], words[1:]
        if not self._has_greeted:
            if verb != protocol.HELLO:
                raise ValueError("the first line must be a greeting")
            self._has_greeted = True
            self.names_itself = len(rest) > 1
            self._instance = str(rest[1]) if self.names_itself else secrets.token_hex(8)
            self._server.add(self)
            return
        if verb == protocol.LAUNCH:
            supervisor.launch(_checked(LaunchMessage.from_fields(rest)), self._instance)
        elif verb == protocol.STOP:
            *attempt_id, detail = rest
            supervisor.stop(_attempt_id(attempt_id), str(detail))
        elif verb == protocol.RECONCILE:
            supervisor.reconcile([_attempt_id(one) for one in rest[0]], int(rest[1]) if len(rest) > 1 else 0)
        elif verb == protocol.DELIVERED:
            supervisor.delivered(int(rest[0]))
        elif verb == protocol.SUB_RUN_ENDED:
            *attempt_id, step, number, state, detail, outputs = rest
            told = {str(name): str(value) for name, value in outputs.items()}
            supervisor.sub_run_ended(
                _attempt_id(attempt_id), str(step), int(number), SubRunEnd(RunState(state), str(detail), told)
            )
        elif verb == protocol.LEASE:
            supervisor.renew(_lease(rest), self._instance)
        elif verb == protocol.CONFIRMED:
            supervisor.confirm([_attempt_id(one) for one in rest[0]])
        elif verb == protocol.PING:
            self.send(protocol.encode(protocol.PONG))
        elif verb == protocol.LEAVE:
            supervisor.leave()
        else:
            raise ValueError("an unknown verb")


def _attempt_id(words: list[Any]) -> AttemptId:
    job_id, scheduled_for, origin, attempt = words
    if not (
        isinstance(job_id, str) and type(scheduled_for) is int and isinstance(origin, str) and type(attempt) is int
    ):
        raise ValueError("a attempt_id must be a job, an instant, an origin and an attempt")
    return AttemptId(RunKey(job_id, scheduled_for, origin), attempt)


def _lease(words: list[Any]) -> Lease:
    if len(words) != len(Lease._fields) or not all(type(word) is int for word in words):
        raise ValueError("a lease must be instants and an epoch")
    return Lease(*words)


def _checked(order: LaunchMessage) -> LaunchMessage:
    _attempt_id([*order.key, order.attempt])
    texts = (order.trigger, order.params, order.work)
    if type(order.fence) is not int or not all(isinstance(text, str) for text in texts):
        raise ValueError("an order must have a fence, a trigger, parameters and a work")
    if not isinstance(order.secrets, dict):
        raise ValueError("secrets must be names and values")
    if order.valid_until is not None and type(order.valid_until) is not int:
        raise ValueError("an order is valid until an instant")
    return order
