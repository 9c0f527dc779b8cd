"""Is a missing member reported once, by one node, and its return too?"""

from __future__ import annotations

from collections import Counter
from functools import partial

from evertick.dispatch.facts import Facts
from evertick.dispatch.notify.announcer import Announcer, MemberWatch
from evertick.dispatch.notify.channels import mail_of, payload_of
from evertick.dispatch.notify.config import NotifySettings
from evertick.dispatch.notify.sender import Sender
from evertick.loop.messages import MembersSeen
from evertick.model.instant import from_text
from evertick.model.member import Member
from evertick.model.notify import Slack

NINE = from_text("2026-03-02T09:00:00Z")
THERE = Member("ex-a", True, 0, seen_at=NINE, is_expected=True)
AWAITED = THERE._replace(is_healthy=False, is_awaited=True)
MISSING = AWAITED._replace(is_awaited=False)
CHANNELS = (Slack("https://hooks.example/x"),)


def texts(watch: MemberWatch, *members: Member) -> list[str]:
    return [message.text for message in watch.seen("fleet", members, NINE)]


def test_a_member_is_reported_once_when_it_goes_and_once_when_it_is_back():
    watch = MemberWatch(CHANNELS)
    assert texts(watch, THERE) == texts(watch, AWAITED) == []
    gone = "The member ex-a of the fleet is missing: it was last seen at 2026-03-02T09:00:00Z."
    assert texts(watch, MISSING) == [gone]
    assert texts(watch, MISSING) == texts(watch, AWAITED) == []
    assert texts(watch, THERE) == ["The member ex-a of the fleet is back."]
    assert texts(watch, MISSING) == [gone]


def test_an_expected_member_that_never_came_is_missing_and_an_unexpected_one_is_not():
    never = Member("ex-z", False, 0, is_expected=True)
    assert texts(MemberWatch(CHANNELS), never, MISSING._replace(is_expected=False)) == [
        "The member ex-z of the fleet is missing: it was not seen yet."
    ]


def test_a_message_about_no_job_can_be_sent_by_every_channel():
    (message,) = MemberWatch(CHANNELS).seen("fleet", [MISSING], NINE)
    assert (payload_of(message)["event"], payload_of(message)["job"]) == ("on_member_missing", "")
    assert "Job:" not in mail_of(message, ("to@example.org",), "from@example.org").get_content()


class Sent(Sender):
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.counts = Counter()

    def start(self) -> None: ...
    def stop(self, timeout: float) -> bool:  # noqa: ARG002
        return True

    def send(self, messages) -> None:
        self.messages += [message.text for message in messages]


def _owns(is_owner: bool, _bucket: object) -> bool:
    return is_owner


def test_only_the_owner_of_the_bucket_reports_it():
    told = []
    for is_owner in (True, False):
        sent = Sent()
        announcer = Announcer(
            NotifySettings(),
            lambda _: None,
            lambda: NINE,
            member_channels=CHANNELS,
            owns=partial(_owns, is_owner),
            sender=sent,
        )
        announcer.start()
        Facts([announcer])([MembersSeen("fleet", [MISSING])])
        announcer.stop(30)
        told.append(len(sent.messages))
    assert told == [1, 0]
