"""What a scheduler decides about its members, without any member: with a set clock and a line that may be dead."""

from __future__ import annotations

import base64
import errno
import json
from types import SimpleNamespace
from typing import Any

import pytest

from evertick.errors import SettingsError
from evertick.executors import protocol
from evertick.executors.fleet import log_sync, messages
from evertick.executors.fleet.assignments import RETRY_SECONDS, Assignments
from evertick.executors.fleet.log_sync import LogCopies
from evertick.executors.fleet.member import MemberPlugin
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.relay import Relay
from evertick.executors.fleet.settings import fleet_at
from evertick.executors.fleet.task import NotEnded, PartEnd, merge_ends, report_of
from evertick.executors.logs import Logs
from evertick.executors.protocol import LaunchMessage, shard_key, split_key, split_run_id
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SKIPPED, SUCCEEDED, TIMED_OUT
from evertick.model.loss import LossReason
from evertick.model.member import Closed
from evertick.model.report import (
    AttemptQuestion,
    AttemptSeen,
    LaunchRefused,
    MembersSeen,
    RunFinished,
    RunLost,
    RunStarted,
    RunUnknown,
)
from evertick.model.run import RunKey
from evertick.routing.placement import parse_placement
from evertick.settings.parts import FleetSettings
from tests.executors.contract import NINE

KEY = RunKey("report", NINE)
LEASE, SILENCE = 20.0, 5.0


class Line:
    """An executor with its members played by the test."""

    def __init__(self, folder) -> None:
        self.now = 1_000.0
        self.ahead_us = 0
        """How wrong the clocks of members are."""
        self.told: list[tuple[str, list]] = []
        self.reports: list = []
        self.logs = Logs(folder)
        settings = FleetSettings("tcp://127.0.0.1:1", lease_us=int(LEASE * SECOND), silence_us=int(SILENCE * SECOND))
        self.assignments = Assignments(Membership(settings), LogCopies(folder), self._tell, self.reports.append)

    def _tell(self, member: str, lines: bytes) -> None:
        self.told += [(member, words) for words in messages.rows_of(lines)]

    def connect(self, *names: str) -> Line:
        self.assignments.connected(self.now)
        for name in names:
            self.card(name)
        self.reports.clear()
        return self

    def card(self, name: str, incarnation: str = "1") -> None:
        plain = messages.Heartbeat(name, (), True, 0, 0, "1", incarnation, 0.0, 0, NINE + self.ahead_us).to_plain()
        self.assignments.heartbeat(plain, "tcp://there", self.now, NINE)

    def say(self, member: str, verb: str, *rest, key: RunKey = KEY, attempt: int = 1) -> None:
        self.assignments.receive(member, protocol.encode(verb, *key, attempt, *rest), self.now)

    def finish(self, member: str, state=SUCCEEDED, key: RunKey = KEY, serial: int = 7, attempt: int = 1) -> None:
        self.say(member, protocol.FINISHED, NINE + 1, state, 0, "", serial, None, key=key, attempt=attempt)

    def launch(self, placed: str = "fleet:ex-a", attempt: int = 1) -> None:
        self.assignments.launch(LaunchMessage(KEY, attempt, 1, "scheduler", "", None, "{}"), placed, self.now)

    def pass_by(self, seconds: float, *beating: str, is_dead: bool = False) -> None:
        """Time, tick by tick, while some members are heard of, through a line that may be dead."""
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            if not is_dead:
                self.assignments.listening(self.now)
            for name in beating:
                self.card(name)
            self.assignments.tick(self.now)

    def verbs(self, member: str) -> list[str]:
        return [words[0] for to, words in self.told if to == member and words[0] != messages.LOGS]

    def news(self) -> list:
        return [one for one in self.reports if not isinstance(one, MembersSeen)]


@pytest.fixture
def line(tmp_path):
    return Line(tmp_path)


def test_an_attempt_is_reported_to_its_member_and_its_end_is_acknowledged(line):
    line.connect("ex-a", "ex-b").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.finish("ex-a")
    assert line.news() == [RunStarted(KEY, 1, NINE), RunFinished(KEY, 1, NINE + 1, SUCCEEDED, 0)]
    assert (line.verbs("ex-a"), line.verbs("ex-b")) == ([protocol.LAUNCH, protocol.DELIVERED], [])


