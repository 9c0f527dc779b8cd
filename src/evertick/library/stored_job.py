"""How a job that a program added is written to the ledger and read at the next start: names and values, no code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NotRequired, TypedDict, cast

from evertick.errors import DefinitionError
from evertick.executors.callable_reference import CallableReference, NotImportable, NotPlain, reference_of
from evertick.executors.function import Function, Isolation, name_of
from evertick.library.definition import JobFunction, plain_value, read_function
from evertick.library.options import JobFields
from evertick.model.definition import definition_digest
from evertick.model.job import Job
from evertick.model.plain_json import Json, parse_json
from evertick.model.work import PythonCall, Step, Work
from evertick.settings import Settings

FORMAT: Final = 1


class _Written(TypedDict):
    """The text in the ledger, as JSON."""

    format: int
    call: str
    options: JobFields
    program: NotRequired[str]
    args: NotRequired[Sequence[Json]]
    kwargs: NotRequired[Mapping[str, Json]]
    isolation: NotRequired[str]


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """What the ledger keeps of a job: the name of its callable, and its options."""

    reference: CallableReference
    options: JobFields
    """Those that were given, as JSON values."""
    isolation: str | None

    @property
    def text(self) -> str:
        parts = {
            "format": FORMAT,
            "call": self.reference.target,
            "program": self.reference.program,
            "args": list(self.reference.args),
            "kwargs": dict(self.reference.kwargs),
            "isolation": self.isolation,
            "options": self.options,
        }
        return json.dumps({name: part for name, part in parts.items() if part}, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> StoredDefinition:
        """`ValueError` if it is not what a version up to this one writes."""
        try:
            parts = cast(_Written, parse_json(text))
            if parts["format"] > FORMAT:
                raise ValueError(f"a newer Evertick has written it (format {parts['format']})")
            module, _, name = parts["call"].partition(":")
            kwargs = MappingProxyType(dict(parts.get("kwargs", {})))
            reference = CallableReference(module, name, tuple(parts.get("args", ())), kwargs, parts.get("program", ""))
            return cls(reference, _plain_options(parts.get("options", {})), parts.get("isolation"))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is not the definition of a job: {type(error).__name__}: {error}") from error

    def changed(self, options: JobFields, isolation: str | None) -> StoredDefinition:
        return replace(self, options=_plain_options(options), isolation=isolation)


def store_definition(
    call: Callable[..., object], job: Job, options: JobFields, isolation: str | None
) -> StoredDefinition:
    """What the ledger keeps of a job; `DefinitionError` if the next start could not find its callable."""
    try:
        reference = reference_of(call)
        if reference.load() != call and not reference.args and not reference.kwargs:
            raise NotImportable(f"'{reference.target}' is the name of another object")
    except NotImportable as error:
        verb = "call" if isinstance(error, NotPlain) else "find"
        raise DefinitionError(
            f"the job '{job.id}': the next start cannot {verb} '{name_of(call)}': {error}.",
            hint=f"{error.hint}, or write persist=False and add the job at each start.",
            field="persist",
            file=job.file,
        ) from None
    named: JobFields = {**options, "name": options.get("name") or job.name}
    return StoredDefinition(reference, _plain_options(named), isolation)


def _plain_options(options: JobFields) -> JobFields:
    return cast(JobFields, {name: plain_value(value) for name, value in options.items() if value is not None})


def read_stored(stored: StoredDefinition, job_id: str, settings: Settings) -> JobFunction:
    """The job that the ledger keeps; one that cannot run as it is written is `invalid`, and keeps its schedule."""
    try:
        return read_function(stored.reference.load(), stored.options, settings, stored.isolation)
    except NotImportable as error:
        reason = f"its function '{stored.reference.target}' cannot be found: {error}"
    except DefinitionError as error:
        reason = error.reason.rstrip(".")
    missing = _Missing(f"{reason}. Next: deploy the function again, or remove the job")
    try:
        job = read_function(missing, stored.options, settings, None).job
    except DefinitionError:
        return invalid_job(job_id, reason)
    work = Work((Step(job.id, PythonCall(stored.reference.target)),), timeout_us=job.work.timeout_us)
    job = replace(job, work=work, file=stored.reference.target, invalid=missing.reason)
    job = replace(job, definition=definition_digest(job))
    return JobFunction(job, Function(missing, Isolation.THREAD))


def check_stored(stored: StoredDefinition, settings: Settings) -> None:
    """`DefinitionError` if its options cannot be those of a job; its callable may be missing."""
    try:
        call = stored.reference.load()
    except NotImportable as error:
        try:
            read_function(_Missing(str(error), stored.reference.name), stored.options, settings, None)
        except DefinitionError as wrong:
            file = stored.reference.target
            raise DefinitionError(wrong.reason, hint=wrong.hint, field=wrong.field, file=file) from None
    else:
        read_function(call, stored.options, settings, stored.isolation)


def invalid_job(job_id: str, reason: str) -> JobFunction:
    """A job of which only the id is known: it keeps its place until its definition can be read."""
    missing = _Missing(f"{reason}. Next: remove the job, or add it again with replace_existing=True")
    return JobFunction(Job(job_id, job_id, invalid=missing.reason), Function(missing, Isolation.THREAD))


class _Missing:
    """In the place of a callable that cannot be found: a requested run fails with the reason."""

    def __init__(self, reason: str, name: str = "") -> None:
        self.reason = reason
        self.__qualname__ = name or type(self).__qualname__

    def __call__(self) -> None:
        raise RuntimeError(self.reason)
