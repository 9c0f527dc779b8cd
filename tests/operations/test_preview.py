"""What would happen, without doing it; and the rules behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.model.blackout import Blackout
from evertick.model.instant import SECOND
from evertick.model.lifecycle import WAITING, SkipReason
from evertick.model.policy import Missed
from evertick.operations.preview import preview_catchup
from evertick.operations.rules import explain, overlap_words
from evertick.store import RunFilter
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key


@pytest.mark.parametrize(
    ("written", "kept", "skipped"),
    [
        pytest.param("", 0, 4, id="no catch-up keeps nothing"),
        pytest.param("catchupWindow: 6h\n", 1, 3, id="a window keeps the first"),
        pytest.param("catchupWindow: 6h\noverlapPolicy: all\n", 4, 0, id="all keeps all"),
        pytest.param("catchupWindow: 2h\noverlapPolicy: all\n", 2, 2, id="a short window keeps what it reaches"),
        pytest.param("missed: latest\n", 1, 3, id="latest keeps the newest"),
    ],
)
def test_a_start_now_would_catch_up_by_the_policy(store, written, kept, skipped):
    fill(store, watermark=1.5)
    found = preview_catchup(store, job(TEXT + written), at(5.5))
    assert (found.watermark, found.kept, found.skipped) == (at(1.5), kept, skipped)
    assert store.query(RunFilter(), None, 10).rows == []


def test_a_choice_may_take_the_place_of_the_policy(store):
    fill(store, watermark=1.5)
    assert preview_catchup(store, job(), at(5.5), Missed.ALL).kept == 4


def test_a_long_stretch_is_one_gap(store):
    fill(store, watermark=0.5)
    (gap,) = preview_catchup(store, job(), at(15.5)).fates
    assert (gap.at, gap.through, gap.occurrences, gap.reason) == (at(1), at(15), 15, SkipReason.MISSED)


def test_a_paused_job_is_previewed_as_its_resume(store):
    fill(store, watermark=1.5, paused_at=at(1.5), held=True)
    found = preview_catchup(store, job(), at(3.5))
    assert found.paused_at == at(1.5)
    assert {fate.reason for fate in found.fates} == {SkipReason.PAUSED}


@pytest.mark.parametrize(
    ("written", "kept"),
    [pytest.param("", [], id="none"), pytest.param("missed: latest\n", [5], id="the newest at its end")],
)
def test_a_job_in_a_blackout_is_previewed_as_the_end_of_it(store, written, kept):
    fill(store, watermark=1.5)
    inside = Blackout(at(1.5), at(5.5), "upgrade")
    found = preview_catchup(store, replace(job(TEXT + written), blackouts=(inside,)), at(4) + SECOND)
    assert found.blackout == inside
    assert [fate.at for fate in found.fates if fate.runs] == [at(hour) for hour in kept]
    assert found.kept + found.skipped == 4


def test_the_backlog_is_reported_and_not_planned_again(store):
    fill(store, entry(1), watermark=1.5)
    change(store, key(1), WAITING, at(1))
    found = preview_catchup(store, job(TEXT + "catchupWindow: 6h\noverlapPolicy: all\n"), at(3.5))
    assert (found.backlog, [fate.at for fate in found.fates]) == ((key(1),), [at(2), at(3)])


def test_a_job_that_the_ledger_does_not_know_catches_nothing_up(store):
    assert preview_catchup(store, job(), at(5.5)).watermark is None


def test_the_rules_of_a_job_are_reported_with_their_places():
    text = TEXT + "catchupWindow: 6h\noverlapPolicy: latest\nretryPolicy: {maxRetries: 2}\npriority: 3\n"
    rules = {rule.name: (rule.value, rule.origin) for rule in explain(job(text))}
    assert rules["start.0"] == ("0 * * * * (Europe/Berlin)", "jobs/etl.yaml:1")
    assert rules["timezone"] == ("Europe/Berlin", "jobs/etl.yaml:2")
    assert rules["catchupWindow"] == ("6h", "jobs/etl.yaml:4")
    assert rules["missed"] == ("latest", "jobs/etl.yaml:5")
    assert rules["retryPolicy.maxRetries"] == ("2", "jobs/etl.yaml:6")
    assert rules["priority"] == ("3", "jobs/etl.yaml:7")
    assert rules["grace"] == ("30s", "default")
    assert all(origin for _value, origin in rules.values())


@pytest.mark.parametrize(
    ("written", "words"),
    [
        pytest.param("", "overlap: skip", id="by default"),
        pytest.param("overlap: parallel(3)\n", "overlap: parallel(3)", id="its own field"),
        pytest.param("catchupWindow: 6h\noverlapPolicy: all\n", "overlapPolicy: all", id="the policy of a catch-up"),
        pytest.param("catchupWindow: 6h\n", "overlap: skip", id="the default of a catch-up"),
        pytest.param("blockStrategy: COVER\n", "blockStrategy: COVER", id="another system's word"),
    ],
)
def test_the_overlap_rule_is_reported_in_the_word_it_was_written_with(written, words):
    assert overlap_words(job(TEXT + written)) == words


def test_the_rules_name_a_blackout_by_its_window():
    blacked_out = replace(job(), blackouts=(Blackout(at(1), at(2), "upgrade"),))
    (value,) = [rule.value for rule in explain(blacked_out) if rule.name == "blackout.0"]
    assert value == "from 2026-03-02T01:00:00Z to 2026-03-02T02:00:00Z: upgrade"