@pytest.mark.parametrize(
    ("ahead_us", "made_up_for"),
    [
        pytest.param(3_600 * SECOND, True, id="an hour ahead"),
        pytest.param(-3_600 * SECOND, True, id="an hour behind"),
        pytest.param(SECOND, False, id="as much as a message may take"),
    ],
)
def test_a_wrong_clock_of_a_member_is_corrected(line, ahead_us, made_up_for):
    line.ahead_us = ahead_us
    line.connect(*["ex-a"] * 3).launch()
    line.say("ex-a", protocol.STARTED, NINE + ahead_us)
    assert line.news() == [RunStarted(KEY, 1, NINE if made_up_for else NINE + ahead_us)]


def test_cards_that_were_all_held_up_are_no_wrong_clock(line):
    """As when the fleet's scheduler stood still for a minute: then what ended meanwhile ended then, not when heard."""

    def card(sent_at: float, arrived_at: float) -> None:
        sent = int(sent_at * SECOND)
        plain = messages.Heartbeat(
            "ex-a", (), True, 0, 0, "1", "1", 0.0, 0, NINE + sent, 5_000_000 + sent, 0
        ).to_plain()
        line.assignments.heartbeat(plain, "tcp://there", 1_000.0 + arrived_at, NINE + int(arrived_at * SECOND))

    line.connect("ex-b").launch()
    for second in range(5):
        card(second, second + 0.01)
    line.launch()
    for second in range(5, 35):
        card(second, 65.0)
    line.say("ex-a", protocol.STARTED, NINE + 5 * SECOND)
    line.say("ex-a", protocol.FINISHED, NINE + 34 * SECOND, SUCCEEDED, 0, "", 7, None)
    assert [one.at for one in line.news() if isinstance(one, RunFinished)] == [NINE + 34 * SECOND]


def test_a_member_is_given_up_only_when_its_own_lease_is_over(line):
    card = messages.Heartbeat("ex-a", (), True, 0, 0, "1", "1", 0.0, 0, NINE, 1, int(3 * LEASE * SECOND)).to_plain()
    line.connect("ex-b")
    line.assignments.heartbeat(card, "tcp://there", line.now, NINE)
    (shown,) = [member for member in line.assignments.members if member.name == "ex-a"]
    assert (shown.is_open, shown.closed) == (False, Closed.LEASE_TOO_LONG), "it outlives our lease"
    line.launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(2 * LEASE, "ex-b")
    assert [type(one) for one in line.news()] == [RunStarted]
    line.pass_by(LEASE + 2, "ex-b")
    assert [type(one) for one in line.news()] == [RunStarted, RunLost]


def test_a_member_that_is_forgotten_is_not_shown_and_what_it_has_is_waited_for_all_the_same(line):
    line.connect("ex-a", "ex-b").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(SILENCE + 1, "ex-b")
    line.assignments.forgotten("ex-a", line.now)
    assert [member.name for member in line.assignments.members] == ["ex-a", "ex-b"], (
        "it is there, as far as the hub knows"
    )
    line.assignments.gone("ex-a", line.now)
    line.assignments.forgotten("ex-a", line.now)
    assert [member.name for member in line.assignments.members] == ["ex-b"]
    line.pass_by(LEASE - 2 * SILENCE, "ex-b")
    assert [type(one) for one in line.news()] == [RunStarted], "its keeper may still have it"
    line.pass_by(2 * SILENCE, "ex-b")
    assert [type(one) for one in line.news()] == [RunStarted, RunLost]
    line.card("ex-a")
    assert [member.name for member in line.assignments.members] == ["ex-a", "ex-b"]


def test_a_delayed_heartbeat_is_not_taken_for_a_wrong_clock(line):
    line.connect(*["ex-a"] * 3).launch()
    line.ahead_us = -30 * SECOND
    line.card("ex-a")
    line.say("ex-a", protocol.STARTED, NINE)
    assert line.news() == [RunStarted(KEY, 1, NINE)]


def test_everyone_who_is_there_is_shown_at_once(line):
    cards = [
        {
            "card": messages.Heartbeat(name, (), True, 0, 0, "1", "1", 0.0, 0, NINE).to_plain(),
            "address": "x",
            "age": 0.0,
        }
        for name in ("ex-a", "ex-b")
    ]
    line.assignments.connected(line.now)
    line.assignments.heartbeats(cards, line.now, NINE)
    assert [[member.name for member in seen.members] for seen in line.reports] == [["ex-a", "ex-b"]]


def test_a_member_that_is_away_is_awaited_until_its_lease_is_over(line):
    line.connect("ex-a", "ex-b")
    line.assignments.gone("ex-a", line.now)
    assert [member.is_awaited for member in line.assignments.members] == [True, False]
    line.pass_by(LEASE + 1, "ex-b")
    assert [member.is_awaited for member in line.assignments.members] == [False, False]
    line.assignments.disconnected(line.now)
    assert [member.is_awaited for member in line.assignments.members] == [True, True]


