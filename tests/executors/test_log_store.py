"""Are finished logs copied whole, once, and read back from every kind of log store?"""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

import pytest
from fsspec.asyn import sync
from s3fs import S3FileSystem

from evertick.dispatch.log_copier import LogCopier
from evertick.errors import SettingsError
from evertick.executor import AttemptId
from evertick.executors.fleet.log_sync import LogCopies
from evertick.executors.log_store import COPIED, LogStore, LogUploads
from evertick.executors.logs import LogChunk, LogFile
from evertick.executors.paths import run_folder
from evertick.model.instant import from_text
from evertick.model.lifecycle import RUNNING, SUCCEEDED
from evertick.model.run import Change, RunKey
from evertick.settings import Settings
from tests.executors.contract import PATIENCE_SECONDS
from tests.executors.local_runs import until
from tests.present import present
from tests.s3_server import BUCKET, S3Server
from tests.serving.served import Served

KEY = RunKey("nightly report", from_text("2026-03-02T09:00:00Z"))
OTHER = RunKey("nightly report", from_text("2026-03-02T09:00:01Z"))


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def in_bucket(s3, monkeypatch):
    """An address in the bucket of a real S3 server; the connections to it are closed with the test."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    yield f"s3://{BUCKET}/{secrets.token_hex(8)}"
    for one in S3FileSystem._cache.values():
        sync(one.loop, one._s3creator.__aexit__, None, None, None)
    S3FileSystem.clear_instance_cache()


@pytest.fixture(params=["file", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def store(request, tmp_path):
    """A folder, an object store of fsspec, and one of those that people have."""
    if request.param == "s3":
        # On a busy machine the first answer takes long: the client is imported for it.
        return LogStore(request.getfixturevalue("in_bucket"), read_seconds=PATIENCE_SECONDS)
    return LogStore(f"file://{tmp_path}/store" if request.param == "file" else f"memory://{secrets.token_hex(8)}")


def attempt_folder(state: Path, number: int = 1) -> Path:
    folder = state.joinpath("logs", *run_folder(KEY), str(number))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_copied_log_is_read_back_in_parts(store, tmp_path):
    (attempt_folder(tmp_path) / "my%20step.log").write_bytes(b"0123456789")
    (attempt_folder(tmp_path, 2) / "main.log").write_bytes(b"again")
    (attempt_folder(tmp_path, 2) / "main.log.times").write_bytes(b"\2" + b"\0" * 7 + b"\7" + b"\0" * 7)
    assert store.list_logs(KEY) == []
    assert LogUploads(tmp_path, store).copy(KEY)
    assert store.list_logs(KEY) == [LogFile(1, "my step", 10, True), LogFile(2, "main", 5, True)]
    assert store.read_log(KEY, 1, "my step", 2, 3) == LogChunk(b"234", 5, False)
    assert store.read_log(KEY, 1, "my step", 8) == LogChunk(b"89", 10, True)
    assert store.read_log(KEY, 1, "my step", 99) == LogChunk(b"", 99, True)
    assert store.read_times(KEY, 2, "main") == ((2, 7),)
    assert store.read_times(KEY, 1, "my step") == ()


def test_a_log_that_grows_is_copied_when_it_is_whole_and_then_never_again(store, tmp_path):
    copies, open_log = LogUploads(tmp_path, store), attempt_folder(tmp_path) / "main.log.part"
    open_log.write_bytes(b"half")
    assert not copies.copy(KEY)
    assert store.list_logs(KEY) == []
    open_log.rename(open_log.with_suffix(""))
    assert copies.copy(KEY)
    assert (attempt_folder(tmp_path) / COPIED).exists()
    (attempt_folder(tmp_path) / "main.log").write_bytes(b"changed")
    assert copies.copy(KEY)
    assert store.read_log(KEY, 1, "main").data == b"half"


HOSTILE = (
    *("../main", "../../../090001Z/1/main", "/etc/passwd", "..", ".", "", ".copied", "main.log", "main.log.times"),
    *("a/../../b", "a\\b", "a\nb", "a?versionId=1", "a#b", "%2e%2e%2fmain", "ä" * 200, "x" * 10_000, "* [1 of 3]"),
)


def test_a_member_that_names_its_logs_as_it_likes_stays_among_the_copies_of_its_own_run(store, tmp_path):
    other = tmp_path.joinpath("logs", *run_folder(OTHER), "1")
    other.mkdir(parents=True)
    (other / "main.log").write_bytes(b"of another run")
    received, uploads = LogCopies(tmp_path), LogUploads(tmp_path, store)
    assert uploads.copy(OTHER)
    for step in HOSTILE:
        assert received.write(AttemptId(KEY, 1), step, 0, b"hostile", is_complete=True), step
    assert uploads.copy(KEY)
    assert uploads.copy(OTHER)
    assert store.read_log(OTHER, 1, "main").data == b"of another run"
    assert [file.step for file in store.list_logs(OTHER)] == ["main"]
    assert all(store.read_log(KEY, 1, step).data == b"hostile" for step in HOSTILE)
    jobs, days = store._names(), store._names(*run_folder(KEY)[:1])
    assert (jobs, days) == (sorted({run_folder(KEY)[0]}), [run_folder(KEY)[1]])
    assert store._names(*run_folder(KEY)[:2]) == sorted({run_folder(KEY)[2], run_folder(OTHER)[2]})


def test_a_log_that_a_member_sends_after_the_others_is_copied_too(store, tmp_path):
    received, uploads = LogCopies(tmp_path), LogUploads(tmp_path, store)
    received.write(AttemptId(KEY, 1), "first", 0, b"1", is_complete=True)
    assert uploads.copy(KEY)
    received.write(AttemptId(KEY, 1), "second", 0, b"2", is_complete=True)
    for copy in uploads.uncopied():
        assert copy()
    assert store.read_log(KEY, 1, "second").data == b"2"


def test_logs_that_an_earlier_version_copied_are_not_copied_again(store, tmp_path):
    folder = attempt_folder(tmp_path)
    (folder / "main.log").write_bytes(b"again")
    (folder / COPIED).touch()
    assert LogUploads(tmp_path, store).copy(KEY)
    assert store.list_logs(KEY) == []


def test_a_link_among_the_attempts_is_not_followed(store, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "private.log").write_bytes(b"secret")
    run = attempt_folder(tmp_path).parent
    (run / "2").symlink_to(elsewhere)
    assert LogUploads(tmp_path, store).copy(KEY)
    assert store.list_logs(KEY) == []


def test_logs_that_an_earlier_process_left_are_copied_at_the_start(store, tmp_path):
    (attempt_folder(tmp_path) / "main.log").write_bytes(b"left")
    copier = LogCopier(LogUploads(tmp_path, store))
    copier.start()
    until(lambda: bool(store.list_logs(KEY)), "the log to be copied")
    copier.stop()


def test_a_store_that_is_away_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr("evertick.dispatch.log_copier.AGAIN_SECONDS", 0.01)
    (tmp_path / "store").write_text("in the way")
    store = LogStore(f"file://{tmp_path}/store")
    copier = LogCopier(LogUploads(tmp_path, store))
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
def test_an_s3_server_that_comes_later_gets_what_was_left(in_bucket, s3, tmp_path, monkeypatch):
    monkeypatch.setattr("evertick.dispatch.log_copier.AGAIN_SECONDS", 0.01)
    s3.kill()
    store = LogStore(in_bucket, read_seconds=PATIENCE_SECONDS)
    copier = LogCopier(LogUploads(tmp_path, store))
    copier.start()
    try:
        (attempt_folder(tmp_path) / "main.log").write_bytes(b"hello")
        copier([Change(KEY, SUCCEEDED, 0, 1, 1)])
        until(lambda: bool(copier._later), "the first try to fail")
        with pytest.raises(Exception, match="Could not connect to the endpoint URL"):
            LogStore(in_bucket, read_seconds=60).list_logs(KEY)
        s3.start()
        until(lambda: bool(store.list_logs(KEY)), "the log to be copied")
        assert store.read_log(KEY, 1, "main").data == b"hello"
    finally:
        copier.stop()


def test_a_store_that_hangs_holds_no_reader_for_long(monkeypatch):
    go = threading.Event()
    store = LogStore(f"memory://{secrets.token_hex(8)}", read_seconds=0.05)
    monkeypatch.setattr(store, "_list_logs", lambda _key: go.wait() and [])
    for said in ("does not answer within", "has not answered for"):
        with pytest.raises(TimeoutError, match=said):
            store.list_logs(KEY)
    go.set()
    present(store._hanging).join()
    assert store.list_logs(KEY) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_scheduler_copies_the_logs_of_what_it_ran(tmp_path, kind, request):
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "report.yaml").write_text("command: echo hello\n")
    url = f"file://{tmp_path}/store" if kind == "file" else request.getfixturevalue("in_bucket")
    settings = Settings.load(folder, {}, {"logs.store": url, "web": "false"})
    served = Served(folder, settings)
    try:
        ended = served.run("report")
        store = LogStore(settings.logs.store)
        until(lambda: bool(store.list_logs(ended.key)), "the log to be copied")
        assert store.read_log(ended.key, 1, "main").data == b"hello\n"
    finally:
        served.stop()
