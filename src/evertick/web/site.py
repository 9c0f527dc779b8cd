"""Which files the page consists of, and how a server may hand each of them out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
HOW_TO_BUILD: Final = (
    "This Evertick was installed without its page. In a checkout, 'make web' builds it; installing a wheel or an sdist "
    "brings it along. The API and the command line work without it."
)
INDEX: Final = "index.html"
# Their names carry a hash of what is in them: such a file never changes.
HASHED: Final = "assets/"

# Written down, not asked of the machine: what `mimetypes` knows differs from one to the next, and a script with the
# wrong type is not run.
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    media_type: str
    etag: str
    is_immutable: bool
    """Its name changes with its content, so a browser may cache it forever."""


@dataclass(frozen=True, slots=True)
class Site:
    """All files of the page, by their paths; a path that is not here is no file, whatever the disk holds."""

    files: Mapping[str, File]

    def read(self, path: str) -> File | None:
        return self.files.get(path.lstrip("/"))

    @property
    def index(self) -> File:
        """What every address of the page that is not a file shows."""
        return self.files[INDEX]


@cache
def site() -> Site | None:
    """The page, read once; None when it was not built."""
    return read_site(STATIC)


def read_site(folder: Path) -> Site | None:
    if not (folder / INDEX).is_file():
        return None
    found = {
        path.relative_to(folder).as_posix(): _file(path, path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in MEDIA_TYPES
    }
    return Site(found)


def _file(path: Path, name: str) -> File:
    body = path.read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:32]
    return File(body, MEDIA_TYPES[path.suffix], f'"{digest}"', name.startswith(HASHED))
