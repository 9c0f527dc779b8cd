"""Whether listeners receive events, and cannot disturb the scheduler or each other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from evertick import InvalidArgument, Scheduler
from evertick.library.events import KEPT, NAMES, Event, Listeners, event_of
from evertick.loop.effects import Log
from evertick.model.instant import SECOND, to_datetime
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey
from tests.library.programs import LIMIT_SECONDS, eventually, run
from tests.present import present

NINE = 1_772_442_000_000_000
KEY = RunKey("report", NINE)


@pytest.fixture
def scheduler(tmp_path):
    return Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")


def change(state: RunState, **known) -> Change:
    return Change(KEY, state, NINE + SECOND, attempt=known.pop("attempt", 1), trigger=Trigger.SCHEDULER, **known)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(change(RunState.RUNNING), {"name": "execution:start"}, id="a start"),
        pytest.param(
            change(RunState.SUCCEEDED, started_at=NINE, finished_at=NINE + 2 * SECOND, detail="42"),
            {"name": "execution:complete", "duration_seconds": 2.0, "detail": "42", "will_retry": None},
            id="a good end, with its result and how long it took",
        ),
        pytest.param(
            change(RunState.RETRYING, attempt=2),
            {"name": "execution:error", "will_retry": True, "retry_attempt": 2},
            id="an error that is tried again, and the number of that retry",
        ),
        pytest.param(
            change(RunState.FAILED, attempt=3),
            {"name": "execution:error", "will_retry": False, "retry_attempt": 2},
            id="an error that is not, and the number of the last retry",
        ),
        pytest.param(change(RunState.TIMED_OUT), {"name": "execution:error", "retry_attempt": None}, id="a timeout"),
        pytest.param(change(RunState.LOST), {"name": "execution:error"}, id="a loss"),
        pytest.param(change(RunState.CANCELLED), {"name": "execution:cancelled"}, id="a cancellation is no error"),
        pytest.param(
            change(RunState.SKIPPED, reason=SkipReason.OVERLAP),
            {"name": "execution:skipped", "reason": "overlap"},
            id="a skip, with its reason",
        ),
        pytest.param(
            Entry(KEY, RunState.SKIPPED, Trigger.SCHEDULER, NINE, SkipReason.MISSED, NINE + SECOND, 2),
            {"name": "execution:skipped", "reason": "missed", "detail": "2 occurrences, until 2026-03-02T09:00:01Z"},
            id="a stretch that was skipped as one",
        ),
    ],
)
def test_every_change_of_a_run_is_an_event(seen, told):
    event = present(event_of(seen, NINE))
    assert (event.job, event.run, event.scheduled_for) == (
        "report",
        KEY.run_id,
        to_datetime(NINE),
    )
    assert {name: getattr(event, name) for name in told} == told


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(change(RunState.LAUNCHING), id="a launch is no start yet"),
        pytest.param(change(RunState.RUNNING)._replace(trigger=None), id="words added to a run"),
        pytest.param(Log("buckets.gained", {}), id="something inside"),
    ],
)
def test_unrequested_runs_are_not_reported(seen):
    assert event_of(seen, NINE) is None


def test_an_event_on_the_wire_has_its_names():
    event = present(event_of(change(RunState.RETRYING), NINE))
    assert event.to_dict() == {
        "name": "execution:error",
        "at": "2026-03-02T09:00:01+00:00",
        "job": "report",
        "run": KEY.run_id,
        "scheduledFor": "2026-03-02T09:00:00+00:00",
        "attempt": 1,
        "state": "retrying",
        "willRetry": True,
        "retryAttempt": 1,
    }


def test_a_failing_job_reaches_functions_coroutines_and_streams(scheduler):
    heard, awaited = [], []

    @scheduler.job(retries=1, retry_delay="1s")
    def fail() -> None:
        raise ValueError("no")

    @scheduler.on("execution:error")
    def on_error(event: Event) -> None:
        heard.append((event.will_retry, event.retry_attempt))

    @scheduler.on("*")
    async def on_any(event: Event) -> None:
        await asyncio.sleep(0)
        awaited.append(event.name)

    async def main():
        streamed = []
        async with scheduler:
            stream = scheduler.events("execution:start", "execution:error")
            await scheduler.trigger_now("fail")
        async for event in stream:
            streamed.append((event.name, event.attempt))
        assert streamed == [
            ("execution:start", 1),
            ("execution:error", 1),
            ("execution:start", 2),
            ("execution:error", 2),
        ]

    run(main)
    assert heard == [(True, 1), (False, 1)]
    assert awaited[0] == awaited[-1] == "scheduler:status"
    assert awaited.count("execution:error") == 2
    assert set(awaited) <= set(NAMES)


def test_listeners_that_raise_or_hang_do_not_affect_others(scheduler, caplog):
    heard: list[Any] = []
    may_go = threading.Event()

    def hang(_event):
        may_go.wait(LIMIT_SECONDS)

    def explode(_event):
        raise RuntimeError("boom")

    for callback in (hang, explode, heard.append):
        scheduler.on("execution:complete", callback)

    @scheduler.job(every="100ms")
    def tick() -> None: ...

    async def main():
        async with scheduler:
            await eventually(lambda: len(heard) >= 5, "the third listener to hear")
            may_go.set()

    run(main)
    assert "listener.raised" in caplog.text


def test_a_slow_listener_loses_the_oldest_events_and_receives_their_number(caplog):
    heard, may_go, begun = [], threading.Event(), threading.Event()

    def slow(event):
        begun.set()
        assert may_go.wait(LIMIT_SECONDS)
        heard.append(event.attempt)

    listeners = Listeners(lambda: None)
    listeners.add("execution:start", slow)
    events = [Event("execution:start", to_datetime(NINE), attempt=number) for number in range(KEPT + 11)]
    listeners.publish(events[0])
    assert begun.wait(LIMIT_SECONDS)
    for event in events[1:]:
        listeners.publish(event)
    may_go.set()
    listeners.end()
    assert heard == [0, *range(11, KEPT + 11)]
    assert f"listener={slow!r} lost=10" in caplog.text


def test_a_removed_listener_receives_nothing_more(scheduler):
    heard: list[Any] = []
    end = scheduler.on("scheduler:status", heard.append)
    end()
    end()
    run(scheduler.start)
    scheduler.stop_in_background()
    assert heard == []


def test_a_listener_may_stop_the_scheduler(scheduler):
    @scheduler.job(every="100ms")
    def tick() -> None: ...

    with scheduler:
        scheduler.on("execution:complete", lambda _event: scheduler.stop_in_background())
        node = scheduler._node
        node.wait(LIMIT_SECONDS)
        assert not node.is_alive


def test_an_event_that_is_not_there_is_refused_with_the_nearest(scheduler):
    with pytest.raises(InvalidArgument, match="Did you mean 'execution:error'"):
        scheduler.on("execution:eror", print)
