"""Fill the file system of a scheduler's state for a while: `python -m tests.processes.full_disk FOLDER`."""

from __future__ import annotations

import errno
import sys
from contextlib import closing
from pathlib import Path

from tests.processes.machine import EVERY_SECOND, Machine

CHUNK = bytes(65_536)


def main(folder: Path) -> int:
    with closing(Machine(folder, {f"job-{number}": EVERY_SECOND for number in range(4)})) as machine:
        machine.start()
        machine.wait_for_ends(8)
        filler = machine.state / "filler"
        fill(filler)
        machine.wait_until_said("store.away")
        filler.unlink()
        machine.wait_until_said("store.back")
        machine.wait_for_ends(8)
        machine.wait_until_caught_up()
        machine.stop()
        machine.check()
    return 0


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("wb", buffering=0) as file:
        size = len(CHUNK)
        while size:
            try:
                file.write(CHUNK[:size])
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
