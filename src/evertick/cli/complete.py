"""Shell completion of job names and option values."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

NAMES_MAX = 1_000
FILES_MAX = 20_000


def complete_jobs(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The jobs of the folder that the command line names so far."""
    try:
        names = _names(ctx.params.get("folder"))
    except Exception:  # an error message would corrupt the prompt
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:NAMES_MAX]


def complete_jobs_and_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [*complete_jobs(ctx, param, incomplete), CompletionItem(incomplete, type="file")]


def complete_words(kind: str) -> Callable[..., list[CompletionItem]]:
    """Completes a word of an enum of `model.lifecycle`, which is imported only on completion."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from evertick.model import lifecycle

        words: Iterable[object] = getattr(lifecycle, kind)
        return [CompletionItem(str(word)) for word in words if str(word).startswith(incomplete)]

    return complete


def _names(folder: Path | str | None) -> list[str]:
    """From a cache while no file has changed: parsing the job files takes longer than a key press may."""
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
        pass  # the next completion is slower, nothing else
    return names


def _seal(folder: Path) -> str:
    """A digest that changes when a job file may have changed; it imports nothing."""
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
