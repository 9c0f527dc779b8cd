"""Scheduler, keeper, API and members are killed in turn under load: is anything lost, doubled or left behind?"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from evertick.model.lifecycle import LOST, SUCCEEDED
from tests.fleet.yard import Yard, keepers
from tests.processes.machine import EVERY_SECOND, Machine, wait_for
from tests.share import share, turn

KILLS = int(os.environ.get("EVERTICK_KILLS_IN_TURN", "0")) or share(4, 100)
"""`make faults` says how many."""
LOCAL_JOBS, FLEET_JOBS = 5, 2
CATCH_UP_EACH = 40
"""After this many kills a backlog may drain: on a busy machine it would otherwise grow from kill to kill."""


@pytest.mark.slow
def test_kills_in_turn_lose_nothing_and_start_nothing_twice(tmp_path, record_property):
    record_property("faults", KILLS)
    random = Random(turn())
    with ExitStack() as stack:
        yard = Yard(tmp_path)
        stack.callback(yard.close)
        yard.start()
        yard.join("member", lease_us=12_000_000)
        jobs = {f"local-{number}": EVERY_SECOND for number in range(LOCAL_JOBS)}
        jobs |= {f"fleet-{number}": f"{EVERY_SECOND}routing: ROUND\n" for number in range(FLEET_JOBS)}
        fleet = f'[fleet]\nurl = "{yard.url}"\nlease = "12s"\n'
        machine = Machine(tmp_path, jobs, settings=fleet, has_api=True)
        stack.callback(machine.close)
        machine.start()
        machine.wait_for_ends(10)
        for number in range(KILLS):
            machine.wait_for_ends(random.randint(1, 10))
            match number % 4:
                case 0:
                    machine.kill()
                    machine.start()
                case 1:
                    os.kill(machine.keeper(), signal.SIGKILL)
                case 2:
                    os.kill(machine.api(), signal.SIGKILL)
                case 3:
                    _kill_member(yard, random)
            if number % CATCH_UP_EACH == CATCH_UP_EACH - 1:
                machine.wait_until_caught_up()
        machine.api()
        machine.wait_until_caught_up()
        machine.stop()
        _, rows = machine.check()
    assert {row.state for row in rows if row.started_at is not None} <= {SUCCEEDED, LOST}
    assert sum(row.state is SUCCEEDED for row in rows) > 10
    assert any(row.executor.startswith("fleet") for row in rows)


def _kill_member(yard: Yard, random: Random) -> None:
    """Its worker or its keeper, as it comes; the command of the member starts either again."""
    folder: Path = yard.folder / "member"
    if random.random() < 0.5:
        os.kill(yard.members["member"].child(), signal.SIGKILL)
    else:
        os.kill(wait_for(lambda: next(iter(keepers(folder)), None), "the member's keeper"), signal.SIGKILL)
