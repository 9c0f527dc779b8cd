"""Cut the power of a machine again and again: `python -m tests.processes.power_loss FOLDER URL ROUNDS SEED`.

The state is on a file system of its own, in a file. When the power goes, all processes end at the same instant, and
that file is copied: what only the page cache knew, because nothing had synced it, is not in the copy, and the next
start finds nothing else. Needs root, and a mount namespace of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path
from random import Random

from evertick.executors.keeper.procfs import is_alive
from tests.fleet.local_fleet import keepers
from tests.processes.machine import EVERY_SECOND, Machine, wait_for

SIZE = 192 << 20
LAZY = "loop,commit=300"
"""The file system writes only what is synced, instead of everything every five seconds."""
BOOT = (
    'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"',
    # Its first process ends, and the kernel ends all others with it.
    ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
JOBS = {f"job-{number}": EVERY_SECOND for number in range(4)}


class Disk:
    """A file system that forgets what was not synced."""

    def __init__(self, folder: Path) -> None:
        self._image, self._copy, self.mounted_at = folder / "disk", folder / "disk.copy", folder / "state"
        self.mounted_at.mkdir()
        with self._image.open("wb") as image:
            image.truncate(SIZE)
        call("mkfs.ext4", "-q", "-F", self._image)
        call("mount", "-o", LAZY, self._image, self.mounted_at)

    def lose_power(self) -> None:
        """Call it when no process has a file open: only the file system still writes, and nobody asks it to."""
        call("cp", "--sparse=always", self._image, self._copy)
        call("umount", self.mounted_at)  # writes everything, to a file that is not used any more
        self._copy.rename(self._image)
        call("mount", "-o", LAZY, self._image, self.mounted_at)


def call(*words: str | Path) -> None:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"


def wait_for_start(machine: Machine) -> None:
    """The instant at which a run has begun, and the ledger is yet to hear of it."""
    began = machine.folder / "began"
    known = began.stat().st_size
    while began.stat().st_size == known:
        time.sleep(0.001)


def main(folder: Path, url: str, rounds: int, random: Random) -> int:
    disk, boot_id, lost = Disk(folder), folder / "boot_id", 0
    wrapper = [*BOOT[1], "sh", "-c", BOOT[0], str(boot_id)]
    with closing(Machine(folder, JOBS, url=url.format(state=disk.mounted_at), wrapper=wrapper)) as machine:
        for number in range(rounds):
            boot_id.write_text(f"{uuid.UUID(int=number)}\n")
            machine.start()
            machine.wait_for_ends(random.randint(1, 12))
            if random.random() < 0.5:
                wait_for_start(machine)
            else:
                time.sleep(random.random())
            unsynced = disk.mounted_at / f"unsynced-{number}"
            unsynced.write_bytes(b"x" * 4_096)
            processes = [machine.pid, *keepers(disk.mounted_at)]
            machine.kill()
            wait_for(lambda: not any(map(is_alive, processes)) or None, "all processes to end")  # noqa: B023
            disk.lose_power()
            lost += not (unsynced.exists() and unsynced.stat().st_size)
        boot_id.write_text(f"{uuid.UUID(int=rounds)}\n")
        machine.start()
        machine.wait_for_ends(24)
        if not machine.url.startswith("files:"):  # which only its own scheduler can read
            machine.wait_until_caught_up()
        machine.stop()
        machine.check()
    assert lost == rounds, f"the disk forgot what was not synced only {lost} of {rounds} times"
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Random(int(sys.argv[4]))))
