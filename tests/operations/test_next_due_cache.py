"""When jobs are due next, remembered: the same as if each was asked alone."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import EvertickError
from evertick.model.instant import DAY, HOUR, MINUTE, from_datetime
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.operations.next_due_cache import NextDueCache
from evertick.planning.schedules import compile_all, next_of

NOON = from_datetime(datetime(2026, 3, 2, 12, tzinfo=UTC))
SPECS = st.one_of(
    st.builds(
        CronSpec,
        st.sampled_from(["0 9 * * *", "*/20 * * * *", "H 3 * * *", "no expression"]),
        st.sampled_from(["UTC", "Europe/Berlin"]),
        st.sampled_from(["", "a", "b"]),
    ),
    st.sampled_from([30, 90]).map(lambda minutes: EverySpec(minutes * MINUTE)),
    st.sampled_from([-1, 1]).map(lambda days: AtSpec(NOON + days * DAY)),
)


def alone(specs, now):
    try:
        return next_of(compile_all(specs), now) if specs else None
    except EvertickError:
        return None


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.lists(SPECS, max_size=3).map(tuple), st.integers(-30, 30).map(HOUR.__mul__)
        ),
        max_size=20,
    )
)
def test_jobs_that_share_a_schedule_are_due_as_each_would_be_alone(asked):
    cache = NextDueCache()
    for job_id, specs, later in asked:
        assert cache.next_of(job_id, specs, NOON + later) == alone(specs, NOON + later)
