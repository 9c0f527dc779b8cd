"""Are executors listed as users see them: this machine, a fleet with its members, a cluster?"""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.model.lifecycle import RUNNING
from evertick.operations.context import Live
from evertick.operations.local import LocalOperations
from tests.operations.ledger import at, change, entry, fill, job, key


def member(kind, name, **known):
    told = {"kind": kind, "member": name, "is_healthy": True, "is_open": True, "running": 0, "slots": 3, "labels": {}}
    return {**told, "version": "1", "address": None, "seen_at": None, **known}


TOLD = {
    "fleet@ex-a": member("fleet", "ex-a", running=2, labels={"disk": "ssd"}),
    "fleet@ex-b": member("fleet", "ex-b", is_healthy=False, is_open=False),
    "kubernetes@a1": member("kubernetes", "kubernetes"),
    "local@a1": {**member("local", "local"), "lanes": {"fast": {"under_way": 0, "size": 2, "waiting": 0, "queue": 9}}},
}


class Scheduler(Live):
    def __init__(self, told):
        self.told = told

    def status(self):
        return {"node": "a1", "executors": self.told}

    def announce_requests(self):
        pass


@pytest.fixture
def places(store):
    """The places, with a run at each of these."""

    def places(*executors, told=TOLD):
        fill(store, *(entry(hour) for hour in range(len(executors))), watermark=4)
        for hour, executor in enumerate(executors):
            change(store, key(hour), RUNNING, at(hour), attempt=1, executor=executor, started_at=at(hour))
        operations = LocalOperations(
            store, lambda: Folder(jobs={"etl": job()}), now=lambda: at(4.5), live=Scheduler(told)
        )
        return {one.executor: one for one in operations.executors().items}

    return places


def test_members_of_a_fleet_are_one_place(places):
    found = places()
    assert list(found) == ["fleet", "kubernetes@a1", "local@a1"]
    first, second = found["fleet"].members
    assert (first.name, first.running, first.slots, first.labels) == ("ex-a", 2, 3, {"disk": "ssd"})
    assert (second.is_healthy, second.is_open) == (False, False)
    assert found["fleet"].is_healthy
    assert (found["local@a1"].members, found["local@a1"].lanes["fast"].size) == ((), 2)


DRAINED = {"is_open": False}
OUTLASTING = {"is_open": False, "closed": "lease-too-long"}
AWAY = {"is_healthy": False, "is_open": False}


@pytest.mark.parametrize(
    ("members", "health", "ready"),
    [
        pytest.param([{}, {}], "healthy", 2, id="all take runs"),
        pytest.param([{}, DRAINED], "healthy", 1, id="one was drained on purpose"),
        pytest.param([{}, AWAY], "degraded", 1, id="one is away"),
        pytest.param([{}, OUTLASTING], "degraded", 1, id="one has too long a lease"),
        pytest.param([DRAINED, AWAY], "down", 0, id="one is drained and one is away"),
        pytest.param([DRAINED, DRAINED], "down", 0, id="nobody is left to take a run"),
    ],
)
def test_a_fleet_is_as_healthy_as_what_it_can_take(places, members, health, ready):
    told = {f"fleet@ex-{number}": member("fleet", f"ex-{number}", **one) for number, one in enumerate(members)}
    fleet = places(told=told)["fleet"]
    assert (fleet.health, fleet.ready) == (health, ready)


@pytest.mark.parametrize(
    ("executor", "place"),
    [
        pytest.param("local@a1", "local@a1", id="this machine"),
        pytest.param("local@b2", "local@b2", id="another node"),
        pytest.param("fleet:ex-a", "fleet", id="a member"),
        pytest.param("fleet:*ex-a+,ex-b", "fleet", id="a broadcast"),
        pytest.param("kubernetes:job-1", "kubernetes@a1", id="a cluster"),
    ],
)
def test_a_run_is_at_its_place(places, executor, place):
    found = places(executor)
    assert {name: one.active for name, one in found.items() if one.active} == {place: 1}


def test_a_member_names_its_runs_of_a_broadcast_only_what_is_left(places):
    found = places("fleet:ex-a", "fleet:*ex-a+,ex-b", "fleet:gone")["fleet"].members
    assert {one.name: [run.run for run in one.runs] for one in found} == {
        "ex-a": [key(0).run_id],
        "ex-b": [key(1).run_id],
        "gone": [key(2).run_id],
    }
    assert (found[2].is_healthy, found[2].running) == (False, None)


def test_without_a_scheduler_the_ledger_shows_what_runs_where(places):
    found = places("fleet:ex-a", "local@a1", told={})
    assert {name: (one.is_known, one.active) for name, one in found.items()} == {
        "fleet": (False, 1),
        "local@a1": (False, 1),
    }
