"""`evertick doctor`: check the machine, the settings, the ledger and the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.exits import FAILED
from evertick.cli.output import Column, Table, counted, note, output_option, show
from evertick.cli.target import Target
from evertick.cli.target_options import find_target

if TYPE_CHECKING:
    from evertick.cli.doctor_checks import Check


@click.command()
@click.option("--store", envvar="EVERTICK_STORE", metavar="URL", help="URL of the ledger; default: the folder's.")
@click.option(
    "--folder", type=click.Path(path_type=Path), metavar="PATH", help="Folder of job files; default: the current one."
)
@click.option("--full", "is_full", is_flag=True, help="Read the whole ledger file; takes minutes for a large one.")
@output_option
@click.pass_context
def doctor(ctx: click.Context, store: str | None, folder: Path | None, is_full: bool, output: str) -> None:
    """Check the machine, the settings, the ledger and the scheduler.

    The command changes nothing. Each check reports ok, warn or fail, and what to do next. The exit code is 1 when a
    check fails; warnings do not change it.

    \b
    Examples:
      evertick doctor
      evertick doctor --folder jobs -o json
      evertick doctor --full
    """
    from evertick.cli.doctor_checks import FAIL, WARN, run_checks

    # An invalid setting is a finding; it must not keep the other checks from running.
    target = replace(find_target(store, folder, is_lenient=True), keeps_cache=False)
    found = list(run_checks(_checks(target, is_full=is_full)))
    rows = [one._asdict() for one in found]
    columns = (
        Column("", "level", lambda row: row["level"]),
        Column("Check", "check", "bold"),
        Column("Finding", lambda row: row["finding"] + (f" → {row['next']}" if row["next"] else ""), wrap=True),
    )
    show(output, rows, Table(columns, rows), name="check")
    fails, warns = (sum(one.level == level for one in found) for level in (FAIL, WARN))
    note(f"{fails} failed, {counted(warns, 'warning')}." if fails or warns else "All checks passed.")
    if fails:
        ctx.exit(FAILED)


def _checks(target: Target, *, is_full: bool) -> Iterator[Check]:
    from evertick.cli.doctor_checks import disk, machine, scheduler
    from evertick.errors import SettingsError
    from evertick.settings import Settings

    yield "version", machine.check_version
    yield "clock", machine.check_clock
    yield "settings", lambda: scheduler.check_settings(target)
    try:
        settings = target.settings()
    except SettingsError:
        settings = Settings()
    yield "time zones", lambda: machine.check_zones(settings.timezone, settings.timezone_origin)
    if settings.calendars:
        yield "calendars", lambda: scheduler.check_calendars(settings)
    yield "limits", lambda: machine.check_limits(target.folder)
    yield "jobs", lambda: scheduler.check_jobs(target)
    if settings.blackouts:
        yield "blackouts", lambda: scheduler.check_blackouts(settings, target.jobs())
    folder = target.folder or Path()
    state = target.state or settings.state_folder(folder)
    yield "disk", lambda: disk.check_file_system(state if state.is_dir() else folder)
    if state.is_dir():
        yield "permissions", lambda: disk.check_permissions(state)
        yield "keepers", lambda: machine.check_keepers(state)
    if folder.is_dir():
        yield "job files", lambda: disk.check_job_files(folder)
    file = target.ledger_file()
    yield "set aside", lambda: disk.check_set_aside(*(path for path in (state, file) if path and path.is_dir()))
    yield "ledger", lambda: scheduler.check_ledger(target, is_full=is_full)
    yield "scheduler", lambda: scheduler.check_scheduler(target)
    yield "kinds", lambda: machine.check_kinds(target.jobs(), settings.docker)
    if settings.fleet.url:
        yield "fleet", lambda: scheduler.check_fleet(settings, target.jobs())
    yield "port", lambda: scheduler.check_port(settings.host, settings.port, is_running=bool(target.is_busy()))
