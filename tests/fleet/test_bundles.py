"""Does the code of a job arrive at its member once, complete and safely?"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import signal
import stat
import time
import zipfile
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from evertick.executors.fleet import bundles
from evertick.executors.fleet.bundle_folder import KEPT_SECONDS, BundleFolder
from evertick.executors.fleet.bundles import BundleError, Packer, pack, unpack
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import LaunchRefused, Report
from evertick.model.routing import Routing
from evertick.model.run import RunKey
from tests.executors.local_runs import job_of, launch, sh
from tests.fleet.local_fleet import Heard

NUMBERS = count()


@pytest.fixture
def code(tmp_path):
    """A script and a module."""
    folder = tmp_path / "code"
    (folder / "parts").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\ncat parts/word; python3 -c 'import greeting'\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "parts" / "word").write_text("hello ")
    (folder / "greeting.py").write_text("print('world')\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "greeting.pyc").write_bytes(b"x")
    return folder


def archive(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in entries:
            opened.writestr(name, data)
    return out.getvalue()


def of_kind(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def wait_until(instant: int) -> None:
    while time.time_ns() // 1_000 <= instant:
        time.sleep(0.05)


def refusal_of(reports: Heard, key: RunKey) -> str:
    def refusals(said: list[Report]) -> list[str]:
        return [one.detail for one in said if isinstance(one, LaunchRefused) and one.key == key]

    return refusals(reports.wait_until(lambda said: bool(refusals(said))))[0]


def arrive(folder: BundleFolder, bundle: bundles.Bundle, size: int = 1_000) -> None:
    folder.begin(bundle.digest, len(bundle.data))
    for offset in range(0, len(bundle.data), size):
        folder.add(bundle.digest, offset, base64.b64encode(bundle.data[offset : offset + size]).decode())
    folder.install(bundle.digest)


def test_the_same_files_are_the_same_bundle_wherever_they_lie(code, tmp_path):
    other = tmp_path / "other"
    os.rename(code, other)
    moved = pack(other)
    os.utime(other / "greeting.py", (1, 1))
    assert pack(other) == moved
    names = zipfile.ZipFile(io.BytesIO(moved.data)).namelist()
    assert names == ["greeting.py", "run.sh", "parts/word"]
    (other / "greeting.py").write_text("print('you')\n")
    assert pack(other).digest != moved.digest


def test_a_bundle_is_packed_again_only_when_something_of_it_has_changed(code, monkeypatch):
    packer = Packer()
    first = packer.pack(str(code))
    assert packer.pack(str(code)) is first
    (code / "parts" / "word").write_text("good ")
    assert packer.pack(str(code)).digest != first.digest


def test_an_invalid_bundle_is_reported(code, tmp_path, monkeypatch):
    with pytest.raises(BundleError, match="cannot be read: No such file"):
        Packer().pack(str(tmp_path / "nothing.whl"))
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(BundleError, match="neither a folder nor"):
        pack(tmp_path / "notes.txt")
    (code / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(BundleError, match="contains a link, passwd"):
        pack(code)
    (code / "passwd").unlink()
    monkeypatch.setattr(bundles, "PACKED_MAX", 100)
    with pytest.raises(BundleError, match="100 are allowed"):
        pack(code)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        pytest.param([("../out", b"x")], "outside of the bundle", id="a way up"),
        pytest.param([("a/../../out", b"x")], "outside of the bundle", id="a way up from below"),
        pytest.param([("/etc/cron.d/x", b"x")], "outside of the bundle", id="an absolute path"),
        pytest.param([("a\\..\\out", b"x")], "outside of the bundle", id="a path of another system"),
        pytest.param([(of_kind("link", stat.S_IFLNK | 0o777), b"/etc")], "other than a file", id="a link"),
        pytest.param([(of_kind("pipe", stat.S_IFIFO | 0o666), b"")], "other than a file", id="a pipe"),
        pytest.param([("a", b"x"), ("./a", b"y")], "a name twice", id="a name twice"),
        pytest.param([("a", b"x"), ("a/b", b"y")], "a name twice", id="a file that is a folder too"),
        pytest.param([("a", b"0" * 5_000)], "unpacks to more", id="a bomb"),
        pytest.param([(f"{number}", b"") for number in range(60)], "more than 50 files", id="many files"),
    ],
)
def test_a_hostile_archive_leaves_no_file(tmp_path, monkeypatch, entries, reason):
    monkeypatch.setattr(bundles, "UNPACKED_MAX", 1_000)
    monkeypatch.setattr(bundles, "FILES_MAX", 50)
    data = archive(*entries)
    folder = BundleFolder(tmp_path / "inside" / "bundles")
    with pytest.raises(BundleError, match=reason):
        arrive(folder, bundles.Bundle(hashlib.sha256(data).hexdigest(), data))
    assert list((tmp_path / "inside" / "bundles").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_a_file_that_is_not_an_archive_is_refused(tmp_path):
    (tmp_path / "x.whl").write_bytes(b"PK nonsense")
    with pytest.raises(BundleError, match="archive cannot be read"):
        unpack(tmp_path / "x.whl", tmp_path)


def test_a_bundle_that_was_changed_on_the_way_is_refused(code, tmp_path):
    bundle = pack(code)
    folder = BundleFolder(tmp_path / "bundles")
    with pytest.raises(BundleError, match="digest does not match"):
        arrive(folder, bundle._replace(data=bundle.data[:-1] + b"x"))
    assert not folder.has(bundle.digest)
    for digest, size in (("../x", 10), ("a" * 64, 0), ("a" * 64, 10**9), ("a" * 64, "10"), (7, 10)):
        with pytest.raises(BundleError):
            folder.begin(digest, size)


def test_pieces_that_arrive_twice_or_out_of_order_are_ignored(code, tmp_path):
    bundle, folder = pack(code), BundleFolder(tmp_path / "bundles")
    text = base64.b64encode(bundle.data).decode()
    folder.begin(bundle.digest, len(bundle.data))
    assert not folder.add(bundle.digest, 5, text)
    assert not folder.add("b" * 64, 0, text)
    assert folder.missing_from(bundle.digest) == 0
    assert folder.add(bundle.digest, 0, text)
    assert folder.add(bundle.digest, 0, text)
    folder.install(bundle.digest)
    assert (tmp_path / "bundles" / bundle.digest / "parts" / "word").read_text() == "hello "
    assert os.access(tmp_path / "bundles" / bundle.digest / "run.sh", os.X_OK)


def test_old_bundles_and_what_a_kill_has_left_are_removed(code, tmp_path):
    bundle, folder = pack(code), BundleFolder(tmp_path / "bundles")
    arrive(folder, bundle)
    (tmp_path / "bundles" / ".new-killed").mkdir()
    folder = BundleFolder(tmp_path / "bundles")
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == [bundle.digest]
    assert folder.tidy(()) == 0
    old = time.time() - KEPT_SECONDS - 1
    os.utime(tmp_path / "bundles" / bundle.digest, (old, old))
    assert folder.tidy({bundle.digest}) == 0
    assert folder.tidy(()) == 1
    assert list((tmp_path / "bundles").iterdir()) == []


def test_a_job_that_names_its_folder_or_path_keeps_them(code, tmp_path):
    bundle, folder = pack(code), BundleFolder(tmp_path / "bundles")
    arrive(folder, bundle)
    words = ["launch", "a", 0, "", 1, 7, "manual", "", None, json.dumps({"working_dir": "/srv"}), {}]
    work = json.loads(folder.launched_with(bundle.digest, words)[9])
    place = str(tmp_path / "bundles" / bundle.digest)
    assert (work["working_dir"], dict(work["env"])) == ("/srv", {"EVERTICK_RUN_BUNDLE": place, "PYTHONPATH": place})


@pytest.mark.slow
class TestOnAFleet:
    @pytest.fixture
    def executor(self, crowd, reports):
        opened = crowd.open(reports, "ex-a", "ex-b", "ex-c")
        yield opened
        opened.close()

    def given(self, path: Path | str, placed: str, command: str = "./run.sh"):
        job = replace(job_of(sh(command), id=f"bundled-{next(NUMBERS)}"), routing=Routing("fleet", bundle=str(path)))
        return launch(job)._replace(executor=placed)

    def test_a_job_runs_with_code_that_its_member_did_not_have(self, crowd, executor, reports, code):
        (code / "large").write_bytes(os.urandom(1_000_000))  # several pieces
        orders = [self.given(code, "fleet:ex-a") for _ in range(3)]
        for order in orders:
            executor.launch(order)
        for order in orders:
            assert reports.end_of(order.key).state is SUCCEEDED
            assert crowd.log_of(order.key) == b"hello world\n"
        folder = crowd.folder / "ex-a" / "bundles"
        assert [path.name for path in folder.iterdir()] == [pack(code).digest]
        # Another version of it is another folder; the member has the old one still.
        (code / "parts" / "word").write_text("good ")
        order = self.given(code, "fleet:*ex-a,ex-b", "cat $EVERTICK_RUN_BUNDLE/parts/word")
        executor.launch(order)
        assert reports.end_of(order.key).state is SUCCEEDED
        assert crowd.log_of(order.key, "main [1 of 2]") == b"good "
        assert len(list(folder.iterdir())) == 2

    def test_an_order_that_waited_too_long_for_its_bundle_is_refused(
        self, crowd, executor, reports, code, tmp_path, monkeypatch
    ):
        """By then the run may be another node's; what was packed, sent and unpacked serves the next order."""
        began = tmp_path / "began"
        limit = (time.time_ns() + 1_000_000_000) // 1_000
        order = self.given(code, "fleet:ex-c", f"touch {began}")._replace(valid_until=limit)
        worker = crowd.members["ex-c"].child()
        os.kill(worker, signal.SIGSTOP)
        try:
            executor.launch(order)
            wait_until(limit)
        finally:
            os.kill(worker, signal.SIGCONT)
        assert "lease" in refusal_of(reports, order.key)
        late = self.given(code, "fleet:ex-c", f"touch {began}")
        late = late._replace(valid_until=(time.time_ns() + 1_000_000_000) // 1_000)
        monkeypatch.setattr(Packer, "pack", lambda _, path: wait_until(late.valid_until) or pack(Path(path)))
        executor.launch(late)
        assert "longer than this node's lease" in refusal_of(reports, late.key)
        monkeypatch.undo()
        assert not began.exists()
        executor.launch(order._replace(valid_until=limit + 600_000_000))
        assert reports.end_of(order.key).state is SUCCEEDED
        assert began.exists()

    def test_a_bundle_that_is_not_there_is_reported(self, executor, reports, tmp_path):
        order = self.given(tmp_path / "gone", "fleet:ex-a")
        executor.launch(order)
        (said,) = reports.wait_until(lambda said: [one for one in said if isinstance(one, LaunchRefused)])
        assert said.detail == f"the bundle {tmp_path}/gone cannot be read: No such file or directory"
