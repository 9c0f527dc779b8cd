"""Zone tables against the zone files, and the two readings made from them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from evertick.errors import DefinitionError
from evertick.planning.zones import (
    CORRECTION,
    HORIZON,
    Interval,
    each_second_once,
    find_zone,
    offset_intervals,
    read_zone,
)
from tests.planning.cron_oracles import DAY, HOUR, ZONES, zone_file_changes

SOME_ZONES = ["Africa/Casablanca", "Africa/Monrovia", "America/Recife", "Asia/Gaza", "Pacific/Apia", "UTC"]


def check_against_file(name: str) -> None:
    listed = zone_file_changes(name)
    table = offset_intervals(name)
    until = listed[-1][0] if listed else 0
    ours = [(interval.start, interval.offset) for interval in table[1:] if interval.start <= until]
    assert ours == [change for change in listed if change[0] > table[0].start]


@pytest.mark.parametrize("name", SOME_ZONES)
def test_the_table_of_a_zone_has_each_change_its_file_lists(name):
    check_against_file(name)


@pytest.mark.slow
def test_the_tables_of_all_zones_have_each_change_their_files_list():
    for name in ZONES:
        check_against_file(name)


@pytest.mark.parametrize("name", SOME_ZONES)
def test_intervals_follow_each_other_and_differ(name):
    for sooner, later in pairwise(offset_intervals(name)):
        assert sooner.end == later.start
        assert sooner.offset != later.offset


@pytest.mark.parametrize("name", SOME_ZONES)
@pytest.mark.parametrize("as_wildcard", [True, False])
def test_stretches_keep_to_the_bounds_and_never_overlap(name, as_wildcard):
    starts, stretches = read_zone(name, as_wildcard=as_wildcard)
    assert starts == tuple(stretch.start for stretch in stretches)
    assert stretches[0].start == 0
    assert stretches[-1].end == HORIZON
    assert all(stretch.start < stretch.end for stretch in stretches)
    assert all(sooner.end <= later.start for sooner, later in pairwise(stretches))


def test_fixed_time_reading_covers_each_local_second_once_around_daylight_saving():
    for sooner, later in pairwise(read_zone("Europe/Berlin", as_wildcard=False).stretches):
        assert later.covers_from == sooner.end + sooner.offset


@pytest.mark.parametrize(
    ("second", "third", "expected"),
    [
        pytest.param(HOUR, 0, [(0, 100, 0, 0), (100, 200, HOUR, 100), (HOUR + 200, DAY, 0, HOUR + 200)],
                     id="forward and back: the repeated hour waits until it is past"),
        pytest.param(-HOUR, 0, [(0, 100, 0, 0), (200, DAY, 0, 100)],
                     id="back and forward again: what the first pass had is not owed twice"),
        pytest.param(-CORRECTION, -2 * CORRECTION,
                     [(0, 100, 0, 0), (2 * CORRECTION + 100, DAY, -2 * CORRECTION, 100)],
                     id="back and back again"),
        pytest.param(-CORRECTION - 1, 0,
                     [(0, 100, 0, 0), (100, 200, -CORRECTION - 1, 99 - CORRECTION), (200, DAY, 0, 200)],
                     id="corrections begin anew"),
        pytest.param(CORRECTION, 0,
                     [(0, 100, 0, 0), (100, 200, CORRECTION, CORRECTION + 100),
                      (CORRECTION + 200, DAY, 0, CORRECTION + 200)],
                     id="a correction forward owes nothing"),
    ],
)  # fmt: skip
def test_changes_close_to_each_other(second, third, expected):
    intervals = (Interval(0, 100, 0), Interval(100, 200, second), Interval(200, DAY, third))
    assert list(each_second_once(intervals)) == expected


@pytest.mark.parametrize("name", ["", "Nowhere", "America", "../UTC", "/etc/passwd", "UTC\0", "\udc80", "x" * 5000,
                                  "localtime", "right/UTC", "posix/UTC", "tzdata.zi", "europe/berlin "])  # fmt: skip
def test_an_unknown_zone_is_refused_with_a_suggestion(name):
    with pytest.raises(DefinitionError) as caught:
        find_zone(name)
    assert "is not known" in caught.value.reason
    assert "such as Europe/Berlin" in str(caught.value) or "Did you mean" in str(caught.value)
    assert len(str(caught.value)) < 300
