"""`evertick serve`: start the scheduler on a folder of job files."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.output import clean, counted, note
from evertick.cli.web import add_web

if TYPE_CHECKING:
    from evertick.loop.effects import Effect
    from evertick.loop.messages import Message
    from evertick.model.run import RunKey
    from evertick.service import FolderService

WARNED = 3
"""Paths that a warning names one by one."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("."))
@click.option(
    "--config", metavar="FILE", help="Settings file; default: EVERTICK_CONFIG, else the folder's evertick.toml."
)
@click.option("--store", metavar="URL", help="URL of the ledger; default: a SQLite file in FOLDER/.evertick.")
@click.option("--node", metavar="NAME", help="Name of this node; default: the host name.")
@click.option("--host", metavar="ADDRESS", help="Address of the web interface and the API; default: 127.0.0.1.")
@click.option("--port", type=int, metavar="NUMBER", help="Port of the web interface and the API; default: 8765.")
@click.option("--no-web", is_flag=True, help="Do not serve the web interface and the API.")
@click.option("--fleet", metavar="URL", help="Also run jobs on this fleet: tls://HOST:PORT; see 'evertick fleet'.")
@click.option(
    "--fleet-certs",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder with the ca.pem, cert.pem and key.pem for the fleet.",
)
@click.option("--patience", type=float, metavar="SECONDS", help="How long to wait for runs on stop; default: 30.")
@click.option(
    "--stop-runs",
    type=click.Choice(["leave", "end"]),
    help="On stop, after --patience: let active runs continue (leave) or cancel them (end); default: leave.",
)
@click.option("--quiet", is_flag=True, help="Log only warnings and errors.")
def serve(
    folder: Path,
    fleet: str | None,
    fleet_certs: Path | None,
    patience: float | None,
    stop_runs: str | None,
    no_web: bool,
    quiet: bool,
    **options: str | int | None,
) -> None:
    """Start the scheduler on a folder of job files.

    The scheduler picks up new, changed and deleted job files while it runs. On Ctrl-C it starts nothing new and waits
    --patience seconds for active runs; a second Ctrl-C stops at once. Unfinished runs continue without it, and the next
    start picks them up again.

    \b
    Examples:
      evertick serve jobs
      evertick serve jobs --store postgresql://evertick@db/evertick --node a1
      evertick serve jobs --no-web --stop-runs end --patience 60
    """
    from evertick.definitions.source import writable_by_others
    from evertick.errors import EvertickError, NotFound
    from evertick.long_lived import end_with_any_thread, hide_process, limit_heaps
    from evertick.service import FolderService
    from evertick.settings import Settings
    from evertick.settings.exposure import check_exposure

    if folder.is_file():
        raise NotFound(f"'{folder}' is a file. Name its folder, or run it once: evertick run {folder}")
    if not folder.is_dir():
        raise NotFound(f"the folder '{folder}' does not exist. To create it with a first job: evertick init {folder}")
    hide_process()
    limit_heaps()
    end_with_any_thread()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    web = False if no_web else None
    shared = {**options, **_fleet(fleet, fleet_certs)}
    chosen = {**shared, "web": web, "stop.runs": stop_runs}
    settings = Settings.load(folder, overrides=chosen)
    if settings.web:
        check_exposure(settings)
    for warning in settings.warnings:
        note(warning)
    for path in writable_by_others(folder)[:WARNED]:
        note(f"Every user of this machine can change '{path}' and so run programs as you. Next: chmod o-w '{path}'")
    _offer_a_first_job(folder)
    service = FolderService(folder, settings, observe=None if quiet else EventPrinter())
    if settings.web:
        add_web(service, {**shared, "stop.runs": stop_runs})
    try:
        asyncio.run(_run(service, settings.stop.patience_us / 1_000_000 if patience is None else patience))
    except EvertickError:
        signal.alarm(0)
        raise
    except Exception as error:
        logging.getLogger("evertick").exception("process.failed")
        note(f"The scheduler has failed ({error!r}) and ends. Start it again: it continues where it was.")
        sys.exit(1)


