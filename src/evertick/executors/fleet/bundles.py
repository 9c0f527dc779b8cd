"""Packs the code of a job (a folder or a wheel) into an archive with a digest, and unpacks it on a member.

An archive holds regular files only. Unpacking trusts neither its names nor the sizes it declares.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

PACKED_MAX: Final = 64 * 1024 * 1024
UNPACKED_MAX: Final = 256 * 1024 * 1024
FILES_MAX: Final = 10_000
KEPT: Final = 4
"""Number of packed archives to keep in memory."""
LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".evertick", ".venv"})
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_CHUNK: Final = 1024 * 1024


class BundleError(ValueError):
    """A bundle that cannot be sent or must not be unpacked."""


class Bundle(NamedTuple):
    digest: str
    data: bytes


class Packer:
    """Packs a folder or an archive again only when it has changed. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: OrderedDict[str, tuple[object, Bundle]] = OrderedDict()

    def pack(self, path: str) -> Bundle:
        with self._lock:
            look = _signature(Path(path))
            known = self._ready.get(path)
            if known is None or known[0] != look:
                known = self._ready[path] = (look, pack(Path(path)))
            self._ready.move_to_end(path)
            while len(self._ready) > KEPT:
                self._ready.popitem(last=False)
            return known[1]


def pack(path: Path) -> Bundle:
    """A wheel or zip file as it is; a folder in an order and with dates that make the same files the same bytes."""
    data = _archive_of(path) if path.is_dir() else _read(path)
    if len(data) > PACKED_MAX:
        raise BundleError(f"the bundle {path} has {len(data):,} bytes; {PACKED_MAX:,} are allowed")
    return Bundle(hashlib.sha256(data).hexdigest(), data)


def _read(path: Path) -> bytes:
    try:
        if path.suffix not in (".whl", ".zip"):
            raise BundleError(f"the bundle {path} is neither a folder nor a .whl or .zip file")
        if path.stat().st_size > PACKED_MAX:
            raise BundleError(f"the bundle {path} is larger than {PACKED_MAX:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"the bundle {path} cannot be read: {error.strerror}") from error


def _archive_of(folder: Path) -> bytes:
    out, total = io.BytesIO(), 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for count, (name, file) in enumerate(_files(folder), 1):
            total += file.stat().st_size
            if count > FILES_MAX or total > UNPACKED_MAX:
                raise BundleError(f"the bundle {folder} has more than {FILES_MAX:,} files or {UNPACKED_MAX:,} bytes")
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if os.access(file, os.X_OK) else 0o644)) << 16
            archive.writestr(info, file.read_bytes())
    return out.getvalue()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in (*folders, *sorted(names)):
            path = Path(root, name)
            if path.is_symlink():
                raise BundleError(
                    f"the bundle {folder} contains a link, {path.relative_to(folder)}; use regular files only"
                )
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _signature(path: Path) -> object:
    try:
        if path.is_dir():
            return [(name, *_stamp(file)) for name, file in _files(path)]
        return _stamp(path)
    except OSError as error:
        raise BundleError(f"the bundle {path} cannot be read: {error.strerror}") from error


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_mode


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into an empty folder. After a `BundleError` the folder is incomplete: discard it."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            if len(entries) > FILES_MAX:
                raise BundleError(f"it has more than {FILES_MAX:,} files")
            left = UNPACKED_MAX
            for entry in entries:
                left -= _extract(opened, entry, folder, left)
    except (FileExistsError, NotADirectoryError):
        raise BundleError("it contains a name twice") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise BundleError(f"the archive cannot be read: {error}") from error


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, left: int) -> int:
    name, mode = PurePosixPath(entry.filename), entry.external_attr >> 16
    parts = name.parts
    if name.is_absolute() or not parts or ".." in parts or "\\" in entry.filename or "\0" in entry.filename:
        raise BundleError(f"it contains a path outside of the bundle: {entry.filename[:80]!r}")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"it contains something other than a file: {entry.filename[:80]!r}")
    path = folder.joinpath(*parts)
    if entry.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    # Exclusively: a repeated name, in any spelling, overwrites nothing.
    with opened.open(entry) as source, path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > left:
                raise BundleError(f"it unpacks to more than {UNPACKED_MAX:,} bytes")
            target.write(chunk)
    path.chmod(0o555 if mode & 0o100 else 0o444)  # other runs use it too
    return written
