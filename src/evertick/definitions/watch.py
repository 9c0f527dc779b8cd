"""What changed in a folder of job files, and which of its jobs can be used now.

A scan decides: it compares the stamps of all files with those of the last scan, and reads only files that differ. The
kernel's reports say when to scan. A scan each minute, less often if it takes long, finds what the reports missed.
Without reports, the folder is scanned at a pace that costs almost nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.definitions import parser as _parser  # noqa: F401  # now, and not after an upgrade of its files
from evertick.definitions.cache import DefinitionCache
from evertick.definitions.calendars import calendar_stamps
from evertick.definitions.directory_events import DirectoryEvents
from evertick.definitions.parsed_file import Parsed
from evertick.definitions.source import (
    NO_STAMP,
    UNCACHED_SHARE,
    Folder,
    Listing,
    Stamp,
    assemble,
    digest_of,
    is_certain,
    list_folder,
    parse_cached,
    parse_source,
    read_source,
)
from evertick.definitions.watched_directories import WatchedDirectories
from evertick.errors import DefinitionError, NotFound
from evertick.model.job import Job
from evertick.model.schedule import has_calendar
from evertick.mounts import find_network_drive
from evertick.settings import Settings

INTERVAL_SECONDS: Final = 1.0
"""Time between two scans while a folder keeps changing, or is unavailable."""
RESCAN_SECONDS: Final = 60.0
"""Time between two scans when the kernel reports no change."""
SHARE_MAX: Final = 0.005
"""Share of a core: what scans may cost while nothing changes and the kernel cannot report edits."""
HINTED_SHARE_MAX: Final = 0.0003
"""The same if it can: the scans only look for lost reports, and two processes make them."""
SETTLE_SECONDS: Final = 0.3
"""A file that was just written, or has an error, is read again after this time before it counts."""
HURRIED_SCANS: Final = 5
BATCH_SECONDS: Final = 0.05
"""How long events that concern no job file may queue up: a job may write into its folder all day."""
_DOUBT_SECONDS: Final = 2.1


class FolderChanged(NamedTuple):
    """What a scan found since the last processed change."""

    jobs: tuple[Job, ...]
    """Added or changed."""
    removed: tuple[str, ...]
    folder: Folder
    errors: tuple[DefinitionError, ...] = ()
    """Jobs that did not exist before."""


class WatchState(NamedTuple):
    """How edits of the folder are noticed."""

    reason: str | None = None
    """Why the kernel's reports are unreliable; None: edits are noticed at once."""
    scan_seconds: float = RESCAN_SECONDS
    """Time between two scans while nothing changes."""


@dataclass(slots=True)
class _File:
    stamp: Stamp
    digest: bytes
    parsed: Parsed
    is_certain: bool
    """Whether an equal stamp means equal content."""
    good: Job | None = None
    """The job of this file that is in use."""


