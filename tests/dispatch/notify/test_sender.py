"""Messages reach their receivers, and no receiver delays another."""

from __future__ import annotations

import contextlib
import logging
import threading

import pytest

from evertick.dispatch.notify.channels import Outcome
from evertick.dispatch.notify.config import NotifySettings
from evertick.dispatch.notify.heartbeat import Heartbeat
from evertick.dispatch.notify.sender import Delivered, Sender
from evertick.errors import SettingsError
from evertick.model.notify import Webhook
from tests.dispatch.notify.notices import message, receiver

FAST = NotifySettings(backoff_first_seconds=0.001, backoff_max_seconds=0.002, attempts=3)
GOOD, BAD, FINAL = Outcome(True, "ok"), Outcome(False, "away", may_retry=True), Outcome(False, "gone")
SLOW, OTHER = Webhook("https://slow.test/x"), Webhook("https://other.test/x")


@contextlib.contextmanager
def sending(deliver, settings=FAST):
    sender = Sender(settings, deliver_once=deliver)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop(5)


def ends(sender):
    return [(record.end, record.attempts, record.detail) for record in sender.records()]


@pytest.mark.parametrize(
    ("outcomes", "end"),
    [
        pytest.param([GOOD], (Delivered.DELIVERED, 1, "ok"), id="at once"),
        pytest.param([BAD, BAD, GOOD], (Delivered.DELIVERED, 3, "ok"), id="at the third try"),
        pytest.param([BAD, BAD, BAD], (Delivered.FAILED, 3, "away"), id="never"),
        pytest.param([FINAL], (Delivered.FAILED, 1, "gone"), id="refused for good"),
    ],
)
def test_a_message_is_tried_until_it_is_taken_or_hopeless(outcomes, end):
    left = list(outcomes)
    with sending(lambda *_: left.pop(0)) as sender:
        sender.send([message()])
        assert sender.wait_until_idle(10)
        assert ends(sender) == [end]
    assert left == []


def test_the_same_message_to_the_same_receiver_is_sent_once():
    calls = []
    with sending(lambda one, channel: calls.append((one.id, channel)) or GOOD) as sender:
        sender.send([message(1), message(1), message(2)])
        sender.send([message(1, OTHER)])
        sender.wait_until_idle(10)
    assert len(calls) == 3
    assert sender.counts["repeated"] == 1


def test_what_was_folded_since_is_another_message():
    calls = []
    with sending(lambda one, _: calls.append(one.folded) or GOOD) as sender:
        sender.send([message(), message()._replace(folded=2)])
        sender.wait_until_idle(10)
    assert sorted(calls) == [0, 2]


def test_a_hanging_receiver_blocks_no_other_receiver_and_no_sender():
    may_go_on, others_done = threading.Event(), threading.Event()
    seen, most, under_way = [], 0, 0
    lock = threading.Lock()

    def deliver(one, channel):
        nonlocal most, under_way
        if channel == SLOW:
            with lock:
                under_way += 1
                most = max(most, under_way)
            assert may_go_on.wait(60)
            with lock:
                under_way -= 1
            return GOOD
        seen.append(one.id)
        if len(seen) == 20:
            others_done.set()
        return GOOD

    with sending(deliver, NotifySettings(workers=2)) as sender:
        sender.send([message(number, SLOW) for number in range(20)])
        sender.send([message(number, OTHER) for number in range(20)])
        assert others_done.wait(60)
        may_go_on.set()
        assert sender.wait_until_idle(10)
    assert most == 1


def test_the_queue_is_bounded_over_all_and_for_each_receiver():
    may_go_on, has_begun = threading.Event(), threading.Event()

    def deliver(*_):
        has_begun.set()
        assert may_go_on.wait(60)
        return GOOD

    with sending(deliver, NotifySettings(workers=1, queue_max=5, receiver_max=3)) as sender:
        sender.send([message(0, SLOW)])
        assert has_begun.wait(60)
        sender.send([message(number, SLOW) for number in range(1, 6)])
        sender.send([message(number, OTHER) for number in range(10, 14)])
        dropped = [record.detail for record in sender.records()]
        may_go_on.set()
        assert sender.wait_until_idle(10)
    assert dropped == ["3 messages are already queued for it"] * 2 + ["5 messages are already queued"] * 2
    assert (sender.counts[Delivered.DELIVERED], sender.counts[Delivered.DROPPED]) == (6, 4)