def test_unanswered_messages_are_repeated_to_a_member_that_is_back(line):
    line.connect("ex-a").launch()
    line.card("ex-a", incarnation="2")
    assert line.verbs("ex-a") == [protocol.LAUNCH, protocol.LAUNCH]
    line.say("ex-a", protocol.STARTED, NINE)
    line.card("ex-a", incarnation="3")
    assert line.verbs("ex-a")[2:] == [protocol.RECONCILE]


def test_what_is_not_settled_is_asked_for_now_and_then(line):
    line.connect("ex-a").launch()
    line.pass_by(RETRY_SECONDS + 2, "ex-a")
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(RETRY_SECONDS + 2, "ex-a")
    assert line.verbs("ex-a") == [protocol.LAUNCH, protocol.LAUNCH, protocol.RECONCILE]


def test_a_stop_is_repeated_too(line):
    line.connect("ex-a").launch()
    line.assignments.stop(KEY, 1, "enough")
    line.card("ex-a", incarnation="2")
    assert line.verbs("ex-a") == [protocol.LAUNCH, protocol.STOP, protocol.LAUNCH, protocol.STOP]


def test_a_member_is_given_up_after_its_lease_and_not_before(line):
    line.connect("ex-a", "ex-b").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(LEASE, "ex-b")
    assert line.news() == [RunStarted(KEY, 1, NINE)]
    line.pass_by(1, "ex-b")
    (lost,) = line.news()[1:]
    assert lost == RunLost(KEY, 1, "the member ex-a has been silent for 21 s", reason=LossReason.MEMBER_LOST)


def test_silence_does_not_count_while_the_fleet_is_unreachable(line):
    line.connect("ex-a").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.assignments.disconnected(line.now)
    line.pass_by(100 * LEASE)
    line.assignments.connected(line.now)
    line.pass_by(LEASE)
    assert line.news() == [RunStarted(KEY, 1, NINE)]
    line.pass_by(2)
    assert isinstance(line.news()[-1], RunLost)


def test_silence_does_not_count_while_the_connection_is_dead_without_an_error(line):
    line.connect("ex-a").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(3, "ex-a")
    line.pass_by(100 * LEASE, is_dead=True)
    assert [type(one) for one in line.news()] == [RunStarted]
    assert [(one.is_healthy, one.is_awaited) for one in line.assignments.members] == [(False, True)]
    line.pass_by(LEASE)  # all of it, to come back to a fleet that stood still
    assert [type(one) for one in line.news()] == [RunStarted]
    line.pass_by(2)
    assert [type(one) for one in line.news()] == [RunStarted, RunLost]


def test_a_fleet_that_stutters_does_not_keep_a_dead_member_alive(line):
    line.connect("ex-a").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    for _ in range(10):
        line.pass_by(SILENCE - 1, is_dead=True)
        line.pass_by(1)
    assert [type(one) for one in line.news()] == [RunStarted, RunLost]


def test_silence_does_not_count_while_we_stood_still_ourselves(line):
    line.connect("ex-a").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(3, "ex-a")
    line.now += 10 * LEASE  # frozen, or without a turn on a busy machine
    line.assignments.tick(line.now)
    assert [type(one) for one in line.news()] == [RunStarted]
    line.pass_by(LEASE - 1)
    assert [type(one) for one in line.news()] == [RunStarted]
    line.pass_by(2)
    assert [type(one) for one in line.news()] == [RunStarted, RunLost]


def test_the_late_report_of_a_member_is_refused_and_its_process_ended(line):
    line.connect("ex-a", "ex-b").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(LEASE + 2, "ex-b")
    line.told.clear()
    line.say("ex-a", protocol.STARTED, NINE)
    line.finish("ex-a")
    assert line.verbs("ex-a") == [protocol.STOP, protocol.DELIVERED]
    assert [type(one) for one in line.news()] == [RunStarted, RunLost]


def test_only_its_member_can_report_about_an_attempt(line):
    line.connect("ex-a", "ex-b").launch()
    line.say("ex-b", protocol.STARTED, NINE)
    line.finish("ex-b")
    line.say("ex-b", protocol.UNKNOWN)
    line.say("ex-b", protocol.REFUSED, "no")
    assert line.news() == []
    assert line.verbs("ex-b") == [protocol.STOP]