class FolderWatch:
    """A folder as it was last seen. `scan` and `run` belong to one thread; `snapshot` and `stop` to any.

    `on_notice` receives each reason why edits are noticed late, once. `cache` is where parsed files are cached; it is
    written only with `keeps_cache`, so that only one of several processes writes it.
    """

    def __init__(
        self,
        path: str | Path,
        settings: Settings | None = None,
        *,
        on_notice: Callable[[str], None] | None = None,
        cache: Path | None = None,
        keeps_cache: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = str(path)
        self._settings = settings or Settings()
        self._on_notice = on_notice
        self._cache = None if cache is None else DefinitionCache(cache, self._path, self._settings)
        self._keeps_cache = keeps_cache
        self._uncached = 0
        """Files that were parsed since the cache was written."""
        self._monotonic, self._wall_ns = monotonic, wall_ns
        self._files: dict[str, _File] = {}
        self._waiting: dict[str, tuple[bytes, float]] = {}
        self._calendars: tuple[object, ...] = ()
        """What the days of the calendars were read from."""
        self._new_calendars: tuple[object, ...] | None = None
        """The same as last seen, where it differs: a file may still be written."""
        self._taken: dict[str, Job] = {}
        self._told: dict[str, list[str]] = {}
        """The errors reported last, by file."""
        self._folder = Folder()
        self._listing = Listing({}, [], [])
        self._is_away = False
        self._is_dirty = False
        self._is_untold = False
        self._stopping = threading.Event()
        self._events: DirectoryEvents | None = None
        self._noticed: set[str] = set()
        self.state = WatchState()
        self.trouble: Exception | None = None
        """The error of the last scan of `run`."""

    def snapshot(self) -> Folder:
        """The jobs to use, stale ones included, and the errors of each file."""
        return self._folder

    @property
    def is_settling(self) -> bool:
        """Whether a file is being waited for, so that the next scan should come soon."""
        return bool(self._waiting) or self._new_calendars is not None

    def load(self) -> Folder:
        """The first scan: every file counts as it is. Raises NotFound if there is no folder."""
        try:
            self._listing = list_folder(self._path)
        except OSError as error:
            raise NotFound(f"the folder '{self._path}' cannot be read: {error.strerror}.") from error
        self._calendars = calendar_stamps(self._settings)
        cached, stamps = (self._cache.read(), self._cache.stamps) if self._cache is not None else ({}, {})
        for file, stamp in self._listing.stamps.items():
            digest, parsed = found = parse_cached(file, self._settings, cached)
            is_certain = self._is_certain(stamp)
            is_known = found is cached.get(file) and (stamps.get(file) == stamp or not is_certain)
            self._uncached += not (is_known or parsed.errors)
            self._files[file] = _File(stamp, digest, parsed, is_certain)
        self._assemble()
        self._taken, self._told = dict(self._folder.jobs), _in_words(self._folder)
        return self._folder

    def scan(self, on_change: Callable[[FolderChanged], None]) -> None:
        """Scan once, and report what changed. If `on_change` raises, the next scan reports it again."""
        try:
            self._listing = list_folder(self._path)
        except OSError as error:
            self._keep_all(error)
            self._report(on_change)
            return
        stamps = self._listing.stamps
        gone = [file for file in self._files if file not in stamps]
        for file in gone:
            del self._files[file]
        for file in [file for file in self._waiting if file not in stamps]:
            del self._waiting[file]
        # Kept until it is processed: a scan that fails half-way leaves the rest to the next one.
        self._is_dirty = self._is_dirty or bool(gone) or self._is_away
        files = self._files
        for file, stamp in stamps.items():
            known = files.get(file)
            if known is None or known.stamp != stamp or not known.is_certain:
                self._is_dirty = self._look(file, stamp, known) or self._is_dirty
        self._is_away = False
        if self._settings.calendars:
            self._is_dirty = self._look_at_calendars() or self._is_dirty
        if self._is_dirty:
            self._assemble()
            self._is_dirty, self._is_untold = False, True
        self._report(on_change)

    def run(self, on_change: Callable[[FolderChanged], None]) -> None:
        """Follow the folder until `stop`."""
        hurried = HURRIED_SCANS
        with DirectoryEvents() as events:
            self._events = events
            while not self._stopping.is_set():
                began = time.thread_time()
                self._scan_safely(on_change)
                watched = WatchedDirectories(self._path, self._listing.subfolders, self._listing.links)
                # Files created before their directory was watched are found by another scan.
                is_due = events.watch(watched.names)
                self._judge(events, watched, time.thread_time() - began)
                self._keep_parsed()
                events.pause(SETTLE_SECONDS if hurried else INTERVAL_SECONDS)
                waited_from = self._monotonic()
                if not is_due and not self.is_settling:
                    self._wait(events, watched)
                # A file that never stops changing must not keep the folder under scan forever.
                is_calm = self._monotonic() - waited_from >= INTERVAL_SECONDS
                hurried = HURRIED_SCANS if is_calm else max(0, hurried - 1)

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._stopping.set()
        if self._events is not None:
            self._events.wake()

    def _scan_safely(self, on_change: Callable[[FolderChanged], None]) -> None:
        try:
            self.scan(on_change)
            self.trouble = None
        except Exception as error:
            # A watch that ends silently would miss every later edit; the change is reported again.
            self.trouble = error

    def _keep_parsed(self) -> None:
        """Write the cache when a start would find a large part of it out of date."""
        if self._keeps_cache and self._cache is not None and self._uncached * UNCACHED_SHARE > len(self._files):
            stamps = {
                file: known.stamp for file, known in self._files.items() if known.is_certain and known.stamp != NO_STAMP
            }
            self._cache.write({file: (known.digest, known.parsed) for file, known in self._files.items()}, stamps)
            self._uncached = 0

    def _wait(self, events: DirectoryEvents, watched: WatchedDirectories) -> None:
        """Wait until the kernel reports a change, or the next scan is due."""
        until = self._monotonic() + self._seconds_to_scan()
        while not self._stopping.is_set() and (left := until - self._monotonic()) > 0:
            found = events.wait(left)
            if any(map(watched.matters, found)):
                return
            if found:
                events.pause(BATCH_SECONDS)

    def _seconds_to_scan(self) -> float:
        if self._is_away or self.trouble is not None:
            return INTERVAL_SECONDS
        is_in_doubt = any(not known.is_certain for known in self._files.values())
        return min(_DOUBT_SECONDS, self.state.scan_seconds) if is_in_doubt else self.state.scan_seconds

    def _judge(self, events: DirectoryEvents, watched: WatchedDirectories, cost_seconds: float) -> None:
        """Set the pace of scans by how reliable the kernel's reports are, and report a new reason once."""
        reason = _network_reason(watched) or events.failure
        if reason:
            scan_seconds = max(INTERVAL_SECONDS, cost_seconds / SHARE_MAX)
        else:
            scan_seconds = max(RESCAN_SECONDS, cost_seconds / HINTED_SHARE_MAX)
        self.state = WatchState(reason, scan_seconds)
        if reason:
            self._notice(reason, f"{reason}. The folder is scanned every {scan_seconds:.0f} s instead.")
        if events.has_overflowed:
            self._notice("overflow", "the kernel's queue of file events overflowed. The folder was scanned in full.")

    def _notice(self, cause: str, text: str) -> None:
        if cause not in self._noticed and self._on_notice is not None:
            self._on_notice(text)
        self._noticed.add(cause)

    def _look(self, file: str, stamp: Stamp, known: _File | None) -> bool:
        """Read a file whose stamp differs or is in doubt; returns whether it counts as changed now."""
        path = Path(file)
        source = read_source(file, self._settings)
        digest = digest_of(source)
        if known is not None and digest == known.digest:
            known.stamp, known.is_certain = stamp, self._is_certain(stamp)
            self._uncached += known.is_certain and not known.parsed.errors
            self._waiting.pop(file, None)
            return False
        now = self._monotonic()
        waited = self._waiting.get(file)
        since = waited[1] if waited and waited[0] == digest else now
        self._waiting[file] = (digest, since)
        is_settled = now - since >= SETTLE_SECONDS
        # Half of a file may be a valid job: one that was just written is never used at once.
        if not is_settled and self._wall_ns() - stamp.modified_ns < SETTLE_SECONDS * 1e9:
            return False
        parsed = parse_source(path, source, self._settings)
        if not is_settled and parsed.errors:
            return False
        del self._waiting[file]
        self._uncached += not parsed.errors
        good = known.good if known else None
        self._files[file] = _File(stamp, digest, parsed, self._is_certain(stamp), good)
        return True

    def _look_at_calendars(self) -> bool:
        """Parse the jobs with calendars again when a calendar's file has changed; returns whether there are any.

        A file that cannot be read is an error of each of them, and they stay as they were.
        """
        stamps = calendar_stamps(self._settings)
        if stamps == self._calendars:
            self._new_calendars = None
            return False
        if stamps != self._new_calendars:
            self._new_calendars = stamps  # as with a job file, what was just written is never used at once
            return False
        concerned = [file for file, known in self._files.items() if _may_use_calendar(known.parsed)]
        for file in concerned:
            source = read_source(file, self._settings)
            if digest_of(source) == self._files[file].digest:  # otherwise it is being edited, and is read by itself
                self._files[file].parsed = parse_source(Path(file), source, self._settings)
        self._calendars, self._new_calendars = stamps, None
        return bool(concerned)

    def _is_certain(self, stamp: Stamp) -> bool:
        return is_certain(stamp, self._wall_ns())

    def _assemble(self) -> None:
        """The jobs of all files; a file that has an error now keeps its previous job."""
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
        """An unavailable folder removes no job: it may be a network drive, or a checkout in progress."""
        if not self._is_away:
            self._is_away = True
            reason = f"the folder '{self._path}' cannot be read: {error.strerror}. Its jobs stay as they were."
            told = DefinitionError(
                reason, hint="Restore the folder. To remove its jobs, delete their files one by one.", file=self._path
            )
            self._folder = replace(self._folder, errors=MappingProxyType({**self._folder.errors, self._path: (told,)}))
            self._is_untold = True

    def _report(self, on_change: Callable[[FolderChanged], None]) -> None:
        if not self._is_untold:
            return
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
        self._is_untold = False


def watch_failure(folder: Path) -> str | None:
    """Why edits of a folder would be noticed late here, determined by trying it."""
    listing = list_folder(str(folder))
    watched = WatchedDirectories(str(folder), listing.subfolders, listing.links)
    with DirectoryEvents() as events:
        events.watch(watched.names)
        return _network_reason(watched) or events.failure


def _network_reason(watched: WatchedDirectories) -> str | None:
    found = find_network_drive(directory for directory, names in watched.names.items() if names)
    if found is None:
        return None
    directory, kind = found
    return f"{directory} is on a network file system ({kind}), which does not report what other machines change"


def _may_use_calendar(parsed: Parsed) -> bool:
    return bool(parsed.errors) or (parsed.job is not None and has_calendar(parsed.job.schedules))


def _in_words(folder: Folder) -> dict[str, list[str]]:
    return {file: [str(error) for error in errors] for file, errors in folder.errors.items()}