def test_a_fault_of_ours_costs_one_message_and_not_the_thread(caplog):
    def deliver(one, _):
        if one.run_id.endswith(":00Z"):
            raise RuntimeError("a bug")
        return GOOD

    with sending(deliver, NotifySettings(workers=1)) as sender, caplog.at_level(logging.ERROR):
        sender.send([message(0), message(1)])
        assert sender.wait_until_idle(10)
    assert [record.end for record in sender.records()] == [Delivered.FAILED, Delivered.DELIVERED]
    assert "notify.fault" in caplog.text


def test_stopping_tries_what_waits_once_more():
    outcomes = [BAD, GOOD]
    is_tried = threading.Event()

    def deliver(*_):
        is_tried.set()
        return outcomes.pop(0)

    sender = Sender(NotifySettings(backoff_first_seconds=3_600, backoff_max_seconds=3_600), deliver_once=deliver)
    sender.start()
    sender.send([message()])
    assert is_tried.wait(60)
    assert sender.stop(10)
    assert [record.end for record in sender.records()] in ([Delivered.DELIVERED], [Delivered.FAILED])


def test_what_a_hanging_receiver_did_not_take_before_the_end_is_recorded_as_dropped():
    never, has_begun = threading.Event(), threading.Event()

    def deliver(*_):
        has_begun.set()
        never.wait(10)
        return GOOD

    sender = Sender(NotifySettings(workers=1), deliver_once=deliver)
    sender.start()
    sender.send([message(0), message(1)])
    assert has_begun.wait(60)
    assert not sender.stop(0.05)
    assert [(record.end, record.detail) for record in sender.records()] == [
        (Delivered.DROPPED, "the scheduler stopped")
    ]
    never.set()


def test_after_the_end_nothing_is_taken():
    sender = Sender(FAST, deliver_once=lambda *_: GOOD)
    sender.start()
    assert sender.stop(5)
    sender.send([message()])
    assert [record.detail for record in sender.records()] == ["the scheduler stops"]


def test_the_log_and_the_records_show_no_token(caplog):
    with receiver(500, 200) as here, caplog.at_level(logging.INFO, "evertick.notify"):
        settings = NotifySettings(allowed_targets=("127.0.0.1",), backoff_first_seconds=0.001)
        sender = Sender(settings)
        sender.start()
        sender.send([message(0, Webhook(here.url)), message(1, Webhook("http://10.1.2.3/secret-token"))])
        assert sender.wait_until_idle(10)
        sender.stop(5)
    found = {record.receiver: (record.end, record.attempts) for record in sender.records()}
    assert found == {
        f"http://127.0.0.1:{here.port}/***": (Delivered.DELIVERED, 2),
        "http://10.1.2.3/***": (Delivered.FAILED, 1),
    }
    assert "notify.delivered event=on_failure job=report" in caplog.text
    assert "secret-token" not in caplog.text + repr(sender.records())


# --- the dead man's switch


def test_a_heartbeat_pings_while_the_loop_is_alive_and_stops_when_it_is_not(caplog):
    alive = True
    with receiver(200) as here:
        heartbeat = Heartbeat(here.url, 60, lambda: alive, NotifySettings(allowed_targets=("127.0.0.1",)))
        heartbeat.beat()
        alive = False
        heartbeat.beat()
        assert len(here.told) == 1
    assert (heartbeat.pings, heartbeat.withheld) == (1, 1)
    assert "secret-token" not in caplog.text


def test_a_failing_heartbeat_is_counted_and_repeated():
    def broken():
        raise RuntimeError("no loop")

    failing = Heartbeat("https://x.test", 60, lambda: True, FAST, ping_once=lambda _: BAD)
    failing.beat()
    assert (failing.failures, failing.last) == (1, BAD)
    faulty = Heartbeat("https://x.test", 60, broken, FAST, ping_once=lambda _: GOOD)
    faulty.beat()
    assert (faulty.pings, faulty.withheld) == (0, 1)


def test_a_heartbeat_begins_at_once_and_comes_again_and_again():
    three = threading.Event()
    count = []

    def ping(url):
        count.append(url)
        if len(count) >= 3:
            three.set()
        return GOOD

    heartbeat = Heartbeat("https://x.test", 0.001, lambda: True, FAST, ping_once=ping)
    heartbeat.start()
    assert three.wait(60)
    heartbeat.stop(5)


def test_a_heartbeat_to_the_inside_needs_leave():
    with receiver() as here:
        heartbeat = Heartbeat(here.url, 60, lambda: True, NotifySettings())
        heartbeat.beat()
        assert here.told == []
    assert heartbeat.failures == 1


def test_a_heartbeat_needs_a_time():
    with pytest.raises(SettingsError, match="positive number"):
        Heartbeat("https://x.test", 0, lambda: True, FAST)
