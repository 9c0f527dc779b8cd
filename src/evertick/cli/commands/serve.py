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

if TYPE_CHECKING:
    from evertick.loop.effects import Effect
    from evertick.loop.messages import Message
    from evertick.service import FolderService


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("."))
@click.option(
    "--config", metavar="FILE", help="The settings; default: EVERTICK_CONFIG, else the folder's evertick.toml."
)
@click.option("--store", metavar="URL", help="The ledger; default: SQLite in the folder, under .evertick/.")
@click.option("--node", metavar="NAME", help="This node's name; default: the host's.")
@click.option("--patience", type=float, metavar="SECONDS", help="How long to wait for runs when stopping; default: 30.")
@click.option("--quiet", is_flag=True, help="Say only what is alarming.")
def serve(
    folder: Path, config: str | None, store: str | None, node: str | None, patience: float | None, quiet: bool
) -> None:
    """Schedule and run the jobs of a folder until it is stopped.

    Job files may be added, changed and removed meanwhile. Ctrl-C stops: nothing new starts, and what runs has some
    seconds to end; a second Ctrl-C leaves at once. Runs that have not ended go on, and are found at the next start.

    \b
    Examples:
      evertick serve jobs
      evertick serve jobs --store postgresql://evertick@db/evertick --node a1
    """
    from evertick.errors import NotFound
    from evertick.service import FolderService
    from evertick.settings import Settings

    if not folder.is_dir():
        raise NotFound(f"there is no folder '{folder}'. Write the path of a folder of job files.")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    settings = Settings.load(folder, overrides={"config": config, "store": store, "node": node})
    for warning in settings.warnings:
        note(warning)
    service = FolderService(folder, settings, observe=None if quiet else Teller())
    asyncio.run(_run(service, settings.stop.patience_us / 1_000_000 if patience is None else patience))


async def _run(service: FolderService, patience: float) -> None:
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops == 1:
            note("stopping: nothing new starts; Ctrl-C again leaves at once, and runs go on by themselves.")
        service.shut_down(patience if stops == 1 else 0.0)

    for wanted in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(wanted, stop)
    running = asyncio.create_task(service.run())
    await asyncio.sleep(0)
    folder = service.watch.snapshot()
    for errors in folder.errors.values():
        for error in errors:
            note(str(error))
    jobs = len(folder.jobs)
    note(
        f"{jobs} job{'' if jobs == 1 else 's'} from {service.folder}, the ledger in {service.store_url}. Ctrl-C stops."
    )
    if not jobs:
        note("Write a first job, for example hello.yaml with 'schedule: \"* * * * *\"' and 'command: date'.")
    await running


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
                why = f": {clean(detail)}" if detail and state != "succeeded" else ""
                code = f" (exit code {exit_code})" if exit_code else ""
                note(f"{_clock()}  {state:<10} {clean(key.job_id)}{code}{why}")
            case Log("run.skipped", fields):
                note(f"{_clock()}  skipped    {clean(str(fields['job']))}: {fields['reason']}")
            case Log("job.added" | "job.changed" | "job.removed" as event, fields):
                note(f"{_clock()}  {event[4:]:<10} {clean(str(fields['job']))}")
            case Log("catchup.found", fields):
                note(f"{_clock()}  catching up: {fields['candidates']} missed, of {fields['jobs']} jobs")


def _clock() -> str:
    from datetime import datetime

    return datetime.now().astimezone().strftime("%H:%M:%S")
