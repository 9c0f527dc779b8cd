"""Which run does a text name?"""

from __future__ import annotations

import pytest

from evertick.errors import InvalidArgument, NotFound
from evertick.model.instant import MINUTE, SECOND
from evertick.model.lifecycle import FAILED, SKIPPED, SkipReason, Trigger
from evertick.operations.run_reference import find_referenced
from tests.operations.ledger import at, entry, fill, job, key, ran

JOBS = {"etl": job(), "etl-late": job(name="etl-late")}
NOW = at(6.5)


@pytest.fixture
def filled(store):
    fill(
        store,
        entry(1),
        entry(2),
        entry(2, key=key(2, "cli-abc"), trigger=Trigger.MANUAL),
        entry(5),
        entry(6, state=SKIPPED, reason=SkipReason.OVERLAP),
        entry(7),
        watermark=7,
    )
    ran(store, key(1), at(1) + SECOND, at(1) + MINUTE)
    ran(store, key(5), at(5), at(5) + 2 * MINUTE, FAILED)
    return store


def found(store, text):
    return find_referenced(store, text, JOBS, NOW).key


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("etl@2026-03-02T01:00:00Z", key(1), id="a whole id"),
        pytest.param("etl@2026-03-02T02:00:00Z", key(2), id="a whole id that another one begins with"),
        pytest.param("etl@2026-03-02T02:00:00Z~c", key(2, "cli-abc"), id="a beginning of the request"),
        pytest.param("etl@2026-03-02T05", key(5), id="an hour"),
        pytest.param("etl@2026-03-02T01:0", key(1), id="a part of the minutes"),
        pytest.param("etl", key(5), id="a job: its newest run that has started"),
    ],
)
def test_a_text_names_one_run(filled, text, meant):
    assert found(filled, text) == meant


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        pytest.param("etl@2026-03-02T0", ["T07", "T06", "T05", "T02", "T02"], id="the newest are named"),
        pytest.param("etl@2026-03-02T02:0", ["T02", "T02"], id="two for one instant"),
        pytest.param("et", ["T07", "T06", "T05", "T02", "T02"], id="a beginning of the job"),
        pytest.param("etl@", ["T07", "T06", "T05", "T02", "T02"], id="nothing of the time"),
    ],
)
def test_several_are_named_and_none_is_taken(filled, text, candidates):
    with pytest.raises(NotFound, match="matches several runs") as error:
        found(filled, text)
    assert [one[len("etl@2026-03-02") :][:3] for one in error.value.suggestions] == candidates


@pytest.mark.parametrize(
    "text",
    ["etl@2026-03-02T01:00:01Z", "etl@2025", "elt@2026-03-02T01:00:00Z", "nothing", "", "etl-late"],
)
def test_no_match_is_reported(filled, text):
    with pytest.raises(NotFound):
        found(filled, text)


@pytest.mark.parametrize(
    "text", ["etl@x", "etl@2026-02-3", "etl@2026-03-02T9", "@2026-03-02", "etl@2026-03-02 01", "etl@٢٠٢٦"]
)
def test_what_no_id_begins_with_is_a_slip(filled, text):
    with pytest.raises(InvalidArgument, match="invalid run id"):
        found(filled, text)


def test_where_none_has_started_a_job_is_its_newest_line(store):
    fill(store, entry(1, state=SKIPPED, reason=SkipReason.MISSED), entry(7), watermark=7)
    assert found(store, "etl") == key(1)
