"""Whether what Evertick works with is in order: settings, job files, the ledger, and the scheduler on it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evertick.cli import times
from evertick.cli.health.finding import FAIL, OK, WARN
from evertick.errors import EvertickError, SettingsError
from evertick.model.instant import to_text
from evertick.planning.stuck import stuck_entries

if TYPE_CHECKING:
    from evertick.cli.target import Target

Told = Iterator[tuple[str, ...]]

LAG_MAX_US = 60_000_000
FUTURE_MAX_US = 60_000_000
REQUEST_OLD_US = 60_000_000


def check_settings(place: Target) -> Told:
    from evertick.settings import Settings

    try:
        found = Settings.load(place.folder)
    except SettingsError as error:
        for problem in str(error).splitlines():
            yield FAIL, problem, "correct it: evertick settings"
        return
    for warning in found.warnings:
        yield WARN, warning, "evertick settings lists those there are"
    changed = len(found.origins)
    yield OK, f"{changed} set, from {found.config or 'the environment'}" if changed else "all as by default"


def check_jobs(place: Target) -> Told:
    if place.folder is None:
        yield OK, "no folder of job files is known here; --folder names one"
        return
    found = place.definitions()
    errors = sum(len(errors) for errors in found.errors.values())
    warnings = sum(len(warnings) for warnings in found.warnings.values())
    where = f"evertick validate {place.folder}"
    if errors:
        yield FAIL, f"{errors:,} errors in {len(found.errors):,} of {len(found.files):,} files", where
    if warnings:
        yield WARN, f"{warnings:,} warnings in {len(found.warnings):,} files", where
    if not found.files:
        yield WARN, f"there are no job files in {place.folder}", f"evertick init {place.folder}"
    elif not errors:
        yield OK, f"{len(found.jobs):,} jobs in {len(found.files):,} files"


def check_ledger(place: Target, *, is_full: bool) -> Told:
    """Whether it can be read, is whole and of this version; a database is asked itself."""
    if place.url is None:
        yield OK, "there is none yet; the first start of a scheduler makes it"
        return
    try:
        if place.url.lower().startswith(("files", "memory")):
            with place.open() as store:
                yield OK, f"{len(store.load().jobs):,} jobs are known to it"
            return
        from evertick.stores.sql import admin

        for one in admin.check(place.url, is_full=is_full):
            text, _, then = one.text.partition(" Next: ")
            yield (OK if one.is_fine else WARN), text.rstrip("."), then
        if not is_full:
            yield from _background_check(place)
    except EvertickError as error:
        text, _, then = str(error).partition(" Next: ")
        yield FAIL, text, then or "make it reachable; 'evertick db check' says more"


def _background_check(place: Target) -> Told:
    """What the scheduler at work has found by reading the file in full."""
    told = ((place.scheduler_status() or {}).get("integrity") or {}) if place.state is not None else {}
    match told.get("state"):
        case "ok":
            yield OK, f"the scheduler has read it in full at {told['checked_at']}"
        case "damaged":
            yield FAIL, f"the scheduler has found damage: {told['finding']}", "evertick db check, and restore a backup"
        case "unknown":
            yield WARN, f"the scheduler could not check it: {told['finding']}", "evertick doctor --full"


def check_scheduler(place: Target) -> Told:
    """Whether somebody is at work, and keeps up."""
    if place.unreadable and not place.is_ledger_named:
        from evertick.cli.target import UNREADABLE_NEXT

        yield FAIL, place.unreadable, UNREADABLE_NEXT
        return
    if place.url is None:
        yield OK, "no scheduler has run here yet"
        return
    with place.open_if_there() as store:
        if store is None:
            yield WARN, f"there is no ledger at {place.url}", "evertick serve"
            return
        now, snapshot = times.now(), store.load()
        for notice in snapshot.notices:
            yield WARN, notice, "look at it"
        newest = max((row.decided_at for row in snapshot.open_runs), default=0)
        if newest > now + FUTURE_MAX_US:
            yield WARN, "the ledger holds decisions of the future", "the clock went back, or a node's clock is ahead"
        floors = list(snapshot.floors.values())
        if floors and min(floors) > now + FUTURE_MAX_US:
            # Nothing is ever decided twice, so the past of a clock that was ahead stays decided.
            yield (
                FAIL,
                f"it is planned up to {to_text(min(floors))}, and nothing new is due before the clock comes there",
                "see that the clock is right; if it was ahead, restore a backup, or use 'evertick backfill'",
            )
        if not place.is_anyone_running(store):
            yield WARN, "nobody is running on this ledger", "evertick serve"
            return
        lag = now - min(floors) if floors else 0
        seconds = max(lag, 0) / 1_000_000
        if lag > LAG_MAX_US:
            yield FAIL, f"planning is {seconds:,.0f} s behind", "look at its log, the disk and the load of the machine"
        else:
            yield OK, f"at work; planned up to {seconds:.0f} s ago" if lag > 0 else "at work; planned ahead"
        old = [one for one in store.claim(None, 100) if now - one.submitted_at > REQUEST_OLD_US]
        stuck = stuck_entries(snapshot.open_runs, snapshot.jobs, snapshot.floors, place.jobs(), now)
        if stuck:
            yield (
                FAIL,
                f"{len(stuck):,} entries are stuck: overdue, waiting for nothing; the oldest is {stuck[0].run_id}",
                "the scheduler takes them up again within minutes; if they stay, restart it",
            )
        if old:
            yield WARN, f"{len(old):,} requests wait for more than a minute", "look at the log of the scheduler"


def check_port(host: str, port: int, *, is_running: bool) -> Told:
    """Whether the address of the API can be had, or is ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and is_running:
                yield OK, f"{host}:{port} is in use, by the scheduler at work"
            elif error.errno == errno.EADDRINUSE:
                yield WARN, f"{host}:{port} is in use by another program", "stop it, or choose another: --port"
            else:
                yield FAIL, f"{host}:{port} cannot be used: {error.strerror}", "choose another address: --host, --port"
            return
    yield OK, f"{host}:{port} is free"
