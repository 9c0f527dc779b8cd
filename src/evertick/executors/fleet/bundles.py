"""Code that travels with a job: a folder or a wheel as one archive with a digest, packed here and unpacked on a member.

An archive holds plain files and nothing else. What unpacks it trusts no name in it and no size that it claims.
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
"""Archives that are kept ready to be sent."""
LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".evertick", ".venv"})
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_CHUNK: Final = 1024 * 1024


class BundleError(ValueError):
    """A bundle that cannot be sent, or must not be unpacked; the text says why."""


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
                    f"the bundle {folder} has a link in it, {path.relative_to(folder)}: only files travel"
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
    """Into a folder that is empty; `BundleError` for what must not be, and what was unpacked by then is worthless."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            if len(entries) > FILES_MAX:
                raise BundleError(f"it has more than {FILES_MAX:,} files")
            left = UNPACKED_MAX
            for entry in entries:
                left -= _extract(opened, entry, folder, left)
    except (FileExistsError, NotADirectoryError):
        raise BundleError("a name in it comes twice") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise BundleError(f"it is not an archive that can be read: {error}") from error


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, left: int) -> int:
    name, mode = PurePosixPath(entry.filename), entry.external_attr >> 16
    parts = name.parts
    if name.is_absolute() or not parts or ".." in parts or "\\" in entry.filename or "\0" in entry.filename:
        raise BundleError(f"a name in it leads elsewhere: {entry.filename[:80]!r}")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"it holds something that is no file: {entry.filename[:80]!r}")
    path = folder.joinpath(*parts)
    if entry.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    # Exclusively: a name that comes twice, or in another guise, overwrites nothing.
    with opened.open(entry) as source, path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > left:
                raise BundleError(f"it unpacks to more than {UNPACKED_MAX:,} bytes")
            target.write(chunk)
    path.chmod(0o555 if mode & 0o100 else 0o444)  # other runs work with it too
    return written
