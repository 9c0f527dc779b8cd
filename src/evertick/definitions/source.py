"""Which jobs a folder defines, and what is wrong with the files that define none."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.definitions.cache import DefinitionCache
from evertick.definitions.parsed_file import PIPELINE_NAMES, SIZE_MAX, Parsed
from evertick.definitions.references import find_circles, find_crowds, find_strangers
from evertick.definitions.watched_directories import SUFFIXES
from evertick.errors import DefinitionError, NotFound
from evertick.model.instant import Instant, to_text
from evertick.model.job import Job, Origin
from evertick.model.schedule import AtSpec, has_calendar
from evertick.planning.catchup import is_missed
from evertick.planning.schedules import compile_all, compile_occurrences, next_of
from evertick.settings import Settings

UNCACHED_SHARE: Final = 50
"""Rewrite the cache of parsed files when one file in this many is missing from it."""

_Findings = Mapping[str, tuple[DefinitionError, ...]]


@dataclass(frozen=True, slots=True)
class Folder:
    """What was found, in the order of the file names."""

    files: tuple[str, ...] = ()
    """Every file that was read."""
    jobs: Mapping[str, Job] = field(default_factory=lambda: MappingProxyType({}))
    """By id; only those of files without an error."""
    errors: _Findings = field(default_factory=lambda: MappingProxyType({}))
    """By file."""
    warnings: _Findings = field(default_factory=lambda: MappingProxyType({}))
    stale: frozenset[str] = frozenset()
    """Jobs whose file has an error now, and which are here as they were before it; only a watched folder has them."""

    def all_errors(self) -> tuple[DefinitionError, ...]:
        return tuple(error for errors in self.errors.values() for error in errors)

    @property
    def is_whole(self) -> bool:
        """Whether no file is there that may define a job which is not among these."""
        return not self.errors.keys() - {self.jobs[job_id].file for job_id in self.stale}


def load_folder(
    path: str | Path, settings: Settings | None = None, *, cache: Path | None = None, keeps_cache: bool = False
) -> Folder:
    """The jobs of a folder: its `*.yaml` and `*.yml`, and `<name>/pipeline.yaml` one level down.

    `cache` is where a scheduler may have cached the parsed files. With `keeps_cache` it is rewritten when it is out of
    date, as after an upgrade; a running scheduler does so itself.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise NotFound(f"the folder '{folder}' does not exist.")
    began_ns = time.time_ns()
    try:
        files = _stamped_files(folder)
    except OSError as error:
        raise NotFound(f"the folder '{folder}' cannot be read: {error.strerror}.") from error
    if cache is None:
        return load_files(map(Path, files), settings)
    settings = settings or Settings()
    root = os.path.join(folder, "") if folder != Path() else ""
    kept = DefinitionCache(cache, str(folder), settings, root)
    cached, known = kept.read(), kept.stamps
    parsed = {
        file: cached[file] if known.get(file) == stamp else parse_cached(file, settings, cached)
        for file, stamp in files.items()
    }
    if keeps_cache:
        certain = {file: stamp for file, stamp in files.items() if stamp != NO_STAMP and is_certain(stamp, began_ns)}
        uncached = sum(known.get(file) != stamp and not parsed[file][1].errors for file, stamp in certain.items())
        uncached += sum(found is not cached.get(file) and not found[1].errors for file, found in parsed.items())
        if uncached * UNCACHED_SHARE > len(parsed):
            kept.write(parsed, certain)
    return assemble({file: found for file, (_, found) in parsed.items()})


def load_files(files: Iterable[Path], settings: Settings | None = None, *, is_whole: bool = True) -> Folder:
    """The jobs of some files; a bad file never affects another, except one with the same job id.

    Jobs that are named and not there are warned about, unless the files are not the whole folder.
    """
    return assemble(
        {str(file): parse_source(file, read_source(file, settings), settings) for file in files}, is_whole=is_whole
    )


