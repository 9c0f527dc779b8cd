"""Scheduler, keeper, API and members are killed in turn under load: is anything lost, doubled or left behind?"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import pytest

from evertick.model.lifecycle import LOST, SUCCEEDED
from tests.fleet.local_fleet import LocalFleet, keepers
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
        local_fleet = LocalFleet(tmp_path)
        stack.callback(local_fleet.close)
        local_fleet.start()
        local_fleet.join("member", lease_us=12_000_000)
        jobs = {f"local-{number}": EVERY_SECOND for number in range(LOCAL_JOBS)}
        jobs |= {f"fleet-{number}": f"{EVERY_SECOND}routing: ROUND\n" for number in range(FLEET_JOBS)}
        fleet = f'[fleet]\nurl = "{local_fleet.url}"\nlease = "12s"\n'
        machine = Machine(tmp_path, jobs, settings=fleet, has_api=True)
        stack.callback(machine.close)
        machine.start()
        machine.wait_for_ends(10)
        for number in range(KILLS):
            # At any instant: most often at work, sometimes while the last one killed is being started again.
            machine.wait_for_ends(random.randint(0, 6))
            match number % 4:
                case 0:
                    machine.kill()
                    machine.start()
                case 1:
                    os.kill(machine.keeper(), signal.SIGKILL)
                case 2:
                    # To wait for an answer takes longer than all else; its starts are as good to be killed in.
                    os.kill(machine.api() if random.random() < 0.3 else machine.starting_api(), signal.SIGKILL)
                case 3:
                    _kill_member(local_fleet, random)
            if number % CATCH_UP_EACH == CATCH_UP_EACH - 1:
                machine.wait_until_caught_up()
        machine.api()
        machine.wait_until_caught_up()
        machine.stop()
        _, rows = machine.check()
    assert [row for row in rows if row.started_at is not None and row.state not in (SUCCEEDED, LOST)] == []
    assert sum(row.state is SUCCEEDED for row in rows) > 10
    assert any(row.executor.startswith("fleet") for row in rows)


def _kill_member(local_fleet: LocalFleet, random: Random) -> None:
    """Its worker or its keeper, as it comes; the command of the member starts either again."""
    folder: Path = local_fleet.folder / "member"
    if random.random() < 0.5:
        _kill_one(local_fleet.members["member"].child)
    else:
        _kill_one(lambda: wait_for(lambda: next(iter(keepers(folder)), None), "the member's keeper"))


def _kill_one(find: Callable[[], int]) -> None:
    """The process that is found; if it has ended by itself in between, the one that follows it."""

    def kill() -> bool:
        with suppress(ProcessLookupError):
            os.kill(find(), signal.SIGKILL)
            return True
        return False

    wait_for(kill, "a process to kill")
