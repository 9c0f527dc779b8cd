"""`evertick import`: convert the jobs of other schedulers to job files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.output import counted, note, output_option, show, show_text

if TYPE_CHECKING:
    from evertick.definitions.importers.imported import Imported

KINDS = ("crontab", "systemd", "kubernetes", "dagu", "xxl-job")


@click.command("import")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--to", "folder", type=click.Path(path_type=Path), required=True, help="Folder for the job files.")
@click.option("--dry-run", is_flag=True, help="Show the files; write nothing.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--system", is_flag=True, help="The crontab has a user column, like /etc/crontab.")
@click.option("--timezone", metavar="ZONE", help="Time zone of schedules without one.")
@output_option
def import_(
    kind: str, source: Path, folder: Path, dry_run: bool, force: bool, system: bool, timezone: str | None, output: str
) -> None:
    """Convert a crontab, systemd timers, Kubernetes CronJobs, Dagu or XXL-JOB jobs to job files.

    SOURCE is a file, or - for standard input; for systemd, Kubernetes and Dagu also a folder. Whatever cannot be
    converted is reported with its line. The written files are valid job files.

    \b
    Examples:
      crontab -l | evertick import crontab - --to jobs --dry-run
      evertick import crontab /etc/crontab --system --to jobs
      evertick import systemd /etc/systemd/system --to jobs
      kubectl get cronjobs -o yaml | evertick import kubernetes - --to jobs
      evertick import dagu dags --to jobs
      evertick import xxl-job jobs.json --to jobs --timezone Asia/Shanghai
    """
    from evertick.definitions.importers.imported import write
    from evertick.settings import is_zone

    if system and kind != "crontab":
        raise click.UsageError("--system is only for 'import crontab'.")
    if timezone is not None and not is_zone(timezone):
        raise click.UsageError(f"Unknown time zone '{timezone}'. Write an IANA name such as Europe/Berlin.")
    imported = _convert(kind, source, system, timezone)
    if not dry_run:
        write(imported, folder, is_forced=force)
    made = [{"file": str(folder / file.name), "text": file.text} for file in imported.files]
    data = {
        "written": not dry_run,
        "files": made,
        "notes": [
            {"file": told.source or _name(source), "line": told.line, "text": told.text} for told in imported.notes
        ],
    }

    def show_files() -> None:
        for file in made:
            show_text(file["file"])
            for line in file["text"].splitlines() if dry_run else ():
                show_text(f"    {line}")

    show(output, data, show_files, rows=made, name="file")
    for told in imported.notes:
        line = f":{told.line}" if told.line else ""
        note(f"{told.source or _name(source)}{line}: {told.text}")
    count = len(imported.files)
    if not count:
        note("Found nothing to convert.")
        return
    files = counted(count, "file")
    note(f"Would write {files}." if dry_run else f"Wrote {files} to {folder}. Next: evertick validate {folder}")


def _convert(kind: str, source: Path, is_system: bool, timezone: str | None) -> Imported:
    from evertick.definitions.importers.cron_job import read_cron_jobs
    from evertick.definitions.importers.crontab import read_crontab
    from evertick.definitions.importers.dagu import read_dagu, read_dagu_folder
    from evertick.definitions.importers.systemd import read_systemd, read_systemd_files
    from evertick.definitions.importers.xxl_job import read_xxl_job

    match kind:
        case "systemd" if source.is_dir() or source.suffix == ".timer":
            return read_systemd_files(_units(source), timezone=timezone)
        case "systemd":
            return read_systemd(_read(source), _name(source), timezone=timezone)
        case "dagu" if source.is_dir():
            return read_dagu_folder(_workflows(source), timezone=timezone)
        case "dagu":
            return read_dagu(_read(source), _name(source), timezone=timezone)
        case "kubernetes" if source.is_dir():
            text = "\n---\n".join(_workflows(source).values())
            return read_cron_jobs(text, _name(source), timezone=timezone)
        case "kubernetes":
            return read_cron_jobs(_read(source), _name(source), timezone=timezone)
        case "crontab":
            return read_crontab(_read(source), _name(source), is_system=is_system, timezone=timezone)
        case _:
            return read_xxl_job(_read(source), _name(source), timezone=timezone)


def _name(source: Path) -> str:
    return "standard input" if str(source) == "-" else str(source)


def _workflows(folder: Path) -> dict[str, str]:
    """The workflow files below a folder, without hidden ones."""
    found = sorted(path for ending in ("*.yaml", "*.yml") for path in folder.rglob(ending) if path.is_file())
    return {
        str(path): _read(path)
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _units(source: Path) -> dict[str, str]:
    """The unit files of a folder with their drop-ins; of a timer, those beside it that may belong to it."""
    folder = source if source.is_dir() else source.parent
    found = [path for pattern in ("*.timer", "*.service", "*.d/*.conf") for path in sorted(folder.glob(pattern))]
    if not source.is_dir():
        timers = (source.name, f"{source.name}.d")
        found = [path for path in found if ".timer" not in path.name + path.parent.name or _is_of(path, timers)]
        found = found or [source]
    return {str(path): _read(path) for path in found}


def _is_of(path: Path, names: tuple[str, str]) -> bool:
    return path.name in names or path.parent.name in names


def _read(source: Path) -> str:
    from evertick.errors import NotFound

    if str(source) == "-":
        return sys.stdin.read()
    try:
        return source.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise NotFound(f"cannot read '{source}': {error.strerror}.") from error
