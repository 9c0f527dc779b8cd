"""The status of a node as plain values, from any thread and without waiting for the loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Final, TypeVar

from evertick.dispatch.clock import Clock
from evertick.dispatch.dispatcher import Dispatcher
from evertick.dispatch.feed import Feed
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.run_counters import RunCounters
from evertick.dispatch.writer import Writer
from evertick.executor import Executor, KeeperHealth
from evertick.loop.state import State
from evertick.loop.statistics import Histogram, Statistics
from evertick.model.instant import MILLISECOND, SECOND, Instant, to_text
from evertick.model.member import Member
from evertick.model.resources import amount_text

BOUNDS_US: Final = tuple(
    MILLISECOND * number
    for number in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000)
)
"""The bounds of the histograms: from a millisecond to five minutes."""
PERCENTS: Final = (50, 90, 99, 99.9)
Name = TypeVar("Name", bound=Hashable)


def histogram_data(histogram: Histogram) -> dict[str, object]:
    """Seconds, in the form of a histogram: counts up to each bound, their number and their sum."""
    return {
        "count": histogram.count,
        "sum": histogram.total_us / SECOND,
        "max": histogram.worst_us / SECOND,
        "percentiles": {str(percent): histogram.percentile_us(percent) / SECOND for percent in PERCENTS},
        "buckets": [
            [bound / SECOND, seen] for bound, seen in zip(BOUNDS_US, histogram.at_most(BOUNDS_US), strict=True)
        ],
    }


class Status:
    """Read by the socket. Everything it reads is a number, or copied at once."""

    def __init__(
        self,
        state: State,
        inbox: Inbox,
        clock: Clock,
        run_counters: RunCounters,
        feed: Feed,
        executors: Mapping[str, Executor],
        notifications: Callable[[], Mapping[str, int]],
    ) -> None:
        self._state = state
        self._inbox = inbox
        self._clock = clock
        self._run_counters = run_counters
        self._feed = feed
        self._executors = executors
        self._notifications = notifications
        self.started_at: Instant = clock.now()
        self.dispatcher: Dispatcher | None = None
        self.writer: Writer | None = None
        self.extra: dict[str, Callable[[], object]] = {}
        """What other parts add, by name: the API process, the socket itself."""

    @property
    def lag_us(self) -> int:
        """By how much planning lags: the loop hangs, or the ledger is slow."""
        return max(0, self._clock.now() - self._state.next_plan_at)

    def __call__(self) -> dict[str, object]:
        state, now = self._state, self._clock.now()
        numbers = state.statistics
        dispatcher, writer = self.dispatcher, self.writer
        turned_us = self._clock.monotonic_us() - dispatcher.turned_at_us if dispatcher is not None else None
        return {
            "node": state.node,
            "incarnation": state.incarnation,
            "version": _version(),
            "pid": os.getpid(),
            "started_at": to_text(self.started_at),
            "uptime_seconds": (now - self.started_at) / SECOND,
            "is_stopping": state.is_stopping,
            "planner": {
                "lag_seconds": self.lag_us / SECOND,
                "held_back": numbers.planning_held_back,
                "iterations": numbers.iterations,
                "seconds_since_turn": None if turned_us is None else turned_us / SECOND,
                "turn_seconds": histogram_data(dispatcher.turns) if dispatcher is not None else None,
            },
            "lateness_seconds": histogram_data(numbers.lateness),
            "request_delay_seconds": histogram_data(numbers.request_delay),
            "occurrences": {
                "entered": numbers.entered,
                "launched": numbers.launched,
                "ended": _counts(numbers.ended),
                "skipped": _counts(numbers.skipped),
                "gaps": self._run_counters.gaps,
            },
            "runs": self._run_counters.open_runs,
            "jobs": {"owned": len(state.jobs), "defined": len(state.definitions)},
            "ownership": {
                "buckets": len(state.epochs),
                "buckets_lost": self._run_counters.buckets_lost,
                "batches_fenced": numbers.fenced,
                "lease_until": None if state.lease_until is None else to_text(state.lease_until),
                "nodes": sorted(state.live_nodes or ()),
            },
            "time": {"clock_jumps": numbers.clock_jumps, "stalls": numbers.stalls, "last_jump": _jump(numbers)},
            "queues": {
                name: {"limit": queue.limit, "active": len(queue.active), "waiting": len(queue.waiting)}
                for name, queue in state.queues.items()
            },
            "ring": len(state.ring),
            "inbox": {"waiting": len(self._inbox)},
            "writer": {
                "backlog": writer.backlog if writer is not None else 0,
                "batches": len(state.batches),
                "changes": state.changes_in_flight,
            },
            "refused_reports": numbers.refused_reports,
            "deadlines": {"missed": numbers.deadlines_missed, "late_jobs": len(state.late_jobs)},
            "stuck": {"now": state.audit.stuck, "repaired": numbers.repaired},
            "executors": self._members(),
            "notifications": dict(self._notifications()),
            "feed": {
                "name": self._feed.name,
                "last": self._feed.last,
                "oldest": self._feed.oldest,
                "listeners": self._feed.listeners,
                "dropped": self._feed.dropped,
            },
            **{name: told() for name, told in self.extra.items()},
        }

    def _members(self) -> Mapping[str, object]:
        """By the name that runs have: `local@node`, or the executor's with its member's."""
        found: dict[str, dict[str, object]] = {}
        for name, executor in self._executors.items():
            for member in executor.members():
                where = self._state.node if member.name == name else member.name
                found[f"{name}@{where}"] = _member(name, member)
                able = executor.capabilities
                if able.lanes is not None:
                    found[f"{name}@{where}"]["lanes"] = able.lanes.lanes()
                if able.keepers is not None:
                    found[f"{name}@{where}"]["keepers"] = [_keeper(one) for one in able.keepers.keepers()]
        return found


def _member(executor: str, member: Member) -> dict[str, object]:
    return {
        "kind": executor,
        "member": member.name,
        "is_healthy": member.is_healthy,
        "is_open": member.is_open,
        "closed": member.closed,
        "running": member.running,
        "slots": member.slots or None,
        "labels": dict(member.labels),
        "is_expected": member.is_expected,
        "offers": {name: amount_text(name, amount) for name, amount in member.offers},
        "used": {name: amount_text(name, amount) for name, amount in member.used},
        "version": member.version or None,
        "address": member.address or None,
        "seen_at": to_text(member.seen_at) if member.seen_at else None,
    }


def _keeper(keeper: KeeperHealth) -> dict[str, object]:
    return {**keeper._asdict(), "is_silent": keeper.is_silent}


def _jump(numbers: Statistics) -> dict[str, object] | None:
    if numbers.last_jump is None:
        return None
    at, by_us = numbers.last_jump
    return {"at": to_text(at), "seconds": by_us / SECOND}


def _counts(counts: Mapping[Name, int]) -> dict[str, int]:
    return {str(name): number for name, number in dict(counts).items()}


@cache  # the answer to each look at the status has it, and the metadata is read from the disk
def _version() -> str:
    from importlib.metadata import version

    return version("evertick")
