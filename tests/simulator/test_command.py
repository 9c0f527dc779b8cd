"""Whether the command reports what happened, and how to repeat it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evertick.loop.effects import Decision
from evertick.testing import Faults, simulate, simulation
from evertick.testing.simulator import failure_lines, main

QUIET = Faults(failure=0.0)


def stuck(state: object, messages: object, now: int) -> Decision:
    """A loop that does nothing."""
    return Decision([], now + 10_000_000)


def test_a_sound_seed_ends_with_one_line_and_zero(capsys):
    assert main(["--seeds", "1", "--start", "5", "--hours", "0.1", "--nodes", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("1 seeds, none failed: ")


def test_a_failure_ends_with_the_seed_the_reason_and_the_command_to_replay_it(capsys, monkeypatch):
    outcome = simulate(5, hours=0.1, faults=QUIET, decide=stuck)
    monkeypatch.setattr("evertick.testing.simulator.simulate", lambda *_, **__: outcome)
    assert main(["--seeds", "3", "--start", "5", "--hours", "0.1"]) == 1
    *_, failed, world, replay, total = capsys.readouterr().out.splitlines()
    assert failed.startswith("seed 5 FAILED: 120 minutes after the last fault")
    assert world.startswith("  world: ")
    assert replay == "  replay: python -m evertick.testing.simulator --seeds 1 --start 5 --hours 0.1"
    assert total.startswith("1 seeds, 1 FAILED [5]: ")


def test_the_trace_of_a_failure_can_be_read():
    outcome = simulate(5, hours=0.1, faults=QUIET, decide=stuck)
    assert any("world    calms down" in line for line in failure_lines(outcome, None, None))


def test_the_same_seed_gives_the_same_world():
    assert simulate(11, hours=0.3) == simulate(11, hours=0.3)


@pytest.mark.slow
def test_a_seed_means_the_same_in_every_process():
    """Texts hash differently in each: an order that rests on it would show."""
    code = "from evertick.testing import simulate; print([simulate(seed, hours=0.3).digest for seed in range(12)])"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_a_violation_anywhere_is_an_outcome_and_never_an_exception(monkeypatch):
    monkeypatch.setattr(simulation, "CALM_MAX_US", 0)
    assert "0 minutes after the last fault" in str(simulate(5, hours=0.1, faults=QUIET, decide=stuck).failure)
