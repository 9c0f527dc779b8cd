"""The routes for job files: read, validate and, where the settings allow it, write them.

A user who can write a job file can run programs as the scheduler's user. Writing is therefore off by default, and needs
its own role.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Literal

from fastapi import Path, Request
from pydantic import Field

from evertick.api.app_state import AppState
from evertick.api.route_decorators import At, Body, JobId, Routes
from evertick.definitions.fields.values import job_id_of
from evertick.definitions.importers.imported import Imported
from evertick.definitions.parser import parse_definition
from evertick.definitions.source import read_source, warnings_at
from evertick.errors import Conflict, DefinitionError, InvalidArgument, NotFound
from evertick.model.job import Job
from evertick.operations.definition_results import problem_of
from evertick.operations.results.base import Result
from evertick.operations.results.jobs import DefinitionProblem
from evertick.operations.tokens import Role

routes = Routes("definitions")

TEXT_MAX = 512 * 1024


@dataclass(frozen=True, slots=True)
class DefinitionFile(Result):
    job: str
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class DefinitionFiles(Result):
    items: tuple[DefinitionFile, ...]


@dataclass(frozen=True, slots=True)
class Validated(Result):
    job: str | None
    errors: tuple[DefinitionProblem, ...]
    warnings: tuple[DefinitionProblem, ...]


@dataclass(frozen=True, slots=True)
class WrittenDefinition(Result):
    job: str
    file: str


@dataclass(frozen=True, slots=True)
class ImportNote(Result):
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ImportFile(Result):
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ImportedFiles(Result):
    files: tuple[ImportFile, ...]
    notes: tuple[ImportNote, ...]


class DefinitionBody(Body):
    text: str = Field(max_length=TEXT_MAX, description="A job file, as YAML.")


class ImportBody(DefinitionBody):
    timezone: str | None = Field(None, max_length=64)


def text_of(job: Job) -> str | None:
    """The file of a job; None if no file defines it."""
    source = read_source(FilePath(job.file)) if job.file else None
    return source.decode("utf-8", "replace") if isinstance(source, bytes) else None


@routes.get("/definitions", Role.EDITOR)
def export_definitions(at: At) -> DefinitionFiles:
    """Get the files of all jobs."""
    found = [(job, text_of(job)) for _, job in sorted(at.operations.jobs.items())]
    return DefinitionFiles(
        tuple(DefinitionFile(job.id, job.file or "", text) for job, text in found if text is not None)
    )


@routes.post("/definitions/validate", Role.OPERATOR)
def validate_definition(at: At, body: DefinitionBody) -> Validated:
    """Validate a job file; nothing is written or run."""
    parsed = parse_definition(_clean(body.text), "definition.yaml", at.settings)
    from_now_on = warnings_at(parsed.job, at.operations.now()) if parsed.job else []
    return Validated(
        job=parsed.job.id if parsed.job else None,
        errors=tuple(map(problem_of, parsed.errors)),
        warnings=tuple(map(problem_of, (*parsed.warnings, *from_now_on))),
    )


@routes.post("/definitions/import/{kind}", Role.OPERATOR)
def import_definitions(
    body: ImportBody, kind: Annotated[Literal["crontab", "systemd", "kubernetes", "dagu", "xxl-job"], Path()]
) -> ImportedFiles:
    """Convert a crontab, systemd timers, CronJob manifests, a Dagu file or an XXL-JOB export; writes nothing."""
    from evertick.definitions.importers.cron_job import read_cron_jobs
    from evertick.definitions.importers.crontab import read_crontab
    from evertick.definitions.importers.dagu import read_dagu
    from evertick.definitions.importers.systemd import read_systemd
    from evertick.definitions.importers.xxl_job import read_xxl_job
    from evertick.settings import is_zone

    if body.timezone is not None and not is_zone(body.timezone):
        raise InvalidArgument(
            f"'{body.timezone}' is not a time zone.", hint="Write an IANA name: Europe/Berlin.", field="timezone"
        )
    readers: Mapping[str, Callable[..., Imported]] = {
        "crontab": read_crontab,
        "systemd": read_systemd,
        "kubernetes": read_cron_jobs,
        "dagu": read_dagu,
        "xxl-job": read_xxl_job,
    }
    read = readers[kind]
    found = read(_clean(body.text), kind, timezone=body.timezone)
    return ImportedFiles(
        files=tuple(ImportFile(file.name, file.text) for file in found.files),
        notes=tuple(ImportNote(note.line, note.text) for note in found.notes),
    )


@routes.put("/definitions/{job}", Role.EDITOR)
def write_definition(at: At, request: Request, job: JobId, body: DefinitionBody) -> WrittenDefinition:
    """Write the file of a job; the setting api.allow_definitions must allow it."""
    folder = _writable(at)
    name = _file_of(at, job, folder)
    parsed = parse_definition(_clean(body.text), name, at.settings)
    if parsed.job is None:
        raise parsed.errors[0]
    if parsed.job.id != job:
        raise DefinitionError(f"the file defines the job '{parsed.job.id}', not '{job}'.", field="name")
    request.state.noted = {"file": name, "bytes": len(body.text)}
    _write(folder / name, body.text)
    return WrittenDefinition(job, str(folder / name))


@routes.delete("/definitions/{job}", Role.EDITOR)
def delete_definition(at: At, job: JobId) -> WrittenDefinition:
    """Delete the file of a job; its history stays."""
    folder = _writable(at)
    known = at.operations.definition_of(job)
    if not known.file or FilePath(known.file).parent.resolve() != folder.resolve():
        raise Conflict(f"job '{job}' is not defined in a file of its own in the folder.")
    FilePath(known.file).unlink(missing_ok=True)
    return WrittenDefinition(job, known.file)


def _clean(text: str) -> str:
    """The text, unless it cannot be stored in a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DefinitionError("the text is not valid Unicode.", hint="Send it as UTF-8.") from None
    return text


def _writable(at: AppState) -> FilePath:
    if not at.settings.api.allow_definitions:
        raise Conflict("the API may not write job files. Next: the setting api.allow_definitions.")
    if at.folder is None:
        raise NotFound("this server has no folder of job files.")
    return at.folder


def _file_of(at: AppState, job: str, folder: FilePath) -> str:
    """The name of the file, built here: text from a request never becomes a path."""
    if job_id_of(job) != job or not job:
        raise InvalidArgument(f"invalid job id '{job}'.", hint=f"Write it as '{job_id_of(job) or 'report'}'.")
    known = at.operations.jobs.get(job)
    if known is None or known.file is None:
        return f"{job}.yaml"
    if FilePath(known.file).parent.resolve() != folder.resolve():
        raise Conflict(f"job '{job}' is defined in {known.file}, which is not a file of the folder itself.")
    return FilePath(known.file).name


def _write(path: FilePath, text: str) -> None:
    draft = path.with_name(f".{path.name}.new")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
