"""The machine loses its power: is all there that was acknowledged, and does nothing start a second time?"""

from __future__ import annotations

import os

import pytest

from tests.processes.disk import CAN_MOUNT, in_own_mounts
from tests.share import share, turn

LOSSES = int(os.environ.get("EVERTICK_POWER_LOSSES", "0")) or share(3, 20)
"""`make faults` says how many, with each ledger."""
LEDGERS = {"SQLite": "sqlite:///{state}/ledger.db", "files": "files://{state}/ledger"}

if CAN_MOUNT:

    @pytest.mark.slow
    @pytest.mark.parametrize("url", LEDGERS.values(), ids=LEDGERS)
    def test_what_was_not_synced_is_lost_and_nothing_else(tmp_path, record_property, url):
        record_property("faults", LOSSES)
        in_own_mounts("tests.processes.power_loss", str(tmp_path), url, str(LOSSES), str(turn()))
