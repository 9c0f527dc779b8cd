"""What a node publishes about itself: the event feed, its status, notifications and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evertick.dispatch.clock import Clock
from evertick.dispatch.dispatcher import Dispatcher
from evertick.dispatch.facts import Facts, Listener
from evertick.dispatch.feed import Feed
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.notify.announcer import Announcer
from evertick.dispatch.notify.config import NotifyConfig
from evertick.dispatch.notify.heartbeat import Heartbeat
from evertick.dispatch.notify.rules import Message as Notice
from evertick.dispatch.run_counters import RunCounters
from evertick.dispatch.status import Status
from evertick.dispatch.writer import Writer
from evertick.executor import Executor
from evertick.loop.effects import Effect
from evertick.loop.messages import Message
from evertick.loop.state import State
from evertick.model.instant import SECOND
from evertick.model.job import Job

SILENCE_SECONDS = 10.0
"""How long a stop waits for messages that are on their way."""

DAMAGED = "on_ledger_damaged"


class Observers:
    """Observes in the loop's thread; other threads do everything slow."""

    def __init__(
        self,
        state: State,
        inbox: Inbox,
        clock: Clock,
        executors: Mapping[str, Executor],
        notify: NotifyConfig,
        feed_size: int,
    ) -> None:
        self._state = state
        self._notify = notify
        self._clock = clock
        self.run_counters = RunCounters()
        self.feed = Feed(state.incarnation, clock.now, feed_size)
        self.announcer = Announcer(
            notify.settings,
            self._job_of,
            clock.now,
            routes=notify.routes,
            manners=notify.manners,
            member_channels=notify.member_channels,
            owns=lambda bucket: bucket in state.epochs,
        )
        self.status = Status(
            state, inbox, clock, self.run_counters, self.feed, executors, lambda: self.announcer.counts
        )
        self.heartbeat: Heartbeat | None = None
        if notify.heartbeat_url:
            every = notify.heartbeat_us / SECOND
            self.heartbeat = Heartbeat(notify.heartbeat_url, every, self._is_well, notify.settings)
        self._facts = Facts([self.run_counters, self.feed, self.announcer])

    def listen(self, listener: Listener) -> None:
        """Add a listener to facts; call it before the loop starts."""
        self._facts.listeners.append(listener)

    def __call__(self, seen: Sequence[Message | Effect]) -> None:
        """What one iteration of the loop received and decided."""
        self._facts(seen)

    def start(self, dispatcher: Dispatcher, writer: Writer) -> None:
        self.status.dispatcher, self.status.writer = dispatcher, writer
        self.announcer.start()
        if self.heartbeat is not None:
            self.heartbeat.start()

    def stop(self) -> None:
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.announcer.stop(SILENCE_SECONDS)

    def report_damage(self, finding: str) -> None:
        """Send a message about a ledger that is damaged, where the settings name a receiver; from any thread."""
        channels, now, node = self._notify.ledger_channels, self._clock.now(), self._state.node
        text = f"The ledger of {node} is damaged. Next: evertick db check, and restore a backup."
        if channels:
            message_id = f"{node}/{DAMAGED}/{now}"
            self.announcer.announce(Notice(message_id, DAMAGED, "", node, "", now, now, text, finding, channels))

    def _job_of(self, job_id: str) -> Job | None:
        known = self._state.jobs.get(job_id)
        return known.job if known is not None else self._state.definitions.get(job_id)

    def _is_well(self) -> bool:
        """Whether planning is up to date; from any thread."""
        return not self._state.is_stopping and self.status.lag_us < self._notify.behind_us
