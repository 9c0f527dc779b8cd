"""A whole node on a folder of its own, for benchmarks: SQLite, keeper and all, and what it has done so far."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from evertick.dispatch.facts import Fact, Facts
from evertick.executors.local import LocalExecutor
from evertick.location import Location
from evertick.loop.effects import Effect
from evertick.loop.messages import BucketsGained, LaunchRefused, Message, RunStarted
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.lifecycle import SUCCEEDED, TERMINAL
from evertick.model.run import Change
from evertick.node import Definitions
from evertick.node import Node as Scheduler
from evertick.wiring import Executors


class Node:
    """Counts what the ledger has taken, and notes how late runs started."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evertick-bench-"))
        self.late_us: dict[str, list[Instant]] = {}
        """Start minus due time, by job."""
        self.ended = 0
        self.trouble = ""
        self._changed = threading.Condition()
        self._is_ready = False
        self._facts = Facts([self._written])
        self.executor = LocalExecutor(self.folder)
        self.node = Scheduler(
            Location(f"sqlite:///{self.folder / 'ledger.db'}"),
            Definitions(lambda: tuple(jobs)),
            Executors({"local": self.executor}),
            name="bench",
            observe=self._observe,
        )
        self._thread = threading.Thread(target=lambda: asyncio.run(self.node.run()))
        self._thread.start()
        self.wait(lambda: self._is_ready)

    def say(self, message: Message) -> None:
        self.node.inbox.report(message)

    def wait(self, is_enough: object) -> None:
        assert callable(is_enough)
        with self._changed:
            self._changed.wait_for(lambda: is_enough() or self.trouble)
        if self.trouble:
            raise AssertionError(f"what fails is not worth timing: {self.trouble}")

    def close(self) -> None:
        self.node.shut_down(0)
        self._thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _observe(self, seen: Message | Effect) -> None:
        self._facts([seen])
        match seen:
            case RunStarted(key, _, at):
                with self._changed:
                    self.late_us.setdefault(key.job_id, []).append(at - key.scheduled_for)
                    self._changed.notify_all()
            case BucketsGained():
                with self._changed:
                    self._is_ready = True
                    self._changed.notify_all()
            case LaunchRefused():
                self.trouble = str(seen)

    def _written(self, facts: Sequence[Fact]) -> None:
        ends = [fact for fact in facts if isinstance(fact, Change) and fact.state in TERMINAL]
        if not ends:
            return
        bad = [end for end in ends if end.state is not SUCCEEDED]
        with self._changed:
            self.ended += len(ends)
            self.trouble = self.trouble or (str(bad[0]) if bad else "")
            self._changed.notify_all()