@pytest.mark.parametrize(
    ("stamp", "until"),
    [
        pytest.param(50 * SECOND, 59 * SECOND, id="by the member's own clock"),
        pytest.param(0, None, id="not said to one that knows of no such thing"),
    ],
)
def test_an_order_has_the_time_until_which_it_may_start(line, stamp, until):
    """One that is held up on the way may arrive when the run is another node's, and at work elsewhere."""
    line.connect("ex-b")
    plain = messages.Heartbeat("ex-a", (), True, 0, 0, "1", "1", 0.0, 0, NINE, stamp).to_plain()
    line.assignments.heartbeat(plain, "tcp://there", line.now, NINE)
    line.now += 4.0
    order = LaunchMessage(KEY, 1, 1, "scheduler", "", None, "{}")
    line.assignments.launch(order, "fleet:ex-a", line.now, valid_us=5 * SECOND)
    (words,) = [words for member, words in line.told if member == "ex-a"]
    assert LaunchMessage.from_fields(words[1:]).valid_until == until


@pytest.mark.parametrize(
    ("answer", "news"),
    [
        pytest.param((protocol.UNKNOWN,), [LaunchRefused(KEY, 1, "no room", 1)], id="nothing was started"),
        pytest.param((protocol.STARTED, NINE), [RunStarted(KEY, 1, NINE)], id="the second order was taken"),
    ],
)
def test_a_refusal_of_a_repeated_order_counts_when_the_second_is_answered_too(line, answer, news):
    """Otherwise the attempt is given to another member, and the second order may be taken."""
    line.connect("ex-a").launch()
    line.pass_by(RETRY_SECONDS + 2, "ex-a")
    line.say("ex-a", protocol.REFUSED, "no room")
    assert line.news() == []
    assert line.verbs("ex-a") == [protocol.LAUNCH, protocol.LAUNCH, protocol.RECONCILE]
    line.say("ex-a", *answer)
    assert line.news() == news


def test_only_its_member_can_write_into_its_log(line, tmp_path):
    line.connect("ex-a", "ex-b").launch()
    data = base64.b64encode(b"mine\n").decode()
    line.say("ex-b", messages.LOG, "main", 0, data, True)
    assert line.logs.list_logs(KEY) == []
    line.say("ex-a", messages.LOG, "main", 0, data, False)
    assert line.logs.read_log(KEY, 1, "main").data == b"mine\n"


def test_a_line_nested_too_deeply_is_invalid():
    with pytest.raises(ValueError, match="nested too deeply"):
        messages.rows_of(b"[" * 100_000)


def test_a_log_without_end_fills_no_disk(line, monkeypatch):
    monkeypatch.setattr(log_sync, "LOG_MAX", 2 * messages.PIECE)
    monkeypatch.setattr(log_sync, "ATTEMPT_MAX", 4 * messages.PIECE)
    monkeypatch.setattr(log_sync, "LOGS_MAX", 3)
    line.connect("ex-a").launch()
    piece = base64.b64encode(b"x" * messages.PIECE).decode()
    for number in range(5):
        for at in range(4):
            line.say("ex-a", messages.LOG, f"step-{number}", at * messages.PIECE, piece, False)
    found = {file.step: file.size // messages.PIECE for file in line.logs.list_logs(KEY)}
    assert found == {"step-0": 2, "step-1": 2}
    line.say("ex-a", messages.LOG, "step-2", 0, "", False)
    line.say("ex-a", messages.LOG, "step-3", 0, "", False)
    assert len(line.logs.list_logs(KEY)) == 3


def test_a_piece_that_cannot_be_written_is_not_asked_for_at_once(line, monkeypatch):
    line.connect("ex-a").launch()
    piece = base64.b64encode(b"x" * messages.PIECE).decode()
    line.say("ex-a", messages.LOG, "main", 0, piece, False)
    assert ("ex-a", [messages.LOGS, *KEY, 1, {"main": messages.PIECE}]) in line.told
    line.told.clear()
    monkeypatch.setattr(log_sync, "_put", no_room)
    line.say("ex-a", messages.LOG, "main", messages.PIECE, piece, False)
    assert line.told == []


def no_room(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_log_of_an_attempt_that_was_given_up_is_fetched_when_its_member_is_back(line):
    line.connect("ex-a").launch()
    line.say("ex-a", protocol.STARTED, NINE)
    line.pass_by(10 * LEASE)
    assert line.logs.list_logs(KEY) == []
    line.card("ex-a", "2")
    line.told.clear()
    line.pass_by(2, "ex-a")
    assert ("ex-a", [messages.LOGS, *KEY, 1, {}]) in line.told
    line.say("ex-a", messages.LOG, "main", 0, base64.b64encode(b"here").decode(), True)
    line.say("ex-a", messages.LOGS_END)
    assert line.logs.read_log(KEY, 1, "main").data == b"here"
    line.told.clear()
    line.pass_by(3, "ex-a")
    assert messages.LOGS not in [words[0] for _, words in line.told]


def test_an_unknown_attempt_is_only_reported(line):
    line.connect("ex-a")
    line.say("ex-a", protocol.STARTED, NINE)
    line.finish("ex-a")
    assert line.news() == [AttemptSeen(KEY, 1)]
    assert line.verbs("ex-a") == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "two words"),
        ("name", 7),
        ("labels", ["gpu"]),
        ("slots", "many"),
        ("slots", -1),
        ("running", None),
        ("clock", "noon"),
        ("is_open", "yes"),
        ("version", 1),
    ],
)
def test_a_member_with_an_invalid_heartbeat_is_ignored(line, field, value):
    line.connect()
    good = messages.Heartbeat("ex-a", (), True, 0, 0, "1", "1", 0.0, 0, NINE).to_plain()
    bad = {**good, "name": "ex-b", field: value}
    line.assignments.heartbeats(
        [{"card": card, "address": "tcp://x", "age": 0.0} for card in (bad, {}, good)], line.now, NINE
    )
    assert [member.name for member in line.assignments.members] == ["ex-a"]


