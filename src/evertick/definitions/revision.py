"""The job files of a folder as they were: in a git revision, or in another folder."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from evertick.definitions.parsed_file import PIPELINE_NAMES
from evertick.definitions.source import Folder, assemble, definition_files, parse_source, read_source
from evertick.definitions.watched_directories import SUFFIXES
from evertick.errors import DefinitionError, InvalidArgument
from evertick.settings import Settings
from evertick.settings.load import FILE_NAME as SETTINGS_FILE

GIT_SECONDS = 60.0


def load_base(folder: Path, base: str) -> Folder:
    """The jobs that `folder` had: `base` is a folder with the former files, or a git revision."""
    if Path(base).is_dir():
        return load_former_folder(folder, Path(base))
    return load_revision(folder, base)


def load_former_folder(folder: Path, former: Path) -> Folder:
    sources = {str(file.relative_to(former)): read_source(file) for file in definition_files(former)}
    return _assemble(folder, sources, Settings.load(former))


def load_revision(folder: Path, revision: str) -> Folder:
    """Read from git's objects; the work tree is not touched."""
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode()
    names = _git(folder, "ls-tree", "-r", "-z", "--name-only", commit.strip(), "--", ".").decode(errors="replace")
    wanted = [name for name in sorted(names.split("\0")) if name == SETTINGS_FILE or _is_definition(name)]
    found = _read_objects(folder, commit.strip(), wanted)
    with tempfile.TemporaryDirectory(prefix="evertick-diff-") as former:
        settings_file = Path(former, SETTINGS_FILE)
        if SETTINGS_FILE in found:
            settings_file.write_bytes(found.pop(SETTINGS_FILE))
        settings = Settings.load(Path(former))
    return _assemble(folder, found, settings)


def _assemble(folder: Path, sources: Mapping[str, bytes | DefinitionError], settings: Settings) -> Folder:
    # Each is parsed under its path of today: only what the files say may differ, not where they are.
    return assemble({str(folder / name): parse_source(folder / name, sources[name], settings) for name in sources})


def _is_definition(name: str) -> bool:
    """The same files as `definition_files`, by their names."""
    path = PurePosixPath(name)
    if any(part.startswith(".") for part in path.parts):
        return False
    return path.name in PIPELINE_NAMES if len(path.parts) == 2 else len(path.parts) == 1 and name.endswith(SUFFIXES)


def _read_objects(folder: Path, commit: str, names: list[str]) -> dict[str, bytes]:
    """The content of files in a commit, by one process of git."""
    asked = "".join(f"{commit}:./{name}\n" for name in names if "\n" not in name)
    answer = memoryview(_git(folder, "cat-file", "--batch", given=asked.encode()))
    found: dict[str, bytes] = {}
    for name in names:
        end = bytes(answer[:512]).index(b"\n")
        *_, kind, size = bytes(answer[:end]).split()
        content, answer = answer[end + 1 : end + 1 + int(size)], answer[end + 2 + int(size) :]
        if kind == b"blob":
            found[name] = bytes(content)
    return found


def _git(folder: Path, *words: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], input=given, capture_output=True, check=False, timeout=GIT_SECONDS
        )
    except FileNotFoundError:
        raise InvalidArgument(
            "git is not installed.", hint="Name a folder with the former files: --base FOLDER."
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"git does not know the revision '{words[-1].removesuffix('^{commit}')}'"
        raise InvalidArgument(f"{reason}.", hint="Name a git revision or a folder with the former files: --base.")
    return done.stdout
