"""What is shown of deadlines: the light of a job, what needs attention, and `why`."""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.model.instant import MINUTE
from evertick.model.lifecycle import FAILED, SKIPPED, SUCCEEDED, Light, SkipReason, Trigger
from evertick.operations.local import LocalOperations
from evertick.operations.results.attention import AttentionAction, AttentionKind
from evertick.operations.why import explain_occurrence
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran

WITHIN = TEXT + "expectWithin: 20m\n"
LATE = {"late_since": at(3) + 20 * MINUTE, "deadlines_through": at(3)}


def operations(store, one):
    return LocalOperations(store, lambda: Folder(jobs={one.id: one}), now=lambda: at(3.5))


def why(store, when: str, now: float = 3.5) -> tuple[str, ...]:
    return explain_occurrence(store, "etl", when, {"etl": job(WITHIN)}, at(now)).sentences


@pytest.mark.parametrize(
    ("state", "ends", "record", "light"),
    [
        pytest.param(SUCCEEDED, True, {}, Light.ON_TIME, id="it succeeded"),
        pytest.param(FAILED, True, {"has_failed": True}, Light.DOWN, id="it failed"),
        pytest.param(SUCCEEDED, False, LATE, Light.LATE, id="it runs, and its deadline has passed"),
        pytest.param(SUCCEEDED, False, {}, None, id="it runs for the first time"),
        pytest.param(FAILED, True, {"has_failed": True, "paused_at": at(3)}, None, id="it is paused"),
    ],
)
def test_a_job_has_the_same_light_in_the_list_and_on_its_page(store, state, ends, record, light):
    one = job(WITHIN)
    fill(store, entry(3), watermark=3.5, one=one, **record)
    ran(store, key(3), at(3), at(3.1) if ends else None, state)
    known = operations(store, one)
    assert [shown.light for shown in known.list_jobs().items] == [light]
    assert known.job("etl").light is light


def test_a_job_past_its_deadline_needs_attention_until_it_succeeds(store):
    one = job(WITHIN)
    fill(store, entry(3), entry(3.45, key=key(3.45, "cli-1")), watermark=3.5, one=one, **LATE)
    change(store, key(3), SKIPPED, at(3), reason=SkipReason.OVERLAP)
    (item,) = [item for item in operations(store, one).attention().items if item.job]
    assert (item.kind, item.action, item.run) == (AttentionKind.PAST_DEADLINE, AttentionAction.RUN, key(3).run_id)
    assert item.text == "expected within 20m"
    ran(store, key(3.45, "cli-1"), at(3.45), None)
    (item,) = [item for item in operations(store, one).attention().items if item.job]
    assert (item.action, item.run, item.active) == (AttentionAction.SHOW_RUN, key(3.45, "cli-1").run_id, 1)


def test_why_says_whether_an_occurrence_met_its_deadline(store):
    fill(store, entry(1), entry(2), entry(3), watermark=3.5, one=job(WITHIN))
    ran(store, key(1), at(1), at(1) + 19 * MINUTE)
    ran(store, key(2), at(2), at(2) + 32 * MINUTE)
    assert "in time: the deadline was 02:20:00 (jobs/etl.yaml:4)" in why(store, "2026-03-02T02:00")
    late = "past its deadline: it succeeded 12m after 03:20:00 (jobs/etl.yaml:4)"
    assert late in why(store, "2026-03-02T03:00")
    assert "past its deadline: it has not succeeded by 04:20:00 (jobs/etl.yaml:4)" in why(store, "2026-03-02T04:00")
    soon = "it must succeed by 04:20:00, in 10m (jobs/etl.yaml:4)"
    assert soon in why(store, "2026-03-02T04:00", now=3 + 1 / 6)
    assert "it must succeed by 09:20:00, in 4h 50m (jobs/etl.yaml:4)" in why(store, "2026-03-02T09:00")


def test_why_names_the_run_that_met_the_deadline_of_another(store):
    again = entry(2, key=key(2, "cli-1"), trigger=Trigger.RETRY)
    fill(store, entry(2), again, watermark=3.5, one=job(WITHIN))
    ran(store, key(2), at(2), at(2) + MINUTE, FAILED)
    ran(store, key(2, "cli-1"), at(2) + 5 * MINUTE, at(2) + 6 * MINUTE)
    told = f"in time: the deadline was 03:20:00 (jobs/etl.yaml:4), by {key(2, 'cli-1').run_id}"
    assert told in why(store, "2026-03-02T03:00")


def test_why_says_nothing_of_the_deadline_of_an_occurrence_that_was_skipped_on_purpose(store):
    fill(store, entry(2), watermark=3.5, one=job(WITHIN))
    change(store, key(2), SKIPPED, at(2), reason=SkipReason.CONDITION)
    assert not [one for one in why(store, "2026-03-02T03:00") if "deadline" in one]