def test_a_member_cannot_send_as_another(monkeypatch):
    told: list[Any] = []
    board = Relay()
    scheduler: Any = SimpleNamespace(workers={"tcp://a": SimpleNamespace(name="ex-a")})
    board._scheduler = scheduler
    monkeypatch.setattr(board, "_broadcast", told.append)
    for name, address in (("ex-b", "tcp://a"), ("ex-a", "tcp://nobody"), ("ex-a", "tcp://a")):
        card = messages.Heartbeat(name, (), True, 0, 0, "1", "first", 0.0, 0, 0).to_plain()
        board._shown({**card, "more": "than that"}, address)
        board._forward(b"word", address)
    assert told == [{"card": card, "address": "tcp://a"}, {"member": "ex-a", "lines": b"word"}]


def test_an_unrequested_shard_can_be_ended(line):
    line.connect("ex-a")
    line.say("ex-a", protocol.STARTED, NINE, key=shard_key(KEY, 1, 3))
    assert line.news() == [AttemptSeen(KEY, 1)]
    line.assignments.stop(KEY, 1, "given up")
    assert [words[3] for _, words in line.told if words[0] == protocol.STOP] == ["", "^1.3"]


def test_a_member_that_is_away_is_given_nothing(line):
    line.connect("ex-a")
    line.assignments.gone("ex-a", line.now)
    line.launch()
    assert line.news() == [LaunchRefused(KEY, 1, "the member ex-a is not connected", 1)]


FENCE = 5 << 16


def test_the_refusal_of_a_former_owners_late_order_does_not_end_the_attempt(line):
    line.connect("ex-a").launch()
    line.say("ex-a", protocol.REFUSED, "its fence 0 is older than 1", 0)
    assert line.news() == []
    line.say("ex-a", protocol.REFUSED, "full", 1)
    assert line.news() == [LaunchRefused(KEY, 1, "full", 1)]


