"""From a fact of the ledger to the message that a receiver gets, without a scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from evertick.dispatch.notify import announcer as announcing
from evertick.dispatch.notify.announcer import Announcer
from evertick.dispatch.notify.channels import Outcome
from evertick.dispatch.notify.config import NotifySettings
from evertick.dispatch.notify.rules import Message
from evertick.dispatch.notify.sender import Sender
from evertick.loop.effects import Log, Notify
from evertick.loop.messages import BucketsGained
from evertick.model.instant import SECOND, to_text
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, Snapshot
from evertick.model.lifecycle import FAILED, PLANNED, RUNNING, SKIPPED, SUCCEEDED, SkipReason, Trigger
from evertick.model.notify import NotifyEvent, Route, Webhook
from evertick.model.run import Change, Entry, RunKey
from evertick.model.work import Secret
from tests.dispatch.notify.notices import NOON, receiver

HOOK = Webhook("https://example.org/hook")
ALL = tuple(Route(event, (HOOK,)) for event in NotifyEvent)


class Kept:
    """A sender's way out that keeps what it was handed."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.sender = Sender(NotifySettings(workers=1), deliver_once=self._deliver)

    def _deliver(self, message, _channel) -> Outcome:
        self.told.append((str(message.event), message.job_id))
        return Outcome(True, "taken")


@contextmanager
def announcer_of(*jobs: Job, routes: tuple[Route, ...] = ()) -> Iterator[tuple[Announcer, Kept]]:
    kept, known = Kept(), {job.id: job for job in jobs}
    announcer = Announcer(NotifySettings(), known.get, lambda: NOON, routes=routes, sender=kept.sender)
    announcer.start()
    yield announcer, kept
    announcer.stop(60)


def change(job_id: str, state, **known: Any) -> Change:
    return Change(RunKey(job_id, NOON), state, NOON + SECOND, **known)


def test_a_job_without_routes_is_reported_if_the_settings_report_all_jobs():
    job = Job("a")
    with announcer_of(job) as (announcer, kept):
        announcer([change("a", FAILED)])
    assert kept.told == []
    with announcer_of(job, routes=(Route(NotifyEvent.FAILURE, (HOOK,)),)) as (announcer, kept):
        announcer([change("a", FAILED), change("unknown", FAILED)])
    assert kept.told == [("on_failure", "a")]


def test_a_receiver_that_the_job_and_the_settings_name_is_notified_once():
    with announcer_of(Job("a", notify=ALL), routes=ALL) as (announcer, kept):
        announcer([change("a", FAILED)])
    assert kept.told == [("on_failure", "a")]


def test_what_is_not_the_end_of_anything_is_not_judged():
    with announcer_of(Job("a", notify=ALL)) as (announcer, kept):
        note = Change(RunKey("a", NOON), RUNNING, NOON + 3600 * SECOND, detail="it is taking longer than expected")
        announcer([Entry(RunKey("a", NOON), PLANNED, Trigger.SCHEDULER, NOON), note])
    assert kept.told == []


def test_a_run_that_started_late_and_an_occurrence_that_was_missed_are_reported():
    with announcer_of(Job("a", notify=ALL)) as (announcer, kept):
        announcer([change("a", RUNNING, started_at=NOON + 60 * SECOND, attempt=1)])
        announcer([Entry(RunKey("a", NOON + SECOND), SKIPPED, Trigger.SCHEDULER, NOON, SkipReason.MISSED)])
    assert kept.told == [("on_late", "a"), ("on_missed", "a")]


def test_a_deadline_that_passed_is_reported_with_its_occurrence():
    with announcer_of(Job("a", notify=ALL)) as (announcer, kept):
        times = {"scheduled_for": to_text(NOON), "deadline": to_text(NOON + 1200 * SECOND)}
        announcer([Log("job.deadline_missed", {"job": "a", **times}, True)])
    assert kept.told == [("on_deadline_missed", "a")]


def test_a_failure_before_this_process_is_remembered_so_that_a_recovery_is_one():
    gained = BucketsGained({}, Snapshot([JobRecord("a", 0, has_failed=True), JobRecord("b", 0)]))
    routes = (Route(NotifyEvent.FAILURE, (HOOK,)), Route(NotifyEvent.RECOVERED, (HOOK,)))
    with announcer_of(Job("a"), Job("b"), routes=routes) as (announcer, kept):
        announcer([gained, change("a", SUCCEEDED), change("b", SUCCEEDED)])
    assert kept.told == [("on_recovered", "a")]


def test_a_broken_constraint_is_reported_to_the_address_it_names(monkeypatch):
    with receiver() as hook:
        monkeypatch.setenv("HOOK", hook.url)
        announcer = Announcer(NotifySettings(allowed_targets=("127.0.0.1",)), lambda _: None, lambda: NOON)
        announcer.start()
        notify = Notify(Job("a", "The job"), "maxExpectedRunTime", RunKey("a", NOON), Secret("env", "HOOK"))
        announcer([notify, notify])
        announcer.stop(60)
    ((method, path, headers, body),) = hook.told
    assert (method, path, headers["X-Evertick-Event"]) == ("POST", "/hook/secret-token", "maxExpectedRunTime")
    assert json.loads(body)["text"].startswith("The job: maxExpectedRunTime does not hold for the run due at")


def test_too_many_messages_are_dropped_and_counted_and_the_loop_continues(monkeypatch, caplog):
    monkeypatch.setattr(announcing, "WAITING_MAX", 3)
    monkeypatch.setattr(announcing, "TICK_SECONDS", 0.0)
    kept = Kept()
    announcer = Announcer(NotifySettings(), lambda _: Job("a", notify=ALL), lambda: NOON, sender=kept.sender)
    announcer([change("a", FAILED) for _ in range(10)])
    assert announcer.counts["unjudged"] == 7
    announcer.start()
    announcer.stop(60)
    assert "notify.overflow dropped=7" in caplog.text
    assert kept.told == [("on_failure", "a")]


def test_a_job_that_went_away_is_forgotten_unless_it_came_back(monkeypatch):
    monkeypatch.setattr(announcing, "FORGET_SECONDS", 0.0)
    monkeypatch.setattr(announcing, "TICK_SECONDS", 0.0)
    routes = (Route(NotifyEvent.RECOVERED, (HOOK,)),)
    gone = [Log("job.removed", {"job": name}) for name in ("a", "b")]
    with announcer_of(Job("a"), Job("b"), Job("c"), routes=routes) as (announcer, kept):
        announcer([change(name, FAILED) for name in ("a", "b")])
        announcer([*gone, Log("job.returned", {"job": "c"})])
        announcer([change(name, SUCCEEDED) for name in ("a", "b")])
    assert kept.told == []


@pytest.mark.parametrize("raises", [True, False])
def test_a_fault_of_ours_costs_one_message_and_never_the_thread(raises, caplog):
    with announcer_of(Job("a", notify=ALL)) as (announcer, kept):
        if raises:
            announcer._put(cast("Message", ("not", "a happening", "at all")))
        announcer([change("a", FAILED)])
    assert kept.told == [("on_failure", "a")]
