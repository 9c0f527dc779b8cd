"""A node owns its runs until the ledger says otherwise, and its keepers never assume more than the ledger."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from evertick.dispatch.folder_owner import folder_identity
from evertick.dispatch.leadership import Leadership
from evertick.dispatch.runs_lease import RunsLease
from evertick.errors import SettingsError, StoreUnavailable
from evertick.location import locate
from evertick.loop.messages import NodesSeen, OrphansFound
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import Batch, RunsHeld, runs_held, runs_lease
from evertick.model.lifecycle import LAUNCHING, PLANNED, RUNNING, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.node import Definitions
from evertick.operations.why import explain_occurrence
from evertick.service import build_node
from evertick.settings import Settings
from evertick.stores.memory import MemoryStore
from tests.dispatch.test_leadership import Time

START = 1_000 * SECOND


class Keepers:
    """An executor that remembers what it was told last."""

    def __init__(self) -> None:
        self.told: tuple[int, ...] = ()
        self.confirmed: list[tuple[RunKey, int]] = []
        self.has_runs = False

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        self.told = (asked_at, lease_us, epoch, vouched_until)

    def confirm(self, runs) -> None:
        self.confirmed += runs

    def is_idle(self) -> bool:
        return not self.has_runs


class Node:
    def __init__(self, store, time, name: str = "a", folder: str = "f1") -> None:
        self.keepers = Keepers()
        self.said: list[Any] = []
        runs = RunsLease(name, folder, [self.keepers], time.now, 2 * MINUTE, 10 * MINUTE)
        self.leadership = Leadership(store, f"{name}/1", time, self.said.append, 6 * SECOND, runs=runs)

    def round(self) -> list[object]:
        self.said.clear()
        self.leadership.renew()
        return list(self.said)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def store():
    return MemoryStore()


def held(store, time) -> dict[str, RunsHeld]:
    return runs_held(store.lease((), "", 0, time.at))


def test_keepers_count_a_renewal_from_its_request(store, time):
    node = Node(store, time)
    slow = store.lease

    def lease(names, *rest):
        answer = slow(names, *rest)
        time.at += 3 * SECOND  # the answer was long on its way
        return answer

    store.lease = lease
    node.round()
    asked_at, lease_us, epoch, vouched_until = node.keepers.told
    assert (lease_us, epoch) == (2 * MINUTE, 1)
    assert START <= asked_at <= time.at - 3 * SECOND
    assert vouched_until == START + 6 * SECOND


def test_keepers_do_not_receive_a_renewal_that_was_not_answered(store, time):
    node = Node(store, time)
    node.round()
    before = node.keepers.told
    time.at += 20 * SECOND

    def away(*_):
        raise StoreUnavailable("away")

    store.lease = away
    with pytest.raises(StoreUnavailable):
        node.round()
    assert node.keepers.told == before


def test_a_lease_that_was_over_in_between_has_another_epoch(store, time):
    node = Node(store, time)
    node.round()
    time.at += 3 * MINUTE
    node.round()
    assert node.keepers.told[2] == 2


def test_others_see_that_a_silent_node_holds_its_runs_until_the_lease_is_over(store, time):
    a, b = Node(store, time), Node(store, time, "b", "f2")
    a.round()
    time.at += 10 * SECOND
    (seen,) = [one for one in b.round() if isinstance(one, NodesSeen)]
    assert seen.nodes == {"b"}
    assert seen.holding == {"a": RunsHeld(START + 2 * MINUTE)}
    time.at += 2 * MINUTE
    (seen,) = [one for one in b.round() if isinstance(one, NodesSeen)]
    assert seen.holding == {}


def test_a_stop_in_order_keeps_what_runs_for_the_return_and_the_return_ends_the_waiting(store, time):
    node = Node(store, time)
    node.keepers.has_runs = True
    node.round()
    node.leadership.stop()
    assert held(store, time) == {"a": RunsHeld(START + 10 * MINUTE, is_stopped=True)}
    assert node.keepers.told[:2] == (START, 10 * MINUTE)
    time.at += MINUTE
    again = Node(store, time)
    again.round()
    assert held(store, time)["a"].is_stopped is False
    assert again.keepers.told[2] == node.keepers.told[2], "the lease was never over"


def test_a_node_that_is_back_after_it_was_forgotten_clears_the_mark_and_its_keepers_learn_of_a_new_lease(store, time):
    node, other = Node(store, time), Node(store, time, "b", "f2")
    node.round()
    before = node.keepers.told
    store.lease(["forgotten:a"], "ann", 10 * MINUTE, time.at)
    store.lease([runs_lease("a", "f1")], "a/f1", 0, time.at)
    assert [one.forgotten for one in other.round() if isinstance(one, NodesSeen)] == [{"a": "ann"}]
    time.at += 30 * SECOND
    node.round()
    assert node.keepers.told[2] > before[2], "another epoch: what the keepers have is ended"
    assert [one.forgotten for one in other.round() if isinstance(one, NodesSeen)] == [{}]


def test_an_orderly_stop_with_nothing_running_blocks_no_other_node(store, time):
    node = Node(store, time)
    node.round()
    node.leadership.stop()
    assert held(store, time) == {}


def test_a_node_with_a_new_state_folder_does_not_report_runs_that_the_old_one_holds(store, time):
    old, new = Node(store, time), Node(store, time, "a", "f2")
    old.round()
    asked = []
    load = store.load
    store.load = lambda buckets=None: asked.append(buckets) or load(buckets)
    time.at += 10 * SECOND
    said = new.round()
    assert None not in asked, "it has looked for runs that it would not know"
    assert [one.holding for one in said if isinstance(one, NodesSeen)] == [{"a": RunsHeld(START + 2 * MINUTE)}]
    time.at += 2 * MINUTE
    assert not [one for one in new.round() if isinstance(one, OrphansFound)]
    assert None in asked


def test_a_state_folder_is_known_by_its_name_and_when_it_was_made(tmp_path):
    first = folder_identity(tmp_path, 5)
    assert first.made_at == 5
    assert folder_identity(tmp_path, 9) == first
    (tmp_path / "older" / "keeper-0").mkdir(parents=True)
    assert folder_identity(tmp_path / "older", 9).made_at == 0


def test_a_lease_on_runs_that_ends_before_a_node_is_missed_is_refused(tmp_path):
    (tmp_path / "evertick.toml").write_text('[local]\nlease = "10s"\n')
    settings = Settings.load(tmp_path)
    with pytest.raises(SettingsError, match="twice"):
        build_node(settings, locate(settings, tmp_path), Definitions(list))


@pytest.mark.parametrize(
    ("is_stopped", "words"),
    [
        pytest.param(True, "node east was stopped; unless it is back by", id="stopped in order"),
        pytest.param(False, "node east does not respond; unless it is back by", id="silent"),
    ],
)
def test_why_names_the_node_that_is_waited_for(is_stopped, words):
    from tests.loop.harness import FOREVER, job, world

    here = world(job())
    here.act("a", FOREVER)
    here.executor.name = "local@east"
    here.run_until("09:00:10")
    names = [runs_lease("east", "f1"), *(["stopped:east/f1"] if is_stopped else [])]
    here.store.lease(names, "east/f1", 10 * MINUTE, here.now)
    with closing(here.store):
        told = explain_occurrence(here.store, "a", None, {}, here.now)
    assert any(sentence.startswith(words) for sentence in told.sentences), told.sentences


def test_what_the_ledger_has_as_launched_by_a_process_before_is_confirmed_to_the_keepers(store, time):
    keys = {
        state: RunKey("report", START + number * SECOND) for number, state in enumerate((RUNNING, LAUNCHING, PLANNED))
    }
    elsewhere = RunKey("report", START + MINUTE)
    entries = [Entry(key, PLANNED, Trigger.SCHEDULER, START) for key in (*keys.values(), elsewhere)]
    store.commit(Batch("a/0#1", entries=entries))
    launched = [Change(keys[state], state, START, 1, 1, executor="local@a") for state in (RUNNING, LAUNCHING)]
    store.record([*launched, Change(elsewhere, RUNNING, START, 1, 1, executor="local@b")])
    node = Node(store, time)
    node.round()
    assert sorted(node.keepers.confirmed) == [(keys[RUNNING], 1), (keys[LAUNCHING], 1)]
