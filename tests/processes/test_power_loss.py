"""The machine loses its power: is all there that was acknowledged, and does nothing start a second time?"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.processes.machine import ROOT
from tests.share import share, turn

LOSSES = int(os.environ.get("EVERTICK_POWER_LOSSES", "0")) or share(3, 20)
"""`make faults` says how many, with each ledger."""
# To mount a file system takes root.
LEDGERS = {"SQLite": "sqlite:///{state}/ledger.db", "files": "files://{state}/ledger"} if os.geteuid() == 0 else {}

if LEDGERS:

    @pytest.mark.slow
    @pytest.mark.parametrize("url", LEDGERS.values(), ids=LEDGERS)
    def test_what_was_not_synced_is_lost_and_nothing_else(tmp_path, record_property, url):
        record_property("faults", LOSSES)
        words = ["tests.processes.power_loss", str(tmp_path), url, str(LOSSES), str(turn())]
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-6_000:]}"
