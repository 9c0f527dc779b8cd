"""Which jobs a folder defines, and what is wrong with the files that define none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from evertick.definitions.parser import PIPELINE_NAMES, Parsed, parse_definition
from evertick.definitions.yaml import SIZE_MAX
from evertick.errors import DefinitionError, NotFound
from evertick.model.job import Job
from evertick.settings import Settings

SUFFIXES = (".yaml", ".yml")

_Findings = Mapping[str, tuple[DefinitionError, ...]]


@dataclass(frozen=True, slots=True)
class Folder:
    """What was found, in the order of the file names."""

    files: tuple[str, ...] = ()
    """Every file that was read."""
    jobs: Mapping[str, Job] = field(default_factory=lambda: MappingProxyType({}))
    """By id; only those of files without an error."""
    errors: _Findings = field(default_factory=lambda: MappingProxyType({}))
    """By file."""
    warnings: _Findings = field(default_factory=lambda: MappingProxyType({}))


def load_folder(path: str | Path, settings: Settings | None = None) -> Folder:
    """The jobs of a folder: its `*.yaml` and `*.yml`, and `<name>/pipeline.yaml` one level down."""
    folder = Path(path)
    if not folder.is_dir():
        raise NotFound(f"there is no folder '{folder}'.")
    try:
        files = definition_files(folder)
    except OSError as error:
        raise NotFound(f"the folder '{folder}' cannot be read: {error.strerror}.") from error
    return load_files(files, settings)


def load_files(files: Iterable[Path], settings: Settings | None = None) -> Folder:
    """The jobs of some files; a bad file never affects another, except one with the same job id."""
    parsed = {str(file): _parse_file(file, settings) for file in files}
    errors = {file: result.errors for file, result in parsed.items() if result.errors}
    by_id: dict[str, list[Job]] = {}
    for result in parsed.values():
        if result.job is not None:
            by_id.setdefault(result.job.id, []).append(result.job)
    for twins in by_id.values():
        if len(twins) > 1:
            errors |= {str(twin.file): (_duplicate(twin, twins),) for twin in twins}
    return Folder(
        files=tuple(parsed),
        jobs=MappingProxyType({job_id: twins[0] for job_id, twins in by_id.items() if len(twins) == 1}),
        errors=MappingProxyType({file: errors[file] for file in parsed if file in errors}),
        warnings=MappingProxyType({file: result.warnings for file, result in parsed.items() if result.warnings}),
    )


def definition_files(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that define jobs, in the order of their names; hidden ones are left alone."""
    found: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.name.endswith(SUFFIXES):
                # Whatever bears the name is read, and a folder or a broken link becomes an error of that file.
                found.append(folder / entry.name)
            elif entry.is_dir():
                found += _pipelines(folder / entry.name)
    return tuple(sorted(found, key=str))


def _pipelines(folder: Path) -> list[Path]:
    files = [folder / name for name in PIPELINE_NAMES]
    try:
        return [file for file in files if file.exists()]
    except OSError:
        # A folder that may not be entered: told as an error of the file that may be in it.
        return files[:1]


def _parse_file(file: Path, settings: Settings | None) -> Parsed:
    try:
        if not file.is_file():
            raise (
                IsADirectoryError(0, "it is not a regular file")
                if file.exists()
                else FileNotFoundError(0, "it is gone")
            )
        with file.open("rb") as stream:
            # One byte more than is allowed shows that there is more, however large the file is.
            source = stream.read(SIZE_MAX + 1)
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}."
        return Parsed(None, (DefinitionError(reason, hint="Check the file and its permissions.", file=str(file)),))
    return parse_definition(source, str(file), settings, folder=file.absolute().parent.name)


def _duplicate(job: Job, twins: list[Job]) -> DefinitionError:
    others = " and ".join(str(twin.file) for twin in twins if twin is not job)
    return DefinitionError(
        f"the job id '{job.id}' is also defined in {others}; neither is loaded.",
        hint="Give one of them another 'name'.",
        field="name",
        file=job.file,
        line=1,
        column=1,
    )
