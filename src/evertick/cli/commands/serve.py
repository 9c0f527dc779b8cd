"""`evertick serve`: schedule and run the jobs of a folder."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.output import clean, note
from evertick.cli.web import add_web

if TYPE_CHECKING:
    from evertick.loop.effects import Effect
    from evertick.loop.messages import Message
    from evertick.service import FolderService

WARNED = 3
"""Paths that are named one by one in a warning."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("."))
@click.option(
    "--config", metavar="FILE", help="The settings; default: EVERTICK_CONFIG, else the folder's evertick.toml."
)
@click.option("--store", metavar="URL", help="The ledger; default: SQLite in the folder, under .evertick/.")
@click.option("--node", metavar="NAME", help="This node's name; default: the host's.")
@click.option("--host", metavar="ADDRESS", help="Where the pages and the API listen; default: 127.0.0.1.")
@click.option("--port", type=int, metavar="NUMBER", help="Their port; default: 8765.")
@click.option("--no-web", is_flag=True, help="Serve no pages and no API.")
@click.option("--fleet", metavar="URL", help="Members that run jobs too: tls://HOST:PORT; see 'evertick fleet'.")
@click.option(
    "--fleet-certs",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="A folder with ca.pem, cert.pem and key.pem for it.",
)
@click.option("--patience", type=float, metavar="SECONDS", help="How long to wait for runs when stopping; default: 30.")
@click.option(
    "--stop-runs",
    type=click.Choice(["leave", "end"]),
    help="What becomes of runs after that: they go on and are found at the next start, or are ended; default: leave.",
)
@click.option("--quiet", is_flag=True, help="Say only what is alarming.")
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
    """Schedule and run the jobs of a folder until it is stopped.

    Job files may be added, changed and removed meanwhile. Ctrl-C stops: nothing new starts, and what runs has some
    seconds to end; a second Ctrl-C does not wait. Runs that have not ended go on, and are found at the next start.

    \b
    Examples:
      evertick serve jobs
      evertick serve jobs --store postgresql://evertick@db/evertick --node a1
      evertick serve jobs --no-web --stop-runs end --patience 60
    """
    from evertick.definitions.source import writable_by_others
    from evertick.errors import NotFound
    from evertick.hardening import hide_process
    from evertick.service import FolderService
    from evertick.settings import Settings
    from evertick.settings.exposure import check_exposure

    if folder.is_file():
        raise NotFound(f"'{folder}' is a file. Write its folder; 'evertick run {folder}' runs it once.")
    if not folder.is_dir():
        raise NotFound(
            f"there is no folder '{folder}'. Write the path of a folder of job files; "
            f"'evertick init {folder}' makes one, with a first job."
        )
    hide_process()
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
        note(f"every user of this machine may change '{path}', and so run programs as you. Next: chmod o-w '{path}'")
    _offer_a_first_job(folder)
    service = FolderService(folder, settings, observe=None if quiet else Teller())
    if settings.web:
        add_web(service, {**shared, "stop.runs": stop_runs})
    asyncio.run(_run(service, settings.stop.patience_us / 1_000_000 if patience is None else patience))


def _offer_a_first_job(folder: Path) -> None:
    """An empty folder is most often a first try: a job is written where somebody says so, and told of elsewhere."""
    from evertick.cli.commands.init import JOB, NAME
    from evertick.definitions.source import definition_files

    if definition_files(folder):
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm(f"There are no jobs in '{folder}'. Write a first one, {NAME}?", default=True, err=True):
            with (folder / NAME).open("x", encoding="utf-8") as stream:
                stream.write(JOB)
        return
    note(f"There are no jobs in '{folder}' yet. Next: evertick init {folder}, or write one; it is taken at once.")


def _fleet(url: str | None, certs: Path | None) -> dict[str, str | None]:
    files = {"tls_ca": "ca.pem", "tls_cert": "cert.pem", "tls_key": "key.pem"}
    named = {f"fleet.{name}": str((certs / file).absolute()) for name, file in files.items()} if certs else {}
    return {"fleet.url": url, **named}


async def _run(service: FolderService, patience: float) -> None:
    stops = 0
    ends_runs = service.settings.stop.runs == "end"

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops == 1:
            after = "ends what runs" if ends_runs else "leaves at once, and runs go on by themselves"
            note(f"stopping: nothing new starts; Ctrl-C again {after}.")
        # The third one does not wait for what the second one ended.
        service.shut_down(patience if stops == 1 else 0.0, ends_runs=ends_runs and stops < 3)

    for wanted in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(wanted, stop)
    running = asyncio.create_task(service.run())
    await asyncio.sleep(0)
    if not running.done():
        _greet(service)
    await running


def _greet(service: FolderService) -> None:
    from evertick.settings.kinds import mask_url

    folder = service.watch.snapshot()
    for errors in folder.errors.values():
        for error in errors:
            note(str(error))
    jobs = len(folder.jobs)
    where = f"{jobs} job{'' if jobs == 1 else 's'} from {service.folder}, the ledger in {mask_url(service.store_url)}"
    note(f"{where}. Ctrl-C stops.")


class Teller:
    """Says what happens, a line for each start, end and skip."""

    def __call__(self, seen: Message | Effect) -> None:
        from evertick.loop.effects import Launch, Log
        from evertick.loop.messages import RunFinished

        match seen:
            case Launch(key, attempt):
                again = f" (attempt {attempt})" if attempt > 1 else ""
                note(f"{_clock()}  started    {clean(key.job_id)}{again}")
            case RunFinished(key, _, _, state, exit_code, detail):
                code = f"exit code {exit_code}" if exit_code else ""
                why = f": {clean(detail)}" if detail not in ("", code) and state != "succeeded" else ""
                note(f"{_clock()}  {state:<10} {clean(key.job_id)}{f' ({code})' if code else ''}{why}")
            case Log("run.skipped", fields):
                note(f"{_clock()}  skipped    {clean(str(fields['job']))}: {fields['reason']}")
            case Log("job.added" | "job.changed" | "job.removed" as event, fields):
                note(f"{_clock()}  {event[4:]:<10} {clean(str(fields['job']))}")
            case Log("catchup.found", fields):
                note(f"{_clock()}  catching up: {fields['candidates']} missed, of {fields['jobs']} jobs")


def _clock() -> str:
    from datetime import datetime

    return datetime.now().astimezone().strftime("%H:%M:%S")
