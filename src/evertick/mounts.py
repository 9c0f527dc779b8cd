"""Which file system a path is on. On a network drive locks cannot be trusted, and changes are not reported."""

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
    """The kind of network file system that a path is on; None for a local or an unknown one."""
    found = find_network_drive([os.path.realpath(path)])
    return None if found is None else found[1]


def find_network_drive(paths: Iterable[str]) -> tuple[str, str] | None:
    """The first of these real paths that is on a network drive, and the kind of that."""
    mounts = _read_mounts()
    if not any(_is_network(line.partition(" - ")[2].split()[0]) for line in mounts):
        return None
    kinds = ((path, file_system_of(path, mounts)) for path in paths)
    return next(((path, kind) for path, kind in kinds if _is_network(kind)), None)


def _read_mounts() -> list[str]:
    """Empty where the system does not tell."""
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _is_network(kind: str) -> bool:
    return kind.partition(".")[0] in _NETWORK


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
