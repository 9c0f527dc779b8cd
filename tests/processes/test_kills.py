"""A scheduler is killed again and again under load: is anything lost, doubled or left behind?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.processes import proof
from tests.processes.node import Config
from tests.share import share, turn

ROOT = Path(__file__).parent.parent.parent
KILLS = int(os.environ.get("EVERTICK_KILLS", "0")) or share(25, 100)
"""`make faults` says how many."""
EACH = 5
"""At least this many occurrences for each kill: else the load was none. A busy machine launches fewer in time."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_kills_lose_nothing_and_start_nothing_twice(request, tmp_path, record_property, kind):
    record_property("faults", KILLS)
    url = f"sqlite:///{tmp_path}/evertick.db" if kind == "sqlite" else request.getfixturevalue("fresh_postgres")()
    attempts = tmp_path / "attempts"
    config = Config(url, str(attempts), seconds=20, quarters=2, takes_us=300_000, lease_us=500_000, tells_calls=True)
    order = json.dumps({"config": asdict(config), "kills": KILLS, "seed": turn()})
    command = [sys.executable, "-m", "tests.processes.killer", order]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]

    report = proof.verified(url)
    assert report.occurrences > EACH * KILLS
    rows, launches = proof.rows_of(url), proof.launches_of(attempts)
    assert len(launches) > EACH * KILLS
    assert proof.started_twice(launches) == []
    assert proof.unknown_to_the_ledger(rows, launches) == []
    assert proof.launched_behind_an_owner(launches) == []
    assert proof.left_behind(rows, launches) == []
