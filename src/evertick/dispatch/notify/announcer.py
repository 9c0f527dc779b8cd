"""Turns facts into messages, in its own thread: the loop never waits for it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from evertick.dispatch.facts import Fact
from evertick.dispatch.notify.config import NotifySettings
from evertick.dispatch.notify.rules import Message, RateLimits, RunChange, SendHistory, Subject, flush, judge
from evertick.dispatch.notify.sender import Sender
from evertick.loop.effects import Log, Notify
from evertick.loop.messages import BucketsGained, MembersSeen
from evertick.model.constraint import MaxExpectedRunTime
from evertick.model.instant import SECOND, Instant, from_text, to_text
from evertick.model.job import Job
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import PLANNED, RUNNING, TERMINAL, RunState, Trigger
from evertick.model.member import Member
from evertick.model.notify import Channel, Route, Webhook
from evertick.model.run import Change, Entry, RunKey

DEFAULT_MANNERS = RateLimits()


class Notifier:
    """Any thread may call it; `send` must return at once, as `Sender.send` does."""

    def __init__(self, send: Callable[[list[Message]], None], manners: RateLimits = DEFAULT_MANNERS) -> None:
        self._send = send
        self._manners = manners
        self._book = SendHistory()
        self._lock = threading.Lock()

    def happened(self, told: Iterable[tuple[Subject, RunChange]]) -> None:
        with self._lock:
            messages = [
                message
                for subject, happening in told
                for message in judge(self._book, subject, happening, self._manners)
            ]
        if messages:
            self._send(messages)

    def tick(self, now: Instant) -> None:
        """Call every few seconds: sends messages whose quiet time is over."""
        with self._lock:
            messages = flush(self._book, now, self._manners)
        if messages:
            self._send(messages)

    def remember_failure(self, job_id: str) -> None:
        with self._lock:
            self._book.remember_failure(job_id)

    def forget(self, job_id: str) -> None:
        with self._lock:
            self._book.forget(job_id)


def subject_of(job: Job, routes: tuple[Route, ...] = ()) -> Subject:
    """What the rules need to know about a job; `routes` are those of all jobs."""
    expected = [one.duration_us for one in job.constraints if isinstance(one, MaxExpectedRunTime)]
    return Subject(
        job.id, job.name, (*job.notify, *routes), job.policy.on_time_us, expected_us=min(expected) if expected else None
    )


log = logging.getLogger("evertick.notify")

WAITING_MAX: Final = 10_000
"""Facts that may be queued; beyond that they are counted, and the count is reported."""
TICK_SECONDS: Final = 5.0
FORGET_SECONDS: Final = 120.0
"""A removed job is remembered for this long: an editor may delete and re-create its file."""


class _Known(NamedTuple):
    job: Job
    subject: Subject


class _JobSeen(NamedTuple):
    job_id: str


class _MemberGone(NamedTuple):
    job_id: str


class _MemberBack(NamedTuple):
    job_id: str


_TOLD: Final = TERMINAL | {RUNNING}

_Item: TypeAlias = tuple[Subject, RunChange] | Message | _JobSeen | _MemberGone | _MemberBack | None


class Announcer:
    """A listener to facts. In the loop's thread it drops facts that no rule is about; another thread does the rest.

    `job_of` is asked in the loop's thread only.
    """

    def __init__(
        self,
        settings: NotifySettings,
        job_of: Callable[[str], Job | None],
        now: Callable[[], Instant],
        *,
        routes: Sequence[Route] = (),
        manners: RateLimits | None = None,
        member_channels: Sequence[Channel] = (),
        owns: Callable[[int], bool] = lambda _: True,
        sender: Sender | None = None,
    ) -> None:
        self._job_of = job_of
        self._now = now
        self._routes = tuple(routes)
        self._members = MemberWatch(member_channels)
        self._owns = owns
        self._sender = sender or Sender(settings)
        self._notifier = Notifier(self._send, manners or RateLimits())
        self._known: dict[str, _Known] = {}
        self._items: queue.Queue[_Item] = queue.Queue(WAITING_MAX)
        self._gone: dict[str, float] = {}
        self._is_sending = False
        self._told_of_drops = 0
        self.dropped = 0
        """Facts that were dropped, because too many waited."""
        self._thread = threading.Thread(target=self._run, name="evertick-notify", daemon=True)

    @property
    def counts(self) -> dict[str, int]:
        """Deliveries by result, and facts that were dropped."""
        return {**self._sender.counts, "unjudged": self.dropped}

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Process the queue, try each message once more, and stop."""
        deadline = time.monotonic() + timeout
        if self._thread.is_alive():
            try:
                self._items.put(None, timeout=timeout)
            except queue.Full:
                log.warning("notify.stopped_while_full")
            self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._is_sending:
            self._sender.stop(max(0.5, deadline - time.monotonic()))

    def __call__(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if (type(fact) is Change or type(fact) is Entry) and (fact.state not in _TOLD or not self._is_about(fact)):
                continue  # nearly all of them
            match fact:
                case Entry() | Change():
                    # A change to `running` without an instant only adds a detail to a run that continues.
                    is_news = fact.state in TERMINAL or (fact.state is RUNNING and _started_at(fact) is not None)
                    is_news = is_news and fact.trigger is not Trigger.ITEM  # its parent's end reports it
                    if is_news and (subject := self._subject(fact.key.job_id)) is not None:
                        self._put((subject, RunChange.of(fact)))
                case MembersSeen(executor, members):
                    # Every node sees the members; the owner of the bucket of a name reports it.
                    own = [member for member in members if self._owns(bucket_of(member.name))]
                    for message in self._members.seen(executor, own, self._now()):
                        self._put(message)
                case Notify():
                    self._put(message_of(fact, self._now()))
                case BucketsGained(_, snapshot):
                    for record in snapshot.jobs:
                        if record.has_failed:
                            self._put(_JobSeen(record.job_id))
                case Log("run.stuck", fields):
                    key = RunKey.from_run_id(str(fields["run"]))
                    if (subject := self._subject(key.job_id)) is not None:
                        state = RunState(str(fields["state"]))
                        self._put((subject, RunChange(key, state, self._now(), is_stuck=True)))
                case Log("job.deadline_missed", fields):
                    key = RunKey(str(fields["job"]), from_text(str(fields["scheduled_for"])))
                    if (subject := self._subject(key.job_id)) is not None:
                        deadline = from_text(str(fields["deadline"]))
                        self._put((subject, RunChange(key, PLANNED, self._now(), missed_deadline=deadline)))
                case Log("job.removed", fields):
                    self._known.pop(str(fields["job"]), None)
                    self._put(_MemberGone(str(fields["job"])))
                case Log("job.returned" | "job.added", fields):
                    self._put(_MemberBack(str(fields["job"])))
                case _:
                    pass

    def announce(self, message: Message) -> None:
        """Send a message about the node itself; from any thread."""
        self._put(message)

    def _is_about(self, fact: Change | Entry) -> bool:
        """Whether a rule may be about its job."""
        job = self._job_of(fact.key.job_id)
        return job is not None and bool(job.notify or self._routes)

    def _subject(self, job_id: str) -> Subject | None:
        """What the rules need to know of a job; None when no rule is about it."""
        job = self._job_of(job_id)
        if job is None or not (job.notify or self._routes):
            return None
        known = self._known.get(job_id)
        if known is None or known.job is not job:
            subject = subject_of(job, self._routes)
            known = self._known[job_id] = _Known(job, subject)
        return known.subject

    def _put(self, item: _Item) -> None:
        try:
            self._items.put_nowait(item)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        due = time.monotonic() + TICK_SECONDS
        while True:
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + TICK_SECONDS
                    self._tick()
                item = self._items.get(timeout=max(0.01, due - time.monotonic()))
                if item is None:
                    return
                self._take(item)
            except queue.Empty:
                pass
            except Exception:
                # A fault of ours costs one message, never the thread.
                log.exception("notify.fault")

    def _take(self, item: _Item) -> None:
        match item:
            case Message():
                self._send([item])
            case _JobSeen(job_id):
                self._notifier.remember_failure(job_id)
            case _MemberGone(job_id):
                self._gone[job_id] = time.monotonic() + FORGET_SECONDS
            case _MemberBack(job_id):
                self._gone.pop(job_id, None)
            case (Subject() as subject, RunChange() as happening):
                self._notifier.happened([(subject, happening)])

    def _tick(self) -> None:
        self._notifier.tick(self._now())
        if self.dropped > self._told_of_drops:
            log.warning("notify.overflow dropped=%d limit=%d", self.dropped - self._told_of_drops, WAITING_MAX)
            self._told_of_drops = self.dropped
        now = time.monotonic()
        for job_id in [job_id for job_id, at in self._gone.items() if at <= now]:
            del self._gone[job_id]
            self._notifier.forget(job_id)

    def _send(self, messages: list[Message]) -> None:
        if not self._is_sending:
            # Its threads are started when there is something to say: most nodes never have.
            self._is_sending = True
            self._sender.start()
        self._sender.send(messages)


def message_of(effect: Notify, now: Instant) -> Message:
    """The message about a violated constraint: to one address, each time, never folded."""
    job, constraint, key, url, detail = effect
    name = job.name or job.id
    text = f"{name}: {constraint} does not hold for the run due at {to_text(key.scheduled_for)}."
    text = f"{text} {detail}" if detail else text
    run_id = key.run_id
    return Message(
        f"{run_id}/{constraint}", constraint, job.id, name, run_id, key.scheduled_for, now, text, "", (Webhook(url),)
    )


def trial_of(channel: Channel, node: str, now: Instant) -> Message:
    """A test message."""
    text = f"This is a test notification from Evertick on {node}."
    key = RunKey("notify-test", now // SECOND * SECOND)
    return Message(
        f"test/{node}/{now}", "test", key.job_id, "Test", key.run_id, key.scheduled_for, now, text, "", (channel,)
    )


def _started_at(fact: Entry | Change) -> Instant | None:
    return fact.started_at if isinstance(fact, Change) else None


EVENT = "on_member_missing"


class MemberWatch:
    """It belongs to one thread."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = tuple(channels)
        self._missing: set[str] = set()

    def seen(self, executor: str, members: Sequence[Member], now: Instant) -> list[Message]:
        """The messages about the current members."""
        told = []
        for member in members:
            is_missing = is_missing_member(member)
            if is_missing == (member.name in self._missing):
                continue
            if is_missing:
                self._missing.add(member.name)
                last = f"it was last seen at {to_text(member.seen_at)}" if member.seen_at else "it was not seen yet"
                told.append(self._message(executor, member, now, f"is missing: {last}"))
            elif member.is_healthy:
                self._missing.discard(member.name)
                told.append(self._message(executor, member, now, "is back"))
        return told if self._channels else []

    def _message(self, executor: str, member: Member, now: Instant, how: str) -> Message:
        text = f"The member {member.name} of the {executor} {how}."
        return Message(
            f"{executor}/{member.name}/{how}/{now}", EVENT, "", executor, "", now, now, text, "", self._channels
        )


def is_missing_member(member: Member) -> bool:
    """Expected, and away for longer than its lease; one that may reconnect in a moment is not missing yet."""
    return member.is_expected and not member.is_healthy and not member.is_awaited
