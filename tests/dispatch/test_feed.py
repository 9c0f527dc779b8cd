"""Whether listeners receive everything in order, and slow ones delay only themselves."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.dispatch.broadcast import ReaderThread
from evertick.dispatch.events import DROPPED, KINDS, STEPS_MAX, Event, kind_of
from evertick.dispatch.facts import Withdrawn
from evertick.dispatch.feed import Feed
from evertick.loop.effects import Log
from evertick.loop.messages import BucketsGained, BucketsLost, NodesSeen
from evertick.model.instant import SECOND
from evertick.model.ledger import JobRecord, Snapshot
from evertick.model.lifecycle import PLANNED, RUNNING, SKIPPED, SUCCEEDED, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.model.steps import StepRecord, steps_text

NINE = 1_772_442_000 * SECOND
PATIENCE = 180


def change(number: int = 0, **known: Any) -> Change:
    return Change(RunKey("a", NINE + number * SECOND), RUNNING, NINE, **known)


def feed_of(size: int = 100) -> Feed:
    return Feed("f1", lambda: NINE, size)


def nothing() -> None:
    pass


def listen(feed: Feed, hear: Callable[[Event], None], after: int | None = None) -> Callable[[], None]:
    """Hear events in a thread; answers what ends that."""
    thread = ReaderThread(feed, hear, after)

    def stop() -> None:
        thread.close()
        thread.join(PATIENCE)

    return stop


class TestTheRing:
    def test_events_are_numbered_from_one_and_found_behind_a_number(self):
        feed = feed_of()
        feed([change(1), change(2)])
        feed([change(3)])
        events, lost = feed.since(1)
        assert ([event.number for event in events], lost) == ([2, 3], 0)
        assert feed.since(3) == ([], 0)

    @given(st.integers(1, 30), st.integers(0, 100), st.integers(0, 120), st.integers(1, 50))
    def test_what_is_had_and_what_is_lost_is_all_there_was(self, size, published, after, limit):
        feed = feed_of(size)
        for number in range(published):
            feed([change(number)])
        events, lost = feed.since(after, limit)
        numbers = [event.number for event in events]
        assert numbers == list(range(after + 1 + lost, after + 1 + lost + len(numbers)))
        if after <= published:
            assert lost == max(0, published - size - after)
            assert len(numbers) == min(limit, published - after - lost)

    def test_a_listener_that_is_overtaken_receives_the_number_of_lost_events(self):
        feed = feed_of(10)
        cursor = feed.open_cursor(nothing)
        feed([change(number) for number in range(25)])
        events = cursor.take()
        assert (events[0].kind, events[0].data["count"], events[0].number) == (DROPPED, 15, 15)
        assert [event.number for event in events[1:]] == list(range(16, 26))
        assert (cursor.dropped, feed.dropped) == (15, 15)

    def test_an_event_that_was_read_keeps_its_text_and_not_its_values_too(self):
        feed = feed_of()
        feed([change(1)])
        (event,) = feed.since(0)[0]
        assert json.loads(event.line) == event.data
        assert not [kept for kept in gc.get_referents(event) if isinstance(kept, dict)]

    def test_the_ring_keeps_no_ledger_and_no_long_output(self):
        feed = feed_of()
        snapshot = Snapshot([JobRecord("a", 0)] * 1_000)
        long = steps_text([StepRecord("s", "succeeded", detail="x" * 400)] * (STEPS_MAX // 100))
        feed([BucketsGained({3: 1}, snapshot), change(1, steps=long)])
        gained, ran = feed.since(0)[0]
        assert gained.fact == BucketsGained({3: 1}, Snapshot())
        assert "steps" not in ran.data


class TestEvents:
    @pytest.mark.parametrize(
        ("fact", "kind", "said"),
        [
            pytest.param(
                change(0, attempt=1, started_at=NINE),
                "run",
                {
                    "job": "a",
                    "run": "a@2026-03-02T09:00:00Z",
                    "scheduled_for": "2026-03-02T09:00:00Z",
                    "state": "running",
                    "attempt": 1,
                    "started_at": "2026-03-02T09:00:00Z",
                },
                id="a run",
            ),
            pytest.param(
                Entry(RunKey("a", NINE), SKIPPED, Trigger.SCHEDULER, NINE, SkipReason.MISSED),
                "run",
                {
                    "job": "a",
                    "run": "a@2026-03-02T09:00:00Z",
                    "scheduled_for": "2026-03-02T09:00:00Z",
                    "state": "skipped",
                    "reason": "missed",
                    "trigger": "scheduler",
                },
                id="a skip",
            ),
            pytest.param(
                Entry(RunKey("a", NINE), SKIPPED, Trigger.SCHEDULER, NINE, SkipReason.CAP, NINE + 9 * SECOND, 10),
                "gap",
                {
                    "job": "a",
                    "first": "2026-03-02T09:00:00Z",
                    "last": "2026-03-02T09:00:09Z",
                    "occurrences": 10,
                    "reason": "cap",
                },
                id="a gap",
            ),
            pytest.param(Log("job.added", {"job": "a"}), "job", {"what": "added", "job": "a"}, id="a job"),
            pytest.param(
                BucketsLost({2: 1, 1: 1}, True),
                "node",
                {"what": "lost", "buckets": [1, 2], "is_fenced": True},
                id="lost",
            ),
            pytest.param(NodesSeen(frozenset({"b", "a"})), "node", {"what": "seen", "nodes": ["a", "b"]}, id="nodes"),
            pytest.param(
                Log("clock.jumped", {"by_us": 5}, True), "time", {"what": "clock.jumped", "by_us": 5}, id="time"
            ),
            pytest.param(
                Log("store.notice", {"notice": "x"}, True), "alarm", {"what": "store.notice", "notice": "x"}, id="alarm"
            ),
        ],
    )
    def test_each_fact_in_the_words_of_the_ledger(self, fact, kind, said):
        feed = feed_of()
        feed([fact])
        (event,) = feed.since(0)[0]
        assert event.data == {"event": 1, "at": "2026-03-02T09:00:00Z", "kind": kind, **said}
        assert json.loads(event.line) == event.data
        assert kind in KINDS

    @pytest.mark.parametrize(
        "fact",
        [
            pytest.param(Entry(RunKey("a", NINE), PLANNED, Trigger.SCHEDULER, NINE), id="an occurrence entered ahead"),
            pytest.param(Withdrawn([RunKey("a", NINE)]), id="one that is withdrawn"),
            pytest.param(Log("catchup.planned", {}), id="a log line of no alarm"),
        ],
    )
    def test_an_unknown_event(self, fact):
        assert kind_of(fact) is None

    def test_steps_are_reported_by_name_and_state(self):
        feed = feed_of()
        feed([change(0, steps=steps_text([StepRecord("load", "succeeded"), StepRecord("send", "running")]))])
        assert feed.since(0)[0][0].data["steps"] == [
            {"name": "load", "state": "succeeded"},
            {"name": "send", "state": "running"},
        ]

    def test_the_same_nodes_again_are_no_news(self):
        feed = feed_of()
        for nodes in ("a", "a", "ab", "ab"):
            feed([NodesSeen(frozenset(nodes))])
        assert feed.last == 2


class TestCallbacks:
    def test_a_callback_receives_each_event_from_its_registration_on(self):
        feed, heard, all_heard = feed_of(), [], threading.Event()
        feed([change(0)])

        def hear(event):
            heard.append(event.number)
            if event.number == 30:
                all_heard.set()

        stop = listen(feed, hear)
        for number in range(29):
            feed([change(number)])
        assert all_heard.wait(PATIENCE)
        stop()
        assert heard == list(range(2, 31))
        assert feed.listeners == 0

    def test_a_callback_that_raises_is_logged_and_receives_the_next_event(self, caplog):
        feed, heard = feed_of(), threading.Event()

        def hear(event):
            if event.number == 1:
                raise ValueError("no")
            heard.set()

        stop = listen(feed, hear)
        feed([change(0), change(1)])
        assert heard.wait(PATIENCE)
        stop()
        assert "listener.raised" in caplog.text

    def test_a_stuck_callback_delays_no_other_and_loses_the_oldest_events(self):
        feed, is_stuck, go_on, told, others = feed_of(10), threading.Event(), threading.Event(), [], []
        caught_up, others_heard = threading.Event(), threading.Event()

        def hear(event):
            told.append(event)
            is_stuck.set()
            go_on.wait(PATIENCE)
            if event.number == 101:
                caught_up.set()

        def hear_well(event):
            others.append(event.number)
            if event.number == 101:
                others_heard.set()

        stop = listen(feed, hear)
        feed([change(0)])
        assert is_stuck.wait(PATIENCE)
        feed([change(number) for number in range(91)])
        stop_other = listen(feed, hear_well, after=82)
        feed([change(number) for number in range(9)])
        assert others_heard.wait(PATIENCE)
        go_on.set()
        assert caught_up.wait(PATIENCE)
        stop()
        stop_other()
        assert others == list(range(83, 102))
        assert [event.data["count"] for event in told if event.kind == DROPPED] == [90]

    def test_a_callback_may_end_itself(self):
        feed, ended = feed_of(), threading.Event()
        stops: list[Any] = []

        def hear(_event):
            stops[0]()
            ended.set()

        stops.append(listen(feed, hear))
        feed([change(0)])
        assert ended.wait(PATIENCE)
        feed([change(1)])
        assert feed.listeners == 0


def test_an_end_is_reported_with_its_known_fields():
    feed = feed_of()
    feed([Change(RunKey("a", NINE, "r1"), SUCCEEDED, NINE, finished_at=NINE, exit_code=0)])
    data = feed.since(0)[0][0].data
    assert (data["run"], data["state"], data["exit_code"]) == ("a@2026-03-02T09:00:00Z~r1", "succeeded", 0)


def test_the_page_explains_every_kind():
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
    assert [kind for kind in KINDS if f"\n| `{kind}` |" not in page] == []


def test_beyond_the_rings_size_the_newest_events_are_kept_and_all_are_counted():
    feed = feed_of(size=3)
    cursor = feed.open_cursor(nothing)
    feed([change(number) for number in range(10)])
    assert feed.last == 10
    items, lost = feed.since(0)
    assert ([event.number for event in items], lost) == ([8, 9, 10], 7)
    assert [event.fact for event in items] == [change(7), change(8), change(9)]
    first = cursor.take()[0]
    assert (first.kind, first.number) == (DROPPED, 7)
