"""Describes a function so that it can be called for a run, and turns its result or error into text."""

from __future__ import annotations

import functools
import inspect
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import get_type_hints

from evertick.errors import DefinitionError
from evertick.executors.callable_reference import NotImportable, reference_of
from evertick.executors.context import RunContext
from evertick.model.work import Param

DETAIL_MAX = 2_000
"""Characters of a result or an error that the ledger keeps."""


class Isolation(StrEnum):
    """Where a function runs."""

    THREAD = "thread"
    """A thread of this process. It cannot be killed; a cancel asks it to stop."""
    LOOP = "loop"
    """The event loop that the scheduler was started from; for `async def` only. A cancel ends it at its next await."""
    PROCESS = "process"
    """A process for each attempt, which a cancel or a timeout ends."""


_SCHEMAS: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function, and how to call it for a run."""

    call: Callable[..., object]
    isolation: Isolation
    context_name: str | None = None
    """The parameter that receives the `RunContext`."""
    params: tuple[Param, ...] = ()
    """The parameters that a request may set; one without a default is required."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(underlying(self.call))

    def arguments(self, context: RunContext) -> dict[str, object]:
        """The keyword arguments: the context, and the given parameters that the function declares."""
        given = {
            param.name: _value(str(param.schema.get("type", "string")), context.params[param.name])
            for param in self.params
            if param.name in context.params
        }
        return given if self.context_name is None else {**given, self.context_name: context}


def underlying(call: Callable[..., object]) -> Callable[..., object]:
    """The function behind a callable: that of a `functools.partial`, or the `__call__` of an object."""
    while isinstance(call, functools.partial):
        call = call.func
    if hasattr(call, "__qualname__"):
        return call
    method: Callable[..., object] = type(call).__call__
    return method


def name_of(call: Callable[..., object]) -> str:
    """The name of a callable: its own, that of the function behind a partial, or its class."""
    while isinstance(call, functools.partial):
        call = call.func
    return str(getattr(call, "__qualname__", None) or type(call).__qualname__)


def describe(call: Callable[..., object], isolation: str | None = None) -> Function:
    """Read a function's signature; `DefinitionError` if it can never be called for a run."""
    if not callable(call):
        raise DefinitionError(
            f"{call!r} is not a function.",
            hint="Write the function without calling it; functools.partial(function, ...) binds arguments to it.",
        )
    name = name_of(call)
    is_async = inspect.iscoroutinefunction(underlying(call))
    chosen = _isolation(isolation, is_async, name)
    if chosen is Isolation.PROCESS:
        try:
            reference_of(call)
        except NotImportable as error:
            raise DefinitionError(
                f"'{name}' cannot be found from another process: {error}.",
                hint=f"{error.hint}, or use isolation='thread'.",
                field="isolation",
            ) from None
    hints = _hints(underlying(call))
    context_name: str | None = None
    params = []
    for parameter in _signature(call, name).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = hints.get(parameter.name, str)
        if annotation is RunContext:
            context_name = parameter.name
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise DefinitionError(
                f"parameter '{parameter.name}' of '{name}' is positional only.",
                hint="Give it a default, or make it a keyword parameter.",
            )
        schema = _SCHEMAS.get(annotation) if isinstance(annotation, type) else None
        has_default = parameter.default is not parameter.empty
        if schema is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            default = _text(parameter.default) if has_default else None
            params.append(Param(parameter.name, default, {"type": schema}))
        elif not has_default:
            raise DefinitionError(
                f"parameter '{parameter.name}' of '{name}' can never be set: a request carries texts and numbers.",
                hint="Annotate it with str, int, float, bool or RunContext, or give it a default.",
            )
    return Function(call, chosen, context_name, tuple(params))


def _signature(call: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):
        raise DefinitionError(
            f"the parameters of '{name}' cannot be read.", hint="Decorate a Python function that calls it."
        ) from None


def _isolation(written: str | None, is_async: bool, name: str) -> Isolation:
    if written is None:
        return Isolation.LOOP if is_async else Isolation.THREAD
    try:
        chosen = Isolation(written)
    except ValueError:
        raise DefinitionError(
            f"unknown isolation '{written}'.",
            hint=f"Write one of: {', '.join(Isolation)}.",
            field="isolation",
        ) from None
    if chosen is Isolation.LOOP and not is_async:
        raise DefinitionError(
            f"'{name}' is not async and would block the event loop.",
            hint="Use isolation='thread' or 'process', or make it 'async def'.",
            field="isolation",
        )
    return chosen


def _hints(call: Callable[..., object]) -> Mapping[str, object]:
    try:
        return get_type_hints(call)
    except Exception:
        # An annotation that only a type checker can resolve; the context may still be found by its name.
        names = getattr(call, "__annotations__", {})
        return MappingProxyType(
            {name: RunContext if str(kind).endswith("RunContext") else kind for name, kind in names.items()}
        )


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else "" if value is None else str(value)


def _value(kind: str, text: str) -> object:
    match kind:
        case "integer":
            return int(text)
        case "number":
            return float(text)
        case "boolean":
            return text == "true"
        case _:
            return text


def result_text(result: object) -> str:
    """A function's result for the ledger: a text as it is, anything else as JSON if possible."""
    if result is None:
        return ""
    try:
        text = result if isinstance(result, str) else json.dumps(result, default=repr, ensure_ascii=False)
    except Exception:
        text = f"<{type(result).__name__}>"
    return clipped(text)


def error_text(error: BaseException) -> str:
    """A function's exception for the ledger: the error, and the file and line that raised it."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        location = f" ({frames[-1].filename}:{frames[-1].lineno})"
        return clipped(text, DETAIL_MAX - len(location)) + location
    return clipped(text)


def clipped(text: str, longest: int = DETAIL_MAX) -> str:
    # Characters that a database rejects must not keep the rest of a batch out of the ledger.
    text = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
