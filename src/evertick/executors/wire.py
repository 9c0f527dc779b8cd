"""What the scheduler and a keeper say to each other: lines of JSON, a verb first, over a socket in a private folder."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evertick.model.instant import Instant
from evertick.model.run import RunKey

PROTOCOL = 4
SOCKET = "keeper.sock"
MESSAGE_MAX = 16 * 1024 * 1024
"""Bytes of one line; a longer one is no message of ours."""

# From the scheduler.
HELLO = "hello"  # protocol, instance | protocol, pid, incarnation, and what it can do beyond the protocol
LAUNCH = "launch"  # Order
STOP = "stop"  # job, scheduled for, origin, attempt, detail
RECONCILE = "reconcile"  # [[job, scheduled for, origin, attempt] ...]
DELIVERED = "delivered"  # serial
SUB_RUN = "sub_run"  # job, scheduled for, origin, attempt, step, number, state, detail, {step: output}
LEASE = "lease"  # end at, until, epoch, vouched until: see `keeper.lease`
CONFIRMED = "confirmed"  # [[job, scheduled for, origin, attempt] ...]: the ledger knows that these were launched
LEAVE = "leave"  # end as soon as nothing runs
PING = "ping"  # answer; only to a keeper that has said that it can
# From the keeper.
STARTED = "started"  # job, scheduled for, origin, attempt, at
STEPS = "steps"  # job, scheduled for, origin, attempt, how its steps stand
FINISHED = "finished"  # job, scheduled for, origin, attempt, at, state, exit code, detail, serial, steps or null, cause
UNKNOWN = "unknown"  # job, scheduled for, origin, attempt
CALL = "call"  # job, scheduled for, origin, attempt, step, number, job to run, params, waits
HANG_UP = "hang_up"  # job, scheduled for, origin, attempt, step, number, job that was to run
REFUSED = "refused"  # job, scheduled for, origin, attempt, detail
PONG = "pong"

_PEER = struct.Struct("3i")
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Finished(NamedTuple):
    """What stands behind `FINISHED` and the attempt that has."""

    at: Instant
    state: str
    exit_code: int | None
    detail: str
    serial: int
    """0: it was not written down, and need not be acknowledged."""
    steps: str | None
    cause: str = ""
    """Of a lost one, a word of `LossReason`; otherwise the constraint that did not hold, if that is why."""


@dataclass(frozen=True, slots=True)
class Order:
    """An attempt to carry out, as it travels."""

    key: RunKey
    attempt: int
    fence: int
    trigger: str
    params: str
    """JSON, or empty."""
    previous_success_at: Instant | None
    work: str
    """As `works.encode_work` writes it."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values from the scheduler's environment, by name; never written down."""
    valid_until: int | None = None
    """Not started after this instant, in microseconds since boot; None: whenever it arrives."""
    is_confirmed: bool = True
    """Whether the ledger knows already that it is launched."""

    def to_line(self) -> bytes:
        # Only where it is said: keepers of other versions, on other machines, know of no such thing.
        limits = () if self.valid_until is None else (self.valid_until, self.is_confirmed)
        return line(
            LAUNCH,
            *self.key,
            self.attempt,
            self.fence,
            self.trigger,
            self.params,
            self.previous_success_at,
            self.work,
            self.secrets,
            *limits,
        )

    @classmethod
    def from_words(cls, words: list[Any]) -> Order:
        job_id, scheduled_for, origin, *rest = words
        return cls(RunKey(job_id, scheduled_for, origin), *rest)


def line(*words: object) -> bytes:
    return _encode(words).encode("utf-8", "surrogatepass") + b"\n"


def words_of(row: bytes) -> list[Any]:
    """The words of a line; `ValueError` for anything else."""
    words = json.loads(row)
    if not isinstance(words, list) or not words or not isinstance(words[0], str):
        raise ValueError("a line must be a list that begins with a verb")
    return words


def connect(folder: Path) -> socket.socket:
    """A connection to the keeper of that folder; `OSError` when there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.setblocking(False)  # one that hangs, and has as many waiting as it may have, would keep us for ever
        sock.connect(address_in(folder_fd))
        sock.setblocking(True)
        if peer_uid(sock) not in {os.geteuid(), 0}:
            raise PermissionError(f"the socket in {folder} belongs to another user. Remove the folder.")
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(folder_fd)
    return sock


def listen(folder: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (folder / SOCKET).unlink(missing_ok=True)
        sock.bind(address_in(folder_fd))
        (folder / SOCKET).chmod(0o600)
        sock.listen(16)
        sock.setblocking(False)
    finally:
        os.close(folder_fd)
    return sock


def address_in(folder_fd: int) -> str:
    """By way of the descriptor: a socket's address holds 107 characters, and folders may be deeper than that."""
    return f"/proc/self/fd/{folder_fd}/{SOCKET}"


def peer_uid(sock: socket.socket) -> int:
    _, uid, _ = _peer(sock)
    return uid


def peer_pid(sock: socket.socket) -> int | None:
    """The process that listens at the other end; None when it cannot be seen from here."""
    pid, _, _ = _peer(sock)
    return pid or None


def _peer(sock: socket.socket) -> tuple[int, int, int]:
    pid, uid, gid = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid), int(uid), int(gid)
