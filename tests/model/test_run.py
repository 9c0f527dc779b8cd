"""Whether a run keeps its id, and an entry says whether it is one occurrence or a gap."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import from_text
from evertick.model.lifecycle import PLANNED, SKIPPED, SkipReason, Trigger
from evertick.model.run import Entry, RunKey

NINE = from_text("2026-03-02T09:00:00Z")

# What a job's id and a request's id are made of; neither '@' nor '~' can occur.
names = st.text(string.ascii_lowercase + string.digits + "_.-", min_size=1, max_size=64)
instants = st.integers(from_text("1970-01-01T00:00:00Z"), from_text("2200-01-01T00:00:00Z"))


@given(names, instants, st.one_of(st.just(""), names))
def test_a_run_id_gives_the_key_back(job_id, scheduled_for, origin):
    key = RunKey(job_id, scheduled_for, origin)
    assert RunKey.from_run_id(key.run_id) == key


@given(st.lists(st.builds(RunKey, names, instants, st.one_of(st.just(""), names)), unique=True))
def test_two_keys_never_share_a_run_id(keys):
    assert len({key.run_id for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "run_id"),
    [
        pytest.param(RunKey("report", NINE), "report@2026-03-02T09:00:00Z", id="an occurrence"),
        pytest.param(RunKey("report", NINE, "m1"), "report@2026-03-02T09:00:00Z~m1", id="a requested run"),
        pytest.param(RunKey("a.b", NINE + 250_000), "a.b@2026-03-02T09:00:00.25Z", id="a fraction of a second"),
    ],
)
def test_a_run_id_can_be_read_by_people(key, run_id):
    assert key.run_id == run_id


def test_a_requested_run_may_share_the_instant_of_an_occurrence():
    assert RunKey("report", NINE) != RunKey("report", NINE, "m1")


def test_keys_of_one_job_sort_by_time():
    keys = [RunKey("report", NINE + 1), RunKey("report", NINE)]
    assert sorted(keys) == keys[::-1]


def test_an_entry_with_more_than_one_occurrence_is_a_gap():
    one = Entry(RunKey("report", NINE), PLANNED, Trigger.SCHEDULER, decided_at=NINE)
    stretch = one._replace(state=SKIPPED, reason=SkipReason.PAUSED, through=NINE + 60, occurrences=61)
    assert not one.is_gap
    assert stretch.is_gap
