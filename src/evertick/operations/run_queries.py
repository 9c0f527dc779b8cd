"""Queries about runs: history, one run with its attempts and logs, and gaps."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.attempts import AttemptRecord, read_attempts
from evertick.model.definition import definition_text
from evertick.model.lifecycle import RETRYING, TERMINAL, WAITING, RunState, SkipReason, Trigger
from evertick.model.loss import read_loss
from evertick.model.run import LedgerRow
from evertick.model.steps import StepRecord, read_steps
from evertick.operations.context import Context, bounded
from evertick.operations.data import loss_of, step_data, text_or_none
from evertick.operations.job_queries import word_of
from evertick.operations.log_search import count_line_ends, search_lines
from evertick.operations.reasons import why
from evertick.operations.run_logs import AbsentLog, FoundLogs, LogFile
from evertick.operations.shapes import Data, gap_data, report_data
from evertick.operations.submission import read_run_id
from evertick.operations.verification import verify
from evertick.store import RunFilter

RUNS_MAX = 1_000
LOG_BYTES_MAX = 1 << 20
SEARCHED_MAX = 64 << 20
"""Bytes of a log that are searched, and in which lines are counted, for one question."""
LINE_LOOK_BYTES = 64 * 1024
"""How far the end of a line is looked for."""
_verifying = threading.Lock()


class RunQueries(Context):
    def list_runs(
        self,
        job: str | None = None,
        states: Collection[str] = (),
        triggers: Collection[str] = (),
        reasons: Collection[str] = (),
        tags: Collection[str] = (),
        since: str | None = None,
        until: str | None = None,
        executor: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Data:
        """A page of the ledger, newest first; `since` is included and `until` is not."""
        bounded("limit", limit, 1, RUNS_MAX)
        return self._page(
            job,
            tags,
            RunFilter(
                states=[RunState(word_of("state", word, list(RunState))) for word in states],
                triggers=[Trigger(word_of("trigger", word, list(Trigger))) for word in triggers],
                reasons=[SkipReason(word_of("reason", word, list(SkipReason))) for word in reasons],
                since=self.moment(since, job),
                until=self.moment(until, job),
                executors=[executor] if executor else (),
            ),
            limit,
            after,
        )

    def gaps(
        self,
        job: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Data:
        """Stretches that were skipped as one, newest first."""
        bounded("limit", limit, 1, RUNS_MAX)
        where = RunFilter(since=self.moment(since, job), until=self.moment(until, job), gaps=True)
        return self._page(job, (), where, limit, after, are_gaps=True)

    def run(self, run_id: str) -> Data:
        """One line of the ledger: its attempts with their steps and logs, and what can still be done."""
        row = self.find_run(run_id)
        job, is_over, found = self.jobs.get(row.key.job_id), row.state in TERMINAL, self._find_logs(row)
        logs = list(map(_log_data, found.files))
        (data,) = self.run_rows([row])
        steps = [step_data(step) for step in read_steps(row.steps)]
        is_one = row.occurrences == 1
        waits = row.state is WAITING
        return {
            **data,
            "steps": steps,
            "attempts": attempts_data(row, steps, logs),
            "depends": {} if job is None else {step.name: list(step.depends) for step in job.steps},
            "logs": logs,
            "absent_logs": list(map(absent_data, found.absent)),
            "definition": row.definition or None,
            "is_definition_current": None if job is None or not row.definition else job.definition == row.definition,
            "can_cancel": not is_over,
            "can_retry": is_over and is_one,
            "can_retry_failed": is_over and is_one and any(step["state"] in ("failed", "lost") for step in steps),
            "blocked_by": list(why(self.store, row.key.job_id, row.key, self.jobs, self.now()).sentences[1:])
            if waits
            else [],
        }

    def run_definition(self, run_id: str, attempt: int | None = None) -> Data:
        """What the job of a run was when an attempt of it was launched, and how that differs from what it is now."""
        row = self.find_run(run_id)
        number = row.attempt if attempt is None else attempt
        bounded("attempt", number, 0, 1 << 30)
        earlier = {one.attempt: one.definition for one in read_attempts(row.earlier)}
        digest = row.definition if number == row.attempt else earlier.get(number, "")
        text = self.store.definition(row.key.job_id, digest) if digest else None
        if text is None:
            raise NotFound(_why_no_definition(run_id, row, number, digest))
        job = self.jobs.get(row.key.job_id)
        current = None if job is None else definition_text(job)
        return {
            "run": row.key.run_id,
            "job": row.key.job_id,
            "attempt": number,
            "digest": digest,
            "text": text,
            "is_current": None if job is None else job.definition == digest,
            "changes": [] if current is None else line_changes(text, current),
        }

    def list_logs(self, run_id: str, *, here_only: bool = False) -> list[Data]:
        """Which logs a run has, by attempt and step; with `here_only` those that this node keeps."""
        row = self.find_run(run_id)
        return list(map(_log_data, self._find_logs(row, here_only=here_only).files))

    def read_log(
        self,
        run_id: str,
        attempt: int,
        step: str,
        offset: int = 0,
        limit: int = LOG_BYTES_MAX,
        *,
        is_lined: bool = False,
        here_only: bool = False,
    ) -> Data:
        """A part of a log as text; `next_offset` counts bytes, and never lies inside a character.

        With `is_lined` it begins with the first line that begins there or behind, and tells the number of that line.
        """
        run_id = self.find_run(run_id).key.run_id
        first_line = None
        if is_lined:
            offset, first_line = self._line_start(run_id, attempt, step, offset, here_only=here_only)
        data, end, is_complete = self.log_bytes(run_id, attempt, step, offset, limit, here_only=here_only)
        sizes = {(log["attempt"], log["step"]): log["size"] for log in self.list_logs(run_id, here_only=here_only)}
        cut = 0 if is_complete else _unfinished(data)
        return {
            "run": run_id,
            "attempt": attempt,
            "step": step,
            "text": data[: len(data) - cut].decode("utf-8", "replace"),
            "offset": offset,
            "first_line": first_line,
            "next_offset": end - cut,
            "size": max(sizes.get((attempt, step), 0), end),
            "is_complete": is_complete,
        }

    def log_bytes(
        self,
        run_id: str,
        attempt: int,
        step: str,
        offset: int = 0,
        limit: int = LOG_BYTES_MAX,
        *,
        here_only: bool = False,
    ) -> tuple[bytes, int, bool]:
        """A part of a log as it is; where to go on; and whether nothing follows, now or later.

        The run must be in the ledger, and the log among those it has: no name from outside ever becomes a path.
        """
        bounded("offset", offset, 0, 1 << 50)
        bounded("limit", limit, 1, LOG_BYTES_MAX)
        row = self.find_run(run_id)
        if self.logs is None:
            raise NotFound("there are no logs here: they are with the scheduler that ran it.")
        return self.logs.read(row, attempt, step, offset, limit, here_only=here_only)

    def search_log(self, run_id: str, attempt: int, step: str, text: str, *, here_only: bool = False) -> Data:
        """The lines of a log that hold a text, whatever its case; of a very long log only those of its first part."""
        if not text or "\n" in text:
            raise InvalidArgument("a log is searched for a part of a line.", hint="Write some letters.", field="text")
        run_id = self.find_run(run_id).key.run_id
        size = self._log_size(run_id, attempt, step, here_only=here_only)
        found = search_lines(self._pieces(run_id, attempt, step, SEARCHED_MAX, here_only=here_only), text)
        return {
            "run": run_id,
            "attempt": attempt,
            "step": step,
            "items": [hit._asdict() for hit in found.hits],
            "total": found.total,
            "searched_bytes": min(size, SEARCHED_MAX),
            "size": size,
        }

    def _line_start(
        self, run_id: str, attempt: int, step: str, offset: int, *, here_only: bool
    ) -> tuple[int, int | None]:
        """Where the first line begins that begins at an offset or behind it, and its number."""
        if offset == 0:
            return 0, 1
        # The byte before tells whether a line begins right there. A line without an end nearby is shown from within.
        before, _, _ = self.log_bytes(run_id, attempt, step, offset - 1, LINE_LOOK_BYTES, here_only=here_only)
        start = offset + max(before.find(b"\n"), 0)
        if start > SEARCHED_MAX:
            return start, None
        return start, count_line_ends(self._pieces(run_id, attempt, step, start, here_only=here_only)) + 1

    def _pieces(self, run_id: str, attempt: int, step: str, end: int, *, here_only: bool) -> Iterator[bytes]:
        """A log from its beginning on, up to a byte."""
        offset = 0
        while offset < end:
            limit = min(LOG_BYTES_MAX, end - offset)
            data, offset, _ = self.log_bytes(run_id, attempt, step, offset, limit, here_only=here_only)
            if not data:
                return
            yield data

    def _log_size(self, run_id: str, attempt: int, step: str, *, here_only: bool) -> int:
        logs = self.list_logs(run_id, here_only=here_only)
        return next((log["size"] for log in logs if (log["attempt"], log["step"]) == (attempt, step)), 0)

    def verify(self) -> Data:
        """Whether the ledger holds every occurrence, once. It reads all of it, so one at a time."""
        if not _verifying.acquire(blocking=False):
            raise Conflict("somebody verifies the ledger already. Next: wait until that is done.")
        try:
            report = verify(self.store, self.jobs, self.now())
            # A scheduler at work may write between two reads: what is wrong at a second look is wrong.
            return report_data(report if report.is_sound else verify(self.store, self.jobs, self.now()))
        finally:
            _verifying.release()

    def _page(
        self,
        job: str | None,
        tags: Collection[str],
        where: RunFilter,
        limit: int,
        after: str | None,
        *,
        are_gaps: bool = False,
    ) -> Data:
        mark = read_run_id(after) if after else None
        if job is not None:
            self.require(job)
        chosen = self._tagged(job, tags)
        if chosen is not None and not chosen:
            return {"items": [], "next": None}
        page = self.store.query(_of_jobs(where, chosen or ()), mark, limit)
        items = [gap_data(row) for row in page.rows] if are_gaps else self.run_rows(page.rows)
        return {"items": items, "next": page.after.run_id if page.after else None}

    def _tagged(self, job: str | None, tags: Collection[str]) -> list[str] | None:
        """Which jobs are meant; None: any."""
        if not tags:
            return None if job is None else [job]
        found = [one.id for one in self.jobs.values() if all(tag in one.tags for tag in tags)]
        return [one for one in found if job in (None, one)]

    def _find_logs(self, row: LedgerRow, *, here_only: bool = False) -> FoundLogs:
        if self.logs is None or row.occurrences > 1:
            return FoundLogs()
        return self.logs.find(row, here_only=here_only)


def _log_data(log: LogFile) -> Data:
    return {"attempt": log.attempt, "step": log.step, "size": log.size, "is_complete": log.is_complete}


def absent_data(one: AbsentLog) -> Data:
    return {
        "attempt": one.attempt,
        "place": one.place,
        "kind": one.kind,
        "name": one.name,
        "cause": one.cause,
        "last_seen_at": text_or_none(one.seen_at),
        "is_partial": one.is_partial,
        "reason": one.reason,
        "text": one.sentence,
    }


def attempts_data(row: LedgerRow, steps: Sequence[Data], logs: Sequence[Data]) -> list[Data]:
    """The attempts of a run, oldest first; of those that the ledger no longer tells of, only their logs are left."""
    sizes = {(log["attempt"], log["step"]): log["size"] for log in logs}
    known = {one.attempt: one for one in read_attempts(row.earlier)}
    found = []
    for attempt in range(1, row.attempt + 1):
        own = [step for step in steps if step["attempt"] == attempt]
        if attempt != row.attempt or (row.state is RETRYING and attempt in known):
            told = known.get(attempt, AttemptRecord(attempt, "ended"))
            own = own or [step_data(step) for step in told.steps]
        else:
            times = (row.started_at, row.finished_at, row.exit_code, row.detail, row.executor, row.definition)
            told = AttemptRecord(attempt, str(row.state), *times, loss=loss_of(row) or "")
            if told.started_at == (known[attempt - 1].started_at if attempt - 1 in known else None):
                told = told._replace(started_at=None)  # until it starts, the line has the start of the one before
        names = [step["name"] for step in own]
        only_logged = [name for number, name in sizes if number == attempt and name not in names]
        own += [{**step_data(StepRecord(name, "", attempt)), "state": None} for name in only_logged]
        found.append(
            {
                "attempt": attempt,
                "state": told.state,
                "started_at": text_or_none(told.started_at),
                "finished_at": text_or_none(told.finished_at),
                "exit_code": told.exit_code,
                "detail": told.detail,
                "loss": None if (loss := read_loss(told.loss)) is None else str(loss),
                "executor": told.executor,
                "definition": told.definition or None,
                "steps": [{**step, "log_bytes": sizes.get((attempt, step["name"]))} for step in own],
            }
        )
    return found


def line_changes(before: str, after: str) -> list[Data]:
    """Two texts as one list of lines, each kept, only before, or only after."""
    old, new = before.splitlines(), after.splitlines()
    found: list[Data] = []
    for what, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += [{"side": "both", "text": line} for line in old[first:last]]
        else:
            found += [{"side": "before", "text": line} for line in old[first:last]]
            found += [{"side": "after", "text": line} for line in new[begin:end]]
    return found


def _why_no_definition(run_id: str, row: LedgerRow, attempt: int, digest: str) -> str:
    if not row.attempt:
        return f"the run {run_id} was never launched, so there is no definition that it was launched with."
    if digest:
        return f"what the job of {run_id} was in attempt {attempt} is no longer kept."
    return f"what the job of {run_id} was in attempt {attempt} was not written down."


def _of_jobs(where: RunFilter, job_ids: Collection[str]) -> RunFilter:
    return replace(where, job_ids=job_ids)


def _unfinished(data: bytes) -> int:
    """How many bytes at the end belong to a character that goes on behind them."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        # Left as they are when nothing else was read, so that a reader of broken text gets on.
        return back if back < length and back < len(data) else 0
    return 0
