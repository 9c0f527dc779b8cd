"""Follows a run: new log output, and the state of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from evertick.cli.live_view import Display, Step
from evertick.cli.times import duration_text, now

if TYPE_CHECKING:
    from evertick.operations.plain import PlainOperations


class Log(NamedTuple):
    attempt: int
    step: str


class Watched(Protocol):
    """A run whose state and logs can be polled."""

    def data(self) -> dict[str, Any]:
        """The run as it is now."""
        ...

    def logs(self) -> Sequence[Log]: ...

    def again_at(self) -> int | None:
        """When the next attempt starts, if known."""
        ...

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        """The log from an offset on, and the next offset."""
        ...


class OnDesk:
    """A run in a ledger or on a server."""

    def __init__(self, operations: PlainOperations, run_id: str) -> None:
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
    """Sends new output and step states to a display, optionally of one step or attempt only."""

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
        # The state first: when it is final, the logs that follow are complete.
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
        """The steps of the definition, in order, then further ones that have started."""
        seen = {step["name"]: _step(step) for step in self.data.get("steps") or ()}
        return [*(seen.pop(name, Step(name, "planned")) for name in self._planned), *seen.values()]

    def _tell_retry(self) -> None:
        """Report the wait before the next attempt, which would look like a hang."""
        if self.data["attempt"] in self._gone_wrong:
            return
        self._gone_wrong.add(self.data["attempt"])
        at = self._watched.again_at()
        when = "" if at is None else f" in {duration_text(at - now())}"
        why = f": {self.data['detail']}" if self.data["detail"] else ""
        self._display.tell(f"Attempt {self.data['attempt']} failed{why}. Retrying{when} ...")

    def _tell(self, log: Log) -> None:
        while True:
            data, self._offsets[log] = self._watched.read(log, self._offsets.get(log, 0))
            if not data:
                return
            self.has_told = True
            self._display.write(log.step, log.attempt, data)


def _step(data: dict[str, Any]) -> Step:
    return Step(data["name"], data["state"], data["duration_seconds"], data["exit_code"], data["detail"])
