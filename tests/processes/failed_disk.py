"""The disk of a scheduler's state fails and turns read-only: `python -m tests.processes.failed_disk FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

from evertick.executors.keeper.procfs import is_alive
from evertick.model.lifecycle import SKIPPED
from tests.fleet.local_fleet import keepers
from tests.processes.disk import Disk
from tests.processes.machine import EVERY_SECOND, Machine, wait_for

DOWN_SECONDS = 3.0


def main(folder: Path) -> int:
    disk = Disk(folder)
    with closing(Machine(folder, {f"job-{number}": EVERY_SECOND for number in range(4)})) as machine:
        machine.start()
        machine.wait_for_ends(8)
        disk.fail()
        machine.wait_until_said("store.away")
        time.sleep(DOWN_SECONDS)  # it goes on trying
        assert machine.process.poll() is None, f"it ended with {machine.process.returncode}\n{machine.describe()}"
        # The file system is not repaired while it is in use.
        processes = [machine.pid, *keepers(disk.mounted_at)]
        machine.kill()
        for pid in processes[1:]:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, processes)) or None, "all processes to end")
        disk.repair()
        machine.start()
        machine.wait_for_ends(8)
        machine.wait_until_caught_up()
        machine.stop()
        _, rows = machine.check()
        assert all(row.state is not SKIPPED for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
