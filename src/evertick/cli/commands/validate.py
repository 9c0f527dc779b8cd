"""`evertick validate`: whether job files can be loaded, and what to write where they cannot."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli import times
from evertick.cli.exits import USAGE
from evertick.cli.output import note, output_option, show, show_text


@click.command()
@click.argument("paths", metavar="[FOLDER|FILE]...", nargs=-1, type=click.Path(path_type=Path))
@output_option
@click.pass_context
def validate(ctx: click.Context, paths: tuple[Path, ...], output: str) -> None:
    """Check job files and report every error with its line.

    Without an argument the present folder is checked. The exit code is 2 when there is an error; warnings do not
    change it.

    \b
    Examples:
      evertick validate jobs
      evertick validate jobs/report.yaml jobs/sync/pipeline.yaml -o json
    """
    from evertick.definitions.one_offs import past_one_offs
    from evertick.definitions.source import definition_files, load_files
    from evertick.errors import NotFound
    from evertick.settings import Settings

    files: list[Path] = []
    for path in paths or (Path(),):
        if not path.exists():
            raise NotFound(f"there is no file or folder '{path}'. Write the path of a job file or of a folder of them.")
        files += definition_files(path) if path.is_dir() else (path,)
    is_whole = all(path.is_dir() for path in paths)
    found = load_files(dict.fromkeys(files), Settings.load(_settings_folder(paths)), is_whole=is_whole)
    errors = [error for errors in found.errors.values() for error in errors]
    warnings = [warning for warnings in found.warnings.values() for warning in warnings]
    warnings += [warning for job in found.jobs.values() for warning in past_one_offs(job, times.now())]
    data = {
        "files": len(found.files),
        "jobs": list(found.jobs),
        "errors": [_row(error) for error in errors],
        "warnings": [_row(warning) for warning in warnings],
    }
    rows = [{"kind": kind, **_row(one)} for kind, many in (("error", errors), ("warning", warnings)) for one in many]

    def tell() -> None:
        for error in errors:
            show_text(str(error))

    show(output, data, tell, rows=rows, name=lambda row: str(row["file"]))
    for warning in warnings:
        note(f"{warning} (warning)")
    note(_summary(len(found.files), len(found.jobs), len(errors), len(found.errors), len(warnings)))
    if errors:
        ctx.exit(USAGE)


def _row(error: object) -> dict[str, object]:
    return {name: getattr(error, name) for name in ("file", "line", "column", "field", "reason", "hint")}


def _summary(files: int, jobs: int, errors: int, bad_files: int, warnings: int) -> str:
    if not files:
        return "No job files here. A job is a file such as hello.yaml with 'schedule' and 'command' in it."
    told = f", {_counted(warnings, 'warning')}" if warnings else ""
    if not errors:
        return f"{_counted(files, 'file')}, {_counted(jobs, 'job')}: no errors{told}."
    return f"{_counted(files, 'file')}: {_counted(errors, 'error')} in {_counted(bad_files, 'file')}{told}."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _settings_folder(paths: tuple[Path, ...]) -> Path:
    """Where the settings of what is checked lie: in the one folder that was named, else here."""
    first = paths[0] if paths else Path()
    return first if first.is_dir() else Path()
