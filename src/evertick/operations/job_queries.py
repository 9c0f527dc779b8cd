"""Queries about jobs: list, status, rules, and why a job did what it did."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import quantiles

from evertick.errors import InvalidArgument, NotFound
from evertick.model.bucket import bucket_of
from evertick.model.instant import DAY, SECOND, Instant, to_text
from evertick.model.job import Job
from evertick.model.lifecycle import ACTIVE, ENDED, SKIPPED, WAITING, JobStatus, Trigger
from evertick.model.policy import GRACE_US, Missed
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.context import Context, Shared, View, bounded
from evertick.operations.data import lateness_seconds, text_or_none
from evertick.operations.jobs import is_held, is_running, judge, newest_of, watermark_of, zone_of
from evertick.operations.preview import preview_catchup
from evertick.operations.reasons import why
from evertick.operations.rules import explain
from evertick.operations.shapes import (
    Data,
    definition_data,
    job_data,
    kind_words,
    point_data,
    problem_data,
    problems_data,
    success_rate,
    why_data,
)
from evertick.operations.submission import read_run_id
from evertick.operations.time_text import local_text
from evertick.store import RunFilter

PAGE_MAX = 1_000
RECENT_MAX = 50
SKIPS_OF_US = 30 * DAY
"""How far back skips are counted."""


class JobQueries(Context):
    def list_jobs(
        self,
        search: str = "",
        tags: Collection[str] = (),
        states: Collection[str] = (),
        limit: int = 100,
        after: str | None = None,
        *,
        with_gone: bool = False,
        recent: int = 0,
    ) -> Data:
        """A page of jobs by their ids, and how many there are of each status. `recent` adds so many of the last runs.

        `search` is looked for in ids, names, descriptions and tags; a job must have all `tags`.
        """
        bounded("limit", limit, 1, PAGE_MAX)
        bounded("recent", recent, 0, RECENT_MAX)
        wanted = frozenset(word_of("status", word, list(JobStatus)) for word in states)
        view = self.view()
        asked = ("jobs", search, frozenset(tags), wanted, limit, after, with_gone, recent)
        return view.kept(asked, lambda: Shared(self._list(view, search, tags, wanted, limit, after, with_gone, recent)))

    def _list(
        self,
        view: View,
        search: str,
        tags: Collection[str],
        wanted: Collection[str],
        limit: int,
        after: str | None,
        with_gone: bool,
        recent: int,
    ) -> Data:
        now = self.now()
        all_jobs = self.standings(view, search, tags, with_gone=with_gone)
        chosen = [job_id for job_id, status in all_jobs.items() if status in wanted] if wanted else list(all_jobs)
        rest = chosen if after is None else chosen[bisect_right(chosen, after) :]
        page = rest[:limit]
        return {
            "items": self._job_rows(view, page, all_jobs, recent, now),
            "next": page[-1] if len(rest) > limit else None,
            "total": len(chosen),
            "statuses": _counted(all_jobs),
            "tags": view.kept("tags", lambda: sorted({tag for job in view.jobs.values() for tag in job.tags})),
            "problems": problems_data(view.folder.errors),
        }

    def standings(
        self, view: View, search: str = "", tags: Collection[str] = (), *, with_gone: bool = False
    ) -> Mapping[str, JobStatus]:
        """The jobs that are meant, by their ids, each with its status: what every list begins with."""
        text, jobs, records = search.casefold(), view.jobs, view.records

        def choose() -> Mapping[str, JobStatus]:
            return {
                job_id: status
                for job_id, status in view.kept("statuses", lambda: self._judge_all(view)).items()
                if (with_gone or job_id in jobs or records[job_id].retired_at is None)
                and ((not text and not tags) or _is_meant(job_id, jobs.get(job_id), text, tags))
            }

        return view.kept(("standings", text, frozenset(tags), with_gone), choose)

    def _judge_all(self, view: View) -> Mapping[str, JobStatus]:
        now, ids = self.now(), sorted({*view.jobs, *view.records})
        running = {row.key.job_id for row in view.snapshot.open_runs if is_running(row)}
        specs = self.all_specs(ids)
        return {
            job_id: judge(
                job_id,
                view.jobs.get(job_id),
                view.records.get(job_id),
                specs[job_id],
                has_running=job_id in running,
                now=now,
            )
            for job_id in ids
        }

    def job(self, job_id: str) -> Data:
        """How one job stands, and what its definition says."""
        now, folder, snapshot = self.now(), self.definitions(), self.store.load([bucket_of(job_id)])
        found = next((record for record in snapshot.jobs if record.job_id == job_id), None)
        record = self.require(job_id) if found is None else found
        job, specs = folder.jobs.get(job_id), self.specs(job_id)
        rows = [row for row in snapshot.open_runs if row.key.job_id == job_id]
        active = [row for row in rows if row.state in ACTIVE]
        status = judge(job_id, job, record, specs, has_running=any(map(is_running, active)), now=now)
        told = folder.errors.get(job.file or "", ()) if job else ()
        last = newest_of(self.store.newest([job_id]), job_id)
        return {
            **job_data(
                job_id,
                job,
                record,
                status=status,
                zone=zone_of(job, specs),
                specs=specs,
                next_at=None if is_held(job, record) else self.horizon.next_of(job_id, specs, now),
                watermark=watermark_of(record, snapshot.floors),
                active=len(active),
                waiting=sum(row.state is WAITING for row in rows),
                last=last,
                skips=None if last else self._skips([job_id], now).get(job_id),
            ),
            "active_runs": self.run_rows(active),
            "definition": None if job is None else definition_data(job),
            "is_stale": job_id in folder.stale,
            "problems": [problem_data(error) for error in told],
            "is_scheduler_running": self.is_scheduler_running(),
        }

    def explain(self, job_id: str) -> list[Data]:
        """Every rule the job runs under, and where each was written."""
        return [rule._asdict() for rule in explain(self.definition_of(job_id))]

    def graph(self, job_id: str) -> Data:
        """The steps and what they wait for, and the jobs before and behind; where to draw them is the reader's."""
        job = self.definition_of(job_id)
        named = [(step, None) for step in job.steps]
        handlers = [(step, name) for name, step in job.work.handler_steps.items()]
        behind = sorted(other.id for other in self.jobs.values() if other.after and job_id in other.after.jobs)
        return {
            "job": job_id,
            "nodes": [
                {
                    "id": step.name,
                    "kind": kind_words(step.kind)[0],
                    "command": kind_words(step.kind)[1],
                    "depends": list(step.depends),
                    "handler": handler,
                }
                for step, handler in (*named, *handlers)
            ],
            "after": list(job.after.jobs) if job.after else [],
            "before": behind,
        }

    def why(self, target: str, at: str | None = None) -> Data:
        """What became of an occurrence of a job, or of a run, and why."""
        if "@" not in target and (at is not None or self.is_job(target)):
            return why_data(why(self.store, target, at, self.jobs, self.now()))
        if at is not None:
            raise InvalidArgument("the id of a run names its time already.", hint="Leave the second one out.")
        return self.why_run(target)

    def why_run(self, reference: str) -> Data:
        """What became of a run, and why; an instant that the ledger has no line for is explained as of its job."""
        try:
            key = self.find_run(reference).key
        except NotFound:
            named = _instant_of(reference)
            if named is None:
                raise
            key = named
        return why_data(why(self.store, key.job_id, key, self.jobs, self.now()))

    def catchup(self, job_id: str, keep: str | None = None) -> Data:
        """What a start now, or a resume, would catch up."""
        job = self.definition_of(job_id)
        chosen = Missed(word_of("choice", keep, list(Missed))) if keep else None
        found, zone = preview_catchup(self.store, job, self.now(), chosen), zone_of(job, job.schedules)
        return {
            "job": job_id,
            "timezone": zone,
            "watermark": text_or_none(found.watermark),
            "paused_at": text_or_none(found.paused_at),
            "backlog": [key.run_id for key in found.backlog],
            "kept": found.kept,
            "skipped": found.skipped,
            "fates": [
                {
                    "scheduled_for": to_text(fate.at),
                    "local": local_text(fate.at, zone),
                    "through": text_or_none(fate.through),
                    "occurrences": fate.occurrences,
                    "runs": fate.runs,
                    "what": "run" if fate.runs else f"skip: {fate.reason}",
                    "reason": None if fate.reason is None else str(fate.reason),
                    "detail": fate.detail,
                }
                for fate in found.fates
            ],
        }

    def durations(self, job_id: str, limit: int = 100) -> Data:
        """How long its last runs took, oldest first, and what is usual."""
        self.require(job_id)
        bounded("limit", limit, 1, PAGE_MAX)
        rows = self.store.query(RunFilter(job_ids=[job_id], states=ENDED), limit=limit).rows
        points = [point_data(row) for row in reversed(rows)]
        took = [point["duration_seconds"] for point in points if point["duration_seconds"] is not None]
        return {
            "job": job_id,
            "items": points,
            "percentiles": percentiles(took),
            "lateness": percentiles(on_time_lateness(rows, self.jobs)),
            "success_rate": success_rate(Counter(row.state for row in rows)),
        }

    def _job_rows(
        self, view: View, page: Sequence[str], statuses: Mapping[str, JobStatus], recent: int, now: Instant
    ) -> list[Data]:
        specs, last = self.all_specs(page), self.store.newest(page, max(recent, 1))
        skips = self._skips([job_id for job_id in page if not last.get(job_id)], now)
        rows = []
        for job_id in page:
            job, record = view.jobs.get(job_id), view.records.get(job_id)
            found = job_data(
                job_id,
                job,
                record,
                status=statuses[job_id],
                zone=zone_of(job, specs[job_id]),
                specs=specs[job_id],
                next_at=None if is_held(job, record) else self.horizon.next_of(job_id, specs[job_id], now),
                watermark=view.watermark(job_id),
                active=len(view.of(job_id, *ACTIVE)),
                waiting=len(view.of(job_id, WAITING)),
                last=newest_of(last, job_id),
                skips=skips.get(job_id),
            )
            points = [point_data(row) for row in reversed(last.get(job_id, ()))]
            rows.append({**found, "recent": points} if recent else found)
        return rows

    def _skips(self, job_ids: Sequence[str], now: Instant) -> Mapping[str, Counter[str]]:
        """Of jobs that have never run: why their occurrences were skipped lately, and how often."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        if job_ids:
            where = RunFilter(job_ids=job_ids, states=[SKIPPED], since=now - SKIPS_OF_US, until=now + 1)
            for one in self.store.tally(where, SKIPS_OF_US + 1, by_job=True):
                found[one.job_id][str(one.reason)] += one.occurrences
        return found


def on_time_lateness(rows: Iterable[LedgerRow], jobs: Mapping[str, Job]) -> list[float]:
    """How late the scheduled runs among some started, in seconds.

    What was caught up is late by the length of an outage. What is later than its grace was held back by its own rules,
    such as the run before it or a full queue. Neither says how punctual the scheduler is.
    """
    found = []
    for row in rows:
        late, job = lateness_seconds(row), jobs.get(row.key.job_id)
        grace_us = job.policy.grace_us if job is not None else GRACE_US
        if late is not None and row.trigger is Trigger.SCHEDULER and late * SECOND <= grace_us:
            found.append(late)
    return found


def _instant_of(reference: str) -> RunKey | None:
    """The occurrence that a whole id names; None: it is not one."""
    try:
        return read_run_id(reference)
    except InvalidArgument:
        return None


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """What is usual among some numbers; None where there are none."""
    names = {"p10": 9, "p50": 49, "p90": 89, "p95": 94, "p99": 98}
    if not values:
        return {**dict.fromkeys(names), "max": None}
    cuts = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return {**{name: cuts[place] for name, place in names.items()}, "max": max(values)}


def word_of(what: str, word: str, known: Sequence[str]) -> str:
    """A word that somebody wrote, if it is one of those there are."""
    if word not in known:
        raise InvalidArgument(f"'{word}' is no {what}.", hint=f"It is one of {', '.join(map(str, known))}.", field=what)
    return word


def _is_meant(job_id: str, job: Job | None, search: str, tags: Collection[str]) -> bool:
    if job is None:
        return not tags and search in job_id.casefold()
    if not all(tag in job.tags for tag in tags):
        return False
    texts = (job_id, job.name, job.description, *job.tags)
    return not search or any(search in text.casefold() for text in texts)


def _counted(statuses: Mapping[str, JobStatus]) -> dict[str, int]:
    return {str(status): count for status, count in sorted(Counter(statuses.values()).items())}