def _offer_a_first_job(folder: Path) -> None:
    """An empty folder is most often a first try: offer a job on a terminal, else print how to create one."""
    from evertick.cli.commands.init import JOB, NAME
    from evertick.definitions.source import definition_files

    if definition_files(folder):
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm(f"There are no jobs in '{folder}'. Create a first one, {NAME}?", default=True, err=True):
            with (folder / NAME).open("x", encoding="utf-8") as stream:
                stream.write(JOB)
        return
    note(f"There are no jobs in '{folder}' yet. Next: evertick init {folder}")


def _fleet(url: str | None, certs: Path | None) -> dict[str, str | None]:
    files = {"tls_ca": "ca.pem", "tls_cert": "cert.pem", "tls_key": "key.pem"}
    named = {f"fleet.{name}": str((certs / file).absolute()) for name, file in files.items()} if certs else {}
    return {"fleet.url": url, **named}


async def _run(service: FolderService, patience: float) -> None:
    from evertick.long_lived import end_at_the_latest

    stops = 0
    ends_runs = service.settings.stop.runs == "end"

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops == 1:
            again = "cancel active runs" if ends_runs else "stop at once; active runs continue"
            note(f"Stopping: no new runs start. Press Ctrl-C again to {again}.")
        # A third Ctrl-C does not wait for the runs that the second one cancelled.
        service.shut_down(patience if stops == 1 else 0.0, ends_runs=ends_runs and stops < 3)

    for wanted in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(wanted, stop)
    running = asyncio.create_task(service.run())
    await asyncio.sleep(0)
    if not running.done():
        _greet(service)
    try:
        await running
    except Exception:
        end_at_the_latest()
        raise


def _greet(service: FolderService) -> None:
    from evertick.settings.kinds import mask_url

    folder = service.watch.snapshot()
    for errors in folder.errors.values():
        for error in errors:
            note(str(error))
    jobs = counted(len(folder.jobs), "job")
    note(f"Scheduling {jobs} from {service.folder}; ledger: {mask_url(service.store_url)}. Press Ctrl-C to stop.")


_CATCHUP_COUNTS = (("candidates", "missed occurrence"), ("jobs", "job"))


class EventPrinter:
    """Prints a line for each start, end and skip; not for items of a run, which tells of them."""

    def __init__(self) -> None:
        self._items: set[RunKey] = set()
        """Those that run: their ends do not say that they are items."""

    def __call__(self, seen: Message | Effect) -> None:
        from evertick.loop.effects import Launch, Log
        from evertick.loop.messages import RunFinished
        from evertick.model.lifecycle import SUCCEEDED, Trigger, beyond_exit_code, exit_code_text

        match seen:
            case Launch(key, _, _, _, Trigger.ITEM):
                self._items.add(key)
            case RunFinished(key) if key in self._items:
                self._items.discard(key)
            case Launch(key, attempt):
                again = f" (attempt {attempt})" if attempt > 1 else ""
                note(f"{_clock()}  started    {clean(key.job_id)}{again}")
            case RunFinished(key, _, _, state, exit_code, detail):
                code = exit_code_text(exit_code) if exit_code else ""
                reason = "" if state is SUCCEEDED else beyond_exit_code(detail, exit_code)
                why = f": {clean(reason)}" if reason else ""
                note(f"{_clock()}  {state:<10} {clean(key.job_id)}{f' ({code})' if code else ''}{why}")
            case Log("run.skipped", fields):
                note(f"{_clock()}  skipped    {clean(str(fields['job']))}: {fields['reason']}")
            case Log("job.added" | "job.changed" | "job.removed" as event, fields):
                note(f"{_clock()}  {event[4:]:<10} {clean(str(fields['job']))}")
            case Log("catchup.found", fields):
                missed, jobs = (counted(int(str(fields[name])), noun) for name, noun in _CATCHUP_COUNTS)
                note(f"{_clock()}  catching up {missed} of {jobs}")


def _clock() -> str:
    from datetime import datetime

    return datetime.now().astimezone().strftime("%H:%M:%S")
