"""Which logs of this node are in the store of copies: a mark beside each attempt's logs that are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from evertick.executors.log_paths import run_folder
from evertick.executors.log_store import LogStore
from evertick.executors.logs import FOLDER, OPEN_SUFFIX, SUFFIX
from evertick.model.run import RunKey

MARK: Final = ".copied"
LOOK_BACK_SECONDS: Final = 2 * 86_400.0
"""How far back a start looks for logs that were not copied."""


class FolderCopies:
    def __init__(self, state_folder: Path, store: LogStore) -> None:
        self._root = state_folder / FOLDER
        self._store = store

    def copy(self, key: RunKey) -> bool:
        return self._copy(run_folder(key))

    def uncopied(self) -> Sequence[Callable[[], bool]]:
        since = time.time() - LOOK_BACK_SECONDS
        return [
            partial(self._copy, run.relative_to(self._root).parts)
            for run in sorted(self._root.glob("*/*/*"))
            if run.is_dir() and not run.is_symlink() and run.stat().st_mtime >= since
        ]

    def _copy(self, run: Sequence[str]) -> bool:
        """Every attempt that is over; False where one still grows."""
        is_done = True
        folder = self._root.joinpath(*run)
        for attempt in sorted(folder.iterdir()) if folder.is_dir() else ():
            if not attempt.name.isdigit() or (attempt / MARK).exists():
                continue
            files = [file for file in attempt.iterdir() if not file.is_symlink()]
            if any(file.name.endswith(OPEN_SUFFIX) for file in files):
                is_done = False
                continue
            for file in files:
                if file.name.endswith(SUFFIX):
                    self._store.put((*run, attempt.name, file.name), file)
            (attempt / MARK).touch()
        return is_done
