"""Whether a condition holds: a file is there, a command agrees, an address answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from evertick.executors.keeper.process import UNCONFINED, HttpTry, Living, ProcessTry, Tools
from evertick.executors.keeper.processes import NoRoom
from evertick.executors.keeper.sandbox import Confinement
from evertick.kinds import Unready
from evertick.kinds.command import program_of
from evertick.kinds.http import HttpRequest, parse_url, shown
from evertick.model.pattern import PatternError, compile_pattern
from evertick.model.work import Command, Condition, ConditionKind

PATIENCE_SECONDS = 60.0
"""A condition that has not answered by then does not hold."""
OUTPUT_MAX = 64 * 1024
REGEX = "re:"


async def why_unmet(
    condition: Condition,
    tools: Tools,
    env: Mapping[str, str],
    folder: str | None,
    marks: frozenset[bytes],
    attend: Callable[[Living], None],
    confinement: Confinement = UNCONFINED,
) -> str | None:
    """In words why it does not hold; None when it does. `attend` is given whatever must end with the attempt."""
    try:
        match condition.kind:
            case ConditionKind.FILE_EXISTS:
                return await _file(condition.value, folder)
            case ConditionKind.COMMAND:
                return await _command(condition, tools, env, folder, marks, attend, confinement)
            case ConditionKind.HTTP:
                return await _http(condition.value, tools, attend)
    except (Unready, OSError, NoRoom) as error:
        return str(error)


async def _file(path: str, folder: str | None) -> str | None:
    # Made absolute here and now: the working folder of the keeper changes for a moment with every start.
    path = os.path.abspath(os.path.join(folder or "", os.path.expanduser(path)))
    # In a thread: a network folder that is away answers late, and must hold nobody else up.
    exists = await asyncio.to_thread(os.path.exists, path)
    return None if exists else f"there is no file {path!r}"


async def _command(
    condition: Condition,
    tools: Tools,
    env: Mapping[str, str],
    folder: str | None,
    marks: frozenset[bytes],
    attend: Callable[[Living], None],
    confinement: Confinement = UNCONFINED,
) -> str | None:
    program = program_of(Command((condition.value,), is_shell=True))
    process = ProcessTry(tools, program, env, folder, marks, _ignore, OUTPUT_MAX, confinement)
    process.start()
    attend(process)
    patience = tools.loop.call_later(PATIENCE_SECONDS, process.end)
    end = await process.ended()
    patience.cancel()
    if condition.expected is None:
        return None if end.is_good else f"the command {condition.value!r} says {end.detail}"
    capture = process.output()
    assert capture is not None
    found = capture.value().decode("utf-8", "replace").removesuffix("\n")
    if condition.expected.startswith(REGEX):
        try:
            pattern = compile_pattern(condition.expected.removeprefix(REGEX))
            # In a thread: a large expression over much output takes a second, and others are due.
            holds = await asyncio.to_thread(pattern.matches_part, found)
        except PatternError as error:
            raise Unready(f"{condition.expected!r} is not a regular expression: {error}.") from None
    else:
        holds = found == condition.expected
    return None if holds else f"the command {condition.value!r} prints {found[:100]!r}, not {condition.expected!r}"


async def _http(url: str, tools: Tools, attend: Callable[[Living], None]) -> str | None:
    parse_url(url)
    call = HttpTry(tools, HttpRequest(url))
    attend(call)
    patience = tools.loop.call_later(PATIENCE_SECONDS, call.end)
    answer = await call.ended()
    patience.cancel()
    return None if answer.is_good else f"{shown(url)}: {answer.detail}"


async def why_refused(
    url: str, headers: tuple[tuple[str, str], ...], tools: Tools, attend: Callable[[Living], None]
) -> str | None:
    """In words why an address that is asked before or after a run does not agree; None when it answers with 200."""
    try:
        parse_url(url)
        call = HttpTry(tools, HttpRequest(url, headers=headers, expected_statuses=(200,)))
    except Unready as error:
        return str(error)
    attend(call)
    patience = tools.loop.call_later(PATIENCE_SECONDS, call.end)
    answer = await call.ended()
    patience.cancel()
    return None if answer.is_good else answer.detail


def _ignore(data: bytes) -> None:
    """What a condition prints beside its answer."""
