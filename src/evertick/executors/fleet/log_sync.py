"""Copies the logs of attempts on members to this machine, so that they can be read while they grow and after a loss."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages, validation
from evertick.executors.log_times import LogTime, TimeIndex, append_time
from evertick.executors.logs import FOLDER, OPEN_SUFFIX, SUFFIX, Logs
from evertick.executors.paths import file_name, open_folder, private_folder, run_folder
from evertick.executors.protocol import Message, split_key
from evertick.model.work import NOTHING

log = logging.getLogger("evertick.fleet")

LOG_MAX: Final = NOTHING.log_max_bytes + 1024 * 1024
"""Of one log: what a keeper writes, and its notes. A member that sends more is faulty or hostile."""
ATTEMPT_MAX: Final = 16 * LOG_MAX
LOGS_MAX: Final = 1_000
"""Of one attempt; further logs are read from their member."""


class LogCopies:
    """The copies under a state folder. A full disk costs the copy, never the run."""

    def __init__(self, state_folder: Path) -> None:
        self._root = str(private_folder(state_folder / FOLDER))
        self._logs = Logs(state_folder)
        self._offsets: dict[AttemptId, dict[str, int]] = {}
        self._times: dict[AttemptId, dict[str, TimeIndex]] = {}

    def offsets_of(self, attempt_id: AttemptId) -> dict[str, int]:
        """How much of each log is copied, also by earlier processes of this node."""
        if attempt_id not in self._offsets:
            key, _ = split_key(attempt_id.key)
            suffix = _shown("", attempt_id)
            self._offsets[attempt_id] = {
                file.step.removesuffix(suffix): file.size
                for file in self._logs.list_logs(key)
                if file.attempt == attempt_id.attempt and file.step.endswith(suffix)
            }
        return self._offsets[attempt_id]

    def write(self, attempt_id: AttemptId, step: str, offset: int, data: bytes, *, is_complete: bool) -> bool:
        """Write a piece; a repeated one changes nothing, one after a gap is dropped. Whether the copy grew."""
        offsets = self.offsets_of(attempt_id)
        have = offsets.get(step, 0)
        if offset > have or (offset + len(data) < have and not is_complete):
            return False
        grows = offset + len(data) - have
        if have + grows > LOG_MAX or sum(offsets.values()) + grows > ATTEMPT_MAX or len(offsets | {step: 0}) > LOGS_MAX:
            return False
        key, _ = split_key(attempt_id.key)
        name = file_name(_shown(step, attempt_id)) + SUFFIX
        now, times = time.time_ns() // 1_000, self._times.setdefault(attempt_id, {}).setdefault(step, TimeIndex(0))
        try:
            folder = open_folder(self._root, (*run_folder(key), str(attempt_id.attempt)), create=True)
            try:
                if grows > 0 and times.is_due(now):
                    # The member has the exact times; those of the copy are when it was received.
                    append_time(folder, name, LogTime(have, now))
                _put(folder, name, offset, data, is_complete=is_complete)
            finally:
                os.close(folder)
        except OSError as error:
            log.warning("log.not_copied run=%s step=%s reason=%s", key.run_id, step, error)
            return False
        offsets[step] = max(have, offset + len(data))
        return grows > 0

    def forget(self, attempt_id: AttemptId) -> None:
        self._offsets.pop(attempt_id, None)
        self._times.pop(attempt_id, None)


def _put(folder: int, name: str, offset: int, data: bytes, *, is_complete: bool) -> None:
    growing = name + OPEN_SUFFIX
    if _exists(folder, name) and not _exists(folder, growing):
        return  # complete already
    fd = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        while data:
            written = os.pwrite(fd, data, offset)
            data, offset = data[written:], offset + written
    finally:
        os.close(fd)
    if is_complete:
        os.rename(growing, name, src_dir_fd=folder, dst_dir_fd=folder)


def _exists(folder: int, name: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _shown(step: str, attempt_id: AttemptId) -> str:
    """The logs of all shards are in one folder: `main [0 of 3]`."""
    _, shard = split_key(attempt_id.key)
    return step if shard is None else f"{step} [{shard.number} of {shard.total}]"


ASK_SECONDS = 1.0
AT_ONCE = 200
ASKED_MAX = 60
"""How often a connected member is asked for the rest of a log after the end of its attempt."""
ENDING_MAX = 10_000
"""Ended attempts whose logs are still fetched; beyond it the oldest are given up."""


class LogFetcher:
    def __init__(
        self, copies: LogCopies, tell: Callable[[str, bytes], None], is_heard: Callable[[str, float], bool]
    ) -> None:
        self._copies = copies
        self._tell = tell
        self._is_heard = is_heard
        self._ending: dict[AttemptId, tuple[str, int]] = {}
        """Ended attempts with incomplete logs: the member, and how many more times to ask it."""
        self._asked_at = 0.0
        self._next = 0

    def tick(self, now: float, running: Callable[[], Sequence[tuple[AttemptId, str]]]) -> None:
        if now - self._asked_at < ASK_SECONDS:
            return
        self._asked_at = now
        growing = list(running())
        # In turns: there may be too many for one second.
        start = self._next % max(len(growing), 1)
        wanted = (growing[start:] + growing[:start])[:AT_ONCE]
        self._next = start + len(wanted)
        for attempt_id, (member, asks_left) in list(self._ending.items()):
            if not asks_left:
                self._forget(attempt_id)
            elif self._is_heard(member, now) and len(wanted) < 2 * AT_ONCE:
                # A disconnected member is waited for: it keeps its logs for days.
                del self._ending[attempt_id]
                self._ending[attempt_id] = (member, asks_left - 1)
                wanted.append((attempt_id, member))
        for attempt_id, member in wanted:
            if self._is_heard(member, now):
                self._ask(attempt_id, member)

    def ended(self, attempt_id: AttemptId, member: str) -> None:
        """An attempt has ended or was given up: fetch the rest of its logs when its member is connected."""
        while len(self._ending) >= ENDING_MAX:
            self._forget(next(iter(self._ending)))
        self._ending.setdefault(attempt_id, (member, ASKED_MAX))

    def take(self, verb: str, member: str, attempt_id: AttemptId, rest: Message, holder: str | None) -> None:
        """A piece, or the message that there is no more; only from the member that has or had the attempt."""
        ending = self._ending.get(attempt_id)
        if member not in {holder, ending[0] if ending else None}:
            return
        if verb == messages.LOGS_END:
            if holder is None:
                self._forget(attempt_id)
            else:
                # It precedes the end of the attempt; nothing more has to be asked for then.
                self._ending[attempt_id] = (member, 0)
            return
        step, offset, data, is_complete = rest
        piece = base64.b64decode(data)
        has_grown = self._copies.write(
            attempt_id, validation.text_of(step), validation.offset_of(offset), piece, is_complete=bool(is_complete)
        )
        # Only if it was written: otherwise it would be requested forever.
        if has_grown and len(piece) >= messages.PIECE:
            self._ask(attempt_id, member)  # more follows

    def _ask(self, attempt_id: AttemptId, member: str) -> None:
        offsets = self._copies.offsets_of(attempt_id)
        self._tell(member, protocol.encode(messages.LOGS, *attempt_id.key, attempt_id.attempt, offsets))

    def _forget(self, attempt_id: AttemptId) -> None:
        self._ending.pop(attempt_id, None)
        self._copies.forget(attempt_id)
