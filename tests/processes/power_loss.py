"""Cut the power of a machine again and again: `python -m tests.processes.power_loss FOLDER URL ROUNDS SEED`.

The state is on a file system of its own, in a file. When the power goes, all processes end at the same instant, and
that file is copied: what only the page cache knew, because nothing had synced it, is not in the copy, and the next
start finds nothing else.
"""

from __future__ import annotations

import sys
import time
import uuid
from contextlib import closing
from pathlib import Path
from random import Random

from evertick.executors.keeper.procfs import is_alive
from tests.fleet.local_fleet import keepers
from tests.processes.disk import Disk
from tests.processes.machine import EVERY_SECOND, Machine, wait_for

BOOT = (
    'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"',
    # Its first process ends, and the kernel ends all others with it.
    ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
JOBS = {f"job-{number}": EVERY_SECOND for number in range(4)}


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
