"""Which job a decorated function is: the same fields as in a job file, read by the same reader."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from types import MappingProxyType
from typing import TypeVar

from evertick.definitions.parser import parse_definition
from evertick.errors import DefinitionError
from evertick.executors.function import Function, describe, name_of, underlying
from evertick.library.options import FIELD_NAMES, Duration, JobFields
from evertick.model.definition import definition_digest
from evertick.model.duration import format_duration, parse_duration
from evertick.model.instant import from_datetime, to_text
from evertick.model.job import Job, Origin
from evertick.model.routing import FLEET, LOCAL
from evertick.model.work import PythonCall, Step, Work
from evertick.settings import Settings

T = TypeVar("T", str, Duration, datetime | str)

WRITTEN_OTHERWISE = frozenset({"cron", "every", "at", "name", "retries", "retry_delay", "backoff", "max_delay"})
"""Arguments that stand elsewhere in a job file; each of the others is a field of the same name in camelCase."""


@dataclass(frozen=True, slots=True)
class JobFunction:
    """A job of code: what the scheduler plans, and what is called when it runs."""

    job: Job
    function: Function


def read_function(
    call: Callable[..., object], options: JobFields, settings: Settings, isolation: str | None
) -> JobFunction:
    """The job of a function; all errors are raised at once, where it is decorated."""
    function = describe(call, isolation)
    place = _place_of(call)
    if options.get("name") is None and name_of(call).endswith("<lambda>"):
        raise DefinitionError(
            "a lambda has no name that its job could have.",
            hint="Write name='...', or define it with 'def'.",
            field="name",
            file=place.rpartition(":")[0] or place,
        )
    # A text in JSON is one in YAML: what a job file refuses is refused here in the same words.
    folder = os.path.dirname(place.rpartition(":")[0] or place)
    parsed = parse_definition(json.dumps(_fields(call, options)), place, settings, folder=folder)
    if parsed.job is None:
        raise _told(call, place, parsed.errors)
    job = parsed.job
    if job.routing.executor != LOCAL:
        _check_remote(call, job.routing.executor, function, isolation, place)
    needed = [param.name for param in function.params if param.default is None]
    if needed and (job.schedules or job.after):
        raise DefinitionError(
            f"the job of '{name_of(call)}': the schedule does not set the parameter '{needed[0]}'.",
            hint="Give it a default, bind a value with functools.partial, or leave the schedule out.",
            field=needed[0],
            file=place.rpartition(":")[0] or place,
        )
    target = f"{underlying(call).__module__}:{name_of(call)}"
    work = Work((Step(job.id, PythonCall(target)),), params=function.params, timeout_us=job.work.timeout_us)
    origins = {name: _origin(value, place) for name, value in job.origins.items()}
    job = replace(job, work=work, file=place, origins=MappingProxyType(origins))
    job = replace(job, definition=definition_digest(job))
    return JobFunction(job, function)


def _check_remote(
    call: Callable[..., object], executor: str, function: Function, isolation: str | None, place: str
) -> None:
    """A member imports the function by its name and calls it with texts: nothing of this process reaches it."""
    module, wrong = underlying(call).__module__, ""
    typed = next((param.name for param in function.params if param.schema.get("type", "string") != "string"), None)
    if executor != FLEET:
        wrong, hint = f"a function cannot run on '{executor}'.", "Write executor='fleet', or leave it out."
    elif not inspect.isfunction(call) or "<" in call.__qualname__:
        wrong, hint = "a member cannot import it.", "Define it with 'def' at the top of a module."
    elif module == "__main__":
        wrong = "a member cannot import it from the file that was started."
        hint = "Move it into a module, and let 'bundle' bring that along."
    elif function.context_name is not None:
        wrong = f"a member cannot give it the context that '{function.context_name}' asks for."
        hint = "Call evertick.RunContext.from_environment() in it."
    elif typed is not None:
        wrong, hint = (
            f"a member passes parameters as text, but '{typed}' is not annotated as text.",
            "Annotate it with 'str'.",
        )
    elif isolation is not None:
        wrong, hint = (
            "'isolation' has no effect on the fleet.",
            "Leave it out: a member has a process for each attempt.",
        )
    if wrong:
        reason = f"the job of '{name_of(call)}': {wrong}"
        raise DefinitionError(reason, hint=hint, field="executor", file=place.rpartition(":")[0] or place)


def _fields(call: Callable[..., object], options: JobFields) -> dict[str, object]:
    name = options.get("name") or name_of(call).rpartition(".")[2].replace("_", "-")
    document = options.get("description")
    if document is None:
        document = _inspect_doc(underlying(call))
    fields: dict[str, object] = {"name": name, "command": "true"}
    schedules = [
        *({"cron": text} for text in _listed(options.get("cron"))),
        *({"every": _duration(span)} for span in _listed(options.get("every"))),
        *({"at": _moment(at)} for at in _listed(options.get("at"))),
    ]
    if schedules:
        fields["schedule"] = schedules
    for option, value in options.items():
        if option not in WRITTEN_OTHERWISE and value is not None:
            fields[_camel(option)] = plain_value(value)
    if document:
        fields["description"] = document
    retries, delay, backoff = options.get("retries"), options.get("retry_delay"), options.get("backoff")
    if retries is not None or delay is not None or backoff is not None:
        fields["retryPolicy"] = {
            "maxRetries": retries or 0,
            **({"retryDelay": _duration(delay)} if delay is not None else {}),
            **({"backoff": backoff} if backoff is not None else {}),
        }
    max_delay = options.get("max_delay")
    if max_delay is not None:
        fields["window"] = {"maxDelayMinutes": _minutes(max_delay)}
    return fields


def _inspect_doc(call: Callable[..., object]) -> str | None:
    """The first line of its docstring."""
    text = inspect.getdoc(call)
    return text.splitlines()[0].strip() if text and text.strip() else None


def _camel(option: str) -> str:
    head, *rest = option.split("_")
    return head + "".join(word.title() for word in rest)


def _listed(value: T | Sequence[T] | None) -> Sequence[T]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def plain_value(value: object) -> object:
    """An option as JSON has it."""
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, time):
        return value.isoformat("minutes")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain_value, value), key=str)  # the same in each process
    return [plain_value(part) for part in value] if isinstance(value, list | tuple) else value


def _duration(span: Duration) -> str:
    if not isinstance(span, timedelta):
        return span
    return format_duration(span // timedelta(microseconds=1))


def _moment(at: datetime | str) -> str:
    if not isinstance(at, datetime):
        return at
    # One without a zone is a time on the clocks of the job's own.
    return at.isoformat() if at.tzinfo is None else to_text(from_datetime(at))


def _minutes(span: Duration | int) -> int:
    """The window counts in whole minutes."""
    if isinstance(span, int):
        return span
    minutes, rest = divmod(parse_duration(_duration(span)), 60_000_000)
    if rest:
        raise DefinitionError(f"'max_delay' is {_duration(span)}; it counts in whole minutes.", field="max_delay")
    return minutes


def _place_of(call: Callable[..., object]) -> str:
    """`reports.py:12`, as a job file is named in errors and by `why`."""
    function = inspect.unwrap(underlying(call))
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else str(getattr(function, "__module__", None) or "code")


def _origin(origin: Origin, place: str) -> Origin:
    """The lines of the text that was made of a decorator mean nothing to its reader."""
    return Origin(place) if origin.file == place else origin


def _told(call: Callable[..., object], place: str, errors: Sequence[DefinitionError]) -> DefinitionError:
    arguments = {_camel(option): option for option in FIELD_NAMES if option not in WRITTEN_OTHERWISE}
    first = errors[0]
    more = (
        f" (and {len(errors) - 1} more: {'; '.join(str(other.reason) for other in errors[1:])})" if errors[1:] else ""
    )
    field = arguments.get(first.field or "", first.field)
    file, _, line = place.rpartition(":")
    return DefinitionError(
        f"the job of '{name_of(call)}': {first.reason}{more}",
        hint=first.hint,
        field=field,
        file=file or place,
        line=int(line) if line.isdigit() else None,
    )
