"""Blackouts in the settings: which jobs they concern, and which mistakes are errors."""

from __future__ import annotations

import pytest

from evertick import Scheduler
from evertick.definitions.parser import parse_definition
from evertick.errors import SettingsError
from evertick.model.instant import to_text
from evertick.settings import Settings
from tests.library.programs import until

NIGHT = {"from": "2027-03-06T22:00", "to": "2027-03-07T04:00"}


def settings(tmp_path, *blackouts, **more):
    return Settings.load(tmp_path, {}, {"timezone": "Europe/Berlin", "blackouts": list(blackouts), **more})


def blackouts_of(tmp_path, *blackouts, text="tags: [db]\ncommand: 'true'\n"):
    found = parse_definition(text, "report.yaml", settings(tmp_path, *blackouts))
    assert found.job is not None, found.errors
    return [(to_text(one.start), to_text(one.end), one.reason) for one in found.job.blackouts]


@pytest.mark.parametrize(
    ("whom", "is_concerned"),
    [
        ({"all": True}, True),
        ({"jobs": ["report"]}, True),
        ({"jobs": "report"}, True),
        ({"jobs": ["other"]}, False),
        ({"tags": ["x", "db"]}, True),
        ({"tags": ["x"], "jobs": ["other"]}, False),
    ],
)
def test_a_blackout_concerns_jobs_by_id_by_tag_or_all(tmp_path, whom, is_concerned):
    assert bool(blackouts_of(tmp_path, {**NIGHT, **whom})) is is_concerned


def test_times_without_an_offset_are_in_the_zone_of_the_blackout_or_of_the_settings(tmp_path):
    own = {**NIGHT, "timezone": "Asia/Tokyo", "reason": "Upgrade", "all": True}
    offset = {"from": "2027-03-06T22:00:00Z", "to": "2027-03-07T04:00:00+01:00", "all": True}
    assert blackouts_of(tmp_path, {**NIGHT, "all": True}, own, offset) == [
        ("2027-03-06T21:00:00Z", "2027-03-07T03:00:00Z", ""),
        ("2027-03-06T13:00:00Z", "2027-03-06T19:00:00Z", "Upgrade"),
        ("2027-03-06T22:00:00Z", "2027-03-07T03:00:00Z", ""),
    ]


def test_they_are_read_from_the_file(tmp_path):
    (tmp_path / "evertick.toml").write_text(
        "[[blackouts]]\nfrom = 2027-03-06T22:00:00\nto = 2027-03-07T04:00:00\ntimezone = 'UTC'\nall = true\n"
    )
    (rule,) = Settings.load(tmp_path, {}).blackouts
    assert [at.isoformat() for at in rule.window("UTC")] == ["2027-03-06T22:00:00+00:00", "2027-03-07T04:00:00+00:00"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param({}, "which jobs it concerns", id="no jobs"),
        pytest.param({"all": True, "jobs": ["a"]}, "which jobs it concerns", id="all and some"),
        pytest.param({"all": "yes"}, "which jobs it concerns", id="not true"),
        pytest.param({"all": True, "to": "2027-03-06T21:00"}, "not after its start", id="ends before it begins"),
        pytest.param({"all": True, "from": "tonight"}, "not a date and time", id="no date"),
        pytest.param({"all": True, "from": "1900-01-01T00:00"}, "the year 1900", id="long ago"),
        pytest.param({"all": True, "timezone": "Berlin"}, "not a time zone", id="no zone"),
        pytest.param({"all": True, "until": "x"}, "unknown key 'until'", id="unknown key"),
        pytest.param({"all": True, "reason": "a\nb"}, "not one line", id="two lines"),
        pytest.param({"jobs": [1]}, "not a list of names", id="numbers"),
    ],
)
def test_a_mistake_is_an_error_that_names_it(tmp_path, wrong, reason):
    with pytest.raises(SettingsError, match=reason):
        settings(tmp_path, {**NIGHT, **wrong})


def test_a_table_is_not_a_list(tmp_path):
    with pytest.raises(SettingsError, match=r"\[\[blackouts\]\]"):
        Settings.load(tmp_path, {}, {"blackouts": NIGHT})


def test_a_running_scheduler_shows_the_blackout_and_starts_nothing_in_it(tmp_path):
    always = {"from": "2026-01-01T00:00", "to": "2099-01-01T00:00", "reason": "Freeze", "jobs": ["dark"]}
    scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db", settings=settings(tmp_path, always))
    calls = []
    for name in ("dark", "bright"):
        scheduler.add(lambda name=name: calls.append(name), every="250ms", name=name, persist=False)
    with scheduler:
        until(lambda: len(calls) > 2, "the job that no blackout concerns")
        found = scheduler.wait(scheduler.get_schedule("dark"))
        assert found is not None
        assert found.status == "paused"
        (due,) = scheduler.wait(scheduler.get_upcoming(1, job="dark"))
        assert "Freeze" in due.detail
        assert "Freeze" in str(scheduler.wait(scheduler.why("dark", due.scheduled_for)))
        assert scheduler.wait(scheduler.verify()).is_sound
    assert set(calls) == {"bright"}
