"""Kill the scheduler at calls of the store, one after another: `python -m tests.crash.runner URL FOLDER COUNT OFFSET`.

A program of its own, single-threaded and with everything imported, so that a child costs a fork. Each child opens
the store itself: nothing that is open is ever shared. What it found is printed as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from evertick.operations.verification import verify_store
from evertick.stores import open_store
from tests.crash.driver import Driver, Mortal, history
from tests.present import present
from tests.share import share_of

MISMATCHES_MAX = 5


def main(url: str, folder: Path, count: int, offset: int) -> int:
    emptied(url, folder).close()  # imports what is imported late, once for all children
    gc.freeze()  # a child that looks through all of it would copy it
    reference = present(in_child(lambda: fault_free(url, folder)))
    mismatches = []
    cases = 0
    for call in share_of(range(1, len(reference["calls"]) + 1), count, offset):
        for is_after in (False, True):
            cases += 1
            found = after_a_crash(url, folder, call, is_after=is_after)
            if found["history"] != reference["history"] or not found["is_sound"]:
                when = f"{'after' if is_after else 'before'} call {call}, {reference['calls'][call - 1]}"
                mismatches.append({"when": when, **differences(reference["history"], found)})
        if len(mismatches) >= MISMATCHES_MAX:
            break
    print(json.dumps({**reference, "cases": cases, "mismatches": mismatches}))  # noqa: T201
    return 0


def fault_free(url: str, folder: Path) -> dict:
    store = Mortal(emptied(url, folder), 0, is_after=False, die=die)
    Driver(store, folder, "only").run()
    return {"calls": list(store.calls), **found_in(store)}


def after_a_crash(url: str, folder: Path, call: int, *, is_after: bool) -> dict:
    def first() -> dict:
        Driver(Mortal(emptied(url, folder), call, is_after=is_after, die=die), folder, "first").run()
        raise AssertionError(f"it was to die at call {call} and did not come to it")

    def second() -> dict:
        store = open_store(url)
        Driver(store, folder, "second").run()
        return found_in(store)

    assert in_child(first, is_to_die=True) is None
    return present(in_child(second))


def found_in(store) -> dict:
    return {"history": history(store), "is_sound": verify_store(store).is_sound}


def emptied(url: str, folder: Path):
    """The store of the URL with nothing in it; `folder` holds all that is no server's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    store = open_store(url)
    if not url.startswith(("sqlite", "files")):
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            for table in set(sa.inspect(connection).get_table_names()) - {"evertick_schema"}:
                connection.execute(sa.text(f"DELETE FROM {table}"))
    return store


def in_child(work: Callable[[], dict], *, is_to_die: bool = False) -> dict | None:
    """Do it in a process of its own; answers what it answers, or None for one that was to die and did."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        code = 1
        try:
            with os.fdopen(theirs, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    expected = -signal.SIGKILL if is_to_die else 0
    ended = os.waitstatus_to_exitcode(status)
    assert ended == expected, f"the child ended with {ended}, not {expected}"
    return None if is_to_die else json.loads(answer)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def differences(expected: list[list[str]], found: dict) -> dict:
    left, right = ({tuple(line) for line in lines} for lines in (expected, found["history"]))
    return {
        "is_sound": found["is_sound"],
        "missing": [" ".join(line) for line in sorted(left - right)],
        "unexpected": [" ".join(line) for line in sorted(right - left)],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