def assemble(parsed: Mapping[str, Parsed], *, is_whole: bool = True) -> Folder:
    """What the files are together, in the order given: two of one id, and jobs that start each other, are errors."""
    errors = {file: result.errors for file, result in parsed.items() if result.errors}
    warnings = {file: result.warnings for file, result in parsed.items() if result.warnings}
    by_id: dict[str, list[Job]] = {}
    for result in parsed.values():
        if result.job is not None:
            by_id.setdefault(result.job.id, []).append(result.job)
    for twins in by_id.values():
        if len(twins) > 1:
            errors |= {str(twin.file): (_duplicate(twin, twins),) for twin in twins}
    jobs = {job_id: twins[0] for job_id, twins in by_id.items() if len(twins) == 1}
    strangers = find_strangers(jobs) if is_whole else {}
    for job_id, told in (*strangers.items(), *find_crowds(jobs).items()):
        file = str(jobs[job_id].file)
        warnings[file] = (*warnings.get(file, ()), *told)
    for job_id, circle in find_circles(jobs).items():
        errors[str(jobs.pop(job_id).file)] = (circle,)
    return Folder(
        files=tuple(parsed),
        jobs=MappingProxyType(jobs),
        errors=MappingProxyType({file: errors[file] for file in parsed if file in errors}),
        warnings=MappingProxyType({file: warnings[file] for file in parsed if file in warnings}),
    )


