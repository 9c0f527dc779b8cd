"""How a process that runs for months keeps its memory, hides it from jobs, and ends when it is no longer whole."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

HEAPS_MAX: Final = 1
_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
APART_BYTES: Final = 128 * 1024
"""The C library begins with this limit, and raises it to the largest block that was ever freed."""
_PR_SET_DUMPABLE: Final = 4
COLLECTED_AFTER: Final = (500_000, 20, 50)
"""More than a storm of 20,000 per second has in flight: its runs end without a search. With 200,000 there was one each
second, which stopped the loop for 70 to 90 ms and found nothing. Garbage that only a search finds is rare here; 500,000
objects of it are about 75 MB, so a minute without a storm ends with a search of the newest (`collect_young`).
"""
YOUNG_MAX: Final = 50_000
"""With more new objects than this there is a storm, and a search would stop the loop for more than 10 ms."""
OWN_THREADS: Final = "evertick"
"""How the names of our threads begin; those of libraries may die without harm."""
GIVE_UP_SECONDS: Final = 90
"""How long a stop after an error may take: longer than the patience of each of its parts."""


def limit_heaps() -> None:
    """Let all threads share one heap of the C library; threads that run already keep theirs.

    glibc makes a heap for each of the first threads, up to eight per core, and memory that is freed in one is of no
    use to the others. The threads of the API build each answer in turn, so every heap grows to the largest answers:
    45 of 170 MiB were free and could not be used. The interpreter's lock lets only one of them work anyway.
    In a storm the loop and the writer free what the other one has made: 43 of 307 MB were such memory.

    Large blocks have pages of their own, which go back when they are freed. Among small blocks that stay, answers of a
    server left holes: after five minutes 13 of 35 MiB.
    """
    if sys.platform == "linux" and not os.environ.get("MALLOC_ARENA_MAX"):
        with contextlib.suppress(OSError, AttributeError):  # not every C library has it
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_ARENA_MAX, HEAPS_MAX)
            libc.mallopt(_M_MMAP_THRESHOLD, APART_BYTES)


def hide_process() -> None:
    """Hide this process's memory and environment (`/proc/PID/environ`, `mem`, debuggers) from its user's processes.

    Programs that it starts are not hidden: the kernel resets the flag on exec. Root still reads everything.
    On systems other than Linux it does nothing.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def tune_collector(threshold: tuple[int, int, int] = COLLECTED_AFTER) -> None:
    """Never look for garbage in what is there now (code, definitions), and in the rest less often than usual."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*threshold)
    _return_free_memory()


def collect_young() -> None:
    """Free the garbage among the objects that were made since the last search, unless there are very many."""
    if gc.get_count()[0] < YOUNG_MAX:
        gc.collect(0)


def _return_free_memory() -> None:
    """Give the kernel back what a start has used and freed; the C library keeps it for the process."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)


def end_with_any_thread() -> None:
    """End this process when one of its threads dies of an error, or memory is too short for a thread to start.

    It would otherwise seem alive without the thread, or wait forever for its start. Its end is the end that `kill -9`
    makes, from which the next process continues; the supervisor (systemd, Kubernetes, the scheduler for its API)
    starts it.
    """
    threading.excepthook = _thread_died
    sys.unraisablehook = _not_raised


def end_at_the_latest() -> None:
    """After an error, let the kernel end this process if its orderly stop hangs: that may need memory or a thread."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(GIVE_UP_SECONDS)


def _thread_died(died: threading.ExceptHookArgs) -> None:
    name = "" if died.thread is None else died.thread.name
    if name.startswith(OWN_THREADS) or issubclass(died.exc_type, MemoryError):
        _end(f"the thread '{name}'", died.exc_type, died.exc_value, died.exc_traceback)
    threading.__excepthook__(died)


def _not_raised(found: sys.UnraisableHookArgs) -> None:
    # A thread without memory for its first steps ends here, and the one that starts it waits for a sign of it.
    if issubclass(found.exc_type, MemoryError):
        _end("a thread or a callback", found.exc_type, found.exc_value, found.exc_traceback)
    sys.__unraisablehook__(found)


def _end(what: str, kind: type[BaseException], error: BaseException | None, where: TracebackType | None) -> None:
    reason = "is out of memory" if issubclass(kind, MemoryError) else f"ended with {kind.__name__}"
    try:
        traceback.print_exception(kind, error, where)
        text = f"process.failed {what} {reason}; this process ends and can be started again, nothing is lost\n"
        os.write(2, text.encode())
    finally:
        os._exit(1)