class TestAfterARestart:
    def ask(self, line, placed: str) -> None:
        line.assignments.reconcile([AttemptQuestion(KEY, 1, placed, FENCE)], line.now)

    def test_the_member_that_has_it_is_asked_as_soon_as_it_is_there(self, line):
        self.ask(line, "fleet:ex-a")
        line.told.clear()
        line.connect("ex-a", "ex-b")
        assert (line.verbs("ex-a"), line.verbs("ex-b")) == ([protocol.RECONCILE], [])
        line.say("ex-a", protocol.UNKNOWN)
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_the_question_has_the_fence_of_its_sender(self, line):
        line.connect("ex-a")
        self.ask(line, "fleet:ex-a")
        assert line.told == [("ex-a", [protocol.RECONCILE, [[*KEY, 1]], FENCE])]

    @pytest.mark.parametrize(
        ("fence", "news"),
        [
            pytest.param(FENCE - 1, [], id="to a former owner, whose orders may still be taken"),
            pytest.param(FENCE, [RunUnknown(KEY, 1)], id="to this owner"),
        ],
    )
    def test_an_answer_counts_when_it_keeps_older_orders_from_being_taken(self, line, fence, news):
        line.connect("ex-a")
        self.ask(line, "fleet:ex-a")
        line.say("ex-a", protocol.UNKNOWN, fence)
        assert line.news() == news

    def test_all_members_are_asked_when_the_placement_is_unknown(self, line):
        line.connect("ex-a", "ex-b")
        self.ask(line, "fleet")
        line.say("ex-a", protocol.UNKNOWN)
        assert line.news() == []
        line.say("ex-b", protocol.STARTED, NINE)
        assert line.news() == [RunStarted(KEY, 1, NINE, "fleet:ex-b")]

    def test_where_it_was_found_is_reported_also_when_it_has_ended(self, line):
        line.connect("ex-a", "ex-b")
        self.ask(line, "fleet")
        line.finish("ex-b")
        assert [(one.state, one.executor) for one in line.news()] == [(SUCCEEDED, "fleet:ex-b")]

    def test_an_attempt_is_unknown_when_all_members_have_answered_so(self, line):
        line.connect("ex-a", "ex-b")
        self.ask(line, "fleet")
        line.say("ex-a", protocol.UNKNOWN)
        line.say("ex-b", protocol.UNKNOWN)
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_a_member_that_is_away_may_have_it_until_its_lease_is_over(self, line):
        line.connect("ex-a", "ex-b", "ex-c")
        line.assignments.gone("ex-c", line.now)
        self.ask(line, "fleet")
        line.say("ex-a", protocol.UNKNOWN)
        line.say("ex-b", protocol.UNKNOWN)
        line.pass_by(LEASE - 1, "ex-a", "ex-b")
        assert line.news() == [], "its keeper may still run it"
        line.pass_by(2, "ex-a", "ex-b")
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_a_member_that_returns_while_it_is_awaited_reports_its_attempts(self, line):
        line.connect("ex-a", "ex-b")
        line.assignments.gone("ex-b", line.now)
        self.ask(line, "fleet")
        line.say("ex-a", protocol.UNKNOWN)
        line.pass_by(SILENCE, "ex-a")
        line.card("ex-b")
        line.say("ex-b", protocol.STARTED, NINE)
        assert line.news() == [RunStarted(KEY, 1, NINE, "fleet:ex-b")]

    def test_a_member_that_answered_no_and_left_is_not_awaited(self, line):
        line.connect("ex-a", "ex-b")
        self.ask(line, "fleet")
        line.say("ex-b", protocol.UNKNOWN)
        line.assignments.gone("ex-b", line.now)
        line.say("ex-a", protocol.UNKNOWN)
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_with_the_only_member_away_it_is_not_unknown_before_the_end_of_that_ones_lease(self, line):
        line.connect("ex-a")
        line.pass_by(2 * LEASE, "ex-a")
        line.assignments.gone("ex-a", line.now)
        self.ask(line, "fleet")
        line.pass_by(LEASE - 1)
        assert line.news() == []
        line.pass_by(2)
        assert line.news() == [RunUnknown(KEY, 1)]

    @pytest.mark.parametrize(
        ("age", "waits_for"),
        [
            pytest.param(LEASE - 5, 5, id="it may still run it"),
            pytest.param(LEASE + 5, 0, id="the hub has missed it for longer than its lease"),
        ],
    )
    def test_a_member_that_the_hub_names_as_absent_is_awaited_for_the_rest_of_its_lease(self, line, age, waits_for):
        self.ask(line, "fleet")
        line.assignments.connected(line.now)
        there, away = (
            {"card": messages.Heartbeat(name, (), True, 0, 0, "1", "1", 0.0, 0, NINE).to_plain(), "address": "x"}
            for name in ("ex-a", "ex-b")
        )
        line.assignments.heartbeats([there | {"age": 0.0}], line.now, NINE, [away | {"age": age}])
        line.say("ex-a", protocol.UNKNOWN)
        line.pass_by(waits_for, "ex-a")
        assert line.news() == ([] if waits_for else [RunUnknown(KEY, 1)])
        line.pass_by(1, "ex-a")
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_a_later_owner_counts_no_answer_to_an_earlier_question(self, line):
        line.connect("ex-a", "ex-b")
        self.ask(line, "fleet")
        line.say("ex-a", protocol.UNKNOWN, FENCE)
        line.assignments.reconcile([AttemptQuestion(KEY, 1, "fleet", FENCE + 2)], line.now)
        line.say("ex-b", protocol.UNKNOWN, FENCE)
        line.say("ex-b", protocol.UNKNOWN, FENCE + 2)
        assert line.news() == [], "an owner in between may have launched it on the other"
        line.say("ex-a", protocol.UNKNOWN, FENCE)
        assert line.news() == []
        line.say("ex-a", protocol.UNKNOWN, FENCE + 2)
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_without_any_member_it_is_unknown_when_they_had_their_time(self, line):
        line.connect()
        self.ask(line, "fleet")
        line.pass_by(LEASE)
        assert line.news() == []
        line.pass_by(2)
        assert line.news() == [RunUnknown(KEY, 1)]

    def test_a_known_start_is_reported_again(self, line):
        line.connect("ex-a").launch()
        line.say("ex-a", protocol.STARTED, NINE)
        self.ask(line, "fleet:ex-a")
        line.say("ex-a", protocol.STARTED, NINE)
        assert line.news() == [RunStarted(KEY, 1, NINE)] * 2


