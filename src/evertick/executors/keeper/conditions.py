"""Checks conditions and hooks: a file exists, a command succeeds, a URL answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from evertick.executors.keeper.process import UNCONFINED, Cancellable, HttpTry, ProcessTry, Runtime
from evertick.executors.keeper.sandbox import Confinement
from evertick.executors.keeper.spawn import NoCapacity
from evertick.kinds import StepError
from evertick.kinds.command import command_program
from evertick.kinds.http import HttpRequest, parse_url, shown
from evertick.model.pattern import PatternError, compile_pattern
from evertick.model.work import Command, Condition, ConditionKind

TIMEOUT_SECONDS = 60.0
"""A condition that has no result by then is not met."""
OUTPUT_MAX = 64 * 1024
REGEX = "re:"


async def why_unmet(
    condition: Condition,
    runtime: Runtime,
    env: Mapping[str, str],
    folder: str | None,
    marks: frozenset[bytes],
    add: Callable[[Cancellable], None],
    confinement: Confinement = UNCONFINED,
) -> str | None:
    """Why the condition is not met; None if it is. `add` registers what must be cancelled with the attempt."""
    try:
        match condition.kind:
            case ConditionKind.FILE_EXISTS:
                return await _file(condition.value, folder)
            case ConditionKind.COMMAND:
                return await _command(condition, runtime, env, folder, marks, add, confinement)
            case ConditionKind.HTTP:
                return await _http(condition.value, runtime, add)
    except (StepError, OSError, NoCapacity) as error:
        return str(error)


async def _file(path: str, folder: str | None) -> str | None:
    # Absolute, because the keeper changes its working folder for a moment with every start.
    path = os.path.abspath(os.path.join(folder or "", os.path.expanduser(path)))
    # In a thread: an unreachable network folder answers late and must not block the event loop.
    exists = await asyncio.to_thread(os.path.exists, path)
    return None if exists else f"the file {path!r} does not exist"


async def _command(
    condition: Condition,
    runtime: Runtime,
    env: Mapping[str, str],
    folder: str | None,
    marks: frozenset[bytes],
    add: Callable[[Cancellable], None],
    confinement: Confinement = UNCONFINED,
) -> str | None:
    program = command_program(Command((condition.value,), is_shell=True))
    process = ProcessTry(runtime, program, env, folder, marks, _ignore, OUTPUT_MAX, confinement)
    process.start()
    add(process)
    timer = runtime.loop.call_later(TIMEOUT_SECONDS, process.cancel)
    end = await process.ended()
    timer.cancel()
    if condition.expected is None:
        return None if end.is_good else f"the command {condition.value!r} failed: {end.detail}"
    capture = process.output()
    assert capture is not None
    found = capture.value().decode("utf-8", "replace").removesuffix("\n")
    if condition.expected.startswith(REGEX):
        try:
            pattern = compile_pattern(condition.expected.removeprefix(REGEX))
            # In a thread: a large expression over much output may take a second.
            holds = await asyncio.to_thread(pattern.matches_part, found)
        except PatternError as error:
            raise StepError(f"{condition.expected!r} is not a valid regular expression: {error}.") from None
    else:
        holds = found == condition.expected
    return None if holds else f"the command {condition.value!r} printed {found[:100]!r}, not {condition.expected!r}"


async def _http(url: str, runtime: Runtime, add: Callable[[Cancellable], None]) -> str | None:
    detail = await _call(HttpRequest(url), runtime, add)
    return None if detail is None else f"{shown(url)}: {detail}"


async def why_refused(
    url: str, headers: tuple[tuple[str, str], ...], runtime: Runtime, add: Callable[[Cancellable], None]
) -> str | None:
    """Why a hook, called before or after a run, does not agree; None if it answers with 200."""
    try:
        return await _call(HttpRequest(url, headers=headers, expected_statuses=(200,)), runtime, add)
    except StepError as error:
        return str(error)


async def _call(request: HttpRequest, runtime: Runtime, add: Callable[[Cancellable], None]) -> str | None:
    parse_url(request.url)
    call = HttpTry(runtime, request)
    add(call)
    timer = runtime.loop.call_later(TIMEOUT_SECONDS, call.cancel)
    answer = await call.ended()
    timer.cancel()
    return None if answer.is_good else answer.detail


def _ignore(data: bytes) -> None:
    """The output of a condition is not logged."""