def definition_files(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that define jobs, in the order of their names; hidden ones are left alone."""
    return tuple(map(Path, _stamped_files(folder)))


def _stamped_files(folder: Path) -> dict[str, Stamp]:
    """By name, as a path would be written: of ten thousand, making paths takes longer than all the rest."""
    stamps = list_folder(str(folder)).stamps
    return {name.removeprefix("./"): stamp for name, stamp in stamps.items()} if folder == Path() else stamps


def writable_by_others(folder: Path) -> list[Path]:
    """The folder and its job files that every user of the machine may change."""
    paths = (folder, *definition_files(folder))
    return [path for path in paths if path.exists() and path.stat().st_mode & stat.S_IWOTH]


class Stamp(NamedTuple):
    """Distinguishes the versions of a file without reading it."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    device: int


NO_STAMP: Final = Stamp(0, 0, 0, 0, 0)
"""Of a file with the name of a definition that cannot be examined; reading it raises the reason."""


DOUBT_NS: Final = 2_000_000_000
"""A file that changed this shortly before it was read may change again within the same stamp."""


def is_certain(stamp: Stamp, read_at_ns: int) -> bool:
    """Whether a file that has this stamp later still has the content that was read at this time, or later."""
    return read_at_ns - stamp.changed_ns > DOUBT_NS


class Listing(NamedTuple):
    """What a folder holds, without a look into its files."""

    stamps: dict[str, Stamp]
    """Of the files that define jobs, in the order of their names."""
    subfolders: list[str]
    """Those that may hold a pipeline."""
    links: list[str]
    """Job files that are symbolic links."""


def list_folder(folder: str) -> Listing:
    """The files of a folder that define jobs. Links are followed; hidden entries are left alone."""
    found: dict[str, Stamp] = {}
    subfolders: list[str] = []
    links: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name[0] == ".":
                continue
            if name.endswith(SUFFIXES):
                # Whatever has the name is read, and a folder or a broken link becomes an error of that file.
                path = entry.path
                if entry.is_symlink():
                    links.append(path)
                if (stamp := _stamp_of(path, entry.stat)) is not None:
                    found[path] = stamp
            elif _is_folder(entry):
                subfolders.append(entry.path)
    for subfolder in subfolders:
        _list_pipelines(subfolder, found, links)
    return Listing({file: found[file] for file in sorted(found)}, subfolders, links)


_stamp_values: Final = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino", "st_dev")


def _stamp_of(file: str, look: Callable[[], os.stat_result]) -> Stamp | None:
    try:
        return Stamp._make(_stamp_values(look()))
    except FileNotFoundError:
        # It has just gone, unless it is a link that leads nowhere.
        return NO_STAMP if os.path.islink(file) else None
    except OSError:
        return NO_STAMP


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _list_pipelines(folder: str, found: dict[str, Stamp], links: list[str]) -> None:
    for name in PIPELINE_NAMES:
        file = os.path.join(folder, name)
        stamp = _stamp_of(file, partial(os.stat, file))
        if stamp is None:
            continue
        found[file] = stamp
        if os.path.islink(file):
            links.append(file)
        if stamp is NO_STAMP:
            # A folder that may not be entered: reported once, as an error of the file that may be in it.
            return


def read_source(file: str | Path, settings: Settings | None = None) -> bytes | DefinitionError:
    """What a file holds, or why it cannot be read; one byte more than is allowed shows that it is too large."""
    size_max = settings.limits.file_bytes if settings else SIZE_MAX
    try:
        # Without waiting: what has the name of a job file may be a pipe.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise IsADirectoryError(0, "it is not a regular file")
            return _read_all(descriptor, size_max + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}."
        return DefinitionError(reason, hint="Check the file and its permissions.", file=str(file), line=1, column=1)


def _read_all(descriptor: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.read(descriptor, min(size, SIZE_MAX))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def digest_of(source: bytes | DefinitionError) -> bytes:
    """Of what was read, or of why it could not be."""
    text = str(source).encode("utf-8", "surrogateescape") if isinstance(source, DefinitionError) else source
    return hashlib.blake2b(text, digest_size=16).digest()


def parse_cached(
    file: str | Path, settings: Settings, cached: Mapping[str, tuple[bytes, Parsed]]
) -> tuple[bytes, Parsed]:
    """The digest of a file's content and what it means, which is not found out again when the cache knows it."""
    source = read_source(file, settings)
    digest = digest_of(source)
    known = cached.get(file if isinstance(file, str) else str(file))
    if known is not None and known[0] == digest:
        return known
    return digest, parse_source(Path(file), source, settings)


def parse_source(file: Path, source: bytes | DefinitionError, settings: Settings | None) -> Parsed:
    # Only now: the parser is a large part of all imports, and is not needed when the cache knows every file.
    from evertick.definitions.parser import parse_definition

    if isinstance(source, DefinitionError):
        return Parsed(None, (source,))
    parsed = parse_definition(source, str(file), settings, folder=str(file.absolute().parent))
    return Parsed(None, (_of_link(file),)) if parsed.errors and _leads_away(file) else parsed


def _leads_away(file: Path) -> bool:
    """Whether a link leads out of its folder."""
    if not file.is_symlink():
        return False
    return not file.resolve().is_relative_to(file.parent.resolve())


def _of_link(file: Path) -> DefinitionError:
    """Nothing of what is in the other file: who may write a link need not be allowed to read what it leads to."""
    return DefinitionError(
        f"the link points outside of this folder, to '{os.readlink(file)}', which is not a valid job file.",
        hint="Next: validate that file as a user who may read it.",
        file=str(file),
        line=1,
        column=1,
    )


def _duplicate(job: Job, twins: list[Job]) -> DefinitionError:
    others = " and ".join(str(twin.file) for twin in twins if twin is not job)
    return DefinitionError(
        f"the job id '{job.id}' is also defined in {others}; neither is loaded.",
        hint="Give one of them another 'name'.",
        field="name",
        file=job.file,
        line=1,
        column=1,
    )


def warnings_at(job: Job, now: Instant) -> list[DefinitionError]:
    """What a job will not do from now on, although its definition is valid."""
    return [*_past_one_offs(job, now), *_excluded_for_good(job, now)]


def _excluded_for_good(job: Job, now: Instant) -> list[DefinitionError]:
    if not has_calendar(job.schedules) or next_of(compile_all(job.schedules), now) is not None:
        return []
    if next_of(compile_occurrences(job.schedules), now) is None:
        return []
    origin = job.origins.get("calendar", Origin())
    reason = f"the calendar of job '{job.id}' excludes every occurrence from now on: it never runs by its schedule."
    hint = "Correct the calendars it names, in [calendars] of evertick.toml."
    return [DefinitionError(reason, hint=hint, field="calendar", file=origin.file or job.file, line=origin.line)]


def _past_one_offs(job: Job, now: Instant) -> list[DefinitionError]:
    """A warning for each, on the line of the schedule."""
    origin = job.origins.get("schedule", Origin())
    return [
        DefinitionError(
            f"'at' of job '{job.id}' is {to_text(spec.instant)}, which is in the past: "
            "a scheduler that sees the job for the first time does not run it.",
            hint="Write a future time, or trigger the job to run it now.",
            file=origin.file or job.file,
            line=origin.line,
            field="schedule",
        )
        for spec in job.schedules
        if isinstance(spec, AtSpec) and is_missed(spec.instant, now, job.policy.on_time_us)
    ]
