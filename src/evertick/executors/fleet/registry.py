"""Which member owns which name, across restarts of the hub, and which certificates are revoked.

A name belongs to the folder of the member that joined with it first, by an id that is kept in that folder.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import time
from pathlib import Path

from evertick.errors import Conflict
from evertick.executors.fleet.identity import Peer, Role
from evertick.executors.fleet.settings import HUB_FOLDER
from evertick.private_file import write_private

log = logging.getLogger("evertick.fleet")

NAMES_FILE = "names.json"
RECORD_FILE = "authority.json"
MEMBER_ID_FILE = "member-id"
ID_MAX = 100


def default_folder() -> Path:
    return Path.home() / HUB_FOLDER


def lock(folder: Path) -> int:
    """Held until the process ends: two hubs would each have their own registry."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder / ".hub.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Conflict(f"a fleet that uses '{folder}' is already running. Choose another --folder.") from None
    return fd


class MemberRegistry:
    def __init__(self, folder: Path | None) -> None:
        """Without a folder, names are kept in memory only."""
        self._path = folder / NAMES_FILE if folder is not None else None
        self._owners: dict[str, str] = {}
        if self._path is not None and self._path.exists():
            plain = json.loads(self._path.read_bytes())
            self._owners = {str(name): str(owner) for name, owner in plain.items()}

    def claim(self, name: str, owner: str) -> bool:
        """Whether the name belongs to this owner, from now on or already."""
        if name not in self._owners and 0 < len(owner) <= ID_MAX:
            self._owners[name] = owner
            self._write()
        return self._owners.get(name) == owner

    def release(self, name: str) -> bool:
        """Free the name; whether it had an owner."""
        if self._owners.pop(name, None) is None:
            return False
        log.info("member.name_released member=%s", name)
        self._write()
        return True

    def _write(self) -> None:
        if self._path is not None:
            write_private(self._path, json.dumps(self._owners, indent=1).encode())


class Revocations:
    """The revoked certificates, from the authority's record."""

    def __init__(self, record: Path) -> None:
        self._path = record
        self._read_at: tuple[int, int] | None = None
        self._revoked: dict[str, int] = {}
        self.freed: frozenset[str] = frozenset()
        """Names of members without a valid certificate."""

    def __call__(self, peer: Peer) -> bool:
        return 0 < self._revoked.get(peer.serial, 0) <= time.time_ns() // 1_000

    def look(self) -> None:
        """Read the record if it has changed; an unreadable one changes nothing."""
        try:
            found = self._path.stat()
            if (stamp := (found.st_mtime_ns, found.st_ino)) == self._read_at:
                return
            rows = json.loads(self._path.read_bytes())["certificates"]
            now = time.time_ns() // 1_000
            revoked = {row["serial"]: row["revoked_at"] for row in rows if row["revoked_at"]}
            members = [row for row in rows if row["role"] == Role.MEMBER]
            good = {row["name"] for row in members if now < row["expires_at"] and not 0 < row["revoked_at"] <= now}
            self.freed = frozenset(row["name"] for row in members) - good
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("authority.record_not_read path=%s reason=%r", self._path, error)
            return
        self._read_at, self._revoked = stamp, revoked


def member_id(folder: Path) -> str:
    """The id of this member's folder, created once."""
    path = folder / MEMBER_ID_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(16).encode())
    return path.read_text().strip()
