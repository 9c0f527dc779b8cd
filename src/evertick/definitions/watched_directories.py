"""Which directories determine the content of a folder of job files, and which of their entries matter."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from evertick.definitions.directory_events import DirectoryEvent
from evertick.definitions.parsed_file import PIPELINE_NAMES

SUFFIXES: Final = (".yaml", ".yml")
LINKS_MAX: Final = 40
"""As many links as the kernel follows."""


class WatchedDirectories:
    """The names that matter, by the real path of their directory.

    They are the job files of the folder, the pipelines of its subfolders, and every link on the way to one of them: a
    Kubernetes ConfigMap is changed by turning its link `..data`. Of the directories above only their own moves matter.
    """

    def __init__(self, folder: str, subfolders: Iterable[str] = (), links: Iterable[str] = ()) -> None:
        self.names: dict[str, set[str]] = {}
        self._steps: dict[tuple[str, str], str] = {}
        self.folder = self._follow("/", os.path.abspath(folder))
        self.names.setdefault(self.folder, set()).update(PIPELINE_NAMES)
        for subfolder in subfolders:
            real = self._step(self.folder, os.path.basename(subfolder))
            self.names.setdefault(real, set()).update(PIPELINE_NAMES)
        for link in links:
            self._add_target(self._follow("/", os.path.abspath(link)))
        for directory in tuple(self.names):
            while directory != "/":
                directory = os.path.dirname(directory)
                self.names.setdefault(directory, set())

    def matters(self, event: DirectoryEvent) -> bool:
        """Whether a scan may find something else than before."""
        directory, name = event.directory, event.name
        if not name or name in self.names.get(directory, ()):
            return True
        if directory != self.folder:
            return False
        if name.endswith(SUFFIXES) or (event.is_directory and not name.startswith(".")):
            return True
        return event.is_new and not name.startswith(".") and os.path.islink(os.path.join(directory, name))

    def _add_target(self, target: str) -> None:
        """The target of a link; if it does not exist, the nearest existing directory above it is watched."""
        directory, name = os.path.split(target)
        while directory != "/" and not os.path.isdir(directory):
            directory, name = os.path.split(directory)
        self.names.setdefault(directory, set()).add(name)

    def _follow(self, directory: str, path: str, links_left: int = LINKS_MAX) -> str:
        """The real path of a path below a real directory; every link on the way is recorded."""
        for name in path.split("/"):
            if name == "..":
                directory = os.path.dirname(directory)
            elif name not in ("", "."):
                directory = self._step(directory, name, links_left)
        return directory

    def _step(self, directory: str, name: str, links_left: int = LINKS_MAX) -> str:
        known = self._steps.get((directory, name))
        if known is not None:
            return known
        here = os.path.join(directory, name)
        try:
            target = os.readlink(here)
        except OSError:
            real = here
        else:
            self.names.setdefault(directory, set()).add(name)
            start = "/" if target.startswith("/") else directory
            real = self._follow(start, target, links_left - 1) if links_left else here
        self._steps[directory, name] = real
        return real
