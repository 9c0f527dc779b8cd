"""A file system for the state of a scheduler: an ext4 in a file, which can lose what was not synced, or fail.

Needs root, and a mount namespace of its own (`in_own_mounts`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.processes.machine import ROOT

SIZE = 192 << 20
OPTIONS = "loop,commit=300,errors=remount-ro"
"""It writes only what is synced, instead of everything every five seconds, and turns read-only after an error."""
CAN_MOUNT = os.geteuid() == 0


class Disk:
    def __init__(self, folder: Path) -> None:
        self._image, self._copy, self.mounted_at = folder / "disk", folder / "disk.copy", folder / "state"
        self.mounted_at.mkdir()
        with self._image.open("wb") as image:
            image.truncate(SIZE)
        call("mkfs.ext4", "-q", "-F", self._image)
        self._mount()

    def lose_power(self) -> None:
        """Call it when no process has a file open: only the file system itself still writes."""
        call("cp", "--sparse=always", self._image, self._copy)
        call("umount", self.mounted_at)  # writes everything, to a file that is not used any more
        self._copy.rename(self._image)
        self._mount()

    def fail(self) -> None:
        """As after a bad block: the kernel makes it read-only, and it stays so until it was repaired."""
        Path(f"/sys/fs/ext4/{self._device()}/trigger_fs_error").write_text("injected")

    def repair(self) -> None:
        """What an operator does; no process may use it meanwhile."""
        call("umount", self.mounted_at)
        done = subprocess.run(["fsck.ext4", "-p", "-f", str(self._image)], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), f"{done.stdout}{done.stderr}"
        self._mount()

    def _mount(self) -> None:
        call("mount", "-o", OPTIONS, self._image, self.mounted_at)

    def _device(self) -> str:
        mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
        return next(Path(device).name for device, where, *_ in mounts if where == str(self.mounted_at))


def call(*words: str | Path) -> None:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"


def in_own_mounts(module: str, *words: str) -> None:
    """Run a module where nothing outside sees its mounts, and they end with it."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-6_000:]}"
