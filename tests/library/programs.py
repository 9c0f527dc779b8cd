"""Schedulers as programs use them: builders, and waits for their results."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from evertick.stores import open_store

LIMIT_SECONDS = 180.0


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """An asynchronous test, with a limit."""

    async def limited() -> Any:
        async with asyncio.timeout(2 * LIMIT_SECONDS):
            return await main()

    return asyncio.run(limited())


async def eventually(holds: Callable[[], Any], what: str) -> Any:
    """Wait until something is true, and answer it; it may be a coroutine."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        found = holds()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


class Program:
    """A Python program in a process of its own; what it prints is kept in a file."""

    def __init__(self, text: str, folder: Path, *arguments: str, **environ: str) -> None:
        file = folder / f"program_{len(list(folder.glob('program_*.py')))}.py"
        file.write_text(text)
        self._output = file.with_suffix(".out")
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(file), *arguments],
                cwd=folder,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def until_said(self, words: str) -> str:
        """Wait for a line with these words."""
        return until(
            lambda: next((line for line in self.output.splitlines() if words in line), None),
            f"{words!r} in {self.output!r}",
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Politely; answers its exit code."""
        self.process.terminate()
        return self.process.wait(LIMIT_SECONDS)


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


__all__ = ["LIMIT_SECONDS", "Program", "eventually", "open_store", "run", "until"]
