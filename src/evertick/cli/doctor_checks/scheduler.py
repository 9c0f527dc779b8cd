"""Checks of the settings, the job files, the ledger, the scheduler, its port and the fleet."""

from __future__ import annotations

import errno
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evertick.cli import times
from evertick.cli.doctor_checks import FAIL, OK, WARN, Results
from evertick.cli.output import counted
from evertick.errors import EvertickError, SettingsError
from evertick.model.duration import duration_text
from evertick.model.instant import to_text
from evertick.model.plain_json import object_in
from evertick.planning.stuck import stuck_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evertick.cli.target import Target
    from evertick.model.job import Job
    from evertick.settings import Settings

LAG_MAX_US = 60_000_000
FUTURE_MAX_US = 60_000_000
REQUEST_OLD_US = 60_000_000
CALENDAR_DAYS_MIN = 60
"""Warn when the data of a calendar ends sooner."""


def check_settings(target: Target) -> Results:
    from evertick.settings import Settings

    try:
        found = Settings.load(target.folder)
    except SettingsError as error:
        for problem in str(error).splitlines():
            yield FAIL, problem, "correct it; 'evertick settings' lists all settings"
        return
    for warning in found.warnings:
        yield WARN, warning, "'evertick settings' lists all settings"
    changed = len(found.origins)
    yield OK, f"{changed} changed, in {found.config or 'the environment'}" if changed else "all defaults"


def check_jobs(target: Target) -> Results:
    if target.folder is None:
        yield OK, "no folder of job files; name one with --folder"
        return
    found = target.definitions()
    errors = sum(len(errors) for errors in found.errors.values())
    warnings = sum(len(warnings) for warnings in found.warnings.values())
    where = f"evertick validate {target.folder}"
    if errors:
        yield FAIL, f"{counted(errors, 'error')} in {len(found.errors):,} of {counted(len(found.files), 'file')}", where
    if warnings:
        yield WARN, f"{counted(warnings, 'warning')} in {counted(len(found.warnings), 'file')}", where
    if not found.files:
        yield WARN, f"no job files in {target.folder}", f"evertick init {target.folder}"
    elif not errors:
        yield OK, f"{counted(len(found.jobs), 'job')} in {counted(len(found.files), 'file')}"


def check_blackouts(settings: Settings, jobs: Mapping[str, Job]) -> Results:
    """Whether the blackouts of the settings name jobs and tags that exist."""
    from evertick.settings.blackouts import unknown_names

    tags = {job_id: job.tags for job_id, job in jobs.items()}
    found = list(unknown_names(settings.blackouts, settings.timezone, tags, datetime.now(UTC)))
    for text in found:
        yield WARN, text, f"correct it in {settings.origins.get('blackouts', 'the settings')}"
    if not found:
        yield OK, counted(len(settings.blackouts), "blackout")


def check_ledger(target: Target, *, is_full: bool) -> Results:
    """Whether the ledger is readable, undamaged and of this version."""
    if target.url is None:
        yield OK, "no ledger yet; the first start creates it"
        return
    try:
        if target.url.lower().startswith(("files", "memory")):
            with target.open() as store:
                yield OK, f"readable, with {counted(len(store.load().jobs), 'job')}"
            return
        from evertick.stores.sql.ledger_check import check

        for one in check(target.url, is_full=is_full):
            yield (OK if one.is_fine else WARN), one.text, one.next_step
        if not is_full:
            yield from _background_check(target)
    except EvertickError as error:
        yield FAIL, str(error), "for details: evertick db check"


def _background_check(target: Target) -> Results:
    """The result of the scheduler's own full check of the file."""
    status = target.scheduler_status() if target.state is not None else None
    told = object_in(status or {}, "integrity")
    match told.get("state"):
        case "ok":
            yield OK, f"the scheduler's full check passed at {told['checked_at']}"
        case "damaged":
            yield FAIL, f"the scheduler found damage: {told['finding']}", "evertick db check, then restore a backup"
        case "unknown":
            yield WARN, f"the scheduler's full check failed: {told['finding']}", "evertick doctor --full"


