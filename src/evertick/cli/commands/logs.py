"""`evertick logs`: what the steps of a run have printed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.live import write_bytes
from evertick.cli.output import note, output_option, show
from evertick.cli.place import Logs, Place, place_options

if TYPE_CHECKING:
    from evertick.model.run import RunKey
    from evertick.operations import Store

POLL_SECONDS = 0.2


@click.command()
@click.argument("run_id")
@click.option("--step", metavar="NAME", help="Only this step.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only this attempt; default: the last.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@place_options
@output_option
def logs(run_id: str, step: str | None, attempt: int | None, follow: bool, place: Place, output: str) -> None:
    """Show what the steps of a run have printed.

    The steps' own output is on stdout, a heading for each step on stderr. Logs are kept on the machine that ran it.

    \b
    Examples:
      evertick logs report@2026-03-02T09:00:00Z
      evertick logs report@2026-03-02T09:00:00Z --step build --follow
    """
    from evertick.cli.asking import interruptible
    from evertick.errors import NotFound
    from evertick.operations import read_run_id, require_run

    if follow and output != "table":
        raise click.UsageError(f"--follow is for people; -o {output} shows what is there now.")
    key = read_run_id(run_id)
    with place.open() as store:
        row = require_run(store, key)
        reader = place.logs()
        chosen = [one for one in reader.list_logs(key) if step in (None, one.step)]
        if step is not None and not chosen and not follow:
            names = tuple(dict.fromkeys(one.step for one in reader.list_logs(key)))
            raise NotFound(f"the run {run_id} has no log of a step '{step}'.", names[:3])
        wanted = attempt or max((one.attempt for one in chosen), default=row.attempt)
        if output != "table":
            data = [_data(reader, key, one) for one in chosen if attempt in (None, one.attempt)]
            show(output, data, (), name="step")
            return
        teller = _Teller(reader, key, step)
        if follow:
            with interruptible("The run goes on."):
                _follow(store, teller, key, attempt)
        else:
            teller.tell(wanted)
    if not teller.has_told and not row.occurrences > 1:
        note(f"Nothing was printed. Next: evertick why {run_id}")


class _Teller:
    """Prints what has not been printed yet."""

    def __init__(self, reader: Logs, key: RunKey, step: str | None) -> None:
        self._reader, self._key, self._step = reader, key, step
        self._offsets: dict[tuple[int, str], int] = {}
        self._last: tuple[int, str] | None = None
        self.has_told = False

    def tell(self, attempt: int | None) -> None:
        for log in self._reader.list_logs(self._key):
            if self._step in (None, log.step) and attempt in (None, log.attempt):
                self._tell_one(log.attempt, log.step)

    def _tell_one(self, attempt: int, step: str) -> None:
        place = (attempt, step)
        while True:
            chunk = self._reader.read_log(self._key, attempt, step, self._offsets.get(place, 0))
            if not chunk.data:
                return
            if self._last != place:
                note(f"==> {step} (attempt {attempt})")
            self._last, self.has_told = place, True
            self._offsets[place] = chunk.next_offset
            write_bytes(chunk.data)


def _follow(store: Store, teller: _Teller, key: RunKey, attempt: int | None) -> None:
    from evertick.model.lifecycle import TERMINAL
    from evertick.operations import find_run

    while True:
        # Asked before reading: what was printed before the end is there when the end is known.
        row = find_run(store, key)
        teller.tell(attempt)
        if row is None or row.state in TERMINAL:
            return
        time.sleep(POLL_SECONDS)


def _data(reader: Logs, key: RunKey, log: Any) -> dict[str, Any]:
    data, offset = b"", 0
    while (chunk := reader.read_log(key, log.attempt, log.step, offset)).data:
        data, offset = data + chunk.data, chunk.next_offset
    return {
        "attempt": log.attempt,
        "step": log.step,
        "size": log.size,
        "is_complete": log.is_complete,
        "text": data.decode("utf-8", "replace"),
    }
