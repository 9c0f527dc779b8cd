"""A ledger on this machine has one scheduler at a time: which one, and when."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from evertick.errors import SchedulerLockError
from evertick.location import Location, lock_path
from evertick.loop.messages import BucketsGained
from evertick.node import Definitions
from evertick.node import Node as Scheduler
from evertick.store import Store
from evertick.stores import lock, open_store
from evertick.stores.disk import write_atomically
from evertick.wiring import Executors
from tests.present import present
from tests.processes import proof
from tests.processes.cluster import Node, cluster
from tests.processes.node import REFUSED, Config, jobs_of

JOBS = 12
ALL = {job.id for job in jobs_of(Config("", "", seconds=JOBS))}


@pytest.fixture(params=["sqlite", "files"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/evertick.db" if request.param == "sqlite" else f"files://{tmp_path}/pipelines"


@pytest.mark.slow
def test_a_second_scheduler_is_refused_and_takes_over_at_once_when_the_first_is_killed(url, tmp_path):
    config = Config(url, str(tmp_path / "attempts"), seconds=JOBS)
    with cluster(config) as (first,):
        first.wait_for_launches(ALL)
        second = Node(config)
        try:
            assert second.wait() == REFUSED
        finally:
            second.close()
        assert f"process {first.pid}" in second.said[-1]
        first.wait_for_launches(ALL, first.mark())  # and goes on undisturbed
        first.kill()
        with cluster(config) as (third,):
            third.wait_for_launches(ALL)
            third.stop()
    proof.verified(url)
    launches = proof.launches_of(tmp_path / "attempts")
    assert proof.started_twice(launches) == []
    assert proof.launched_behind_an_owner(launches) == []


def node_on(url: str, name: str = "node") -> Scheduler:
    """A node without jobs."""
    return Scheduler(Location(url), Definitions(list), Executors({}), name=name)


def gained_by(node: Scheduler, store: Store) -> Mapping[int, int]:
    message = node._own_everything(store)
    assert isinstance(message, BucketsGained)
    return message.epochs


@pytest.mark.parametrize("name", ["node-1", "node-2"], ids=["under the same name", "under another name"])
def test_the_next_owner_of_the_ledger_has_newer_epochs(tmp_path, name):
    """Otherwise the one before, should it wake up again, could still write."""
    url = f"sqlite:///{tmp_path}/evertick.db"
    store = open_store(url)
    first, second = (node_on(url, node) for node in ("node-1", name))
    before, after = (gained_by(node, store) for node in (first, second))
    store.close()
    assert before.keys() == after.keys()
    assert all(after[bucket] > before[bucket] for bucket in before)


@pytest.fixture
def hurried(monkeypatch):
    """Heartbeats every 10 ms in place of every 10 s."""
    for module in ("evertick.node", "evertick.stores.lock"):
        monkeypatch.setattr(f"{module}.HEARTBEAT_US", 10_000)


@pytest.mark.usefixtures("hurried")
def test_a_scheduler_whose_ledger_was_taken_over_stops_and_names_the_new_owner(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/evertick.db"
    path = present(lock_path(url))

    async def live() -> None:
        running = asyncio.create_task(node_on(url).run())
        while not path.exists() and not running.done():
            await asyncio.sleep(0.01)
        mine = lock.Owner.from_bytes(path.read_bytes())
        write_atomically(path, replace(mine, pid=mine.pid + 1, hostname="elsewhere").to_bytes())
        await asyncio.wait_for(running, 60)

    with pytest.raises(SchedulerLockError, match=r"taken over by process \d+ on elsewhere"):
        asyncio.run(live())
    assert "lock.lost" in caplog.text
    assert b"elsewhere" in path.read_bytes(), "it has removed a lock that was not its own"


@pytest.mark.parametrize("helper", ["_keep_lock", "_maintain", "_show_next"])
def test_a_scheduler_whose_helper_fails_stops(tmp_path, monkeypatch, helper):
    """Without one it would seem to work: its lock would look abandoned, or its ledger grow for ever."""

    async def fail(_node: Scheduler) -> None:
        raise MemoryError

    monkeypatch.setattr(Scheduler, helper, fail)
    node = node_on(f"sqlite:///{tmp_path}/evertick.db")
    with pytest.raises(MemoryError):
        asyncio.run(asyncio.wait_for(node.run(), 60))


@pytest.mark.usefixtures("hurried")
def test_a_heartbeat_that_cannot_be_written_is_reported_and_blocks_nothing(tmp_path, monkeypatch, caplog):
    full = 3
    written = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def write(path, content) -> None:
        nonlocal full
        if full:
            full -= 1
            raise OSError(28, os.strerror(28))
        loops[0].call_soon_threadsafe(written.set)
        write_atomically(path, content)

    async def live() -> None:
        loops.append(asyncio.get_running_loop())
        service = node_on(f"sqlite:///{tmp_path}/evertick.db")
        running = asyncio.create_task(service.run())
        while service.dispatcher is None and not running.done():
            await asyncio.sleep(0.01)
        monkeypatch.setattr(lock, "write_atomically", write)
        await asyncio.wait_for(written.wait(), 60)
        service.shut_down()
        await asyncio.wait_for(running, 60)

    asyncio.run(live())
    assert "lock.unwritten" in caplog.text
    assert "No space left" in caplog.text
