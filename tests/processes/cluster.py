"""Schedulers as processes that a test starts, observes, stops and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import psutil

from tests.processes.node import Config

ROOT = Path(__file__).parent.parent.parent
PATIENCE_SECONDS = 180


class Node:
    """One scheduler; what it says is heard by a thread, so that it never waits for us."""

    def __init__(self, config: Config, version: Path | None = None) -> None:
        """`version` is where another Evertick than the present one is imported from."""
        self.config = config
        self.attempts = Path(config.attempts)
        command = [sys.executable, "-m", "tests.processes.node", config.to_text()]
        env = {**os.environ, "PYTHONPATH": str(version)} if version else None
        self._process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._said: list[str] = []
        self._heard = threading.Condition()
        self._is_silent = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> list[str]:
        with self._heard:
            return list(self._said)

    def mark(self) -> int:
        """Where we are in what it says, to wait for what comes after."""
        with self._heard:
            return len(self._said)

    def wait_for(self, is_enough: Callable[[list[str]], bool], since: int = 0) -> list[str]:
        """What it said since a mark, once that is enough."""
        deadline = monotonic() + PATIENCE_SECONDS
        with self._heard:
            while not is_enough(self._said[since:]):
                assert not self._is_silent, f"{self.config.node} ended: {self._said[-3:]} {self._errors()}"
                self._heard.wait(deadline - monotonic())
                assert monotonic() < deadline, f"{self.config.node} said only {self._said[since:][-5:]}"
            return self._said[since:]

    def wait_for_launches(self, jobs: set[str], since: int = 0) -> None:
        """Until it has launched every one of these jobs."""
        self.wait_for(lambda said: jobs <= launched(said), since)

    def wait_for_own_launches(self) -> None:
        """Until it has launched all that is its own from now on; what that is may still change."""
        mark = self.mark()
        self.wait_until(lambda: self.owned() <= launched(self.said[mark:]))

    def wait_until_settled(self) -> None:
        """Until it says again that it is calm."""
        self.wait_for(lambda said: "settled" in said, self.mark())

    def wait_a_moment(self) -> None:
        """Until it says anything more."""
        self.wait_for(bool, self.mark())

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Until something holds that is looked at again whenever it says anything."""
        deadline = monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert monotonic() < deadline, f"waited in vain beside {self.config.node}, which says {self.said[-3:]}"
            self.wait_a_moment()

    def owned(self) -> set[str]:
        """Its jobs, as it last said."""
        return set(next((line.split()[1:] for line in reversed(self.said) if line.startswith("owns")), ()))

    def wait_for_word(self, word: str, since: int = 0) -> str:
        said = self.wait_for(lambda said: any(word in line for line in said), since)
        return next(line for line in said if word in line)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def sleep(self) -> None:
        """Let it sleep until it is woken; not between a decision and the launch that follows from it.

        Its other threads may be anywhere: inside a transaction, for example.
        """
        mark = self.mark()
        self.signal(signal.SIGUSR2)
        self.wait_for_word("asleep", mark)
        deadline = monotonic() + PATIENCE_SECONDS
        while psutil.Process(self.pid).status() != psutil.STATUS_STOPPED:
            assert monotonic() < deadline, f"{self.config.node} does not fall asleep"
            time.sleep(0.01)

    def wake(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; it is gone, and known to be gone, when this returns."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """End it in order."""
        self.signal(signal.SIGTERM)
        code = self._end()
        assert code == 0, f"{self.config.node} ended with {code}: {self._said[-3:]} {self._errors()}"

    def last_words(self) -> str:
        """What it complained of, once it has ended."""
        return self._errors()

    def wait(self) -> int:
        """Until it ends by itself."""
        return self._end()

    def _end(self) -> int:
        code = self._process.wait(PATIENCE_SECONDS)
        self._listener.join()
        return code

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._heard:
                self._said.append(line.decode().rstrip("\n"))
                self._heard.notify_all()
        with self._heard:
            self._is_silent = True
            self._heard.notify_all()

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()[-2000:] if self._is_silent else ""


def launched(said: list[str]) -> set[str]:
    return {line.removeprefix("launched ") for line in said if line.startswith("launched ")}


@contextmanager
def cluster(*configs: Config) -> Iterator[list[Node]]:
    """These schedulers, and none of them left when the test ends."""
    nodes = [Node(config) for config in configs]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.close()
