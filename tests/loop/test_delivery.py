"""Does a message that is delivered twice, late or out of order change anything? Each kind, in each way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

from evertick.loop.decide import decide
from evertick.loop.delivery import IDENTITY, Identity
from evertick.loop.messages import (
    AttemptSeen,
    BackfillJob,
    BatchCommitted,
    BatchFenced,
    BlackoutsSeen,
    BucketsGained,
    BucketsLost,
    CancelRun,
    ChangesRecorded,
    DefinitionEventsLost,
    DefinitionsChanged,
    DefinitionsResynced,
    ForwardedReport,
    LaunchRefused,
    LeaseRenewed,
    MembersSeen,
    Message,
    NodesSeen,
    OpenRunsSeen,
    OrphansFound,
    OutcomesSeen,
    PauseJob,
    PlacementsSeen,
    ReportsRead,
    ResumeJob,
    RunFinished,
    RunHeartbeat,
    RunLost,
    RunStarted,
    RunUnknown,
    Shutdown,
    StepsSeen,
    StopsSeen,
    SubRunsSeen,
    SubRunUnwanted,
    SubRunWanted,
    TimePassed,
    TriggerJob,
    UpstreamEnded,
)
from evertick.model.blackout import AddedBlackout
from evertick.model.constraint import RequirePreviousSuccess
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant
from evertick.model.job import After, Job
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import FAILED, OPEN, SUCCEEDED, TERMINAL
from evertick.model.member import Member
from evertick.model.policy import Missed
from evertick.model.routing import FLEET, Routing, Strategy
from evertick.model.run import RunKey
from evertick.model.schedule import CronSpec
from evertick.operations.requests import message_of
from tests.loop.executor import Act
from tests.loop.harness import QUIET, WAIT, World, at, job, retries

NINE = RunKey("a", at("09:00"))
HALF_PAST = CronSpec("30 * * * *", "UTC")
LONG = Act(lasts_us=10 * MINUTE)
LATE_US = 7 * MINUTE
SETTINGS = replace(QUIET, queues=(("q", 1),))
FROM_ELSEWHERE = {Identity.REQUEST, Identity.ATTEMPT, Identity.LAUNCH, Identity.SUB_RUN}
MUCH_LATER_US = HOUR + 7 * MINUTE


# --- ways to deliver


class Twice:
    """The copy right behind the message."""

    def __call__(self, here: Redelivering, messages: list[Message]) -> list[Message]:
        return [copy for one in messages for copy in ([one, one] if type(one) is here.kind else [one])]


class BeforeTheLedgerAnswers:
    """The copy in a turn of its own, while nothing that the first one led to is written."""

    def __call__(self, here: Redelivering, messages: list[Message]) -> list[Message]:
        here.copies += [one for one in messages if type(one) is here.kind]
        return messages


class Later:
    """The copy when all is over."""

    def __init__(self, after_us: int) -> None:
        self._after_us = after_us

    def __call__(self, here: Redelivering, messages: list[Message]) -> list[Message]:
        here.held += [(here.now + self._after_us, one) for one in messages if type(one) is here.kind]
        return messages


class OutOfOrder:
    """Each of them late, and those that are late together in reverse."""

    def __call__(self, here: Redelivering, messages: list[Message]) -> list[Message]:
        here.held = [(here.now + 15 * SECOND, one) for one in messages if type(one) is here.kind] + here.held
        return [one for one in messages if type(one) is not here.kind]


WAYS = {
    "twice at once": Twice(),
    "again before the ledger answers": BeforeTheLedgerAnswers(),
    "again later": Later(LATE_US),
    "again much later": Later(MUCH_LATER_US),
    "late and in reverse": OutOfOrder(),
}
Way = Callable[["Redelivering", list[Message]], list[Message]]


class Redelivering(World):
    """A world in which one kind of message is delivered in one of these ways, while `is_on`."""

    def __init__(self, jobs: list[Job], now: Instant, kind: type | None, way: Way | None) -> None:
        self.kind, self.way = kind, way
        self.copies: list[Message] = []
        self.held: list[tuple[Instant, Message]] = []
        self.delivered: set[type] = set()
        self.is_on = True
        super().__init__(jobs, now, SETTINGS)

    def turn(self) -> None:
        messages: list[Message] = [TimePassed(self.monotonic), *self.inbox]
        self.inbox = []
        self.delivered |= {type(one) for one in messages}
        if self.way is not None and self.is_on:
            messages = self.way(self, messages)
        due = [one for when, one in self.held if when <= self.now]
        self.held = [(when, one) for when, one in self.held if when > self.now]
        self._decide([*messages, *due])
        if self.copies:
            copies, self.copies = self.copies, []
            self._decide(copies)
        self.write()

    def _decide(self, messages: list[Message]) -> None:
        effects, self.wake_at = decide(self.state, messages, self.now)
        self.turns.append((messages, self.now, list(effects)))
        for effect in effects:
            self._carry_out(effect)

    def wake(self) -> None:
        # What was on its way to a process that has ended reaches the next one only if it comes from elsewhere.
        if self.kind is not None and IDENTITY[self.kind] not in FROM_ELSEWHERE:
            self.held.clear()
        super().wake()

    def _next_at(self) -> Instant:
        return min([super()._next_at(), *(when for when, one in self.held if not isinstance(one, TimePassed))])

    def settle(self) -> None:
        if any(when <= self.now for when, one in self.held if not isinstance(one, TimePassed)):
            self.turn()
        super().settle()

    def claim(self) -> None:
        """Bring unanswered requests to the loop, as the dispatcher does each second."""
        self.say(*map(message_of, self.store.claim(None, 100)))


# --- stories: in each, some kinds of message come to pass


def ordinary_hours(here: Redelivering) -> None:
    here.run_until("10:20")


def a_chain(here: Redelivering) -> None:
    for hour in ("09", "10"):
        here.run_until(f"{hour}:00:05")
        here.claim()
        here.run_until(f"{hour}:20")


def people_ask(here: Redelivering) -> None:
    here.act("b", LONG)
    here.say(TriggerJob("r1", "b", here.now))
    here.run_for(SECOND)
    here.say(TriggerJob("r2", "b", here.now))
    here.run_for(MINUTE)
    here.say(CancelRun("r3", "b", RunKey("b", here.now - MINUTE, "r2"), by="a person"))
    here.run_for(15 * MINUTE)
    here.say(PauseJob("r4", "a", submitted_at=here.now))
    here.run_until("10:10")
    here.say(ResumeJob("r5", "a", Missed.ALL, submitted_at=here.now))
    here.run_for(MINUTE)
    here.say(BackfillJob("r6", "c", (at("07:30"), at("08:30")), WAIT))
    here.run_until("11:20")


def attempts_go_wrong(here: Redelivering) -> None:
    here.act("a", Act(refused=True), Act(state=FAILED, lasts_us=MINUTE), Act(lasts_us=MINUTE))
    here.run_until("09:00:30")
    here.say(RunHeartbeat(NINE, 1), StepsSeen(NINE, 1, '[{"name": "main", "state": "running"}]'))
    here.run_until("09:20")
    here.act("a", LONG, Act())
    here.run_until("10:00:30")
    here.executor.forget_what_is_coming()
    here.say(RunLost(RunKey("a", at("10:00")), 1, "its executor died"))
    here.say(AttemptSeen(RunKey("a", at("10:00")), 1))
    here.run_until("10:20")


def a_restart(here: Redelivering) -> None:
    here.run_until("08:59:58")
    here.crash(after=4 * SECOND)  # the run of 09:00 is entered and not started
    here.begin()
    here.run_until("10:20")


def a_sub_run(here: Redelivering) -> None:
    here.act("a", LONG)
    here.act("b", Act(lasts_us=MINUTE))
    here.run_until("09:00:01")
    here.say(SubRunWanted(NINE, 1, "call", 1, "b", "{}", waits=False))
    here.run_until("09:02:00")
    here.act("b", LONG)
    here.say(SubRunWanted(NINE, 1, "again", 1, "b", "{}"))
    here.run_until("09:03:00")
    here.say(SubRunUnwanted(NINE, 1, "again", 1, "b"))
    here.run_until("09:30")


def on_the_fleet(here: Redelivering) -> None:
    here.executor.name = ""
    here.say(MembersSeen(FLEET, [Member(name, is_healthy=True, running=0) for name in ("ex-a", "ex-b")]))
    here.run_until("10:45")


def definitions_change(here: Redelivering) -> None:
    here.run_until("09:10")
    here.define(replace(here.jobs["a"], schedules=(HALF_PAST,)))
    here.say(DefinitionEventsLost())
    here.run_for(MINUTE)
    here.say(DefinitionsResynced(list(here.jobs.values())))
    here.run_until("10:50")


def blackouts_come_and_go(here: Redelivering) -> None:
    dark = AddedBlackout("b1", at("09:20"), at("09:40"), jobs=("a",))
    here.run_until("09:10")
    here.say(BlackoutsSeen((dark,)))
    here.run_until("09:35")
    here.say(BlackoutsSeen((replace(dark, end=at("09:35")),)))
    here.run_until("10:50")


def buckets_move(here: Redelivering) -> None:
    here.say(LeaseRenewed(here.now + DAY), NodesSeen(frozenset({"node", "east"})))
    here.run_until("09:10")
    here.say(here.lost(bucket_of("a")))
    here.run_until("10:10")
    here.say(OrphansFound([row for row in here.rows() if row.state in OPEN]))
    here.say(here.gain([bucket_of("a")]))
    here.run_until("11:20")


def ended_for_its_owner(here: Redelivering) -> None:
    here.act("a", Act(lasts_us=None), Act())
    here.run_until("09:01")
    here.say(here.lost(bucket_of("a")))
    here.run_until("09:02")
    here.want_stop(NINE)
    here.run_until("10:10")
    here.say(here.gain([bucket_of("a")]))
    here.claim()
    here.run_until("11:20")


def taken_behind_its_back(here: Redelivering) -> None:
    here.run_until("09:10")
    here.steal(bucket_of("c"))
    here.run_until("10:20")
    here.say(here.gain([bucket_of("c")]))
    here.run_until("11:50")


def a_run_of_another_node(here: Redelivering) -> None:
    here.act("a", Act(lasts_us=None))
    here.executor.name = "local@east"
    here.run_until("09:00:10")
    here.executor.attempts.clear()
    here.restart(after=SECOND)
    here.executor.name = "local@node"
    here.act("a", Act())
    here.say(NodesSeen(frozenset({"node", "east"})))
    here.run_until("09:05")
    here.say(ForwardedReport("report/1", RunFinished(NINE, 1, here.now, SUCCEEDED)))
    here.run_until("10:20")


def a_run_of_a_node_that_is_gone(here: Redelivering) -> None:
    here.act("a", Act(lasts_us=None))
    here.executor.name = "local@east"
    here.run_until("09:00:10")
    here.executor.attempts.clear()
    here.restart(after=SECOND)
    here.executor.name = "local@node"
    here.act("a", Act())
    here.say(NodesSeen(frozenset({"node"})))
    here.run_until("10:20")


def after_a_job_of_another_node(here: Redelivering) -> None:
    here.define(replace(here.jobs["a"], constraints=(RequirePreviousSuccess(("b",)),)))
    here.say(here.lost(bucket_of("b")))
    here.run_until("10:20")
    here.say(here.gain([bucket_of("b")]))


def the_end(here: Redelivering) -> None:
    here.run_until("09:10")
    here.say(Shutdown())
    here.run_until("10:10")
    here.begin()
    here.run_until("11:20")


STORIES: dict[type, Callable[[Redelivering], None]] = {
    **dict.fromkeys((TimePassed, DefinitionsResynced, BatchCommitted, ChangesRecorded), ordinary_hours),
    **dict.fromkeys((RunStarted, RunFinished, OpenRunsSeen), ordinary_hours),
    **dict.fromkeys((UpstreamEnded,), a_chain),
    **dict.fromkeys((TriggerJob, CancelRun, PauseJob, ResumeJob, BackfillJob), people_ask),
    **dict.fromkeys((LaunchRefused, RunHeartbeat, StepsSeen, RunLost, AttemptSeen), attempts_go_wrong),
    RunUnknown: a_restart,
    **dict.fromkeys((SubRunWanted, SubRunUnwanted, SubRunsSeen), a_sub_run),
    **dict.fromkeys((MembersSeen, PlacementsSeen), on_the_fleet),
    **dict.fromkeys((DefinitionsChanged, DefinitionEventsLost), definitions_change),
    BlackoutsSeen: blackouts_come_and_go,
    **dict.fromkeys((BucketsGained, BucketsLost, LeaseRenewed, OrphansFound), buckets_move),
    StopsSeen: ended_for_its_owner,
    BatchFenced: taken_behind_its_back,
    **dict.fromkeys((NodesSeen, ForwardedReport), a_run_of_another_node),
    ReportsRead: a_run_of_a_node_that_is_gone,
    OutcomesSeen: after_a_job_of_another_node,
    Shutdown: the_end,
}


def told(story: Callable[[Redelivering], None], kind: type | None = None, way: Way | None = None) -> Redelivering:
    """A world after a story, and after everything that was held back has been delivered."""
    jobs = [
        job("a", overlap=WAIT, retry=retries(1)),
        replace(job("z"), schedules=(), after=After(("a",))),
        Job("b", policy=replace(job().policy, overlap=WAIT)),
        replace(job("c", HALF_PAST), queue="q"),
        replace(job("f", HALF_PAST), routing=Routing(FLEET, Strategy.ROUND)),
    ]
    here = Redelivering(jobs if story is on_the_fleet else jobs[:-1], at("08:30"), kind, way)
    story(here)
    here.is_on = False
    end = max([here.now, *(when for when, _ in here.held)])
    here.run_until(end + 20 * MINUTE)
    here.claim()
    here.run_for(MINUTE)
    return here


def lines(here: Redelivering, until: Instant) -> list[tuple[Any, ...]]:
    """What the ledger says of each run that was due by then."""
    return [
        (row.key.run_id, row.state, row.attempt, row.reason, row.exit_code)
        for name in sorted(here.jobs)
        for row in here.rows(name)
        if row.key.scheduled_for <= until
    ]


def refused(here: Redelivering) -> list[LaunchRefused | RunUnknown]:
    """Attempts that an executor did not take."""
    return [one for messages, _, _ in here.turns for one in messages if isinstance(one, LaunchRefused | RunUnknown)]


@pytest.fixture(scope="module")
def undisturbed() -> dict[Callable[[Redelivering], None], Redelivering]:
    """Each story as it goes when every message is delivered once."""
    return {story: told(story) for story in set(STORIES.values())}


def test_every_kind_of_message_has_an_identity():
    assert set(IDENTITY) == set(get_args(Message))


@pytest.mark.parametrize(
    "way",
    [
        # Hours of a world in which hardly anything happens.
        pytest.param(way, id=name, marks=[pytest.mark.slow] if name == "again much later" else [])
        for name, way in WAYS.items()
    ],
)
@pytest.mark.parametrize("kind", get_args(Message), ids=lambda kind: kind.__name__)
def test_a_message_that_is_delivered_again_changes_nothing(undisturbed, kind, way):
    assert kind in STORIES, f"there is no story in which {kind.__name__} comes to pass: add one"
    before = undisturbed[STORIES[kind]]
    assert kind in before.delivered, f"{STORIES[kind].__name__} has no {kind.__name__}"
    here = told(STORIES[kind], kind, way)
    assert here.forgotten() == []
    assert [line for line in lines(here, here.now - 20 * MINUTE) if line[1] not in TERMINAL] == []
    assert (here.state.changes_in_flight, here.state.records, here.state.batches) == (0, {}, {})
    assert [state.asked for state in here.state.jobs.values() if state.asked] == []
    assert here.store.claim(None, 100) == []
    if not isinstance(way, OutOfOrder):  # what is late may lead to something else, but to nothing twice
        until = before.now - 30 * MINUTE
        assert lines(here, until) == lines(before, until)
    if kind not in (LaunchRefused, RunUnknown):  # an attempt that was not taken is offered again
        starts = [(launch.key, launch.attempt) for _, launch in here.launches]
        twice = {start for start in starts if starts.count(start) > 1}
        assert twice <= {(launch.key, launch.attempt) for launch in refused(here)}
