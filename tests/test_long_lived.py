"""Whether a long-lived process shares its heaps, and ends with a thread that dies; each in its own process."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import pytest
from click.testing import CliRunner

from evertick import long_lived
from evertick.cli.commands.serve import serve
from evertick.errors import SettingsError
from evertick.settings import Settings

HEAPS = """
import ctypes, threading
{before}
meet = threading.Barrier(9)
def work():
    kept = [bytes(600) for _ in range(100)]
    meet.wait()
    meet.wait()
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
meet.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
file = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, file)
libc.fclose(file)
"""
APART = """
import ctypes
{before}
del (large := [bytes(300_000)])[:]
kept = [bytes(300_000) for _ in range(50)]
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
file = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, file)
libc.fclose(file)
"""
COLLECTS = """
import weakref
from evertick.long_lived import collect_young, tune_collector
class Ring:
    pass
tune_collector()
kept = [[] for _ in range({kept})]
ring = Ring()
ring.itself, known = ring, weakref.ref(ring)
del ring
collect_young()
print("free" if known() is None else "there")
"""
DIES = """
import _thread, threading, time
from evertick.long_lived import end_with_any_thread
end_with_any_thread()
def die():
    raise {error}
{start}
time.sleep({seconds})
print("alive")
"""
A_THREAD = "thread = threading.Thread(target=die, name={name!r}); thread.start(); thread.join()"
WITHOUT_MEMORY_TO_START = "_thread.start_new_thread(die, ())"
"""What `Thread.start` calls: a thread that dies before it has said that it runs ends in the same way."""


def run(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("before", "is_limited"),
    [
        pytest.param("", False, id="each thread has its heap"),
        pytest.param("from evertick.long_lived import limit_heaps; limit_heaps()", True, id="limited"),
    ],
)
def test_heaps_do_not_grow_with_threads(before, is_limited):
    done = run(HEAPS.format(before=before))
    heaps = done.stdout.count("<heap ")
    assert heaps == 1 if is_limited else heaps > 2, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("before", "is_apart"),
    [
        pytest.param("", False, id="one that was freed lets the next ones into the heap"),
        pytest.param("from evertick.long_lived import limit_heaps; limit_heaps()", True, id="limited"),
    ],
)
def test_large_blocks_stay_out_of_the_heap(before, is_apart):
    done = run(APART.format(before=before))
    found = re.search(r'<total type="mmap" count="(\d+)"', done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert (int(found[1]) > 50) is is_apart, done.stdout


@pytest.mark.parametrize(
    ("kept", "is_freed"),
    [
        pytest.param(0, True, id="in quiet times"),
        pytest.param(100_000, False, id="not in a storm, which it would stop"),
    ],
)
def test_new_garbage_does_not_wait_for_the_collector(kept, is_freed):
    done = run(COLLECTS.format(kept=kept))
    assert done.stdout == ("free\n" if is_freed else "there\n"), done.stderr


def test_the_scheduler_limits_its_heaps_before_it_has_threads(tmp_path, monkeypatch):
    seen: list[str] = []
    for name in ("hide_process", "limit_heaps", "end_with_any_thread"):
        monkeypatch.setattr(long_lived, name, partial(seen.append, name))

    def load(*_: object, **__: object) -> None:
        seen.append("load")
        raise SettingsError("far enough")

    monkeypatch.setattr(Settings, "load", load)
    CliRunner().invoke(serve, [str(tmp_path)])
    assert seen == ["hide_process", "limit_heaps", "end_with_any_thread", "load"]


@pytest.mark.parametrize(
    ("start", "error", "said"),
    [
        pytest.param(
            A_THREAD.format(name="evertick-writer"),
            "ValueError('spoilt')",
            "the thread 'evertick-writer' ended with ValueError",
            id="one of ours",
        ),
        pytest.param(
            A_THREAD.format(name="IO loop"),
            "MemoryError",
            "the thread 'IO loop' is out of memory",
            id="any without memory",
        ),
        pytest.param(
            WITHOUT_MEMORY_TO_START, "MemoryError", "a thread or a callback is out", id="without memory to start"
        ),
    ],
)
def test_a_process_ends_with_a_thread_that_dies(start, error, said):
    done = run(DIES.format(start=start, error=error, seconds=250))
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"process.failed {said}" in done.stderr
    assert error.partition("(")[0] in done.stderr


def test_the_thread_of_a_library_may_die():
    done = run(DIES.format(start=A_THREAD.format(name="IO loop"), error="ValueError('spoilt')", seconds=0))
    assert (done.returncode, done.stdout) == (0, "alive\n")
    assert "spoilt" in done.stderr


FREES = """
import psutil
from evertick.long_lived import limit_heaps, tune_collector

limit_heaps()
blocks = [bytes(4_000) for _ in range(25_000)]
last = bytes(4_000)  # above them all: the C library could shorten its heap only down to here
del blocks
before = psutil.Process().memory_info().rss
tune_collector()
print((before - psutil.Process().memory_info().rss) // 1_000_000)
"""


def test_what_a_start_has_freed_goes_back_to_the_kernel():
    done = run(FREES)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50
