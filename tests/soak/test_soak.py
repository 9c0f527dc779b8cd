"""Whether the soak works: twenty seconds of it, with each process killed once."""

from __future__ import annotations

import pytest

from tests.soak.__main__ import soak
from tests.soak.account import growth, is_flat
from tests.soak.soak import API, KEEPER, SCHEDULER, Plan, Sample, kills_of


@pytest.mark.slow
def test_a_short_soak_loses_nothing(tmp_path):
    plan = Plan(jobs=20, period=10, seconds=18.0, kill_each=(3.0, 4.0), sample_each=1.0)
    found = soak(tmp_path, plan)
    assert found["due"] >= 20
    assert {process for _, process in found["kills"]} == {SCHEDULER, API, KEEPER}
    assert found["answers"]["200"] > 10
    assert all("page" in sample["mib"] for sample in found["samples"])


def test_kills_come_in_turns_and_leave_a_calm_end():
    kills = kills_of(Plan())
    assert len(kills) > 30
    assert kills[-1].second < 1_200
    assert kills == kills_of(Plan())
    assert kills != kills_of(Plan(seed=2))


@pytest.mark.parametrize(
    ("first", "last", "flat"),
    [
        pytest.param(90.0, 92.5, True, id="a few MiB are noise"),
        pytest.param(90.0, 94.0, False, id="more are growth"),
        pytest.param(400.0, 410.0, True, id="of a large process a share"),
    ],
)
def test_what_counts_as_growth(first, last, flat):
    assert is_flat({"scheduler": {"first_mib": first, "last_mib": last}}) is flat


def test_what_fills_after_the_last_kill_is_not_growth():
    def mib(second: float) -> float:
        return 60.0 + min(second, 1_390.0) / 50.0  # it fills for a while, and has then all that it keeps

    samples = [Sample(float(second), 1.0, {SCHEDULER: mib(second)}) for second in range(10, 1_800, 10)]
    assert is_flat(growth(samples, since=1_200.0))
    assert not is_flat(growth([one._replace(mib={SCHEDULER: one.second / 50.0}) for one in samples], since=1_200.0))
