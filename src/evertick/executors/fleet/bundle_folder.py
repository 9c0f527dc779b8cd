"""Stores the bundles of jobs on a member: one folder per digest, complete or absent."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from evertick.executors.fleet.bundles import PACKED_MAX, BundleError, unpack
from evertick.executors.protocol import Message
from evertick.model import run_variables as variables
from evertick.model.variable_text import escape_references

KEPT_SECONDS: Final = 30 * 86_400.0
"""A bundle that no attempt was launched with for this long is removed."""
BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Of all bundles; beyond it those that were not used for longest go first."""
RECENT_SECONDS: Final = 86_400.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SCRATCH: Final = ".new-"
_WORK: Final = 9
"""The place of the work among the words of a launch."""


class BundleFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)  # left by a process that was killed
        self._arriving: dict[str, tuple[int, bytearray]] = {}

    def has(self, digest: str) -> bool:
        return (self._folder / digest).is_dir()

    def begin(self, digest: object, size: object, wanted: Collection[str] = ()) -> None:
        """Expect a bundle of that size; `BundleError` for an invalid digest or size.

        Drops the parts of bundles that are not in `wanted`.
        """
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise BundleError("it has no digest")
        if type(size) is not int or not 0 < size <= PACKED_MAX:
            raise BundleError(f"it is larger than {PACKED_MAX:,} bytes")
        self._arriving = {one: known for one, known in self._arriving.items() if one in wanted or one == digest}
        if not self.has(digest):
            self._arriving.setdefault(digest, (size, bytearray()))

    def missing_from(self, digest: str) -> int:
        """The offset of the next byte to request."""
        return len(self._arriving[digest][1]) if digest in self._arriving else 0

    def add(self, digest: str, offset: int, piece: str) -> bool:
        """Append a piece; True when the bundle is complete. A piece at another offset is ignored."""
        if digest not in self._arriving:
            return False
        size, data = self._arriving[digest]
        if offset == len(data):
            data += base64.b64decode(piece, validate=True)
        return len(data) >= size

    def install(self, digest: str) -> None:
        """Verify and unpack a complete bundle; slow, so call it in a thread."""
        _, data = self._arriving.pop(digest)
        if hashlib.sha256(data).hexdigest() != digest:
            raise BundleError("its digest does not match")
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=self._folder))
        try:
            archive, files = scratch / "archive", scratch / "files"
            archive.write_bytes(data)
            files.mkdir()
            unpack(archive, files)
            os.rename(files, self._folder / digest)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def launched_with(self, digest: str, words: Message) -> Message:
        """The launch message, changed so that the attempt runs in the bundle's folder."""
        folder = str(self._folder / digest)
        os.utime(folder)
        work = json.loads(words[_WORK])
        work["working_dir"] = _inside(folder, work.get("working_dir") or "")
        if "dotenv" in work:
            work["dotenv"] = [_inside(folder, path) for path in work["dotenv"]]
        env = [pair for pair in work.get("env", ()) if pair[0] != variables.BUNDLE]
        named = {pair[0] for pair in env}
        text = escape_references(folder)
        env += [[variables.BUNDLE, text], *([] if "PYTHONPATH" in named else [["PYTHONPATH", text]])]
        return [*words[:_WORK], json.dumps({**work, "env": env}), *words[_WORK + 1 :]]

    def tidy(self, in_use: Collection[str]) -> int:
        """Remove unused bundles; returns how many."""
        found = sorted((path.stat().st_mtime, path) for path in self._folder.iterdir() if _DIGEST.fullmatch(path.name))
        sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for _, path in found}
        total, removed = sum(sizes.values()), 0
        for used_at, path in found:
            age = time.time() - used_at
            is_old = age > KEPT_SECONDS or (total > BYTES_MAX and age > RECENT_SECONDS)
            if is_old and path.name not in in_use:
                # Renamed first: an interrupted removal must not leave a partial bundle under its digest.
                scratch = path.with_name(f"{_SCRATCH}{path.name}")
                os.rename(path, scratch)
                shutil.rmtree(scratch, ignore_errors=True)
                total -= sizes[path]
                removed += 1
        return removed


def _inside(folder: str, path: str) -> str:
    """A relative path is relative to the bundle."""
    return path if path.startswith("~") else os.path.join(folder, path) if path else folder
