"""`evertick validate`: check job files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli import times
from evertick.cli.exits import USAGE
from evertick.cli.output import counted, note, output_option, show, show_text
from evertick.cli.target_options import find_target
from evertick.model.job import Origin

if TYPE_CHECKING:
    from evertick.errors import DefinitionError
    from evertick.model.job import Job

FLEET_SECONDS = 5.0
"""How long to wait for the fleet's members; files can be checked without them."""


@click.command()
@click.argument("paths", metavar="[FOLDER|FILE]...", nargs=-1, type=click.Path(path_type=Path))
@output_option
@click.pass_context
def validate(ctx: click.Context, paths: tuple[Path, ...], output: str) -> None:
    """Check job files and report every error with its line.

    The default is the current folder. The exit code is 2 when a file has an error; warnings do not change it. If the
    settings name a fleet, a job that none of its members can run is a warning.

    \b
    Examples:
      evertick validate jobs
      evertick validate jobs/report.yaml jobs/sync/pipeline.yaml -o json
    """
    from evertick.definitions.source import definition_files, load_files, warnings_at
    from evertick.errors import NotFound
    from evertick.settings import Settings

    files: list[Path] = []
    for path in paths or (Path(),):
        if not path.exists():
            raise NotFound(f"'{path}' does not exist. Name a job file or a folder of job files.")
        files += definition_files(path) if path.is_dir() else (path,)
    is_whole = all(path.is_dir() for path in paths)
    folder = _settings_folder(paths)
    found = load_files(dict.fromkeys(files), Settings.load(folder), is_whole=is_whole)
    errors = [error for errors in found.errors.values() for error in errors]
    warnings = [warning for warnings in found.warnings.values() for warning in warnings]
    warnings += [warning for job in found.jobs.values() for warning in warnings_at(job, times.now())]
    warnings += [warning for job in found.jobs.values() for warning in _unreadable_dotenv(job)]
    warnings += _unplaceable(found.jobs.values(), folder)
    data = {
        "files": len(found.files),
        "jobs": list(found.jobs),
        "errors": [_row(error) for error in errors],
        "warnings": [_row(warning) for warning in warnings],
    }
    rows = [{"kind": kind, **_row(one)} for kind, many in (("error", errors), ("warning", warnings)) for one in many]

    def show_problems() -> None:
        for error in errors:
            show_text(str(error))

    show(output, data, show_problems, rows=rows, name=lambda row: str(row["file"]))
    for warning in warnings:
        note(f"{warning} (warning)")
    note(_summary(len(found.files), len(found.jobs), len(errors), len(found.errors), len(warnings)))
    if errors:
        ctx.exit(USAGE)


def _unreadable_dotenv(job: Job) -> list[DefinitionError]:
    """A warning for each dotenv file that a run on this machine could not read."""
    from evertick.errors import DefinitionError
    from evertick.model.dotenv import parse_dotenv

    found = []
    for path in job.work.dotenv if not job.routing.is_remote else ():
        try:
            parse_dotenv(Path(path).expanduser().read_text("utf-8"), path)
        except DefinitionError as error:
            found.append(error)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            reason = (
                f"the dotenv file '{path}' of job '{job.id}' cannot be read: {why}. Runs fail until it can be read."
            )
            found.append(DefinitionError(reason, field="dotenv", file=job.file))
    return found


def _unplaceable(jobs: Iterable[Job], folder: Path) -> list[DefinitionError]:
    """A warning for each job that no member of the fleet can run; none when the fleet is unreachable."""
    from evertick.errors import DefinitionError, EvertickError
    from evertick.model.routing import FLEET
    from evertick.routing.selection import unplaceable

    choosy = [job for job in jobs if job.routing.executor == FLEET and (job.routing.labels or job.routing.resources)]
    settings = find_target(None, folder).settings() if choosy else None
    if settings is None or not settings.fleet.url:
        return []
    from evertick.executors.fleet.admin import list_members
    from evertick.wiring import fleet_settings

    try:
        fleet = fleet_settings(settings)
        members = list_members(fleet, FLEET_SECONDS) if fleet is not None else []
    except EvertickError as error:
        note(f"The requirements of fleet jobs were not checked: {error}")
        return []
    found = []
    for job, why in unplaceable(choosy, FLEET, members):
        field = "resources" if job.routing.resources else "runs_on"
        origin = job.origins.get(field, Origin())
        reason = f"no member of the fleet can run the job '{job.id}': {why}."
        hint = "Lower the requirement, or add a member that meets it."
        found.append(DefinitionError(reason, hint=hint, field=field, file=origin.file or job.file, line=origin.line))
    return found


def _row(error: object) -> dict[str, object]:
    return {name: getattr(error, name) for name in ("file", "line", "column", "field", "reason", "hint")}


def _summary(files: int, jobs: int, errors: int, bad_files: int, warnings: int) -> str:
    if not files:
        return "Found no job files. A job file is YAML with a 'schedule' and a 'command'. Next: evertick init"
    told = f", {counted(warnings, 'warning')}" if warnings else ""
    if not errors:
        return f"{counted(files, 'file')}, {counted(jobs, 'job')}: no errors{told}."
    return f"{counted(files, 'file')}: {counted(errors, 'error')} in {counted(bad_files, 'file')}{told}."


def _settings_folder(paths: tuple[Path, ...]) -> Path:
    """The folder whose settings apply: the first one named, else the current one."""
    first = paths[0] if paths else Path()
    return first if first.is_dir() else Path()
