"""Can two processes ever own one folder, and is a dead owner recognised?"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from evertick.errors import SchedulerLockError
from evertick.model.instant import SECOND, to_text
from evertick.stores.lock import FolderLock, Owner, process_identity
from tests.present import present
from tests.stores.builders import NINE

HERE = socket.gethostname()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pipelines" / ".scheduler.lock"


def left_behind(path, **known):
    """A lock file as somebody else wrote it."""
    owner = {"pid": os.getpid(), "hostname": HERE, "started_at": NINE, "heartbeat_at": NINE, **known}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Owner(**owner).to_bytes())


@pytest.fixture
def dead_pid():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_lock_file_names_its_owner_and_the_time(path):
    FolderLock(path).acquire(NINE)
    document = json.loads(path.read_text())
    assert (document["pid"], document["hostname"]) == (os.getpid(), HERE)
    assert document["startedAt"] == document["heartbeat"] == "2026-03-02T09:00:00Z"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_held_folder_is_refused_in_words(path):
    FolderLock(path).acquire(NINE)
    with pytest.raises(SchedulerLockError) as refused:
        FolderLock(path).acquire(NINE + SECOND)
    for told in (str(path), str(os.getpid()), HERE, "2026-03-02T09:00:00Z", "Stop that one"):
        assert told in str(refused.value)


def test_a_released_folder_is_free(path):
    with FolderLock(path).acquire(NINE) as lock:
        assert lock.is_held
    assert not path.exists()
    FolderLock(path).acquire(NINE)


@pytest.mark.parametrize(
    ("known", "age_us", "is_live"),
    [
        pytest.param({"process": process_identity(os.getpid())}, 59 * SECOND, True, id="alive, seen lately"),
        pytest.param({"process": process_identity(os.getpid())}, 60 * SECOND, False, id="no heartbeat for a minute"),
        pytest.param({"process": ""}, 59 * SECOND, True, id="alive, by a program that does not name the process"),
        pytest.param({"process": "boot/1"}, 0, False, id="the pid belongs to another process by now"),
        pytest.param({"hostname": "elsewhere", "pid": 1}, 59 * SECOND, True, id="another machine, seen lately"),
        pytest.param({"hostname": "elsewhere", "pid": 1}, 60 * SECOND, False, id="another machine, silent"),
        pytest.param({"hostname": "elsewhere"}, -3600 * SECOND, True, id="another machine, whose clock is ahead"),
        pytest.param({"pid": 0}, 0, False, id="no process at all"),
        pytest.param({"pid": 2**40}, 0, False, id="a pid there cannot be"),
    ],
)
def test_whether_an_owner_is_at_work(path, known, age_us, is_live):
    left_behind(path, **known)
    lock = FolderLock(path)
    if is_live:
        with pytest.raises(SchedulerLockError):
            lock.acquire(NINE + age_us)
    else:
        lock.acquire(NINE + age_us)
    assert lock.is_held is not is_live


def test_a_dead_owner_on_this_machine_is_not_waited_for(path, dead_pid):
    left_behind(path, pid=dead_pid)
    assert FolderLock(path).acquire(NINE).is_held


def test_an_owner_that_has_ended_is_not_waited_for_because_its_parent_has_not_noticed(path):
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
    try:
        left_behind(path, pid=process.pid, process=process_identity(process.pid))
        assert FolderLock(path).acquire(NINE).is_held
    finally:
        process.wait()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"pid": null}', b"\xff\xfe", b"null"])
def test_a_lock_file_that_cannot_be_read_is_as_old_as_it_looks(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    os.utime(path, ns=(NINE * 1_000, NINE * 1_000))
    with pytest.raises(SchedulerLockError, match="an unknown machine"):
        FolderLock(path).acquire(NINE + 59 * SECOND)
    assert FolderLock(path).acquire(NINE + 60 * SECOND).is_held


def test_a_heartbeat_is_written_every_ten_seconds(path):
    lock = FolderLock(path).acquire(NINE)
    seen = []
    for second in range(25):
        lock.heartbeat(NINE + second * SECOND)
        seen.append(json.loads(path.read_text())["heartbeat"])
    assert seen == [to_text(NINE + second * SECOND) for second in [0] * 10 + [10] * 10 + [20] * 5]
    assert json.loads(path.read_text())["startedAt"] == to_text(NINE)


def test_a_clock_set_back_does_not_stop_the_heartbeat(path):
    lock = FolderLock(path).acquire(NINE)
    lock.heartbeat(NINE - 3600 * SECOND)
    assert json.loads(path.read_text())["heartbeat"] == to_text(NINE - 3600 * SECOND)


def test_an_owner_that_slept_learns_that_the_folder_was_taken_over(path):
    sleeper = FolderLock(path).acquire(NINE)
    FolderLock(path).acquire(NINE + 61 * SECOND)
    with pytest.raises(SchedulerLockError, match="taken over"):
        sleeper.heartbeat(NINE + 62 * SECOND)
    assert not sleeper.is_held
    sleeper.release()
    assert path.exists()  # it is the other one's


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("?")])
def test_a_deleted_or_damaged_lock_file_is_written_again(path, damage):
    lock = FolderLock(path).acquire(NINE)
    damage(path)
    lock.heartbeat(NINE + 10 * SECOND)
    with pytest.raises(SchedulerLockError):
        FolderLock(path).acquire(NINE + 11 * SECOND)


def test_a_heartbeat_needs_a_lock(path):
    with pytest.raises(SchedulerLockError, match="Acquire it first"):
        FolderLock(path).heartbeat(NINE)


def test_a_folder_that_cannot_be_used_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SchedulerLockError, match="Check the owner of the folder"):
        FolderLock(tmp_path / "file" / "x.lock").acquire(NINE)


STARTER = """
import sys
from evertick.errors import SchedulerLockError
from evertick.stores.lock import FolderLock

for order in sys.stdin:
    now = int(order)
    lock = FolderLock(sys.argv[1])
    try:
        lock.acquire(now)
        print("won", flush=True)
    except SchedulerLockError:
        print("lost", flush=True)
    sys.stdin.readline()
    lock.release()
    print("done", flush=True)
"""


@pytest.mark.slow
def test_exactly_one_starter_wins_a_stale_lock(path, dead_pid):
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]

    def tell_all(order: str) -> list[str]:
        for starter in starters:
            present(starter.stdin).write(order + "\n")
            present(starter.stdin).flush()
        return [present(starter.stdout).readline().strip() for starter in starters]

    try:
        for _ in range(40):
            left_behind(path, pid=dead_pid)
            assert sorted(tell_all(str(NINE))) == ["lost", "lost", "lost", "won"]
            assert tell_all("release") == ["done"] * 4
            assert not path.exists()
    finally:
        for starter in starters:
            present(starter.stdin).close()
            starter.wait()
            present(starter.stdout).close()
