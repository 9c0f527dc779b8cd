"""The resources of a member, and those that its attempts reserve; kept on disk, as attempts outlive the worker."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import psutil

from evertick.executor import AttemptId
from evertick.model.resources import CPU, GPUS, MEMORY, THOUSAND, Resources, lacking, resources_of, total
from evertick.model.run import RunKey

FILE: Final = "reservations.json"
STARTING_SECONDS: Final = 60.0
"""An attempt that has not started by then never will: its launch or its keeper was lost."""
_CGROUP: Final = Path("/sys/fs/cgroup")
_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


class Reservations:
    def __init__(self, folder: Path, offers: Resources, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = folder / FILE
        self._offers = offers
        self._clock = clock
        self._asked: dict[AttemptId, Resources] = {}
        """Requested by attempts that are not launched yet."""
        self._held: dict[AttemptId, tuple[Resources, float]] = {
            attempt_id: (held, clock()) for attempt_id, held in self._load()
        }

    def ask(self, attempt_id: AttemptId, resources: Resources) -> None:
        """Received right before the launch of an attempt."""
        self._asked[attempt_id] = resources

    def take(self, attempt_id: AttemptId, running: Collection[AttemptId]) -> Resources:
        """Reserve what an attempt requested; returns what is lacking, and then nothing is reserved."""
        asked = self._asked.pop(attempt_id, ())
        if not asked or attempt_id in self._held:
            return ()
        missing = lacking(asked, self._offers, self.used(running))
        if not missing:
            self._held[attempt_id] = (asked, self._clock())
            self._save()
        return missing

    def give_back(self, attempt_id: AttemptId) -> None:
        self._asked.pop(attempt_id, None)
        if self._held.pop(attempt_id, None) is not None:
            self._save()

    def used(self, running: Collection[AttemptId]) -> Resources:
        """By running attempts, and those launched a moment ago."""
        now = self._clock()
        gone = [
            attempt_id
            for attempt_id, (_, since) in self._held.items()
            if attempt_id not in running and now - since > STARTING_SECONDS
        ]
        for attempt_id in gone:
            self.give_back(attempt_id)
        return resources_of(total(held for held, _ in self._held.values()))

    def _load(self) -> list[tuple[AttemptId, Resources]]:
        try:
            plain: list[Any] = json.loads(self._path.read_bytes())
            return [
                (AttemptId(RunKey(str(job), int(at), str(origin)), int(attempt)), resources_of(held))
                for job, at, origin, attempt, held in plain
            ]
        except (OSError, ValueError, TypeError, AttributeError):
            return []  # too low for a moment; the schedulers count too

    def _save(self) -> None:
        plain = [[*attempt_id.key, attempt_id.attempt, dict(held)] for attempt_id, (held, _) in self._held.items()]
        scratch = self._path.with_suffix(".new")
        scratch.write_text(json.dumps(plain))
        os.replace(scratch, self._path)


def detect_resources(cgroup: Path = _CGROUP, nvidia: Path = _NVIDIA) -> Resources:
    """CPU, memory and NVIDIA's GPUs of this machine, or of its container."""
    cpu = len(os.sched_getaffinity(0)) * THOUSAND
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cpu = min(cpu, int(quota) * THOUSAND // int(period))
    memory = psutil.virtual_memory().total
    limit = _read(cgroup / "memory.max")
    if limit.isdigit():
        memory = min(memory, int(limit))
    gpus = len(list(nvidia.iterdir())) if nvidia.is_dir() else 0
    return resources_of({CPU: cpu, MEMORY: memory, GPUS: gpus * THOUSAND})


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
