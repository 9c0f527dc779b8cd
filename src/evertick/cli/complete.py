"""What a shell may complete: the names of jobs, fast, and the words that options take."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

NAMES_MAX = 1_000
FILES_MAX = 20_000


def complete_jobs(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The jobs of the folder that the command line names so far, or of the server beside it."""
    try:
        names = _names(ctx.params.get("folder"))
    except Exception:  # whoever presses a key wants names, and no story
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:NAMES_MAX]


def complete_jobs_and_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [*complete_jobs(ctx, param, incomplete), CompletionItem(incomplete, type="file")]


def words(known: Callable[[], Iterable[Any]]) -> Callable[..., list[CompletionItem]]:
    """Completes one of some words, which are looked up only when they are needed."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(str(word)) for word in known() if str(word).startswith(incomplete)]

    return complete


def _names(folder: Path | str | None) -> list[str]:
    """From what was read before, while no file has changed; job files take longer than a key press may."""
    here = Path(folder or ".").absolute()
    seal, cache = _seal(here), _cache(here)
    try:
        kept = json.loads(cache.read_text(encoding="utf-8"))
        if kept["seal"] == seal:
            return list(map(str, kept["names"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    from evertick.definitions.source import load_folder
    from evertick.settings import Settings

    names = list(load_folder(here, Settings.load(here)).jobs)
    try:
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = cache.with_name(f"{cache.name}.{os.getpid()}")
        draft.write_text(json.dumps({"seal": seal, "names": names}), encoding="utf-8")
        draft.replace(cache)
    except OSError:
        pass  # slower next time, and that is all
    return names


def _seal(folder: Path) -> str:
    """Changes when a job file may have. It looks at more files than there are jobs, and imports nothing for it."""
    told = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files)[:FILES_MAX]:
            if name.endswith((".yaml", ".yml", ".toml")):
                found = os.stat(os.path.join(place, name))
                told.update(f"{place}\0{name}\0{found.st_mtime_ns}\0{found.st_size}\n".encode(errors="surrogateescape"))
    return told.hexdigest()


def _cache(folder: Path) -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "evertick" / f"jobs-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}.json"
