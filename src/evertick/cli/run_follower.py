"""Follows a run: new log output, and the state of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from evertick.cli.live_view import Display, Step
from evertick.cli.times import now, wait_text

if TYPE_CHECKING:
    from evertick.operations.local import LocalOperations


class Log(NamedTuple):
    attempt: int
    step: str


class Watched(Protocol):
    """A run that can be looked at again and again."""

    def data(self) -> dict[str, Any]:
        """The run, as programs get it."""
        ...

    def logs(self) -> Sequence[Log]: ...

    def again_at(self) -> int | None:
        """When it is tried again, where that is known."""
        ...

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        """What there is from an offset on, and where to go on."""
        ...


class OnDesk:
    """A run that the ledger or a server knows."""

    def __init__(self, operations: LocalOperations, run_id: str) -> None:
        self._operations, self._run_id = operations, run_id
        self._data: dict[str, Any] = {}

    def data(self) -> dict[str, Any]:
        self._data = self._operations.run(self._run_id)
        return self._data

    def logs(self) -> list[Log]:
        return [Log(log["attempt"], log["step"]) for log in self._data["logs"]]

    def again_at(self) -> None:
        return None

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        data, end, _ = self._operations.log_bytes(self._run_id, log.attempt, log.step, offset)
        return data, end


class Follower:
    """Brings what is new to a display; of one step or one attempt, where one is named."""

    def __init__(
        self,
        watched: Watched,
        display: Display,
        steps: Sequence[str] = (),
        *,
        step: str | None = None,
        attempt: int | None = None,
    ) -> None:
        self._watched, self._display = watched, display
        self._planned = steps
        self._step, self._attempt = step, attempt
        self._offsets: dict[Log, int] = {}
        self._gone_wrong: set[int] = set()
        self.data: dict[str, Any] = {}
        self.has_told = False

    def look(self) -> dict[str, Any]:
        # Asked before reading: what was printed before the end is there when the end is known.
        self.data = self._watched.data()
        for log in self._watched.logs():
            if self._step in (None, log.step) and self._attempt in (None, log.attempt):
                self._tell(log)
        if self.data["state"] == "retrying":
            self._tell_retry()
        self._display.show(self.steps())
        return self.data

    def close(self) -> None:
        self._display.close(self.steps())

    def steps(self) -> list[Step]:
        """Those that began, and those that the definition says are still to come."""
        seen = {step["name"]: _step(step) for step in self.data.get("steps") or ()}
        return [*(seen.pop(name, Step(name, "planned")) for name in self._planned), *seen.values()]

    def _tell_retry(self) -> None:
        """A wait of minutes would look like a hang to whoever watches."""
        if self.data["attempt"] in self._gone_wrong:
            return
        self._gone_wrong.add(self.data["attempt"])
        at = self._watched.again_at()
        when = "" if at is None else f" in {wait_text(max(at - now(), 0))}"
        why = f": {self.data['detail']}" if self.data["detail"] else ""
        self._display.tell(f"attempt {self.data['attempt']} went wrong{why}; it is tried again{when}")

    def _tell(self, log: Log) -> None:
        while True:
            data, self._offsets[log] = self._watched.read(log, self._offsets.get(log, 0))
            if not data:
                return
            self.has_told = True
            self._display.write(log.step, log.attempt, data)


def _step(data: dict[str, Any]) -> Step:
    return Step(data["name"], data["state"], data["duration_seconds"], data["exit_code"], data["detail"])
