"""The runs of other jobs that steps of this keeper wait for: asked of every scheduler until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.model.subrun import SubRunEnd


class Call(NamedTuple):
    """One try of a step of an attempt that is a run of another job."""

    attempt_id: AttemptId
    step: str
    number: int


class _Waiting(NamedTuple):
    job_id: str
    line: bytes
    answer: asyncio.Future[SubRunEnd]


class SubRunCalls:
    def __init__(self, say: Callable[[bytes], None]) -> None:
        self._say = say
        self._waiting: dict[Call, _Waiting] = {}
        self._hung_up: list[bytes] = []
        """Said again to a scheduler that comes, until one has taken an ending in."""

    def make(self, call: Call, job_id: str, params: str, *, waits: bool) -> asyncio.Future[SubRunEnd]:
        (key, attempt), step, number = call
        line = protocol.encode(protocol.SUB_RUN_WANTED, *key, attempt, step, number, job_id, params, waits)
        answer: asyncio.Future[SubRunEnd] = asyncio.get_running_loop().create_future()
        self._waiting[call] = _Waiting(job_id, line, answer)
        self._say(line)
        return answer

    def answer(self, call: Call, end: SubRunEnd) -> None:
        waiting = self._waiting.pop(call, None)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(end)

    def hang_up(self, call: Call) -> None:
        waiting = self._waiting.pop(call, None)
        if waiting is not None:
            (key, attempt), step, number = call
            line = protocol.encode(protocol.SUB_RUN_UNWANTED, *key, attempt, step, number, waiting.job_id)
            self._hung_up.append(line)
            self._say(line)

    def lines(self) -> list[bytes]:
        """What a scheduler that has just come must know."""
        return [*(waiting.line for waiting in self._waiting.values()), *self._hung_up]

    def forget_hung_up(self) -> None:
        self._hung_up.clear()