def said(verb: str, *rest: object) -> bytes:
    return json.dumps([verb, *KEY, 1, *rest]).encode() + b"\n"


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b'["started"]\n', id="too short"),
        pytest.param(b'["finished","report",1,"",1,1,"exploded",0,"",1,null]\n', id="a state that is none"),
        pytest.param(b'["log","report",1,"",1,"main",0,"%%%",true]\n', id="a log that is no base64"),
        pytest.param(said("started"), id="a start without its time"),
        pytest.param(said("started", "soon"), id="a start at no time"),
        pytest.param(said("started", 2**70), id="a start beyond all times"),
        pytest.param(said("finished", 1.5, "succeeded", 0, "", 1, None), id="an end at half an instant"),
        pytest.param(said("finished", NINE, "succeeded", "0", "", 1, None), id="an exit code that is a text"),
        pytest.param(said("finished", NINE, "succeeded", 2**40, "", 1, None), id="an exit code that is none"),
        pytest.param(said("finished", NINE, "succeeded", 0, {"a": 1}, 1, None), id="a detail that is no text"),
        pytest.param(said("finished", NINE, "succeeded", 0, "a\0b", 1, None), id="a detail that no store can keep"),
        pytest.param(said("finished", NINE, "succeeded", 0, "\ud800", 1, None), id="a detail that is no Unicode"),
        pytest.param(said("finished", NINE, "succeeded", 0, "x" * 10**6, 1, None), id="a detail without end"),
        pytest.param(said("finished", NINE, "succeeded", 0, "", 1, [1]), id="steps that are no text"),
        pytest.param(said("steps", 7), id="steps that are a number"),
        pytest.param(said("call", "a", 1, ["b"], "", True), id="a run of no job"),
        pytest.param(said("call", "a", 1, "b", "[" * 100_000, True), id="parameters that are nested without end"),
        pytest.param(said("call", "a", 1, "b", '{"N": [[1]]}', True), id="parameters that are not plain"),
        pytest.param(said("hang_up", "a", "1", "b"), id="no try of a step"),
        pytest.param(json.dumps(["started", "other", "now", "", 1, NINE]).encode(), id="a stranger without a time"),
    ],
)
def test_nonsense_is_passed_over(line, garbage):
    line.connect("ex-a").launch()
    line.assignments.receive("ex-a", garbage, line.now)
    line.say("ex-a", protocol.STARTED, NINE)
    assert line.news() == [RunStarted(KEY, 1, NINE)]


def end(state, exit_code=None, detail="", member="ex"):
    return PartEnd(member, state, NINE, exit_code, detail)


@pytest.mark.parametrize(
    ("ends", "kind", "state", "placed"),
    [
        pytest.param([SUCCEEDED] * 3, RunFinished, SUCCEEDED, "fleet:*a+,b+,c+", id="all well"),
        pytest.param([SUCCEEDED, SKIPPED, SUCCEEDED], RunFinished, SUCCEEDED, "fleet:*a+,b+,c+", id="one had no work"),
        pytest.param([SKIPPED] * 3, RunFinished, SKIPPED, "fleet:*a+,b+,c+", id="none had work"),
        pytest.param([SUCCEEDED, FAILED, LOST], RunFinished, FAILED, "fleet:*a+,b,c", id="a failure beside a loss"),
        pytest.param([SUCCEEDED, TIMED_OUT, LOST], RunFinished, TIMED_OUT, "fleet:*a+,b,c", id="a timeout"),
        pytest.param([SUCCEEDED, CANCELLED, LOST], RunFinished, CANCELLED, "fleet:*a+,b,c", id="stopped"),
        pytest.param([SUCCEEDED, LOST, LOST], RunLost, None, "fleet:*a+,b,c", id="only losses"),
        pytest.param([SUCCEEDED, NotEnded.UNKNOWN, SUCCEEDED], RunLost, None, "fleet:*a+,b,c+", id="one never began"),
        pytest.param([SUCCEEDED, NotEnded.REFUSED, SUCCEEDED], RunLost, None, "fleet:*a+,b,c+", id="one was refused"),
        pytest.param([NotEnded.UNKNOWN] * 3, RunUnknown, None, None, id="nobody has seen it"),
        pytest.param([NotEnded.REFUSED] * 3, LaunchRefused, None, None, id="nobody took it"),
    ],
)
def test_how_a_broadcast_ends(ends, kind, state, placed):
    placement = parse_placement("fleet:*a,b,c")
    report = merge_ends(KEY, 1, placement, {number: end(one) for number, one in enumerate(ends)})
    assert type(report) is kind
    assert getattr(report, "state", None) == state
    assert getattr(report, "executor", None) == placed


