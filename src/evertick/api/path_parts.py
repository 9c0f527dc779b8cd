"""Keeps a name with a slash as one path segment: run ids from before 0.2 may contain one."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

SLASH: Final = "\ue0fe"
"""Stands for an escaped slash while a path is matched; of a private plane, and no name that we make has it."""
PART: Final = "part"


class PartConvertor(Convertor[str]):
    """One part of a path, with the slashes that were escaped in it."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", SLASH)


register_url_convertor(PART, PartConvertor())


def with_whole_parts(scope: Scope) -> Scope:
    """The scope with a path in which only the slashes that were written as such part it.

    The guard and the routes must look at the same path, so this is done before either of them.
    """
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower() or not str(scope["path"]).startswith("/api/"):
        return scope
    parts = raw.decode("ascii", "replace").split("/")
    return {**scope, "path": "/".join(unquote(part).replace("/", SLASH) for part in parts)}
