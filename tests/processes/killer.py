"""Kill a scheduler again and again: `python -m tests.processes.killer '{"config": {...}, "kills": 100, "seed": 1}'`.

A program of its own, single-threaded and with everything imported, so that each scheduler costs a fork. Each is
killed when it has said a drawn number of things: launches, and calls of the store. Now and then one is killed only
when nothing waits any more: on a busy machine the backlog of so short lives would grow without end. The last one shuts
down in order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from random import Random

from evertick.stores import open_store
from tests.processes.node import Config, run, teller

EARLY_MAX = 30
LATE_MAX = 300
CALM_EACH = 25
"""Each of this many lives lasts until nothing waits."""


def _has_lines(count: int, said: bytes) -> bool:
    return said.count(b"\n") >= count


def _is_settled(said: bytes) -> bool:
    return b"\nsettled\n" in said


def main(config: Config, kills: int, seed: int) -> int:
    open_store(config.url).close()  # imports what is imported late, once for all children
    random = Random(seed)
    began = time.monotonic()
    for number in range(1, kills + 1):
        # Half of them early: while the ledger is read, taken over and reconciled.
        lines = random.randint(1, EARLY_MAX if random.random() < 0.5 else LATE_MAX)
        is_enough = _is_settled if number % CALM_EACH == 0 else partial(_has_lines, lines)
        end_when(config, is_enough, signal.SIGKILL)
    # It must have told of its calls: else the kills before fell between them by luck alone.
    end_when(config, lambda said: _is_settled(said) and b"\nbefore commit\n" in said, signal.SIGTERM)
    print(json.dumps({"kills": kills, "seconds": round(time.monotonic() - began, 1)}))  # noqa: T201
    return 0


def end_when(config: Config, is_enough: Callable[[bytes], bool], end: signal.Signals) -> None:
    """Start a scheduler, and end it when what it has said is enough."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        code = 1
        try:
            code = run(config, teller(theirs))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)
    said = b""
    is_asked = False
    while words := os.read(ours, 65_536):
        if not is_asked:
            said += words
            if is_enough(said):
                os.kill(pid, end)
                is_asked = True
    os.close(ours)
    _, status = os.waitpid(pid, 0)
    ended, expected = os.waitstatus_to_exitcode(status), -end if end is signal.SIGKILL else 0
    assert is_asked, f"the scheduler ended by itself, with {ended}: {said[-300:]!r}"
    assert ended == expected, f"the scheduler ended with {ended}, not {expected}"


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    sys.exit(main(Config(**order["config"]), order["kills"], order["seed"]))
