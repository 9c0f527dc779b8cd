"""The contract of what answers a prompt, and the caller that sends prompts to it, in parallel and with a timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True)
class Answer:
    success: bool
    response: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt, and the shape of the answer."""

    prompt: str
    fields: tuple[str, ...] = ()
    """Empty: any text."""
    count: int | None = None
    """How many objects with these fields; None: one, not in a list."""
    model: str | None = None
    directory: str = "."


@dataclass(slots=True)
class Call:
    """One try of a question. It is aborted on timeout or when the run is cancelled."""

    question: Question
    timeout_seconds: float
    aborted: threading.Event = field(default_factory=threading.Event)
    _on_abort: list[Callable[[], object]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_abort(self, act: Callable[[], object]) -> None:
        """Register what ends the call; called at once if it was aborted already."""
        with self._lock:
            if not self.aborted.is_set():
                self._on_abort.append(act)
                return
        act()

    def abort(self) -> None:
        with self._lock:
            self.aborted.set()
            acts = list(self._on_abort)
        for act in acts:
            act()


Invoker: TypeAlias = Callable[[Call], Answer]
"""Called from several threads at once. An exception is a failed answer."""


LOOK_SECONDS: Final = 0.05
"""How often a waiting caller checks whether the run was cancelled."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Cancelled(Exception):
    """The run was cancelled."""

    def __str__(self) -> str:
        return "Operation cancelled"


class TimedOut(Exception):
    """No answer in time."""

    def __init__(self, timeout_ms: int, tries: int) -> None:
        again = f", and after {2 * timeout_ms} ms on retry" if tries > 1 else ""
        super().__init__(f"timed out after {timeout_ms} ms{again}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends questions to an invoker, and stops waiting when the run is cancelled."""

    invoker: Invoker
    is_cancelled: Callable[[], bool] | None = None

    def check(self) -> None:
        if self.is_cancelled is not None and self.is_cancelled():
            raise Cancelled

    def ask(self, question: Question, timeout_ms: int, *, tries_again: bool = True) -> Answer:
        """The answer; on timeout it asks once more with double the time."""
        tries = 2 if tries_again else 1
        for number in range(tries):
            self.check()
            answer = self._try(question, timeout_ms * (number + 1) / 1_000)
            if answer is not None:
                return answer
        raise TimedOut(timeout_ms, tries)

    def _try(self, question: Question, seconds: float) -> Answer | None:
        # A thread of its own: an invoker that never returns must not block other calls.
        call = Call(question, seconds)
        box: list[Answer] = []
        is_done = threading.Event()
        _CallThread(target=_answer, args=(self.invoker, call, box, is_done), daemon=True).start()
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


class _CallThread(threading.Thread):
    """A call in progress."""


def await_calls(seconds: float) -> None:
    """Wait for aborted calls to end, so that their child processes do not outlive this one."""
    deadline = time.monotonic() + seconds
    for thread in threading.enumerate():
        if isinstance(thread, _CallThread):
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
    """The result of each item, in the order of the items, with `parallel` of them in progress."""
    if not items:
        return []
    with ThreadPoolExecutor(min(parallel, len(items)), thread_name_prefix="pipeline") as pool:
        futures = [pool.submit(work, item) for item in items]
        done, waiting = 0, set(futures)
        try:
            while waiting:
                # With a timeout: a signal just before the main thread sleeps is handled when it wakes up.
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
