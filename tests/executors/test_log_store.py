"""Are finished logs copied whole, once, and read back from wherever they were copied to?"""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from evertick.dispatch.log_copier import LogCopier
from evertick.errors import SettingsError
from evertick.executors.log_copies import MARK, FolderCopies
from evertick.executors.log_store import LogStore
from evertick.executors.logs import LogChunk, LogFile
from evertick.executors.names import run_folder
from evertick.model.instant import from_text
from evertick.model.lifecycle import RUNNING, SUCCEEDED
from evertick.model.run import Change, RunKey
from evertick.settings import Settings
from tests.executors.running import until
from tests.serving.served import Served

KEY = RunKey("nightly report", from_text("2026-03-02T09:00:00Z"))


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    """A folder, and an object store of fsspec."""
    return LogStore(f"file://{tmp_path}/store" if request.param == "file" else f"memory://{secrets.token_hex(8)}")


def attempt_folder(state: Path, number: int = 1) -> Path:
    folder = state.joinpath("logs", *run_folder(KEY), str(number))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_what_was_copied_is_read_back_in_parts(store, tmp_path):
    (attempt_folder(tmp_path) / "my%20step.log").write_bytes(b"0123456789")
    (attempt_folder(tmp_path, 2) / "main.log").write_bytes(b"again")
    assert store.list_logs(KEY) == []
    assert FolderCopies(tmp_path, store).copy(KEY)
    assert store.list_logs(KEY) == [LogFile(1, "my step", 10, True), LogFile(2, "main", 5, True)]
    assert store.read_log(KEY, 1, "my step", 2, 3) == LogChunk(b"234", 5, False)
    assert store.read_log(KEY, 1, "my step", 8) == LogChunk(b"89", 10, True)
    assert store.read_log(KEY, 1, "my step", 99) == LogChunk(b"", 99, True)


def test_a_log_that_grows_is_copied_when_it_is_whole_and_then_never_again(store, tmp_path):
    copies, open_log = FolderCopies(tmp_path, store), attempt_folder(tmp_path) / "main.log.part"
    open_log.write_bytes(b"half")
    assert not copies.copy(KEY)
    assert store.list_logs(KEY) == []
    open_log.rename(open_log.with_suffix(""))
    assert copies.copy(KEY)
    assert (attempt_folder(tmp_path) / MARK).exists()
    (attempt_folder(tmp_path) / "main.log").write_bytes(b"changed")
    assert copies.copy(KEY)
    assert store.read_log(KEY, 1, "main").data == b"half"


def test_what_an_earlier_process_has_left_is_copied_at_the_start(store, tmp_path):
    (attempt_folder(tmp_path) / "main.log").write_bytes(b"left")
    copier = LogCopier(FolderCopies(tmp_path, store))
    copier.start()
    until(lambda: bool(store.list_logs(KEY)), "the log to be copied")
    copier.stop()


def test_a_store_that_is_away_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr("evertick.dispatch.log_copier.AGAIN_SECONDS", 0.01)
    (tmp_path / "store").write_text("in the way")
    store = LogStore(f"file://{tmp_path}/store")
    copier = LogCopier(FolderCopies(tmp_path, store))
    copier.start()
    (attempt_folder(tmp_path) / "main.log").write_bytes(b"hello")
    copier([Change(KEY, RUNNING, 0, 1, 1), Change(KEY, SUCCEEDED, 0, 1, 1)])
    until(lambda: bool(copier._later), "the first try to fail")
    (tmp_path / "store").unlink()
    until(lambda: bool(store.list_logs(KEY)), "the log to be copied")
    copier.stop()


def test_an_address_that_nothing_knows_is_refused():
    with pytest.raises(SettingsError, match=r"'logs.store' cannot be 'nowhere://x'"):
        LogStore("nowhere://x").check()


@pytest.mark.slow
def test_a_scheduler_copies_the_logs_of_what_it_ran(tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "report.yaml").write_text("command: echo hello\n")
    settings = Settings.load(folder, {}, {"logs.store": f"file://{tmp_path}/store", "web": "false"})
    served = Served(folder, settings)
    try:
        ended = served.run("report")
        store = LogStore(settings.logs.store)
        until(lambda: bool(store.list_logs(ended.key)), "the log to be copied")
        assert store.read_log(ended.key, 1, "main").data == b"hello\n"
    finally:
        served.stop()
