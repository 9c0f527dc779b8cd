"""Nodes as users start them, `evertick serve` on one PostgreSQL, and jobs that notice when two of them run at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import psycopg

from evertick.cli.exits import CONFLICT
from evertick.executors.keeper.procfs import is_alive
from evertick.model.instant import SECOND
from evertick.model.ledger import BUCKET_PREFIX, BUCKETS, bucket_lease, bucket_of
from evertick.model.run import LedgerRow
from evertick.store import RunFilter
from evertick.stores import open_store
from tests.cli.invoke import code_of, run
from tests.fleet.cable import Cable
from tests.present import present

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180.0
RUNS_LEASE_US = 12 * SECOND
T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str, describe: Callable[[], str] = str) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited in vain for {what}\n{describe()}"
        time.sleep(0.05)
    return found


class SharedFolder(Protocol):
    """What nodes have in common."""

    folder: Path
    jobs: Path
    url: str


class Served:
    """One node."""

    def __init__(self, cluster: SharedFolder, name: str) -> None:
        self.name = name
        self._cluster = cluster
        self.state = cluster.folder / f"state-{name}"
        self.cable = Cable(present(urlsplit(cluster.url).port))
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begins = 0

    def start(self) -> Served:
        parts = urlsplit(self._cluster.url)
        url = self._cluster.url.replace(f":{parts.port}/", f":{self.cable.port}/")
        env = {**os.environ, "EVERTICK_NODE": self.name, "EVERTICK_STATE": str(self.state), "EVERTICK_STORE": url}
        with (self._cluster.folder / f"{self.name}.log").open("ab") as log:
            self._log_begins = log.tell()
            words = [sys.executable, "-m", "evertick", "serve", str(self._cluster.jobs), "--no-web"]
            self._process = subprocess.Popen(words, cwd=ROOT, env=env, stdout=log, stderr=log)
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_serving(self) -> bool:
        """Whether the process that was started last has its ledger; how it says so is the first line of `serve`."""
        log = (self._cluster.folder / f"{self.name}.log").read_bytes()[self._log_begins :]
        return self.is_running and b" jobs from " in log

    def keepers(self) -> list[int]:
        found = []
        for name in os.listdir("/proc"):
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0") if name.isdigit() else []
            except OSError:
                continue
            mark = os.fsencode(self.state)
            if b"evertick.executors.keeper" in words and any(word.startswith(mark) for word in words):
                found.append(int(name))
        return found

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE_SECONDS) == 0

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pid in self.keepers():
            os.kill(pid, signal.SIGKILL)
        self.cable.close()


class ServedCluster:
    """Two nodes, and one job whose processes say when they find another of their job alive."""

    def __init__(
        self,
        folder: Path,
        url: str,
        schedule: str = "",
        policy: str = "",
        lease: str = "3s",
        runs_lease: str = f"{RUNS_LEASE_US // SECOND}s",
    ) -> None:
        self.folder, self.url = folder, url
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        self.began, self.met, self._go = folder / "began", folder / "met", folder / "go"
        (folder / "long.sh").write_text(
            f"""\
            for pid in $(cut -d' ' -f3 {self.began} 2>/dev/null); do
                grep -qs '^State:.[^ZX]' /proc/$pid/status && echo "$EVERTICK_RUN_ID met $pid" >> {self.met}
            done
            echo "$EVERTICK_RUN_ID $EVERTICK_RUN_ATTEMPT $$" >> {self.began}
            trap '' TERM
            until test -e {self._go}; do sleep 0.1; done
            """
        )
        self.define(schedule, policy)
        (self.jobs / "evertick.toml").write_text(
            f'[loop]\nlease = "{lease}"\n[local]\nlease = "{runs_lease}"\nkill_after = "1s"\n'
            '[stop]\npatience = "1s"\nreturn = "5m"\n'
        )
        self._store = open_store(url)
        self.nodes = {name: Served(self, name) for name in ("a", "b")}

    def define(self, schedule: str = "", policy: str = "", name: str = "long") -> None:
        (self.jobs / f"{name}.yaml").write_text(f"{schedule}{policy}command: sh {self.folder}/long.sh\n")

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.wait_until_shared_out()

    def wait_until_shared_out(self) -> None:
        wait_for(self._is_shared_out, "the nodes to share the jobs")

    def _owners(self) -> dict[str, str]:
        """The node of each bucket."""
        leases = self._store.lease((), "", 0, time.time_ns() // 1_000)
        return {one.name: one.holder.partition("/")[0] for one in leases if one.name.startswith(BUCKET_PREFIX)}

    def _is_shared_out(self) -> bool:
        return Counter(self._owners().values()) == dict.fromkeys(self.nodes, BUCKETS // len(self.nodes))

    def owner(self, name: str = "long") -> Served:
        """The node that starts the job when it is due."""
        return self.nodes[self._owners()[bucket_lease(bucket_of(name))]]

    def command(self, *words: str) -> str:
        """A command, in this process; its standard output."""
        done = run(*words, "--folder", self.jobs, EVERTICK_STORE=self.url)
        assert code_of(done) == 0, (done.stderr, done.stdout, done.exception)
        return done.stdout

    def refusal(self, *words: str) -> str:
        """Why a command cannot be carried out now."""
        done = run(*words, "--folder", self.jobs, EVERTICK_STORE=self.url)
        assert code_of(done) == CONFLICT, (done.stderr, done.stdout, done.exception)
        return f"{done.stderr}{done.exception}"

    def attempts(self) -> list[tuple[str, int, int]]:
        """Run, attempt and pid of each that has begun, oldest first."""
        lines = self.began.read_text().splitlines() if self.began.exists() else []
        return [(run, int(attempt), int(pid)) for run, attempt, pid in map(str.split, lines)]

    def wait_for_attempts(self, count: int) -> list[tuple[str, int, int]]:
        found = lambda: (found := self.attempts())[count - 1 :] and found  # noqa: E731
        return wait_for(found, f"{count} attempts to begin", self._describe)

    def _describe(self) -> str:
        """The logs of the nodes, and the sessions of the database with what each of them waits for."""
        logs = [f"{name}.log:\n{(self.folder / f'{name}.log').read_text()[-3_000:]}" for name in self.nodes]
        with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
            sessions = connection.execute(
                "SELECT pid, state, now() - state_change, wait_event, pg_blocking_pids(pid), left(query, 80) "
                "FROM pg_stat_activity WHERE datname = current_database()"
            ).fetchall()
            leases = connection.execute("SELECT * FROM evertick_leases").fetchall()
        return "\n".join([*logs, *map(str, sessions), *map(str, leases)])

    def rows(self, name: str = "long") -> list[LedgerRow]:
        return list(self._store.query(RunFilter(job_ids=[name]), limit=1_000).rows)

    def row(self, name: str = "long") -> LedgerRow:
        (row,) = self.rows(name)
        return row

    def holder(self, *, has_started: bool = True) -> Served:
        """The node that the ledger says has the run, once it also says that the run has started."""
        has_it = lambda row: row.executor and (row.started_at or not has_started)  # noqa: E731
        row = wait_for(lambda: next(filter(has_it, self.rows()), None), "the ledger to know of it")
        return self.nodes[row.executor.partition("@")[2]]

    def let_go(self) -> None:
        self._go.touch()

    def met_another(self) -> list[str]:
        return self.met.read_text().splitlines() if self.met.exists() else []

    def close(self) -> None:
        self._store.close()
        for node in self.nodes.values():
            node.close()
        for _, _, pid in self.attempts():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
