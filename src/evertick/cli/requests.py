"""Submits a request from a command and waits for its result."""

from __future__ import annotations

import getpass
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from evertick.cli.exits import FAILED, INTERRUPTED, OK, TIMEOUT
from evertick.cli.output import note, show, show_text
from evertick.model.ids import digest

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.base import Result
    from evertick.operations.results.jobs import JobPage
    from evertick.operations.results.requests import Backfill, RequestStatus
    from evertick.operations.results.runs import RunDetail, RunPage, RunSummary

    Status = TypeVar("Status", bound="RequestStatus | Backfill")
    Page = TypeVar("Page", JobPage, RunPage)

ANSWER_SECONDS = 15.0
"""A scheduler reads requests about once a second; one that has not answered by then is busy."""
POLL_SECONDS = 0.1
PAGE = 1_000

T = TypeVar("T")


def new_id() -> str:
    return f"cli-{digest(secrets.token_hex(16))}"


def whoami() -> str:
    """The user of this command, as the ledger records it."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no name for this user id, as in some containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def params_of(written: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a run from `NAME=VALUE` options."""
    given = {}
    for param in written:
        name, equals, value = param.partition("=")
        if not equals or not name:
            raise click.UsageError(f"Invalid parameter '{param}'. Write NAME=VALUE.")
        given[name] = value
    return given


def ask(wanted: Callable[[str, float], Status], *, patience: float = ANSWER_SECONDS) -> Status:
    """Submit a request under a new id and wait for its answer while a scheduler is running."""
    request_id = new_id()
    with interruptible(f"The request {request_id} is already in the ledger, and the scheduler will still run it."):
        asked = wanted(request_id, patience)
    if not asked.is_answered and asked.request:
        if not asked.is_scheduler_running:
            note("No scheduler is running. The request is queued and will run when one starts.")
        else:
            note(f"The scheduler has not answered after {patience:g}s. The request {request_id} is queued.")
    return asked


def ask_for_run(
    operations: Operations,
    wanted: Callable[[str, float], RequestStatus],
    *,
    wait: bool,
    patience: float | None,
    output: str,
) -> int:
    """Request a run and show it; returns the exit code: with `wait`, the run's."""
    asked = ask(wanted)
    if asked.run is None or not asked.is_answered or not wait:
        name = asked.run or asked.request
        show(output, asked, lambda: show_text(name), name=lambda _: name)
        return TIMEOUT if wait else OK
    run = wait_for_run(operations, asked.run, patience)
    show(output, data_with(asked, run=run), lambda: show_text(run.run), name=lambda _: run.run)
    return show_result(run)


def runs_of(status: RequestStatus) -> list[str]:
    """The ids of the runs that the answer to a cancellation names."""
    return list(status.answer.cancelled or ()) if status.answer else []


def data_with(result: Result, **more: object) -> dict[str, object]:
    """The document of a result with further members."""
    from evertick.operations.codec import to_data

    return {**to_data(result), **more}


def show_result(run: RunSummary, *, is_kept: bool = True) -> int:
    """The exit code of a finished run; a failure is reported on stderr."""
    from evertick.model.lifecycle import SUCCEEDED, beyond_exit_code, exit_code_text

    if run.state is SUCCEEDED:
        return OK
    code = exit_code_text(run.exit_code) if run.exit_code else ""
    reason = f": {run.reason}" if run.reason else f" ({code})" if code else ""
    detail = beyond_exit_code(run.detail, run.exit_code)
    note(f"{run.state}{reason}. {detail}".rstrip(". ") + ".")
    if is_kept:
        note(f"Next: evertick {'why' if run.reason else 'logs'} {run.run}")
    return FAILED


def wait_for_run(operations: Operations, run_id: str, patience: float | None) -> RunDetail:
    """The run once it has ended; exit code 124 when the wait times out."""
    from evertick.cli.live_view import open_display
    from evertick.cli.run_follower import Follower, RecordedRun
    from evertick.model.lifecycle import TERMINAL

    watched = RecordedRun(operations, run_id)
    with interruptible(f"The run continues. Next: evertick cancel {run_id}, or evertick logs {run_id} --follow"):
        note(f"Waiting for {run_id}")
        follower = Follower(watched, open_display(run_id, 0, output_on_stderr=True), has_output=False)

        def ended() -> RunDetail | None:
            return watched.detail if follower.look().state in TERMINAL else None

        try:
            run = until(ended, patience)
        finally:
            follower.close()
    if run is None:
        note(f"Timed out after {patience:g}s. The run {run_id} continues.")
        raise SystemExit(TIMEOUT)
    return run


def until(
    look: Callable[[], T | None], patience: float | None, pause: Callable[[float], None] = time.sleep
) -> T | None:
    """The first result that is not None; None on a timeout."""
    deadline = None if patience is None else time.monotonic() + patience
    while True:
        found = look()
        if found is not None or (deadline is not None and time.monotonic() >= deadline):
            return found
        pause(POLL_SECONDS)


def all_pages(page_of: Callable[[int, str | None], Page], limit: int | None = None, after: str | None = None) -> Page:
    """Pages joined into one, up to `limit` items; `next` is the cursor of the rest."""
    from dataclasses import replace

    page: Page = page_of(PAGE if limit is None else min(PAGE, limit), after)
    items = [*page.items]
    while page.next is not None and (limit is None or len(items) < limit):
        page = page_of(PAGE if limit is None else min(PAGE, limit - len(items)), page.next)
        items += page.items
    return replace(page, items=tuple(items))


@contextmanager
def interruptible(farewell: str) -> Iterator[None]:
    """Ctrl-C ends the wait, not the run or request."""
    try:
        yield
    except KeyboardInterrupt:
        note("")
        note(farewell)
        raise SystemExit(INTERRUPTED) from None