def check_scheduler(target: Target) -> Results:
    """Whether a scheduler is running and keeps up."""
    if target.unreadable and not target.is_ledger_named:
        from evertick.cli.target import UNREADABLE_NEXT

        yield FAIL, target.unreadable, UNREADABLE_NEXT
        return
    if target.url is None:
        yield OK, "no scheduler has run here yet"
        return
    with target.open_if_there() as store:
        if store is None:
            yield WARN, f"no ledger at {target.url}", "evertick serve"
            return
        now, snapshot = times.now(), store.load()
        for notice in snapshot.notices:
            yield WARN, notice, "check the scheduler's log"
        newest = max((row.decided_at for row in snapshot.open_runs), default=0)
        if newest > now + FUTURE_MAX_US:
            yield (
                WARN,
                "the ledger has entries written in the future",
                "check the clocks: this one was set back, or a node's clock is ahead",
            )
        floors = list(snapshot.floors.values())
        if floors and min(floors) > now + FUTURE_MAX_US:
            # No occurrence is planned twice, so what was planned by a clock that was ahead stays planned.
            yield (
                FAIL,
                f"the ledger is planned up to {to_text(min(floors))}; no job runs on schedule before that time",
                "check the clock; if it was ahead, restore a backup or use 'evertick backfill'",
            )
        if not target.is_anyone_running(store):
            yield WARN, "no scheduler is running", "evertick serve"
            return
        lag = now - min(floors) if floors else 0
        if lag > LAG_MAX_US:
            yield FAIL, f"planning lags by {duration_text(lag)}", "check its log, the disk and the machine's load"
        else:
            yield OK, f"running; planned up to {duration_text(lag)} ago" if lag > 0 else "running; planned ahead"
        old = [one for one in store.claim(None, 100) if now - one.submitted_at > REQUEST_OLD_US]
        stuck = stuck_entries(snapshot.open_runs, snapshot.jobs, snapshot.floors, target.jobs(), now)
        if stuck:
            yield (
                FAIL,
                f"{counted(len(stuck), 'stuck entry', 'stuck entries')}: overdue, waiting for nothing; "
                f"the oldest is {stuck[0].run_id}",
                "the scheduler retries them within minutes; if they stay stuck, restart it",
            )
        if old:
            yield WARN, f"{counted(len(old), 'request')} unanswered for over a minute", "check the scheduler's log"


def check_port(host: str, port: int, *, is_running: bool) -> Results:
    """Whether the API's address is free, or in use by this scheduler."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and is_running:
                yield OK, f"{host}:{port} is in use by the running scheduler"
            elif error.errno == errno.EADDRINUSE:
                yield WARN, f"{host}:{port} is in use by another program", "stop it, or choose another port: --port"
            else:
                yield FAIL, f"cannot use {host}:{port}: {error.strerror}", "choose another address: --host, --port"
            return
    yield OK, f"{host}:{port} is free"


def check_fleet(settings: Settings, jobs: Mapping[str, Job]) -> Results:
    """Whether the expected members are there, and some member can run each fleet job."""
    from evertick.executors.fleet.admin import list_members
    from evertick.model.duration import format_duration
    from evertick.model.member import Closed
    from evertick.model.routing import FLEET
    from evertick.routing.selection import unplaceable
    from evertick.wiring import fleet_settings

    fleet = fleet_settings(settings)
    if fleet is None:
        return
    try:
        members = list_members(fleet)
    except EvertickError as error:
        yield FAIL, str(error), "evertick fleet start"
        return
    there = [member.name for member in members if member.is_healthy]
    missing = [name for name in fleet.expected if name not in there]
    if missing:
        yield (
            FAIL,
            f"missing members: {', '.join(missing)}",
            "start them: evertick fleet join; or change fleet.expected",
        )
    else:
        yield OK, f"{len(there)} of {counted(len(members), 'member')} connected"
    for member in members:
        if member.is_healthy and member.closed is Closed.LEASE_TOO_LONG:
            own, ours = format_duration(member.lease_us), format_duration(fleet.lease_us)
            yield (
                FAIL,
                f"{member.name} receives no runs: its lease ({own}) is longer than fleet.lease ({ours})",
                f"restart it with --lease {fleet.lease_us / 1_000_000:g}, or set fleet.lease to {own}",
            )
    for job, why in unplaceable([jobs[job_id] for job_id in sorted(jobs)], FLEET, members):
        yield WARN, f"no member can run {job.id}: {why}", "change the job, or add a member that meets it"


def check_calendars(settings: Settings) -> Results:
    """A calendar without days for the coming months excludes nothing then, or everything."""
    from evertick.definitions.calendars import CalendarError, find_calendar
    from evertick.model.calendar import date_of_day, day_of_date
    from evertick.settings.calendars import WEEKDAYS

    today = day_of_date(datetime.now(UTC).date())
    for name, _ in settings.calendars:
        try:
            found = find_calendar(name, settings)
        except CalendarError as error:
            yield FAIL, f"'{name}': {error}", "correct [calendars] in evertick.toml"
            continue
        through = found.data_through
        if through is None or through - today >= CALENDAR_DAYS_MIN:
            weekdays = [f"every {', '.join(WEEKDAYS[day] for day in found.weekdays)}"] if found.weekdays else []
            days = [counted(len(found.days), "day")] if found.days or not weekdays else []
            data = [] if through is None else [f"data through {date_of_day(through)}"]
            yield OK, f"'{name}': {', '.join((*weekdays, *days, *data))}"
        else:
            yield WARN, f"'{name}' has no data after {date_of_day(through)}", "add the coming days to its dates or file"
