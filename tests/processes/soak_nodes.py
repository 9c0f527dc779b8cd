"""Several schedulers on one database under load, one of them killed: `python -m tests.processes.soak_nodes --help`.

Not a part of the suite, because what it claims depends on the machine: every due occurrence is launched, the jobs of a
killed node fire on the others within 10 seconds, and the ledger's own proof is clean behind it. It prints what it
measured.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from typing import NamedTuple

import psutil
import psycopg

from evertick.model.instant import SECOND
from evertick.model.run import RunKey
from evertick.store import RunFilter
from evertick.stores import open_store
from tests.disk_executor import Launched, launches_in
from tests.processes import proof
from tests.processes.cluster import PATIENCE_SECONDS, Node, cluster
from tests.processes.node import Config, jobs_of
from tests.services import MysqlServer, PostgresServer, Server

TAKEOVER_SECONDS = 10.0
SERVERS: dict[str, Callable[[], Server]] = {"postgres": PostgresServer, "mariadb": MysqlServer}


class Figures(NamedTuple):
    store: str
    nodes: int
    rate: int
    launched_per_second: float
    late_ms: tuple[float, float, float]
    """Of the launches while all nodes lived: the median, the 99th percentile, the latest."""
    cpu_us: float
    """Of the nodes, for each launch: what another machine can be judged by."""
    takeover_seconds: float | None
    database_us: float
    """Of a core that the database used for each launch."""
    transactions_per_second: float | None
    """That it committed; None where it does not count them."""

    def __str__(self) -> str:
        median, late, latest = self.late_ms
        text = (
            f"{self.store:8} {self.nodes} nodes, {self.rate:,} due per second: "
            f"{self.launched_per_second:,.0f} launched per second, late by {median:,.0f} ms (median), "
            f"{late:,.0f} ms (99 %), {latest:,.0f} ms (worst), {self.cpu_us:,.0f} us of a core for each"
        )
        return text if self.takeover_seconds is None else f"{text}; takeover {self.takeover_seconds:.1f} s"


def soak(store: str, server: Server, nodes: int, rate: int, seconds: float, *, is_killing: bool) -> Figures:
    url = server.fresh()
    with tempfile.TemporaryDirectory(dir=_memory()) as folder, ExitStack() as stack:
        configs = [
            Config(
                url,
                f"{folder}/attempts-{number}",
                f"node-{number}",
                seconds=rate,
                look_seconds=0.5,
                tells_launches=False,
            )
            for number in range(nodes)
        ]
        jobs = {job.id for job in jobs_of(configs[0])}
        running = stack.enter_context(cluster(*configs))
        _wait_until_shared(running, jobs)
        _wait_until_all_fire(running, jobs)
        began = time.time_ns() // 1_000
        pids = [node.pid for node in running]
        used, served, written = _cpu_us(pids), _cpu_us([server.pid]), _transactions(server, url)
        time.sleep(seconds)
        ended, used, served = time.time_ns() // 1_000, _cpu_us(pids) - used, _cpu_us([server.pid]) - served
        written = None if written is None else (_transactions(server, url) or 0) - written
        takeover = _kill(url, running) if is_killing else None
        alive = running[1:] if is_killing else running
        for node in alive:
            node.signal(signal.SIGTERM)
        for node in alive:
            assert node.wait() == 0
        everything = proof.launches_of(*(node.attempts for node in running))
        report = proof.verified(url)
        assert report.runs >= rate * seconds, f"{report.runs:,} runs are too few"
        assert proof.unknown_to_the_ledger(proof.rows_of(url), everything) == []
        assert proof.launched_behind_an_owner(everything) == []
        calm = [one for one in everything if began <= one.at < ended]
        lasted, count = (ended - began) / SECOND, max(len(calm), 1)
        return Figures(
            *(store, nodes, rate, len(calm) / lasted, _lateness(calm), used / count, takeover),
            *(served / count, None if written is None else written / lasted),
        )


def _wait_until_shared(nodes: Sequence[Node], jobs: set[str]) -> None:
    while True:
        shares = [node.owned() for node in nodes]
        if all(shares) and set.union(*shares) == jobs and sum(map(len, shares)) == len(jobs):
            return
        nodes[0].wait_a_moment()


def _wait_until_all_fire(nodes: Sequence[Node], jobs: set[str]) -> None:
    """What is entered ahead of its time comes due some seconds after the start."""
    began = time.time_ns() // 1_000
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        later = (one for node in nodes for one in launches_in(node.attempts) if one.at > began)
        if {one.run_id.partition("@")[0] for one in later} >= jobs:
            return
        assert time.monotonic() < deadline, "some jobs never fired"
        time.sleep(1.0)


def _kill(url: str, nodes: Sequence[Node]) -> float:
    """Kill the first; how long until the last of its jobs has fired on another."""
    victim, *others = nodes
    orphans = victim.owned()
    victim.kill()
    died_at = max(one.at for one in launches_in(victim.attempts))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        fired: dict[str, int] = {}
        for one in (one for node in others for one in launches_in(node.attempts) if one.at > died_at):
            job = one.run_id.partition("@")[0]
            fired[job] = min(fired.get(job, one.at), one.at)
        if fired.keys() >= orphans:
            return (max(fired[job] for job in orphans) - died_at) / SECOND
        assert time.monotonic() < deadline, _left(url, orphans - fired.keys(), len(orphans))
        time.sleep(1.0)


def _memory() -> str | None:
    """Where the attempts are noted: in memory, where that can be had, so that it is not the disk that is measured."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def _cpu_us(pids: Sequence[int | None]) -> float:
    """What these processes and their children have used."""
    roots = [psutil.Process(pid) for pid in pids if pid is not None]
    used = 0.0
    for process in (one for root in roots for one in (root, *root.children(recursive=True))):
        with suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:2])
    return used * SECOND


