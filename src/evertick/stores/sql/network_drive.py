"""Detects a file on a network drive, where SQLite's locks cannot be trusted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb2", "smb3", "smbfs"}
)


def network_file_system(path: Path) -> str | None:
    """The kind of network file system that a path is on; None for a local one, or where this cannot be told."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    kind = file_system_of(os.path.realpath(path), mounts)
    return kind if kind.partition(".")[0] in _NETWORK else None


def file_system_of(path: str, mounts: Iterable[str]) -> str:
    """The kind of the mount that a real path lies in, read from lines of `mountinfo`."""
    longest, kind = "", ""
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        inside = point == "/" or path == point or path.startswith(point + "/")
        if inside and len(point) >= len(longest):  # a later mount on the same point covers the earlier
            longest, kind = point, rest.split()[0]
    return kind
