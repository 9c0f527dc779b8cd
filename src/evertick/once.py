"""How does one job run once, here and now? On a ledger in memory that goes with it; no schedule takes part."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from evertick.dispatch.clock import SystemClock
from evertick.executors.local import LocalExecutor
from evertick.executors.logs import Logs
from evertick.location import MEMORY, Location
from evertick.loop.effects import Commit, Effect, Record
from evertick.loop.messages import CancelRun, Message, TriggerJob
from evertick.model.instant import SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, TERMINAL, Trigger
from evertick.model.routing import LOCAL
from evertick.model.run import Change, LedgerRow, RunKey
from evertick.node import Definitions, Node
from evertick.service import build_node
from evertick.settings import Settings
from evertick.settings.parts import KeeperSettings, LocalSettings
from evertick.wiring import Executors

NODE = "run"
# No other process connects to this keeper: it ends as soon as it is alone.
SETTINGS = LocalSettings(keeper=KeeperSettings(idle_us=SECOND // 2))


@dataclass(slots=True)
class Once:
    """A run in the foreground; `row` is kept up to date while `run` is awaited."""

    job: Job
    others: Mapping[str, Job]
    """The jobs that steps of this one may start."""
    state_folder: Path
    params: str = ""
    by: str = ""
    environ: Mapping[str, str] | None = None
    """The scheduler's environment, for secrets and containers; None: this process's."""
    row: LedgerRow = field(init=False)
    _node: Node = field(init=False)
    _ended: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        now = SystemClock().now()
        key = RunKey(self.job.id, now, f"run-{secrets.token_hex(4)}")
        self.row = LedgerRow(key, PLANNED, Trigger.MANUAL, now, NODE, params=self.params)
        jobs = tuple(_unscheduled(job) for job in {**self.others, self.job.id: self.job}.values())
        executors = Executors({LOCAL: LocalExecutor(self.state_folder, SETTINGS, environ=self.environ)})
        self._node = build_node(
            Settings(),
            Location(MEMORY),
            Definitions(lambda: jobs),
            executors=executors,
            name=NODE,
            observe=self._observe,
        )

    @property
    def logs(self) -> Logs:
        return Logs(self.state_folder)

    async def run(self, watch: Callable[[], object], every_seconds: float = 0.1) -> LedgerRow:
        """Start it and wait for its end; `watch` is called again and again meanwhile, and once more behind it."""
        running = asyncio.create_task(self._node.run())
        await asyncio.sleep(0)
        key = self.row.key
        self._node.inbox.report(
            TriggerJob(key.origin, key.job_id, key.scheduled_for, Trigger.MANUAL, self.params),
        )
        try:
            while not self._ended.is_set() and not running.done():
                watch()
                with _no_timeout():
                    await asyncio.wait_for(self._ended.wait(), every_seconds)
        finally:
            self._node.shut_down(0.0)
            await running
        watch()
        return self.row

    def cancel(self) -> None:
        """Ask it to end; it is killed when it does not."""
        key = self.row.key
        self._node.inbox.report(CancelRun(f"{key.origin}-cancel", key.job_id, key, self.by))

    def _observe(self, seen: Message | Effect) -> None:
        changes = seen.changes if isinstance(seen, Record) else seen.batch.changes if isinstance(seen, Commit) else ()
        for change in changes:
            if change.key == self.row.key:
                self.row = _changed(self.row, change)
        if self.row.state in TERMINAL:
            self._ended.set()


@contextmanager
def own_state_folder() -> Iterator[Path]:
    """A state folder for one run, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-run-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unscheduled(job: Job) -> Job:
    """Nothing of it is planned; its schedule says which occurrences are around the run."""
    return replace(job, stops=(), restarts=(), after=None, enabled=False, notify=(), blackouts=())


def _changed(row: LedgerRow, change: Change) -> LedgerRow:
    known = change._asdict()
    del known["key"], known["at"], known["fence"]
    return row._replace(changed_at=change.at, **{name: value for name, value in known.items() if value is not None})


@contextmanager
def _no_timeout() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        return
