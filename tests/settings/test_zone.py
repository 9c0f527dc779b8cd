"""Which zone applies where a job names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from evertick.errors import SettingsError
from evertick.settings import Settings, is_zone, zone


def test_the_setting_goes_before_the_system():
    found = Settings.from_environment({"EVERTICK_TIMEZONE": "Asia/Tokyo", "TZ": "Europe/Berlin"})
    assert found == Settings("Asia/Tokyo", "setting EVERTICK_TIMEZONE")


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("Europe/Berlin", id="a name"),
        pytest.param(":Europe/Berlin", id="a name with a colon"),
        pytest.param("/usr/share/zoneinfo/Europe/Berlin", id="the path of a zone"),
    ],
)
def test_tz_may_be(written):
    assert Settings.from_environment({"TZ": written}) == Settings("Europe/Berlin", "system (TZ)")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("EVERTICK_TIMEZONE", "EVERTICK_TIMEZONE: 'timezone' is 'CET-1CEST'", id="the setting"),
        pytest.param("TZ", "TZ is 'CET-1CEST'", id="the system"),
    ],
)
def test_a_zone_that_is_none_is_refused_with_the_next_step(name, words):
    with pytest.raises(SettingsError, match=rf"{words}.* such as Europe/Berlin"):
        Settings.from_environment({name: "CET-1CEST"})


class TestTheSystem:
    @pytest.fixture
    def etc(self, tmp_path, monkeypatch) -> Path:
        monkeypatch.setattr(zone, "_LOCALTIME", tmp_path / "localtime")
        monkeypatch.setattr(zone, "_TIMEZONE", tmp_path / "timezone")
        return tmp_path

    def test_its_link_is_followed(self, etc):
        (etc / "zoneinfo" / "Asia").mkdir(parents=True)
        (etc / "zoneinfo" / "Asia" / "Tokyo").touch()
        (etc / "localtime").symlink_to(etc / "zoneinfo" / "Asia" / "Tokyo")
        (etc / "timezone").write_text("Europe/Berlin\n", encoding="utf-8")
        assert Settings.from_environment({}) == Settings("Asia/Tokyo", "system")

    def test_its_note_is_read_where_there_is_no_link(self, etc):
        (etc / "timezone").write_text("Europe/Berlin\n", encoding="utf-8")
        assert Settings.from_environment({}) == Settings("Europe/Berlin", "system")

    @pytest.mark.usefixtures("etc")
    def test_utc_applies_when_it_is_empty(self):
        assert Settings.from_environment({}) == Settings("UTC", "system (no zone set)")

    def test_utc_applies_when_it_is_invalid(self, etc):
        (etc / "timezone").write_bytes(b"\xff\xfe")
        assert Settings.from_environment({}).timezone == "UTC"


@pytest.mark.parametrize(
    "name", ["", "Europe", "../UTC", "/etc/passwd", "right/UTC", "localtime", "x\0y", "é", "a" * 300]
)
def test_an_invalid_zone(name):
    assert not is_zone(name)
