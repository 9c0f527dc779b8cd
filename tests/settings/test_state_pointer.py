"""Is the state of a scheduler found from its folder, and are notes of other users ignored?"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evertick.settings import state_pointer
from evertick.settings.state_pointer import POINTER_FILE, StatePointer, find_state, note_place, read_place
from tests.present import present

NOBODY, SERVICE = 65534, 65533
is_root = os.geteuid() == 0


@pytest.fixture
def spot(tmp_path) -> Iterator[Path]:
    """A folder that other users can reach, unlike that of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-")) if is_root else tmp_path
    folder.chmod(0o755)
    yield folder
    if is_root:
        shutil.rmtree(folder)


@pytest.fixture
def jobs(spot) -> Path:
    (spot / "jobs").mkdir(mode=0o755)
    return spot / "jobs"


@pytest.fixture
def state(spot) -> Path:
    (spot / "state").mkdir(mode=0o700)
    return spot / "state"


def own(jobs: Path) -> Path:
    return jobs / ".evertick"


def home(spot: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(spot / "home")}


def as_user(uid: int, do: Callable[[], bool]) -> bool:
    """Do something as another user, in a process of its own; without root it is done as this one."""
    if not is_root:
        return do()
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            code = 0 if do() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_state_elsewhere_is_found_from_the_folder(jobs, state, spot):
    assert note_place(jobs, state, "", own(jobs), home(spot))
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(state)
    assert (jobs / POINTER_FILE).exists()
    assert present(read_place(state)).folder == jobs


def test_a_folder_of_its_own_needs_no_pointer_and_takes_an_older_one_away(jobs, state, spot):
    note_place(jobs, state, "", own(jobs), home(spot))
    own(jobs).mkdir()
    note_place(jobs, own(jobs), "", own(jobs), home(spot))
    assert not (jobs / POINTER_FILE).exists()
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(None)


def test_the_scheduler_that_was_started_last_is_the_one(jobs, state, spot):
    own(jobs).mkdir()
    note_place(jobs, own(jobs), "", own(jobs), home(spot))
    os.utime(own(jobs) / "place.json", (1, 1))
    note_place(jobs, state, "", own(jobs), home(spot))
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(state)
    os.utime(jobs / POINTER_FILE, (0, 0))
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(None)


def test_where_it_may_not_write_beside_its_jobs_it_is_found_by_its_user(spot):
    """The jobs are another user's, and only the scheduler's user looks."""
    (spot / "jobs").mkdir(mode=0o555)
    (spot / "home").mkdir(mode=0o777)
    (spot / "home").chmod(0o777)
    (spot / "mine").mkdir()
    os.chown(spot / "mine", NOBODY if is_root else os.geteuid(), -1)
    jobs, mine = spot / "jobs", spot / "mine"
    assert as_user(NOBODY, lambda: note_place(jobs, mine, "", own(jobs), home(spot)))
    assert not (jobs / POINTER_FILE).exists()
    assert as_user(NOBODY, lambda: find_state(jobs, own(jobs), home(spot)) == StatePointer(mine))


@pytest.fixture
def unit(spot, monkeypatch) -> Path:
    """What systemd gives a service: a folder below one that only root may write to."""
    run = spot / "run" / "evertick"
    run.mkdir(parents=True, mode=0o755)
    os.chown(run, SERVICE if is_root else os.geteuid(), -1)
    monkeypatch.setattr(state_pointer, "SYSTEM_FOLDERS", (run,))
    return run


def serve_as_unit(jobs: Path, state: Path, unit: Path) -> bool:
    environ = {"RUNTIME_DIRECTORY": str(unit), "HOME": "/nonexistent"}
    if is_root:
        os.chown(state, SERVICE, -1)
    jobs.chmod(0o555)
    return as_user(SERVICE, lambda: note_place(jobs, state, "", own(jobs), environ))


def test_a_system_service_is_found_by_every_user(jobs, state, unit, spot):
    assert serve_as_unit(jobs, state, unit)
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(state)
    assert as_user(NOBODY, lambda: find_state(jobs, own(jobs), home(spot)).state == state)


def test_a_service_does_not_answer_for_the_jobs_of_a_user(jobs, state, unit, spot):
    if not is_root:
        return  # one user only: nobody else is there whose word could be taken
    os.chown(jobs, NOBODY, -1)
    assert serve_as_unit(jobs, state, unit)
    found = find_state(jobs, own(jobs), home(spot))
    assert found.state is None
    assert "does not own the job files" in found.refused


def test_a_pointer_that_others_may_write_is_not_believed(jobs, state, spot):
    note_place(jobs, state, "", own(jobs), home(spot))
    (jobs / POINTER_FILE).chmod(0o666)
    assert find_state(jobs, own(jobs), home(spot)).state is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"folder": "/elsewhere", "state": "/tmp"}', '{"state": "/tmp"}', "\xff" * 100_000]
)
def test_an_invalid_pointer_or_that_of_another_folder_is_ignored(jobs, spot, text):
    (jobs / POINTER_FILE).write_text(text, encoding="latin-1")
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(None)


def test_a_pointer_may_not_be_a_link_or_a_pipe(jobs, state, spot):
    (spot / "planted").write_text(json.dumps({"folder": str(jobs), "state": str(state)}))
    (jobs / POINTER_FILE).symlink_to(spot / "planted")
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(None)
    (jobs / POINTER_FILE).unlink()
    os.mkfifo(jobs / POINTER_FILE)
    assert find_state(jobs, own(jobs), home(spot)) == StatePointer(None)


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        pytest.param("postgresql://evertick@db/evertick", "postgresql://evertick@db/evertick", id="without a password"),
        pytest.param("postgresql://evertick:geheim@db/evertick", "", id="with one"),
        pytest.param("sqlite:////var/x.db", "sqlite:////var/x.db", id="a file"),
        pytest.param("", "", id="the folder's own"),
    ],
)
def test_a_password_is_never_written_down(jobs, state, spot, store, kept):
    note_place(jobs, state, store, own(jobs), home(spot))
    place = present(read_place(state))
    assert (place.store, place.is_store_hidden) == (kept, "geheim" in store)
    assert b"geheim" not in (state / "place.json").read_bytes()


def test_a_ledger_that_is_named_from_where_it_was_started_is_found_from_elsewhere(jobs, state, spot, monkeypatch):
    monkeypatch.chdir(spot)
    note_place(jobs, state, "sqlite:///x.db", own(jobs), home(spot))
    assert present(read_place(state)).store == f"sqlite:///{spot}/x.db"
