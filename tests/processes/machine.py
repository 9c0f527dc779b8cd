"""One machine with `evertick serve`, its keeper and its API, and jobs that record their starts and ends.

Tests harm it from outside: they kill its processes, set its clock, fill its disk. `check` says what must hold then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

from evertick.executors.keeper.procfs import is_alive
from evertick.model.instant import Instant
from evertick.model.lifecycle import OPEN, SUCCEEDED
from evertick.model.run import LedgerRow
from evertick.planning.verify import Report
from evertick.store import RunFilter
from evertick.stores import open_store
from tests.fleet.local_fleet import children_of, keepers
from tests.processes import proof

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300.0
EVERY_SECOND = "schedule: {every: 1s}\ncatchupWindow: 1d\noverlapPolicy: all\n"
SCRIPT = """\
echo "$EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT" >> "$BEGAN"
sleep "${TAKES:-0.1}"
echo "$EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT" >> "$ENDED"
"""
T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str, describe: Callable[[], str] = str) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited in vain for {what}\n{describe()}"
        time.sleep(0.02)
    return found


class Machine:
    def __init__(
        self,
        folder: Path,
        jobs: Mapping[str, str],
        *,
        url: str | None = None,
        settings: str = "",
        state: Path | None = None,
        wrapper: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        has_api: bool = False,
    ) -> None:
        """`state` is the folder of ledger, journal and logs; `wrapper` is put before the command of `serve`."""
        self.folder = folder
        self.jobs = folder / "jobs"
        self.state = state or folder / "state"
        self.url = url or f"sqlite:///{self.state}/ledger.db"
        self.log = folder / "serve.log"
        self._wrapper, self._environ, self._has_api = list(wrapper), dict(environ or {}), has_api
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begins = 0
        self.jobs.mkdir()
        (folder / "act.sh").write_text(SCRIPT)
        for name, text in jobs.items():
            self.define(name, text)
        (self.jobs / "evertick.toml").write_text(f'[stop]\npatience = "5s"\n{settings}')

    def define(self, name: str, text: str) -> None:
        env = f"env: {{BEGAN: {self.folder}/began, ENDED: {self.folder}/ended}}\n"
        (self.jobs / f"{name}.yaml").write_text(f"{text}{env}command: sh {self.folder}/act.sh\n")

    # Its processes

    def start(self) -> None:
        env = {**os.environ, "EVERTICK_STATE": str(self.state), "EVERTICK_STORE": self.url, "EVERTICK_TIMEZONE": "UTC"}
        words = [sys.executable, "-m", "evertick", "serve", str(self.jobs), "--node", "machine"]
        words += ["--port", "0"] if self._has_api else ["--no-web"]
        with self.log.open("ab") as log:
            self._log_begins = log.tell()
            command = [*self._wrapper, *words]
            self._process = subprocess.Popen(command, cwd=ROOT, env=env | self._environ, stdout=log, stderr=log)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        """The scheduler: the command itself, or the child of its wrapper."""
        return children_of(self.process.pid)[0] if self._wrapper else self.process.pid

    @property
    def said(self) -> str:
        """What the present scheduler has logged."""
        with self.log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read().decode(errors="replace")

    def wait_until_said(self, word: str) -> None:
        wait_for(lambda: word in self.said or None, word, self.describe)

    def wait_until_serving(self) -> None:
        self.wait_until_said(" jobs from ")

    def keeper(self) -> int:
        return wait_for(lambda: next(iter(keepers(self.state)), None), "a keeper", self.describe)

    def api(self) -> int:
        """The process of the API, once it answers."""
        return wait_for(self._api_that_answers, "the API", self.describe)

    def starting_api(self) -> int:
        """The process of the API, whether it answers yet or not."""
        return wait_for(self._api_process, "a process of the API", self.describe)

    def _api_that_answers(self) -> int | None:
        try:
            url = json.loads((self.state / "server.json").read_text())["url"]
            with urlopen(f"{url}/healthz", timeout=5):
                pass
        except (OSError, ValueError):
            return None
        return self._api_process()

    def _api_process(self) -> int | None:
        for pid in children_of(self.pid):
            with suppress(OSError):
                if b"evertick.api" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        return None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        scheduler = self.pid
        os.kill(scheduler, signal.SIGTERM)
        if self._wrapper:
            # It stays as long as any of the processes that it wraps, and the keeper outlives the scheduler.
            wait_for(lambda: not is_alive(scheduler) or None, "the scheduler to end", self.describe)
            for pid in keepers(self.state):
                _kill(pid)
        code = self.process.wait(PATIENCE_SECONDS)
        assert code == 0, f"it ended with {code}\n{self.describe()}"

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            for pid in (*children_of(self._process.pid), self._process.pid):
                _kill(pid)
            self._process.wait()
        for pid in keepers(self.state):
            _kill(pid)

    # What it does

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_ends(self, more: int) -> None:
        """Return when this number of further runs has ended."""
        goal = len(self.lines("ended")) + more
        wait_for(lambda: len(self.lines("ended")) >= goal or None, f"{more} more runs", self.describe)

    def wait_until_caught_up(self, ahead_us: int = 0) -> None:
        """Until all that is due by now has ended, and later occurrences are entered; `ahead_us`: of its clock."""
        now = time.time_ns() // 1_000 + ahead_us
        with closing(open_store(self.url)) as store:

            def is_caught_up() -> bool | None:
                is_planned = store.query(RunFilter(since=now), limit=1).rows
                return (bool(is_planned) and not store.query(RunFilter(states=OPEN, until=now), limit=1).rows) or None

            wait_for(is_caught_up, "the backlog", self.describe)

    def describe(self) -> str:
        rows = [row for row in proof.rows_of(self.url) if row.state in OPEN][:10]
        return f"{self.said[-3_000:]}\n{rows}"

    # What must hold

    def check(self) -> tuple[Report, list[LedgerRow]]:
        """After an orderly stop: nothing lost, nothing twice, and nothing succeeded that did not run to its end."""
        report = proof.verified(self.url)
        rows = proof.rows_of(self.url)
        began, ended = Counter(self.lines("began")), {line.rpartition("/")[0] for line in self.lines("ended")}
        assert [one for one, times in began.items() if times > 1] == [], "an attempt was started twice"
        known = {row.key.run_id for row in rows}
        assert [one for one in began if one.rpartition("/")[0] not in known] == [], "a run is not in the ledger"
        succeeded = {row.key.run_id for row in rows if row.state is SUCCEEDED}
        assert succeeded - ended == set(), "a run that did not end is recorded as a success"
        return report, rows


def instants_of(rows: Sequence[LedgerRow], job_id: str) -> list[Instant]:
    """The due times of a job's runs, skipped ones left out."""
    return sorted(row.key.scheduled_for for row in rows if row.key.job_id == job_id and row.started_at is not None)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
