"""A ledger for a test, in milliseconds: a copy of an empty one, so that its schema is created once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from evertick.stores import open_store


def new_ledger(path: Path) -> str:
    """The URL of an empty ledger in a file that was not there. How one is made has tests of its own."""
    path.write_bytes(_empty())
    path.chmod(0o600)
    return f"sqlite:///{path}"


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        open_store(f"sqlite:///{path}").close()
        return path.read_bytes()
