"""Are ids short, safe, and the same for the same cause?"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.ids import ORIGIN_MAX, digest, origin_of, request_id_of
from evertick.model.instant import from_text
from evertick.model.run import RunKey
from evertick.model.subrun import sub_run_key

SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
JOB = "nightly-warehouse"
PARENT = RunKey("a-job-with-quite-a-long-name-of-its-own", from_text("2026-03-02T09:00:00.123Z"), f"api-{digest('x')}")


@given(st.text())
def test_an_origin_is_safe_whatever_the_request_is_called(request_id):
    origin = origin_of(request_id)
    assert SAFE.fullmatch(origin)
    assert len(origin) <= ORIGIN_MAX
    assert origin_of(request_id) == origin
    assert origin_of(origin) == origin


@pytest.mark.parametrize("known", ["cli-0123456789ab", "api-0123456789abcdef01234567", "restart", "r1"])
def test_a_request_of_the_version_before_keeps_the_id_that_was_promised(known):
    assert origin_of(known) == known


@pytest.mark.parametrize(
    "origin",
    [
        origin_of(f"cli-{digest('x')}"),
        origin_of(f"hook-{digest('x')}"),
        origin_of(request_id_of("chain", PARENT.run_id, JOB)),
        origin_of(request_id_of("rule", "maxExpectedRunTime", PARENT.run_id, 1)),
        sub_run_key(JOB, PARENT, 1, "a step", 1).origin,
    ],
)
def test_an_id_is_below_sixty_characters(origin):
    assert len(RunKey(JOB, PARENT.scheduled_for, origin).run_id) < 60


def test_another_cause_has_another_id():
    ids = {request_id_of("chain", f"a@{number}", "b") for number in range(1_000)}
    assert len({origin_of(one) for one in ids}) == len(ids) == 1_000