@pytest.mark.parametrize(
    ("other", "has_loss"), [pytest.param(LOST, True, id="a loss"), pytest.param(NotEnded.REFUSED, False, id="no start")]
)
def test_a_failed_broadcast_reports_whether_the_end_of_a_shard_is_unknown(other, has_loss):
    report = merge_ends(KEY, 1, parse_placement("fleet:*a,b"), {0: end(FAILED), 1: end(other)})
    assert isinstance(report, RunFinished)
    assert (report.state, report.has_loss) == (FAILED, has_loss)


@pytest.mark.parametrize(
    ("causes", "reason"),
    [
        pytest.param(["lease-expired"], LossReason.LEASE_EXPIRED, id="as the keeper of the member says"),
        pytest.param([""], LossReason.MEMBER_LOST, id="nothing was said"),
        pytest.param(["node-forgotten"], LossReason.MEMBER_LOST, id="what a member cannot know"),
        pytest.param(["process-gone"] * 2, LossReason.PROCESS_GONE, id="all shards for one reason"),
        pytest.param(["process-gone", ""], LossReason.MEMBER_LOST, id="shards for different reasons"),
    ],
)
def test_a_loss_has_the_reason_that_the_member_knows(causes, reason):
    ends = {number: end(LOST)._replace(cause=cause) for number, cause in enumerate(causes)}
    if len(ends) == 1:
        report = report_of(KEY, 1, ends[0])
    else:
        report = merge_ends(KEY, 1, parse_placement("fleet:*a,b"), ends)
        failed = merge_ends(KEY, 1, parse_placement("fleet:*a,b,c"), {**ends, 2: end(FAILED)})
        assert isinstance(failed, RunFinished)
        assert failed.broken == ""
    assert isinstance(report, RunLost)
    assert report.reason is reason


@pytest.mark.parametrize("origin", ["", "r1", "a^b", "x^1.2y"])
def test_a_shard_is_read_from_its_run_and_written_back(origin):
    key = RunKey("report", NINE, origin)
    sharded = shard_key(key, 2, 7)
    assert split_key(sharded) == (key, (2, 7))
    assert split_run_id(sharded.run_id) == (key.run_id, (2, 7))
    assert split_key(key) == (key, None)
    assert split_run_id(key.run_id) == (key.run_id, None)


def test_without_dask_it_says_what_to_install(monkeypatch, tmp_path):
    from evertick.executors.fleet import settings
    from evertick.executors.fleet.executor import FleetExecutor

    monkeypatch.setattr(settings, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'evertick\[fleet\]'"):
        FleetExecutor(tmp_path, fleet_at("tcp://127.0.0.1:1", None))


@pytest.mark.parametrize(("slots", "cards"), [pytest.param(1, 1, id="full"), pytest.param(2, 0, id="not full")])
def test_a_member_that_was_full_reports_at_once_that_it_is_not(tmp_path, slots, cards):
    sent: list[Any] = []
    member = MemberPlugin("ex-a", (), str(tmp_path), slots)
    worker: Any = SimpleNamespace(
        batched_stream=SimpleNamespace(send=sent.append), monitor=SimpleNamespace(recent=dict)
    )
    keeper: Any = SimpleNamespace(runs_items=True)
    member._worker, member._keeper = worker, keeper
    member._logs, member._incarnation = Logs(tmp_path), "1"
    member._pass_on([[protocol.STARTED, *KEY, 1, NINE]])
    sent.clear()
    member._pass_on([[protocol.FINISHED, *KEY, 1, NINE + 1, SUCCEEDED, 0, "", 7, None]])
    assert [message["op"] for message in sent] == [messages.SAY, *[messages.HEARTBEAT] * cards]
    assert [message["card"]["running"] for message in sent[1:]] == [0] * cards
