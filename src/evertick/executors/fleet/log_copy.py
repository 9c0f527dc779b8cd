"""Copies the logs of attempts on members to this machine, piece by piece, in the same layout.

So `evertick logs` reads them while they grow, and when the member that wrote them is gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Final

from evertick.executor import AttemptId
from evertick.executors.logs import FOLDER, OPEN_SUFFIX, SUFFIX, Logs
from evertick.executors.paths import file_name, open_folder, private_folder, run_folder
from evertick.executors.protocol import split_key
from evertick.model.work import NOTHING

log = logging.getLogger("evertick.fleet")

LOG_MAX: Final = NOTHING.log_max_bytes + 1024 * 1024
"""Of one log: as much as a keeper writes, and the words that it puts between. A member that says more is not itself."""
ATTEMPT_MAX: Final = 16 * LOG_MAX
LOGS_MAX: Final = 1_000
"""Of one attempt; the rest is read from the member that has it."""


class LogCopies:
    """The copies under a state folder. A disk that is full costs the copy, never the run."""

    def __init__(self, state_folder: Path) -> None:
        self._root = str(private_folder(state_folder / FOLDER))
        self._logs = Logs(state_folder)
        self._offsets: dict[AttemptId, dict[str, int]] = {}

    def offsets_of(self, attempt_id: AttemptId) -> dict[str, int]:
        """How much of each log is here; also what an earlier process of this node has copied."""
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
        """Put a piece where it belongs; one that is there already changes nothing, one with a gap before it waits.

        Answers whether there is more of the log here than before.
        """
        offsets = self.offsets_of(attempt_id)
        have = offsets.get(step, 0)
        if offset > have or (offset + len(data) < have and not is_complete):
            return False
        grows = offset + len(data) - have
        if have + grows > LOG_MAX or sum(offsets.values()) + grows > ATTEMPT_MAX or len(offsets | {step: 0}) > LOGS_MAX:
            return False
        key, _ = split_key(attempt_id.key)
        name = file_name(_shown(step, attempt_id)) + SUFFIX
        try:
            folder = open_folder(self._root, (*run_folder(key), str(attempt_id.attempt)), create=True)
            try:
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


def _put(folder: int, name: str, offset: int, data: bytes, *, is_complete: bool) -> None:
    growing = name + OPEN_SUFFIX
    if _exists(folder, name) and not _exists(folder, growing):
        return  # whole already
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
    """The logs of all shards lie together: `main [0 of 3]`."""
    _, shard = split_key(attempt_id.key)
    return step if shard is None else f"{step} [{shard.number} of {shard.total}]"
