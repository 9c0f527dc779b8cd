"""Who asks an executor for something, in a simulated world."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    """A process of a node; an answer to a question dies with whoever asked it."""

    node: str
    incarnation: int