def _transactions(server: Server, url: str) -> int | None:
    """That this database has committed so far."""
    if not isinstance(server, PostgresServer):
        return None
    with closing(psycopg.connect(url.replace("+psycopg", ""))) as connection:
        row = connection.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return None if row is None else int(row[0])


def grow(store: str, server: Server, sizes: Sequence[int], rate: int, seconds: float) -> None:
    """Each number of nodes in turn, with as many occurrences for each node, against one server: a table."""
    print(  # noqa: T201
        f"{store}, {rate:,} occurrences per second and node, {seconds:g} s each, {os.cpu_count()} cores\n\n"
        "| nodes | due per second | launched per second | per node | late: median, 99 % | CPU of nodes, of database, "
        "for each | transactions per second |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for nodes in sizes:
        found = soak(store, server, nodes, nodes * rate, seconds, is_killing=False)
        median, late, _ = found.late_ms
        written = "" if found.transactions_per_second is None else f"{found.transactions_per_second:,.0f}"
        print(  # noqa: T201
            f"| {nodes} | {nodes * rate:,} | {found.launched_per_second:,.0f} | "
            f"{found.launched_per_second / nodes:,.0f} | {median:,.0f} ms, {late:,.0f} ms | "
            f"{found.cpu_us:,.0f} us, {found.database_us:,.0f} us | {written} |",
            flush=True,
        )


def _left(url: str, jobs: set[str], count: int) -> str:
    """What the ledger has about jobs that did not fire again."""
    with closing(open_store(url)) as store:
        some = [row for job in sorted(jobs)[:3] for row in store.query(RunFilter(job_ids=[job]), limit=3).rows]
    return "\n".join([f"{len(jobs)} of {count} jobs did not fire again:", *map(str, some)])


def _lateness(launches: Sequence[Launched]) -> tuple[float, float, float]:
    late = sorted((one.at - RunKey.from_run_id(one.run_id).scheduled_for) / 1_000 for one in launches)
    return late[len(late) // 2], late[len(late) * 99 // 100], late[-1]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.processes.soak_nodes", description=__doc__)
    parser.add_argument("--store", choices=SERVERS, action="append", help="which databases; all if none is given")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--rate", type=int, default=1_000, help="occurrences per second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long before a node is killed")
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument(
        "--growth",
        type=int,
        nargs="+",
        metavar="NODES",
        help="so many nodes in turn, the rate for each; nobody is killed",
    )
    chosen = parser.parse_args(words)
    is_well = True
    for store in chosen.store or SERVERS:
        with SERVERS[store]() as server:
            if chosen.growth:
                grow(store, server, chosen.growth, chosen.rate, chosen.seconds)
                continue
            is_killing = not chosen.no_kill and chosen.nodes > 1
            figures = soak(store, server, chosen.nodes, chosen.rate, chosen.seconds, is_killing=is_killing)
        print(figures, flush=True)  # noqa: T201
        if figures.takeover_seconds is not None and figures.takeover_seconds > TAKEOVER_SECONDS:
            print(f"the takeover took longer than {TAKEOVER_SECONDS:.0f} s", file=sys.stderr)  # noqa: T201
            is_well = False
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
