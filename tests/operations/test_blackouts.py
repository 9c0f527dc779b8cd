"""Blackouts that users add, list and remove while the scheduler runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from evertick.errors import Conflict, InvalidArgument, NotFound, StoreUnavailable
from evertick.model.blackout import AddedBlackout, blackout_text
from evertick.model.instant import DAY, to_text
from evertick.model.ledger import Batch, JobRecord, StoredBlackout
from evertick.operations.blackouts import KEPT_US
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.settings.blackouts import BlackoutRule
from tests.operations.ledger import at, fill, job

DECLARED = BlackoutRule(
    datetime(2026, 3, 3, 8, tzinfo=UTC), datetime(2026, 3, 3, 10, tzinfo=UTC), reason="Freeze", is_for_all=True
)
TAGGED = replace(job(name="tagged"), tags=("db",))


@pytest.fixture
def operations(store):
    fill(store, watermark=9.2)
    folder = folder_of({one.id: one for one in (job(), TAGGED)})
    declared = ("jobs/evertick.toml:3", (DECLARED,))
    return LocalOperations(store, lambda: folder, now=lambda: at(9.25), by="ann", declared_blackouts=declared)


def hours(first: float, last: float) -> tuple[str, str]:
    return to_text(at(first)), to_text(at(last))


def test_a_preview_names_the_occurrences_and_changes_nothing(operations):
    found = operations.add_blackout(*hours(10, 13), ["etl"], ["db"], preview=True)
    assert (found.is_preview, found.jobs, found.occurrences) == (True, 2, 6)
    first = found.affected[0]
    assert (first.job, first.occurrences, first.timezone) == ("etl", 3, "Europe/Berlin")
    assert first.times == tuple(datetime(2026, 3, 2, hour, tzinfo=UTC) for hour in (10, 11, 12))
    assert operations.store.blackouts() == {}


def test_an_added_blackout_is_listed_beside_those_of_the_settings(operations):
    added = operations.add_blackout("now", "+1h", is_for_all=True, reason=" Network ", by="bob").blackout
    items = operations.blackouts().items
    assert [(one.id, one.state, one.origin) for one in items] == [
        (added.id, "active", "added"),
        ("settings-1", "planned", "settings"),
    ]
    assert (added.reason, added.added_by, added.is_for_all) == ("Network", "bob", True)
    assert items[1].file == "jobs/evertick.toml:3"


def test_every_question_knows_it(operations):
    operations.add_blackout(*hours(10, 12), ["etl"], reason="Upgrade")
    fires = operations.job_upcoming("etl", 4).items
    assert [fire.reason for fire in fires] == ["paused", "paused", None, None]
    assert "Upgrade" in fires[0].detail
    assert "Upgrade" in str(operations.why("etl", to_text(at(11))))
    assert any("added at run time" in rule.origin for rule in operations.explain("etl"))
    assert all(fire.reason is None for fire in operations.job_upcoming("tagged", 4).items)


def test_a_time_in_the_past_is_now_and_bounds_are_whole_seconds(operations):
    found = operations.add_blackout("-2h", "+90m", ["etl"]).blackout
    assert (found.from_, found.to) == (
        datetime(2026, 3, 2, 9, 15, tzinfo=UTC),
        datetime(2026, 3, 2, 10, 45, tzinfo=UTC),
    )


def test_the_same_request_adds_one(operations):
    first = operations.add_blackout("now", "+1h", ["etl"], request_id="r1")
    assert operations.add_blackout("now", "+2h", ["etl"], request_id="r1").blackout == first.blackout
    assert len(operations.store.blackouts()) == 1


def test_removing_a_blackout_ends_it_when_it_lasts_and_drops_it_when_it_is_ahead(operations):
    lasting = operations.add_blackout("now", "+3h", ["etl"]).blackout.id
    ahead = operations.add_blackout("+1h", "+3h", ["etl"]).blackout.id
    operations.now = lambda: at(9.5)
    assert operations.remove_blackout(lasting, preview=True).occurrences == 3
    assert operations.remove_blackout(lasting).blackout.state == "over"
    operations.remove_blackout(ahead)
    (left,) = (one for one in operations.blackouts(over=True).items if one.origin == "added")
    assert (left.id, left.state, left.to) == (lasting, "over", datetime(2026, 3, 2, 9, 30, tzinfo=UTC))
    assert operations.remove_blackout(lasting).blackout == left


def test_a_blackout_of_the_settings_is_removed_in_its_file(operations):
    with pytest.raises(Conflict, match=r"Remove it in jobs/evertick.toml:3"):
        operations.remove_blackout("settings-1")
    with pytest.raises(NotFound, match="unknown blackout 'b1'"):
        operations.remove_blackout("b1")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (("now", "+1h"), InvalidArgument, "some jobs, some tags, or all"),
        (("now", "+1h", ["etl"], (), True), InvalidArgument, "some jobs, some tags, or all"),
        (("now", "+1h", ["elt"]), NotFound, "unknown job 'elt'"),
        (("now", "+1h", (), ["bd"]), InvalidArgument, "Did you mean 'db'"),
        (("+2h", "+1h", ["etl"]), InvalidArgument, "does not end after its start"),
        (("-2h", "-1h", ["etl"]), InvalidArgument, "does not end after its start"),
        (("now", "soon", ["etl"]), InvalidArgument, "'soon' is not a time"),
        (("now", "+1h", ["etl"], (), False, "two\nlines"), InvalidArgument, "not one line"),
        (("now", "+1h", ["etl"], (), False, "", "Europe/Brelin"), InvalidArgument, "Europe/Brelin"),
    ],
)
def test_what_makes_no_sense_is_refused(operations, given, error, said):
    with pytest.raises(error, match=said):
        operations.add_blackout(*given)
    assert operations.store.blackouts() == {}


def test_a_blackout_that_ended_long_ago_is_dropped_with_the_next(operations):
    old = AddedBlackout("b0", at(1) - KEPT_US - DAY, at(1) - KEPT_US, jobs=("etl",))
    operations.store.commit(Batch(by="x", blackouts=[StoredBlackout("b0", blackout_text(old))]))
    added = operations.add_blackout("now", "+1h", ["etl"]).blackout.id
    assert list(operations.store.blackouts()) == [added]


def test_without_the_ledger_the_jobs_are_as_they_were_known_last(operations, monkeypatch):
    operations.add_blackout("now", "+1h", ["etl"])
    assert operations.jobs["etl"].blackouts
    operations.added_blackouts.forget()

    def is_away() -> dict[str, str]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(operations.store, "blackouts", is_away, raising=False)
    assert operations.jobs["etl"].blackouts


def test_the_calendar_has_those_of_its_period_that_concern_the_job(operations):
    operations.add_blackout(*hours(10, 12), ["etl"], reason="Upgrade")
    week = ("2026-03-02", "2026-03-08")
    assert [one.reason for one in operations.calendar(None, *week).blackouts] == ["Upgrade", "Freeze"]
    assert [one.reason for one in operations.calendar("etl", *week).blackouts] == ["Upgrade", "Freeze"]
    operations.store.commit(Batch(by="x", jobs=[JobRecord("tagged", at(9))]))
    assert [one.reason for one in operations.calendar("tagged", *week).blackouts] == ["Freeze"]
    assert operations.calendar(None, "2026-02-01", "2026-02-02").blackouts == ()
