"""The protocol between a scheduler and a keeper: lines of JSON, each a verb and its fields, over a Unix socket.

The fleet carries the same lines between schedulers and members (`fleet.messages` adds the verbs of its own).
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from evertick.executor import Attempt, AttemptId
from evertick.kinds.docker import ACCESS as DOCKER_ACCESS
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.run import RunKey
from evertick.model.steps import digest_of
from evertick.model.work import Container, Pod, Secret, Work, spreads_items
from evertick.model.work_json import from_plain, to_plain
from evertick.planning.run_dates import timetable_of

VERSION: Final = 5
SOCKET: Final = "keeper.sock"
SPREADS: Final = "EVERTICK_SPREADS_ITEMS"
"""Among the values of a launch: its scheduler starts runs for items, which its keeper may request."""
MESSAGE_MAX: Final = 16 * 1024 * 1024
"""Bytes of one line; the keeper closes the connection on a longer one."""
IDS_PER_LINE: Final = 1_000
JOBS_CACHED: Final = 20_000
"""Jobs whose encoded work a scheduler keeps."""

Message: TypeAlias = list[Any]
"""A decoded line: a verb, then its fields. Check them before use."""

# From the scheduler. RUN stands for: job, scheduled for, origin, attempt.
HELLO: Final = "hello"  # version, instance; the keeper answers: version, pid, incarnation, optional verbs it knows
LAUNCH: Final = "launch"  # the fields of LaunchMessage
STOP: Final = "stop"  # RUN, detail
RECONCILE: Final = "reconcile"  # [RUN, ...], fence: a keeper that does not know a run refuses older launches of it
DELIVERED: Final = "delivered"  # serial
SUB_RUN_ENDED: Final = "sub_run"  # RUN, step, try, state, detail, {step: output}; of an item, its record and executor
LEASE: Final = "lease"  # the fields of keeper.lease.Lease
CONFIRMED: Final = "confirmed"  # [RUN, ...]: the ledger has recorded these launches
LEAVE: Final = "leave"  # exit as soon as nothing runs
ITEMS: Final = "items"  # no message: a keeper that names it in its hello can run an item of another member's run
PING: Final = "ping"  # only to a keeper that named this verb in its hello
# From the keeper.
STARTED: Final = "started"  # RUN, at
STEPS: Final = "steps"  # RUN, step records
FINISHED: Final = "finished"  # RUN, the fields of Finished
UNKNOWN: Final = "unknown"  # RUN, fence: older launches are refused
SUB_RUN_WANTED: Final = "call"  # RUN, step, try, job to run, params, waits
SUB_RUN_UNWANTED: Final = "hang_up"  # RUN, step, try, job of the sub-run
REFUSED: Final = "refused"  # RUN, detail, fence of the launch
PONG: Final = "pong"

_PEER: Final = struct.Struct("3i")
_SHARD: Final = re.compile(r"\^(\d{1,6})\.(\d{1,6})\Z")
_SHARD_OF_RUN_ID: Final = re.compile(r"~?\^(\d{1,6})\.(\d{1,6})\Z")
_to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Finished(NamedTuple):
    """The fields of `FINISHED` after the attempt."""

    at: Instant
    state: str
    exit_code: int | None
    detail: str
    serial: int
    """0: the keeper did not journal it and needs no acknowledgement."""
    steps: str | None
    cause: str = ""
    """Of a lost attempt, a value of `LossReason`; otherwise the constraint that failed, if one did."""


@dataclass(frozen=True, slots=True)
class LaunchMessage:
    """An attempt to run, as a keeper receives it."""

    key: RunKey
    attempt: int
    fence: int
    trigger: str
    params: str
    """JSON, or empty."""
    previous_success_at: Instant | None
    work: str
    """As written by `encode_work`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values from the scheduler's environment, by name; never written to disk."""
    valid_until: int | None = None
    """Do not start it after this instant, in microseconds since boot; None: no limit."""
    is_confirmed: bool = True
    """Whether the ledger has already recorded the launch."""

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(self.key, self.attempt)

    def to_line(self) -> bytes:
        # Keepers of other versions do not know these two fields; send them only where they are used.
        limits = () if self.valid_until is None else (self.valid_until, self.is_confirmed)
        return encode(
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
    def from_fields(cls, words: Message) -> LaunchMessage:
        job_id, scheduled_for, origin, *rest = words
        return cls(RunKey(job_id, scheduled_for, origin), *rest)


class _EncodedWork(NamedTuple):
    job: Job
    text: str
    variables: tuple[str, ...]
    spreads: bool


class LaunchEncoder:
    """Builds launch messages; a job's work is encoded once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._cache: dict[str, _EncodedWork] = {}

    def message_for(self, attempt: Attempt, valid_until: int | None = None) -> LaunchMessage:
        """`valid_until` is in microseconds since boot, so it is for keepers of this machine only."""
        work = self._cache.get(attempt.job.id)
        if work is None or work.job is not attempt.job:
            if len(self._cache) >= JOBS_CACHED:
                self._cache.clear()
            job = attempt.job
            spreads = job.routing.may_spread_items and any(map(spreads_items, job.work.steps))
            work = _EncodedWork(job, encode_work(job), variables_of(job.work), spreads)
            self._cache[attempt.job.id] = work
        secrets = {name: self._environ[name] for name in work.variables if name in self._environ}
        if work.spreads:
            secrets[SPREADS] = (
                "1"  # the one part of a launch to which a keeper of an earlier version lets things be added
            )
        return launch_message(attempt, work.text, secrets, valid_until)


def launch_message(
    attempt: Attempt, work: str = "", secrets: Mapping[str, str] | None = None, valid_until: int | None = None
) -> LaunchMessage:
    return LaunchMessage(
        attempt.key,
        attempt.attempt,
        attempt.fence,
        str(attempt.trigger),
        attempt.params,
        attempt.previous_success_at,
        work,
        secrets or {},
        valid_until,
        attempt.is_confirmed,
    )


# Lines


def encode(*words: object) -> bytes:
    return _to_json(words).encode("utf-8", "surrogatepass") + b"\n"


def encode_attempts(verb: str, attempts: Sequence[AttemptId]) -> Iterator[bytes]:
    """In several lines: a line has a limit, and a restart may ask about a hundred thousand attempts."""
    for start in range(0, len(attempts), IDS_PER_LINE):
        portion = attempts[start : start + IDS_PER_LINE]
        yield encode(verb, [[*attempt_id.key, attempt_id.attempt] for attempt_id in portion])


def decode(row: bytes) -> Message:
    """`ValueError` unless the line is a list that begins with a verb."""
    words = json.loads(row)
    if not isinstance(words, list) or not words or not isinstance(words[0], str):
        raise ValueError("a line must be a list that begins with a verb")
    return words


# The work of a job


def encode_work(job: Job) -> str:
    work = replace(job.work, timetable=timetable_of(job))
    return json.dumps(to_plain(work), separators=(",", ":"))


class DecodedWork(NamedTuple):
    work: Work
    secrets: tuple[Secret, ...]
    digests: dict[str, str]
    """By the name of the step."""


@lru_cache(maxsize=1_024)
def decode_work(text: str) -> DecodedWork:
    """Cached, because the same work arrives with every run of a job."""
    work = from_plain(json.loads(text))
    return DecodedWork(work, tuple(secrets_of(work)), {step.name: digest_of(step) for step in work.steps})


def variables_of(work: Work) -> tuple[str, ...]:
    """The scheduler's environment variables that a keeper needs for this work."""
    names = {secret.name for secret in secrets_of(work) if secret.source == "env"}
    if any(isinstance(step.kind, Pod) for step in work.all_steps):
        from evertick.kinds.kubernetes.program import ACCESS

        names |= set(ACCESS)
    if any(isinstance(step.kind, Container) for step in work.all_steps):
        names |= set(DOCKER_ACCESS)
    return tuple(sorted(names))


def secrets_of(value: object) -> Iterator[Secret]:
    """Every secret that the work names, at any depth."""
    if isinstance(value, Secret):
        yield value
        return
    if is_dataclass(value) and not isinstance(value, type):
        parts: Iterable[object] = (getattr(value, field.name) for field in fields(value))
    else:
        parts = value if isinstance(value, tuple) else ()
    for part in parts:
        if isinstance(part, tuple) or is_dataclass(part):
            yield from secrets_of(part)


# Shards of a broadcast: a keeper runs each shard as a run of its own


class ShardOf(NamedTuple):
    number: int
    total: int


def shard_key(key: RunKey, number: int, total: int) -> RunKey:
    """The key under which a keeper runs one shard."""
    return key._replace(origin=f"{key.origin}^{number}.{total}")


def split_key(key: RunKey) -> tuple[RunKey, ShardOf | None]:
    """The key of the whole run, and the shard; None if the key is not of a shard."""
    found = _SHARD.search(key.origin)
    if found is None:
        return key, None
    return key._replace(origin=key.origin[: found.start()]), ShardOf(int(found[1]), int(found[2]))


def split_run_id(run_id: str) -> tuple[str, ShardOf | None]:
    found = _SHARD_OF_RUN_ID.search(run_id)
    return (run_id, None) if found is None else (run_id[: found.start()], ShardOf(int(found[1]), int(found[2])))


# The socket


def connect(folder: Path) -> socket.socket:
    """A connection to the keeper of that folder; `OSError` when none listens."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.setblocking(False)  # connecting to a hung keeper with a full backlog would block forever
        sock.connect(_address(folder_fd))
        sock.setblocking(True)
        if peer_uid(sock) not in {os.geteuid(), 0}:
            raise PermissionError(f"The socket in {folder} belongs to another user. Remove the folder.")
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
        sock.bind(_address(folder_fd))
        (folder / SOCKET).chmod(0o600)
        sock.listen(16)
        sock.setblocking(False)
    finally:
        os.close(folder_fd)
    return sock


def _address(folder_fd: int) -> str:
    """Through the descriptor: a socket address holds 107 characters, and the folder's path may be longer."""
    return f"/proc/self/fd/{folder_fd}/{SOCKET}"


def peer_uid(sock: socket.socket) -> int:
    return _peer(sock)[1]


def peer_pid(sock: socket.socket) -> int | None:
    """The process that listens at the other end; None when it is in another pid namespace."""
    return _peer(sock)[0] or None


def _peer(sock: socket.socket) -> tuple[int, int, int]:
    pid, uid, gid = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid), int(uid), int(gid)
