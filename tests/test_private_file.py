"""Private files: whole or not there, durable, and refused when others may read them."""

from __future__ import annotations

import os
import stat

import pytest

from evertick.errors import SettingsError
from evertick.private_file import own_key, read_private, write_private


def test_a_written_file_and_its_name_are_on_disk(tmp_path, monkeypatch):
    synced = []

    def noted(fd: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")

    monkeypatch.setattr(os, "fsync", noted)
    write_private(tmp_path / "key.pem", b"key")
    assert synced == ["file", "folder"]


def test_a_write_that_fails_leaves_the_old_content_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "key.pem"
    write_private(path, b"old")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["key.pem"]
    assert read_private(path) == b"old"


def test_a_file_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"known")
    path.chmod(0o644)
    with pytest.raises(SettingsError, match=f"chmod 600 {path}"):
        read_private(path)


def test_a_key_is_made_once(tmp_path):
    made = own_key(tmp_path / "state" / "api.key")
    assert len(made) == 32
    assert own_key(tmp_path / "state" / "api.key") == made
