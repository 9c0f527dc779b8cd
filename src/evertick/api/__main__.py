"""`python -m evertick.api`: the server as a process of its own, as `evertick serve` starts it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from evertick.api.feed import Feed
from evertick.definitions.cache import FILE_NAME as DEFINITION_CACHE
from evertick.definitions.watch import FolderWatch
from evertick.dispatch.control_client import ControlClient
from evertick.errors import EvertickError
from evertick.location import locate
from evertick.long_lived import end_with_any_thread, hide_process, limit_heaps, tune_collector
from evertick.operations.local import LocalOperations
from evertick.settings import Settings
from evertick.settings.parts import variable_of
from evertick.stores import open_store

log = logging.getLogger("evertick.api")

NICENESS = 10
"""Lower priority than the scheduler: if both need a processor, jobs start first and responses come a little later."""

COLLECTED_AFTER = (20_000, 5, 5)
"""Each response leaves some objects that only the collector can free (SQL statements refer to themselves), and those
that a collection meets in use wait for the next generation: it must come in minutes, not in days."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evertick.api", description=__doc__)
    parser.add_argument("folder", type=Path, help="of job files")
    for name in ("config", "store", "node", "host", "port", "state-folder"):
        parser.add_argument(f"--{name}", help="as evertick serve was given it; without it, as the settings say")
    parser.add_argument("--option", action="append", default=[], metavar="KEY", help="an option, in its variable")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    named = {name: getattr(chosen, name) for name in ("config", "store", "node", "host", "port")}
    named |= {key: os.environ.get(variable_of(key)) for key in chosen.option}
    hide_process()
    limit_heaps()
    end_with_any_thread()
    try:
        settings = Settings.load(chosen.folder, overrides=named)
        state_folder = Path(chosen.state_folder or settings.state_folder(chosen.folder))
        run(chosen.folder, settings, state_folder, _print)
    except EvertickError as error:
        _print(str(error))
        return 1
    return 0


def run(folder: Path, settings: Settings, state_folder: Path, report: Callable[[str], None]) -> None:
    """Serve a folder until this process ends."""
    from evertick.api.factory import open_app_state
    from evertick.api.server import ApiServer

    # Not before: on a busy machine, a nice process would take minutes to import everything.
    os.nice(NICENESS)
    url = locate(settings, folder, state=state_folder).store_url
    watch = FolderWatch(folder, settings, cache=state_folder / DEFINITION_CACHE)
    store = open_store(url)
    try:
        control = ControlClient(state_folder, timeout=1.0)
        app_state = open_app_state(store, url, watch.snapshot, settings, state_folder, folder=folder, control=control)
        server = ApiServer(app_state)
        # In parallel to the start: ten thousand files take a while, and what the ledger knows can be shown meanwhile.
        following = (watch, app_state.feed, partial(prepare, app_state.operations))
        threading.Thread(target=follow_folder, args=following, name="evertick-watch", daemon=True).start()
        server.run(report, shows_life=True)
    finally:
        watch.stop()
        store.close()


def prepare(operations: LocalOperations) -> None:
    """Compute what people look at first: zones, schedules and statements are then known when they look."""
    try:
        operations.overview()
        operations.calendar()
    except Exception as error:
        log.warning("api.unprepared reason=%s", error)  # such as a ledger that is away: a response will say it


def follow_folder(watch: FolderWatch, feed: Feed, prepare: Callable[[], None]) -> None:
    """Load the job files, then notify the pages of each change as soon as responses show it."""
    watch.load()
    feed.publish_reset()  # earlier responses had no definitions
    # Definitions are permanent objects: garbage collection over ten thousand of them would delay every response.
    tune_collector(COLLECTED_AFTER)
    prepare()
    # Responses use this watch, the scheduler's events its own: the scheduler may see an edit first, and a page that
    # asks then would get a response from before the edit.
    watch.run(lambda change: feed.publish_jobs((*(job.id for job in change.jobs), *change.removed)))


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
