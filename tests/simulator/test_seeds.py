"""Worlds with faults, a share of two thousand: none of them may break a promise."""

from __future__ import annotations

import pytest

from evertick.model.instant import HOUR
from evertick.testing import Faults, simulate
from evertick.testing.simulator import failure_lines
from tests.share import share, share_of

SEEDS = range(2_000)
TRIED = 50
FOUND = (34, 260, 1387, 10010, 10098, 11025, 20136, 31442, 60230, 71265, 71522, 71601, 100948, 101243, 102603)
"""What is drawn for them has changed since: they are worlds like any others by now."""
CHUNK = 25  # small enough that all cores are busy until the end


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(0, share(TRIED, len(SEEDS)), CHUNK))
def test_every_promise_is_kept(chunk):
    seeds = share_of(SEEDS, TRIED)[chunk : chunk + CHUNK]
    broken = [outcome for seed in seeds if not (outcome := simulate(seed)).is_ok]
    said = "\n".join("\n".join(failure_lines(outcome, None, None)[-3:]) for outcome in broken)
    assert not broken, f"{len(broken)} of {CHUNK} seeds failed:\n{said}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", share_of(FOUND, 7))
def test_a_world_in_which_a_run_was_lost_once_keeps_every_promise(seed):
    assert simulate(seed).failure is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults(lost_reply=0.02, failure=0.1), id="that stay"),
        pytest.param(Faults(lost_reply=0.02, failure=0.1, crashes_per_hour=1.0), id="that come and go"),
    ],
)
def test_a_hundred_nodes_share_the_work(faults):
    outcome = simulate(7, nodes=100, hours=share(1, 2) / 10, jobs=40, faults=faults)
    assert outcome.failure is None
    assert outcome.report.runs > 50


def test_a_seed_is_a_whole_world():
    outcome = simulate(3)
    assert outcome.simulated_us > HOUR
    assert outcome.report.occurrences > 10
    assert outcome.attempts > 10
