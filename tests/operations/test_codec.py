"""Are results the same after a round trip through JSON, and is the JSON what clients rely on?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from inspect import getmembers, isclass
from types import NoneType, UnionType
from typing import Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest

from evertick.errors import ServerUnavailable
from evertick.model import instant
from evertick.model.instant import SECOND
from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger
from evertick.model.member import Closed
from evertick.operations import codec
from evertick.operations.codec import from_data, from_json, refreshed, to_data, to_json
from evertick.operations.ledger_rows import moment_of
from evertick.operations.results import attention, jobs, requests, runs, schedule, system
from evertick.operations.results.base import Result
from evertick.operations.results.jobs import EnvVariable, JobPage, Percentiles, RunPoint
from evertick.operations.results.schedule import FutureCell, Timeline
from evertick.operations.results.system import MemberState

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
HALF_PAST = datetime(2026, 3, 2, 9, 30, 0, 500_000, tzinfo=UTC)
POINT = RunPoint("report@2026-03-02T09:00:00Z", NINE, RunState.FAILED, Trigger.SCHEDULER, 1.5, None)
TIMELINE = Timeline(NINE, NINE, HALF_PAST, None, jobs=0, total=0, offset=0, lanes=(), downtimes=())

ALL = sorted(
    {
        found
        for module in (attention, runs, jobs, schedule, requests, system)
        for _, found in getmembers(module, isclass)
        if issubclass(found, Result) and found is not Result
    },
    key=lambda kind: kind.__name__,
)


@pytest.fixture
def encodings(monkeypatch):
    """How often something was encoded."""
    seen = []
    encode = codec._encode
    monkeypatch.setattr(codec, "_encode", lambda data: seen.append(data) or encode(data))
    return seen


def test_times_enums_and_tuples_have_the_form_that_the_api_promises():
    assert json.loads(to_json(POINT)) == {
        "run": "report@2026-03-02T09:00:00Z",
        "scheduled_for": "2026-03-02T09:00:00Z",
        "state": "failed",
        "trigger": "scheduler",
        "duration_seconds": 1.5,
        "lateness_seconds": None,
    }
    assert to_data(FutureCell(NINE, HALF_PAST, 3)) == {
        "at": "2026-03-02T09:00:00Z",
        "through": "2026-03-02T09:30:00.5Z",
        "count": 3,
    }
    page = JobPage((), None, 0, {JobStatus.IDLE: 2}, ("nightly",), ())
    assert json.loads(to_json(page))["statuses"] == {"idle": 2}
    assert json.loads(to_json(page))["tags"] == ["nightly"]


def test_a_field_that_python_reserves_has_its_plain_name_in_json():
    assert to_data(EnvVariable("TOKEN", "env:TOKEN")) == {"name": "TOKEN", "from": "env:TOKEN"}
    assert from_data(EnvVariable, {"name": "TOKEN", "from": None}).from_ is None


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_result_survives_json(kind):
    for is_full in (True, False):
        result = sample(kind, is_full=is_full)
        text = to_json(result)
        assert from_json(kind, text) == result
        assert json.loads(text) == to_data(result)


def test_plain_data_has_no_type_of_ours():
    """YAML and CSV writers know text and numbers, and no enums."""

    def types_in(value):
        if isinstance(value, dict):
            return {kind for pair in value.items() for one in pair for kind in types_in(one)}
        if isinstance(value, list):
            return {kind for one in value for kind in types_in(one)}
        return {type(value)}

    data = to_data(JobPage((), None, 0, {JobStatus.IDLE: 2}, ("nightly",), ()))
    assert types_in(data) == {str, int, type(None)}


def test_a_field_of_a_newer_server_is_ignored():
    assert from_data(FutureCell, {**to_data(FutureCell(NINE, HALF_PAST, 3)), "colour": "red"}).count == 3


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param({"state": "exploded"}, "RunPoint.state is 'exploded', not one of planned", id="unknown enum"),
        pytest.param({"state": None}, "RunPoint.state is None, not one of planned", id="null where none may be"),
        pytest.param({"scheduled_for": "soon"}, 'RunPoint.scheduled_for is "soon", not a time', id="no time"),
        pytest.param({"scheduled_for": "2026-03-02T09:00"}, "not a time with an offset", id="local time"),
        pytest.param({"duration_seconds": True}, "RunPoint.duration_seconds is true, not a number", id="no number"),
        pytest.param({"run": 7}, "RunPoint.run is 7, not a text", id="no text"),
    ],
)
def test_what_does_not_decode_is_named(change, place):
    with pytest.raises(ServerUnavailable) as raised:
        from_data(RunPoint, {**to_data(POINT), **change})
    assert place in str(raised.value)


def test_the_place_of_a_mismatch_inside_a_list_is_named():
    data = {"job": "report", "items": [to_data(POINT), {**to_data(POINT), "run": None}]}
    with pytest.raises(ServerUnavailable, match=r"Durations\.items\[1\]\.run is null, not a text"):
        from_data(jobs.Durations, data)


def test_a_missing_field_and_a_text_that_is_not_json_are_errors():
    with pytest.raises(ServerUnavailable, match=r"FutureCell\.count is missing"):
        from_data(FutureCell, {"at": "2026-03-02T09:00:00Z", "through": "2026-03-02T09:00:00Z"})
    with pytest.raises(ServerUnavailable, match="not JSON"):
        from_json(FutureCell, b"<html>")


def test_a_shared_result_is_encoded_once(encodings):
    first, second = to_json(POINT), to_json(POINT)
    assert first == second
    result = replace(POINT)
    encodings.clear()
    assert to_json(result) == to_json(result)
    assert len(encodings) == 1


def test_only_the_volatile_fields_of_a_refreshed_result_are_encoded_again(encodings):
    kept = replace(TIMELINE)
    to_json(refreshed(kept, now=NINE))
    encodings.clear()
    later = refreshed(kept, now=HALF_PAST)
    text = to_json(later)
    assert encodings == [{"now": HALF_PAST}]
    assert from_json(Timeline, text) == later
    assert json.loads(to_json(kept))["now"] == "2026-03-02T09:00:00Z"


def test_results_are_equal_by_their_fields_and_cannot_change():
    assert replace(POINT) == POINT
    to_json(POINT)
    assert replace(POINT) == POINT, "a kept text is not part of the value"
    with pytest.raises(AttributeError):
        setattr(POINT, "run", "other")  # noqa: B010


def test_a_value_that_is_not_a_result_is_not_encoded():
    with pytest.raises(TypeError, match="set is not part of a result"):
        to_json(Percentiles(cast("float", {1}), None, None, None, None, None))


def test_optional_enums_and_mappings_decode_to_their_types():
    member = MemberState("a", True, False, None, 1, 2, {"gpu": "yes"}, False, {}, {}, None, None, None, ())
    found = from_data(MemberState, {**to_data(member), "closed": "cordoned"})
    assert found.closed is Closed.CORDONED
    page = from_data(JobPage, to_data(JobPage((), None, 0, {JobStatus.PAUSED: 1}, (), ())))
    assert next(iter(page.statuses)) is JobStatus.PAUSED
    assert (
        SkipReason.MISSED
        in from_data(
            system.Verification,
            to_data(system.Verification(True, 1, 1, {SkipReason.MISSED: 1}, 0, 0, 0, 0, 0, 0, 0, ())),
        ).skips
    )


def sample(hint, *, is_full):
    """A value of a type: with everything in it, or with as little as there may be."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return sample(arguments[0], is_full=True) if is_full or NoneType not in arguments else None
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return (sample(arguments[0], is_full=True), sample(arguments[0], is_full=False)) if is_full else ()
    if origin is Mapping:
        return {sample(arguments[0], is_full=True): sample(arguments[1], is_full=True)} if is_full else {}
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{field.name: sample(hints[field.name], is_full=is_full) for field in fields(hint)})
    if issubclass(hint, StrEnum):
        return list(hint)[-1]
    return {datetime: HALF_PAST, str: "Zürich \u2028", int: 2**53, float: 0.1, bool: True, object: {"n": [1, None]}}[
        hint
    ]


def test_the_times_that_are_remembered_are_few():
    """They are the part of a server's memory that fills slowest: each run brings two that no answer had before."""
    for second in range(10_000):
        to_data(moment_of(second * SECOND))
    remembered = [known.cache_info().currsize for known in (moment_of, codec._time_text, instant._second_text)]
    assert remembered == [4_096] * 3
