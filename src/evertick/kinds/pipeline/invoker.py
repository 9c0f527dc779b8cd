"""Who answers a prompt: the contract between a pipeline and whatever it asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Answer:
    success: bool
    response: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt, and what is known about the answer that it wants."""

    prompt: str
    fields: tuple[str, ...] = ()
    """Empty: any text will do."""
    count: int | None = None
    """How many objects of these fields; None: one, not in a list."""
    model: str | None = None
    directory: str = "."


@dataclass(slots=True)
class Call:
    """One try at an answer. It is aborted when its time is over or the run is cancelled."""

    question: Question
    timeout_seconds: float
    aborted: threading.Event = field(default_factory=threading.Event)
    _on_abort: list[Callable[[], object]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_abort(self, act: Callable[[], object]) -> None:
        """Something that ends the call from outside; done at once when it was aborted already."""
        with self._lock:
            if not self.aborted.is_set():
                self._on_abort.append(act)
                return
        act()

    def abort(self) -> None:
        with self._lock:
            self.aborted.set()
            acts = list(self._on_abort)
        for act in acts:
            act()


Invoker: TypeAlias = Callable[[Call], Answer]
"""Called from several threads at once. What it raises is a failed answer."""
