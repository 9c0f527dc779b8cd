"""How prompts are sent: so many at once, each with its time, and in the order of the items."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, TypeVar

from evertick.kinds.pipeline.invoker import Answer, Call, Invoker, Question

LOOK_SECONDS: Final = 0.05
"""How often somebody who waits for an answer looks whether the run was cancelled."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Cancelled(Exception):
    """Somebody wants the run to end."""

    def __str__(self) -> str:
        return "Operation cancelled"


class TimedOut(Exception):
    """There was no answer in time."""

    def __init__(self, timeout_ms: int, tries: int) -> None:
        again = f", and after {2 * timeout_ms} ms when it was asked again" if tries > 1 else ""
        super().__init__(f"timed out after {timeout_ms} ms{again}")


@dataclass(frozen=True, slots=True)
class Line:
    """The way to an invoker, with the wish to stop looked at while waiting."""

    invoker: Invoker
    is_cancelled: Callable[[], bool] | None = None

    def check(self) -> None:
        if self.is_cancelled is not None and self.is_cancelled():
            raise Cancelled

    def ask(self, question: Question, timeout_ms: int, *, tries_again: bool = True) -> Answer:
        """The answer; when there is none in time, once more with double the time."""
        tries = 2 if tries_again else 1
        for number in range(tries):
            self.check()
            answer = self._try(question, timeout_ms * (number + 1) / 1_000)
            if answer is not None:
                return answer
        raise TimedOut(timeout_ms, tries)

    def _try(self, question: Question, seconds: float) -> Answer | None:
        # A thread of its own: an invoker that never returns must cost this call its time, and nobody else's.
        call = Call(question, seconds)
        box: list[Answer] = []
        is_done = threading.Event()
        _Asking(target=_answer, args=(self.invoker, call, box, is_done), daemon=True).start()
        deadline = time.monotonic() + seconds
        try:
            while not is_done.is_set():
                rest = deadline - time.monotonic()
                if rest <= 0:
                    return None
                is_done.wait(rest if self.is_cancelled is None else min(rest, LOOK_SECONDS))
                self.check()
            return box[0]
        finally:
            if not is_done.is_set():
                call.abort()


class _Asking(threading.Thread):
    """One call under way."""


def await_calls(seconds: float) -> None:
    """Let those that were told to end do so, for so long at most: a process that goes first leaves theirs alive."""
    deadline = time.monotonic() + seconds
    for thread in threading.enumerate():
        if isinstance(thread, _Asking):
            thread.join(max(deadline - time.monotonic(), 0))


def _answer(invoker: Invoker, call: Call, box: list[Answer], is_done: threading.Event) -> None:
    try:
        box.append(invoker(call))
    except BaseException as error:
        box.append(Answer(False, error=str(error) or type(error).__name__))
    finally:
        is_done.set()


def in_order(
    work: Callable[[_In], _Out],
    items: Sequence[_In],
    parallel: int,
    on_done: Callable[[int], object] | None = None,
) -> list[_Out]:
    """The result of each item in the order of the items, `parallel` of them under way at any time."""
    if not items:
        return []
    with ThreadPoolExecutor(min(parallel, len(items)), thread_name_prefix="pipeline") as pool:
        futures = [pool.submit(work, item) for item in items]
        done, waiting = 0, set(futures)
        try:
            while waiting:
                # Never without an end: a signal that comes just before the main thread sleeps is seen when it wakes up.
                ended, waiting = wait(waiting, LOOK_SECONDS, FIRST_COMPLETED)
                for future in ended:
                    future.result()
                    done += 1
                    if on_done is not None:
                        on_done(done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]
