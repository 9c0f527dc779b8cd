"""A scheduler for a folder in a thread of this process, for stores that only one process may open."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from evertick.executors.logs import Logs
from evertick.loop.effects import Commit, Effect, Record
from evertick.loop.messages import BucketsGained, Message, TriggerJob
from evertick.model.lifecycle import TERMINAL
from evertick.model.run import Change, RunKey
from evertick.service import FolderService
from evertick.settings import Settings

PATIENCE_SECONDS = 180


class Served:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self._logs = Logs(folder / ".evertick")
        self._ends: dict[RunKey, Change] = {}
        self._happened = threading.Condition()
        self._numbers = count(1)
        self._is_ready = False
        self.service = FolderService(folder, settings, observe=self._observe)
        self._thread = threading.Thread(target=lambda: asyncio.run(self.service.run()))
        self._thread.start()
        with self._happened:
            assert self._happened.wait_for(lambda: self._is_ready, PATIENCE_SECONDS), "it has not taken up its jobs"

    def run(self, job_id: str) -> Change:
        """Trigger a job, and how its run ended."""
        message = TriggerJob(f"asked-{next(self._numbers)}", job_id, time.time_ns() // 1_000)
        key = RunKey(job_id, message.submitted_at, message.request_id)
        self.service.node.inbox.report(message)
        with self._happened:
            assert self._happened.wait_for(lambda: key in self._ends, PATIENCE_SECONDS), f"{key.run_id} has not ended"
            return self._ends[key]

    def log(self, key: RunKey, step: str) -> str:
        return self._logs.read_log(key, 1, step).data.decode()

    def stop(self) -> None:
        self.service.shut_down(0)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _observe(self, seen: Message | Effect) -> None:
        told: Sequence[Change] = ()
        match seen:
            case BucketsGained():
                self._is_ready = True
            case Record(_, changes):
                told = changes
            case Commit(_, batch):
                told = batch.changes
            case _:
                return
        with self._happened:
            self._ends.update({change.key: change for change in told if change.state in TERMINAL})
            self._happened.notify_all()
