"""Where the dispatcher hands over what happened: judged here, delivered elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from evertick.dispatch.notify.rules import Book, Happening, Manners, Message, Subject, flush, judge
from evertick.model.constraint import MaxExpectedRunTime
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.notify import Route

DEFAULT_MANNERS = Manners()


class Notifier:
    """Any thread may call it; `send` must return at once, as `Sender.send` does."""

    def __init__(self, send: Callable[[list[Message]], None], manners: Manners = DEFAULT_MANNERS) -> None:
        self._send = send
        self._manners = manners
        self._book = Book()
        self._lock = threading.Lock()

    def happened(self, told: Iterable[tuple[Subject, Happening]]) -> None:
        with self._lock:
            messages = [
                message
                for subject, happening in told
                for message in judge(self._book, subject, happening, self._manners)
            ]
        if messages:
            self._send(messages)

    def tick(self, now: Instant) -> None:
        """To be called every few seconds: tells what was held back and may be told by now."""
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
        job.id, job.name, (*job.notify, *routes), job.policy.grace_us, expected_us=min(expected) if expected else None
    )
