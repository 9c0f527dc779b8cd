"""Can two schedulers use one state folder?"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evertick.dispatch.folder_owner import own_folder
from evertick.errors import SchedulerLockError, SettingsError
from evertick.executors.paths import state_folder


def test_a_second_one_is_refused_with_what_to_do_and_the_next_is_not(tmp_path):
    with own_folder(tmp_path), pytest.raises(SchedulerLockError, match="EVERTICK_STATE"), own_folder(tmp_path):
        pass
    with own_folder(tmp_path):
        pass


def test_a_lock_that_cannot_be_opened_is_reported_with_what_to_do(tmp_path):
    (tmp_path / "node.lock").mkdir()
    with (
        pytest.raises(SchedulerLockError, match=r"node\.lock' cannot be used: .*EVERTICK_STATE"),
        own_folder(tmp_path),
    ):
        pass


def test_a_state_folder_that_cannot_be_made_is_reported_with_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"cannot be used: Not a directory.*EVERTICK_STATE"):
        state_folder(tmp_path / "file" / ".evertick")


def test_the_folder_of_a_process_that_was_killed_is_free(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from evertick.dispatch.folder_owner import own_folder\n"
        "with own_folder(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with own_folder(tmp_path):
        pass


def test_a_child_does_not_inherit_it(tmp_path):
    with own_folder(tmp_path):
        child = subprocess.Popen(["sleep", "600"])
    try:
        with own_folder(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").touch()
    os.symlink(tmp_path / "elsewhere", tmp_path / "node.lock")
    with pytest.raises(SchedulerLockError, match="symbolic links"), own_folder(tmp_path):
        pass
