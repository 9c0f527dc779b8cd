"""What changed in a folder of job files, and which of its jobs are good to use now.

The truth is a scan: every second the stamps of all files are compared with those of the last scan, and only what
differs is read. Nothing can be lost this way, neither by a full queue of events nor by a stall nor on a network drive.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.definitions.parser import Parsed
from evertick.definitions.source import Folder, Stamp, assemble, parse_source, read_source, stamps_of
from evertick.errors import DefinitionError, NotFound
from evertick.model.job import Job
from evertick.settings import Settings

INTERVAL_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 0.3
"""A file that was written a moment ago, or has an error, is looked at again after this before it counts."""
HURRIED_SCANS: Final = 5
_DOUBT_NS: Final = 2_000_000_000
"""A file that changed this shortly before it was read may change once more within the same stamp."""


class FolderChanged(NamedTuple):
    """What a scan found since the last change that was taken."""

    jobs: tuple[Job, ...]
    """Added or changed."""
    removed: tuple[str, ...]
    folder: Folder
    errors: tuple[DefinitionError, ...] = ()
    """Those that were not there before."""


@dataclass(slots=True)
class _File:
    stamp: Stamp
    digest: bytes
    parsed: Parsed
    is_certain: bool
    """Whether an equal stamp means an equal content."""
    good: Job | None = None
    """The job of this file that is in use."""


class FolderWatch:
    """A folder as it was last seen. `scan` belongs to one thread; `snapshot` may be called from any."""

    def __init__(
        self,
        path: str | Path,
        settings: Settings | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = str(path)
        self._settings = settings
        self._monotonic, self._wall_ns = monotonic, wall_ns
        self._files: dict[str, _File] = {}
        self._waiting: dict[str, tuple[bytes, float]] = {}
        self._taken: dict[str, Job] = {}
        self._told: dict[str, list[str]] = {}
        """The errors that were told last, by file."""
        self._folder = Folder()
        self._is_away = False
        self._is_dirty = False
        self.trouble: Exception | None = None
        """What the last scan of `run` failed with."""

    def snapshot(self) -> Folder:
        """The jobs to use, stale ones included, and what is wrong with which file."""
        return self._folder

    @property
    def is_settling(self) -> bool:
        """Whether a file is waited for, and the next scan should come soon."""
        return bool(self._waiting)

    def load(self) -> Folder:
        """The first scan: every file counts as it is, and what is found is taken. NotFound when there is no folder."""
        try:
            stamps = stamps_of(self._path)
        except OSError as error:
            raise NotFound(f"the folder '{self._path}' cannot be read: {error.strerror}.") from error
        for file, stamp in stamps.items():
            source = read_source(Path(file), self._settings)
            parsed = parse_source(Path(file), source, self._settings)
            self._files[file] = _File(stamp, _digest(source), parsed, self._is_certain(stamp))
        self._assemble()
        self._taken, self._told = dict(self._folder.jobs), _in_words(self._folder)
        return self._folder

    def scan(self, on_change: Callable[[FolderChanged], None]) -> None:
        """Look once, and tell what changed. What `on_change` raises on is told again with the next scan."""
        try:
            stamps = stamps_of(self._path)
        except OSError as error:
            self._keep_all(error)
            self._tell(on_change)
            return
        gone = [file for file in self._files if file not in stamps]
        for file in gone:
            del self._files[file]
        for file in [file for file in self._waiting if file not in stamps]:
            del self._waiting[file]
        # Kept until it is settled: a scan that fails half-way leaves the rest of its work to the next one.
        self._is_dirty = self._is_dirty or bool(gone) or self._is_away
        for file, stamp in stamps.items():
            known = self._files.get(file)
            if known is None or known.stamp != stamp or not known.is_certain:
                self._is_dirty = self._look(file, stamp, known) or self._is_dirty
        self._is_away = False
        if self._is_dirty:
            self._assemble()
            self._is_dirty = False
        self._tell(on_change)

    def run(
        self,
        on_change: Callable[[FolderChanged], None],
        stop: threading.Event,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        """Scan until `stop` is set."""
        hurried = 0
        while not stop.wait(min(SETTLE_SECONDS, interval_seconds) if hurried else interval_seconds):
            # A file that never comes to rest must not keep the folder under scan for ever.
            hurried = (hurried or HURRIED_SCANS) - 1
            try:
                self.scan(on_change)
                self.trouble = None
                hurried = hurried if self.is_settling else 0
            except Exception as error:
                # A watch that ends in silence would leave every later edit unseen; the change is told again.
                self.trouble = error

    def _look(self, file: str, stamp: Stamp, known: _File | None) -> bool:
        """Read a file whose stamp differs or is in doubt; whether it counts as changed now."""
        path = Path(file)
        source = read_source(path, self._settings)
        digest = _digest(source)
        if known is not None and digest == known.digest:
            known.stamp, known.is_certain = stamp, self._is_certain(stamp)
            self._waiting.pop(file, None)
            return False
        now = self._monotonic()
        waited = self._waiting.get(file)
        since = waited[1] if waited and waited[0] == digest else now
        self._waiting[file] = (digest, since)
        is_settled = now - since >= SETTLE_SECONDS
        # Half of a file may be a whole job: one that was just written is never taken at once.
        if not is_settled and self._wall_ns() - stamp.modified_ns < SETTLE_SECONDS * 1e9:
            return False
        parsed = parse_source(path, source, self._settings)
        if not is_settled and parsed.errors:
            return False
        del self._waiting[file]
        good = known.good if known else None
        self._files[file] = _File(stamp, digest, parsed, self._is_certain(stamp), good)
        return True

    def _is_certain(self, stamp: Stamp) -> bool:
        return self._wall_ns() - stamp.changed_ns > _DOUBT_NS

    def _assemble(self) -> None:
        """The jobs of all files; where a file has an error now, the job that it gave before it stays."""
        found = assemble({file: self._files[file].parsed for file in sorted(self._files)})
        jobs = dict(found.jobs)
        stale = {
            known.good.id: known.good
            for file in found.errors
            if (known := self._files[file]).good is not None and known.good.id not in jobs
        }
        jobs |= stale
        for file, known in self._files.items():
            known.good = next(
                (
                    job
                    for job in (known.parsed.job, known.good)
                    if job is not None and jobs.get(job.id) is job and job.file == file
                ),
                None,
            )
        self._folder = replace(found, jobs=MappingProxyType(jobs), stale=frozenset(stale))

    def _keep_all(self, error: OSError) -> None:
        """A folder that is away takes no job with it: it may be a network drive, or a checkout under way."""
        if not self._is_away:
            self._is_away = True
            reason = f"the folder '{self._path}' cannot be read: {error.strerror}. Its jobs stay as they were."
            told = DefinitionError(reason, hint="Bring it back, or remove the files one by one.", file=self._path)
            self._folder = replace(self._folder, errors=MappingProxyType({**self._folder.errors, self._path: (told,)}))

    def _tell(self, on_change: Callable[[FolderChanged], None]) -> None:
        jobs = self._folder.jobs
        changed = tuple(
            job for job_id, job in jobs.items() if (old := self._taken.get(job_id)) is not job and old != job
        )
        removed = tuple(job_id for job_id in self._taken if job_id not in jobs)
        errors = _in_words(self._folder)
        if changed or removed or errors != self._told:
            new = (self._folder.errors[file] for file in errors if errors[file] != self._told.get(file))
            on_change(FolderChanged(changed, removed, self._folder, tuple(chain.from_iterable(new))))
        self._taken, self._told = dict(jobs), errors


def _in_words(folder: Folder) -> dict[str, list[str]]:
    return {file: [str(error) for error in errors] for file, errors in folder.errors.items()}


def _digest(source: bytes | DefinitionError) -> bytes:
    text = str(source).encode("utf-8", "surrogateescape") if isinstance(source, DefinitionError) else source
    return hashlib.blake2b(text, digest_size=16).digest()
