"""The operations on the ledger of a program's scheduler, for any thread of it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from evertick.errors import NotFound
from evertick.model.ids import digest, origin_of
from evertick.model.job import Job
from evertick.model.ledger import STORED_JOBS, Batch, StoredJob
from evertick.model.lifecycle import TERMINAL
from evertick.model.run import RunKey
from evertick.operations.context import folder_of
from evertick.operations.deferred import import_all_of
from evertick.operations.local import LocalOperations
from evertick.operations.results.requests import BackfillProgress, RequestAnswer
from evertick.operations.results.runs import RunDetail
from evertick.settings import Settings
from evertick.store import Store

T = TypeVar("T")


class Ledger:
    """One operation at a time."""

    def __init__(
        self,
        store: Store,
        jobs: Callable[[], Mapping[str, Job]],
        *,
        by: str,
        is_anyone_running: Callable[[Store], bool],
        poke: Callable[[], None],
        settings: Settings,
    ) -> None:
        import_all_of("evertick.operations")
        self._store, self._poke = store, poke
        self._operations = LocalOperations(
            store,
            lambda: folder_of(jobs()),
            by=by,
            is_scheduler_running=lambda: is_anyone_running(store),
            timezone=settings.timezone,
            declared_blackouts=(settings.origins.get("blackouts", "the settings"), settings.blackouts),
        )
        self._lock = threading.RLock()

    def call(self, operation: Callable[[LocalOperations], T]) -> T:
        with self._lock:
            return operation(self._operations)

    def submit(self, command: Callable[[LocalOperations, str], T]) -> tuple[str, T]:
        """Make a request under a new id, and let the scheduler look at once; returns the id and the status."""
        request_id = f"py-{digest(secrets.token_hex(16))}"
        found = self.call(lambda operations: command(operations, request_id))
        self._poke()
        return request_id, found

    def stored_jobs(self) -> Mapping[str, str]:
        with self._lock:
            return self._store.stored_jobs()

    def store_jobs(self, jobs: Sequence[StoredJob]) -> None:
        """Each of them is on disk when this returns."""
        with self._lock:
            self._store.commit(Batch(by=f"py-{secrets.token_hex(8)}", stored_jobs=jobs))

    def job_changes(self) -> int:
        """Grows with each change of a stored job, by any process."""
        with self._lock:
            return self._store.counters().get(STORED_JOBS, 0)

    def run_id_of(self, job_id: str, request_id: str) -> str:
        """The id that the run of a request has or will have."""
        with self._lock:
            (found,) = self._store.requests([request_id])
        return RunKey(job_id, found.submitted_at, origin_of(request_id)).run_id

    def answer(self, request_id: str) -> RequestAnswer | None:
        """The answer to a request; None until there is one. A refusal is raised."""
        return self.call(lambda operations: operations.answer(request_id)).answer

    def ended_run(self, run_id: str) -> RunDetail | None:
        """The run once it has ended; None before. A request that was refused is raised."""
        try:
            found = self.call(lambda operations: operations.run(run_id))
        except NotFound:
            self.answer(RunKey.from_run_id(run_id).origin)
            return None
        return found if found.state in TERMINAL else None

    def ended_backfill(self, job_id: str, request_id: str) -> BackfillProgress | None:
        """The result of a backfill once all its runs have ended; None before."""
        progress = self.call(lambda operations: operations.backfill_progress(job_id, request_id))
        if not progress.is_answered:
            self.answer(request_id)
            return None
        return progress if progress.is_over else None

    @property
    def is_scheduler_running(self) -> bool:
        return self.call(lambda operations: operations.status()).is_scheduler_running

    def close(self) -> None:
        with self._lock:
            self._store.close()
