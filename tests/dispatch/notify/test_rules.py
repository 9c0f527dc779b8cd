"""Which ends and skips cause a message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.dispatch.notify.announcer import Notifier, subject_of
from evertick.dispatch.notify.rules import RateLimits, RunChange, SendHistory, Subject, flush, judge
from evertick.model.constraint import MaxExpectedRunTime
from evertick.model.instant import HOUR, MINUTE, SECOND, to_text
from evertick.model.job import Job
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    RunState,
    SkipReason,
    Trigger,
)
from evertick.model.notify import NotifyEvent, Route, Slack
from evertick.model.policy import Policy
from evertick.model.run import Change, Entry, RunKey
from tests.dispatch.notify.notices import HOOK, NOON, ended, skipped, subject

FAILURE, SUCCESS, MISSED, LATE, RECOVERED, STREAK = (
    NotifyEvent.FAILURE,
    NotifyEvent.SUCCESS,
    NotifyEvent.MISSED,
    NotifyEvent.LATE,
    NotifyEvent.RECOVERED,
    NotifyEvent.SKIPPED_STREAK,
)
NEVER_QUIET = RateLimits(quiet_us=0)


def told(happenings, to=None, manners=NEVER_QUIET, book=None):
    book = book or SendHistory()
    return [(m.event, m.folded) for one in happenings for m in judge(book, to or subject(), one, manners)]


def events(happenings, *wanted, manners=NEVER_QUIET):
    return [event for event, _ in told(happenings, subject(*wanted), manners)]


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pytest.param(FAILED, [FAILURE], id="failed"),
        pytest.param(TIMED_OUT, [FAILURE], id="timed out"),
        pytest.param(LOST, [FAILURE], id="lost"),
        pytest.param(SUCCEEDED, [SUCCESS], id="succeeded"),
        pytest.param(CANCELLED, [], id="cancelled or replaced is nobody's failure"),
        pytest.param(RETRYING, [], id="an attempt is left"),
        pytest.param(LAUNCHING, [], id="it has not begun"),
    ],
)
def test_the_end_of_a_run(state, event):
    assert events([ended(state)]) == event


@pytest.mark.parametrize("reason", SkipReason)
def test_a_skip_does_not_count_as_a_failure(reason):
    assert FAILURE not in events([skipped(reason, minute) for minute in range(10)])


@pytest.mark.parametrize("reason", SkipReason)
def test_an_occurrence_that_is_not_caught_up_was_missed(reason):
    assert (MISSED in events([skipped(reason)])) is (reason in {SkipReason.MISSED, SkipReason.CAP, SkipReason.LATE})


def test_a_gap_is_one_message_that_counts():
    gap = skipped(SkipReason.MISSED, occurrences=1_440, through=NOON + 24 * HOUR)
    (message,) = judge(SendHistory(), subject(MISSED), gap, NEVER_QUIET)
    assert message.text == (
        "Daily report missed 1,440 occurrences from 2027-01-15T08:00:00Z to 2027-01-16T08:00:00Z. They will not run."
    )


def test_only_the_first_success_after_a_failure_is_a_recovery():
    run = [ended(SUCCEEDED, 0), ended(FAILED, 1), ended(FAILED, 2), ended(SUCCEEDED, 3), ended(SUCCEEDED, 4)]
    assert events(run, FAILURE, RECOVERED) == [FAILURE, FAILURE, RECOVERED]


def test_a_successful_retry_reports_only_the_success():
    assert events([ended(RUNNING), ended(RETRYING), ended(RUNNING, attempt=2), ended(SUCCEEDED)]) == [SUCCESS]


def test_a_cancelled_run_neither_is_a_recovery_nor_hides_one():
    assert events([ended(FAILED), ended(CANCELLED, 1), ended(SUCCEEDED, 2)], RECOVERED) == [RECOVERED]


@pytest.mark.parametrize(
    ("late_us", "known", "is_told"),
    [
        pytest.param(30 * SECOND, {}, False, id="within the grace"),
        pytest.param(31 * SECOND, {}, True, id="beyond it"),
        pytest.param(HOUR, {"attempt": 2}, False, id="a second attempt"),
    ],
)
def test_a_run_that_starts_late(late_us, known, is_told):
    happening = RunChange(RunKey("report", NOON), RUNNING, NOON + late_us, started_at=NOON + late_us, **known)
    assert (events([happening], LATE) == [LATE]) is is_told


def test_a_requested_run_is_never_late():
    happening = RunChange(RunKey("report", NOON, "request"), RUNNING, NOON + HOUR)
    assert events([happening], LATE) == []


def test_a_run_that_takes_longer_than_expected_is_late():
    to = subject(LATE, expected_us=MINUTE)
    run = [ended(SUCCEEDED, 5, started_at=NOON), ended(SUCCEEDED, 0, started_at=NOON)]
    assert told(run, to) == [(LATE, 0)]


def test_skips_in_a_row_are_reported_when_they_are_three_and_whenever_they_have_doubled():
    run = [skipped(SkipReason.OVERLAP, minute) for minute in range(13)]
    book = SendHistory()
    assert [len(judge(book, subject(STREAK), one, NEVER_QUIET)) for one in run] == [
        0,
        0,
        1,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        1,
        0,
    ]


def test_a_run_in_between_ends_the_row():
    run = [
        skipped(SkipReason.OVERLAP, 0),
        skipped(SkipReason.OVERLAP, 1),
        ended(RUNNING, 2),
        skipped(SkipReason.OVERLAP, 3),
    ]
    assert events(run, STREAK) == []


@pytest.mark.parametrize("reason", [SkipReason.PAUSED, SkipReason.DISABLED, SkipReason.ALREADY_SUCCEEDED])
def test_wanted_skips_are_no_streak(reason):
    assert events([skipped(reason, minute) for minute in range(9)]) == []


def test_a_job_without_notifications_is_not_remembered():
    book = SendHistory()
    assert judge(book, Subject("report"), ended(FAILED), NEVER_QUIET) == []
    assert book.jobs == {}


def test_each_channel_of_an_event_is_notified_once():
    routes = (Route(FAILURE, (HOOK, Slack("https://x"))), Route(FAILURE, (HOOK,)), Route(SUCCESS, (HOOK,)))
    (message,) = judge(SendHistory(), Subject("report", "", routes), ended(FAILED), NEVER_QUIET)
    assert message.channels == (HOOK, Slack("https://x"))


# --- manners


def test_the_same_event_is_reported_once_in_the_quiet_time_and_the_others_are_counted_at_its_end():
    book, manners = SendHistory(), RateLimits(quiet_us=10 * MINUTE)
    run = [ended(FAILED, minute) for minute in range(5)]
    assert told(run, manners=manners, book=book) == [(FAILURE, 0)]
    assert flush(book, NOON + 10 * MINUTE, manners) == []
    (message,) = flush(book, NOON + 10 * MINUTE + SECOND, manners)
    assert (message.event, message.folded, message.run_id) == (FAILURE, 3, run[4].key.run_id)
    assert flush(book, NOON + 30 * MINUTE, manners) == []


def test_an_event_after_the_quiet_time_carries_what_was_held_back():
    assert told([ended(FAILED, 0), ended(FAILED, 5), ended(FAILED, 20)], manners=RateLimits()) == [
        (FAILURE, 0),
        (FAILURE, 1),
    ]


def test_the_quiet_time_of_one_event_or_job_is_not_that_of_another():
    other = Subject("other", "", subject().routes)
    book = SendHistory()
    assert told([ended(FAILED)], manners=RateLimits(), book=book) == [(FAILURE, 0)]
    assert told([ended(FAILED)], other, manners=RateLimits(), book=book) == [(FAILURE, 0)]
    assert told([skipped(SkipReason.MISSED)], manners=RateLimits(), book=book) == [(MISSED, 0)]


def test_a_failure_that_was_held_back_is_reported_although_the_job_works_again():
    book, manners = SendHistory(), RateLimits()
    run = [ended(FAILED, 0), ended(SUCCEEDED, 1), ended(FAILED, 2), ended(SUCCEEDED, 3)]
    assert [event for event, _ in told(run, subject(FAILURE, RECOVERED), manners, book)] == [FAILURE, RECOVERED]
    (message,) = flush(book, NOON + HOUR, manners)
    assert message.event is FAILURE
    assert message.text.endswith("It has succeeded since then.")


def test_a_recovery_that_was_held_back_is_not_reported_once_the_job_has_failed_again():
    book, manners = SendHistory(), RateLimits(limit=1)
    run = [ended(FAILED, 0), ended(SUCCEEDED, 1), ended(FAILED, 2)]
    assert told(run, subject(FAILURE, RECOVERED), manners, book) == [(FAILURE, 0)]
    assert [message.event for message in flush(book, NOON + 2 * HOUR, manners)] == [FAILURE]


def test_a_recovery_from_an_unsent_failure_is_part_of_that_message():
    book, manners = SendHistory(), RateLimits(limit=1)
    told([ended(FAILED)], Subject("noisy", "", subject().routes), manners, book)
    assert told([ended(FAILED), ended(SUCCEEDED, 90)], subject(FAILURE, RECOVERED), manners, book) == []
    (message,) = flush(book, NOON + 2 * HOUR, manners)
    assert (message.event, message.text.endswith("It has succeeded since then.")) == (FAILURE, True)


def test_a_recovery_from_a_failure_sent_before_a_restart():
    book = SendHistory()
    book.remember_failure("report")
    assert told([ended(SUCCEEDED)], subject(FAILURE, RECOVERED), book=book) == [(RECOVERED, 0)]


def test_more_messages_than_the_limit_wait_for_room():
    book, manners = SendHistory(), RateLimits(quiet_us=0, limit=2)
    jobs = [Subject(f"job{number}", "", subject().routes) for number in range(5)]
    assert [len(judge(book, job, ended(FAILED), manners)) for job in jobs] == [1, 1, 0, 0, 0]
    assert flush(book, NOON + MINUTE, manners) == []
    assert [message.job_id for message in flush(book, NOON + 2 * HOUR, manners)] == ["job2", "job3"]
    assert [message.job_id for message in flush(book, NOON + 4 * HOUR, manners)] == ["job4"]


def test_a_forgotten_job_is_not_reported_any_more():
    book, manners = SendHistory(), RateLimits()
    told([ended(FAILED, 0), ended(FAILED, 1)], manners=manners, book=book)
    book.forget("report")
    assert flush(book, NOON + HOUR, manners) == []


HAPPENINGS = st.lists(
    st.one_of(
        st.sampled_from([FAILED, SUCCEEDED, CANCELLED, RUNNING, RETRYING, TIMED_OUT]).map(lambda state: (state, None)),
        st.sampled_from(SkipReason).map(lambda reason: (SKIPPED, reason)),
    ),
    max_size=40,
)


def happen(run):
    return [
        ended(state, minute) if reason is None else skipped(reason, minute)
        for minute, (state, reason) in enumerate(run)
    ]


@given(HAPPENINGS, st.integers(0, 20), st.integers(1, 5))
def test_every_failure_is_reported_in_the_end_by_itself_or_in_a_count(run, quiet_minutes, limit):
    book, manners = SendHistory(), RateLimits(quiet_us=quiet_minutes * MINUTE, limit=limit, window_us=10 * MINUTE)
    to = subject(FAILURE, RECOVERED, STREAK)
    messages = [message for one in happen(run) for message in judge(book, to, one, manners)]
    for hour in range(2, 30):
        messages += flush(book, NOON + hour * HOUR, manners)
    failures = sum(state in {FAILED, TIMED_OUT} for state, _ in run)
    assert sum(1 + message.folded for message in messages if message.event is FAILURE) == failures
    assert not book.holding


@given(HAPPENINGS)
def test_the_same_events_give_the_same_messages(run):
    def all_told():
        book = SendHistory()
        return [message for one in happen(run) for message in judge(book, subject(), one, RateLimits())]

    assert all_told() == all_told()


@given(HAPPENINGS, st.integers(1, 5))
def test_no_more_messages_than_the_limit_are_sent_in_any_window(run, limit):
    manners = RateLimits(quiet_us=0, limit=limit, window_us=10 * MINUTE)
    book = SendHistory()
    times = [message.at for one in happen(run) for message in judge(book, subject(), one, manners)]
    assert all(sum(at - 10 * MINUTE < other <= at for other in times) <= limit for at in times)


# --- what the ledger says, and what a job says


def test_an_entry_and_a_change_of_the_ledger_are_happenings():
    key = RunKey("report", NOON)
    entry = Entry(key, SKIPPED, Trigger.SCHEDULER, NOON + 5, SkipReason.CAP, NOON + HOUR, 60, "too many")
    assert RunChange.of(entry) == RunChange(key, SKIPPED, NOON + 5, SkipReason.CAP, 60, NOON + HOUR, detail="too many")
    change = Change(key, RunState.FAILED, NOON + 9, attempt=2, exit_code=3, detail="boom")
    assert RunChange.of(change) == RunChange(key, FAILED, NOON + 9, attempt=2, exit_code=3, detail="boom")


def test_a_job_defines_its_own_lateness():
    job = Job(
        "report",
        "Daily report",
        policy=Policy(grace_us=5),
        notify=subject().routes,
        constraints=(MaxExpectedRunTime(9),),
    )
    assert subject_of(job) == Subject("report", "Daily report", subject().routes, 5, 9)


def test_the_notifier_hands_over_what_is_reported_now_and_later():
    sent: list[Any] = []
    notifier = Notifier(sent.extend, RateLimits())
    notifier.happened([(subject(FAILURE), ended(FAILED, 0)), (subject(FAILURE), ended(FAILED, 1))])
    assert [message.folded for message in sent] == [0]
    notifier.tick(NOON + MINUTE)
    notifier.tick(NOON + HOUR)
    assert len(sent) == 2


def test_a_stuck_entry_is_reported_to_the_channels_for_lateness():
    one = RunChange(RunKey("etl", NOON), PLANNED, NOON + HOUR, is_stuck=True)
    (message,) = judge(SendHistory(), subject(LATE), one, NEVER_QUIET)
    assert message.event == LATE
    assert "was stuck in state planned. The scheduler has resumed it." in message.text
    assert events([one], FAILURE) == []


def test_a_missed_deadline_is_reported_to_the_channels_for_deadlines():
    one = RunChange(RunKey("etl", NOON), PLANNED, NOON + HOUR, missed_deadline=NOON + MINUTE)
    (message,) = judge(SendHistory(), subject(NotifyEvent.DEADLINE_MISSED), one, NEVER_QUIET)
    assert message.event == NotifyEvent.DEADLINE_MISSED
    due, deadline = to_text(NOON), to_text(NOON + MINUTE)
    assert f"is past its deadline: the occurrence of {due} has not succeeded by {deadline}." in message.text
    assert events([one], FAILURE) == []
