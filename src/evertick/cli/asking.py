"""How a command asks the scheduler for something, and waits for what becomes of it."""

from __future__ import annotations

import getpass
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from evertick.cli.exits import FAILED, INTERRUPTED, OK, TIMEOUT
from evertick.cli.output import note, show, show_text

if TYPE_CHECKING:
    from evertick.cli.place import Place
    from evertick.model.ledger import Request
    from evertick.model.run import LedgerRow, RunKey
    from evertick.operations import Store

ANSWER_SECONDS = 15.0
"""Schedulers look for requests about once a second; one that has not answered by then is busy, or is waiting itself."""
POLL_SECONDS = 0.1

T = TypeVar("T")


class Asked(NamedTuple):
    request_id: str
    job_id: str
    answer: dict[str, Any] | None
    """None: nobody has answered yet; the request stays in the ledger."""

    def data(self) -> dict[str, Any]:
        return {
            "request": self.request_id,
            "job": self.job_id,
            "is_answered": self.answer is not None,
            "answer": self.answer,
        }


def new_id() -> str:
    return f"cli-{secrets.token_hex(6)}"


def whoami() -> str:
    """Who asks, for the ledger."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no name for this user id, as in some containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def ask(place: Place, store: Store, request: Request, *, patience: float = ANSWER_SECONDS) -> Asked:
    """Submit a request and wait for its answer, unless nobody is there to give one."""
    from evertick.operations import answer_to, submit

    submit(store, request)
    if not place.is_anyone_running(store):
        note("Nobody is running on this ledger; it will be carried out when a scheduler starts.")
        return Asked(request.id, request.job_id, None)
    with interruptible(f"The request {request.id} stays in the ledger, and is carried out all the same."):
        answer = until(lambda: answer_to(store, request.id), patience)
    if answer is None:
        note(f"Not done yet after {patience:g} s; the request {request.id} stays in the ledger.")
    return Asked(request.id, request.job_id, answer)


def ask_for_run(
    place: Place, store: Store, request: Request, *, wait: bool, patience: float | None, output: str
) -> int:
    """Ask for a run, show it, and answer the exit code: that of its result with `wait`."""
    from evertick.operations import read_run_id, run_data

    asked = ask(place, store, request)
    if asked.answer is None or not wait:
        name = asked.answer["run_id"] if asked.answer else asked.request_id
        show(output, asked.data(), lambda: show_text(name), name=lambda _: name)
        return TIMEOUT if wait else OK
    row = wait_for_run(store, read_run_id(asked.answer["run_id"]), patience)
    data, run_id = {**asked.data(), "run": run_data(row)}, row.key.run_id
    show(output, data, lambda: show_text(run_id), name=lambda _: run_id)
    return tell_result(run_data(row))


def params_of(written: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a run, as they are written: NAME=VALUE."""
    given = {}
    for param in written:
        name, equals, value = param.partition("=")
        if not equals or not name:
            raise click.UsageError(f"'{param}' is not a parameter. Write NAME=VALUE.")
        given[name] = value
    return given


def tell_result(run: dict[str, Any], *, is_kept: bool = True) -> int:
    """The exit code of a run that has ended; what went wrong is told."""
    if run["state"] == "succeeded":
        return OK
    reason = f": {run['reason']}" if run["reason"] else f" (exit code {run['exit_code']})" if run["exit_code"] else ""
    note(f"{run['state']}{reason}. {run['detail']}".rstrip(". ") + ".")
    if is_kept:
        note(f"Next: evertick {'why' if run['reason'] else 'logs'} {run['run']}")
    return FAILED


def wait_for_run(store: Store, key: RunKey, patience: float | None) -> LedgerRow:
    """The run once it has ended; exit code 124 when that takes too long."""
    from evertick.model.lifecycle import TERMINAL
    from evertick.operations import find_run

    def ended() -> LedgerRow | None:
        row: LedgerRow | None = find_run(store, key)
        return row if row is not None and row.state in TERMINAL else None

    with interruptible(f"The run goes on. Next: evertick cancel {key.run_id}, or evertick logs {key.run_id} --follow"):
        note(f"Waiting for {key.run_id}")
        row = until(ended, patience)
    if row is None:
        note(f"The run {key.run_id} has not ended after {patience:g} s, and goes on.")
        raise SystemExit(TIMEOUT)
    return row


def until(
    look: Callable[[], T | None], patience: float | None, pause: Callable[[float], None] = time.sleep
) -> T | None:
    """The first answer that is not None; None when there is none in time."""
    deadline = None if patience is None else time.monotonic() + patience
    while True:
        found = look()
        if found is not None or (deadline is not None and time.monotonic() >= deadline):
            return found
        pause(POLL_SECONDS)


@contextmanager
def interruptible(farewell: str) -> Iterator[None]:
    """Ctrl-C ends the waiting, not what is waited for."""
    try:
        yield
    except KeyboardInterrupt:
        note("")
        note(farewell)
        raise SystemExit(INTERRUPTED) from None
