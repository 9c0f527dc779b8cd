"""What can a compromised member do to the scheduler, the command line, the hub and other members?"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from itertools import count

import cloudpickle
import psutil
import pytest

from evertick.executors.fleet import messages
from evertick.model.lifecycle import CANCELLED, SUCCEEDED
from tests.executors.local_runs import job_of, launch, sh
from tests.fleet.intruder import OBJECTS, Bomb, Intruder, call, victims
from tests.fleet.local_fleet import ROOT, wait_for
from tests.present import present

pytestmark = pytest.mark.slow

NUMBERS = count()


@pytest.fixture
def bombs(tmp_path):
    folder = tmp_path / "bombs"
    folder.mkdir()
    return folder


@pytest.fixture
def executor(crowd, reports):
    opened = crowd.open(reports, "ex-a", "ex-b", "ex-c")
    yield opened
    opened.close()


def given(command: str):
    return launch(job_of(sh(command), id=f"attacked-{next(NUMBERS)}"))._replace(executor="fleet:ex-a")


def fleet_list(url: str) -> str:
    words = [sys.executable, "-m", "evertick", "fleet", "list", url, "-o", "name"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=180).stdout


def listening_ports(pid: int) -> list[int]:
    return [one.laddr.port for one in psutil.Process(pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN]


def sees(executor, name: str, running: int) -> bool:
    return any((one.name, one.running) == (name, running) for one in executor.members())


def is_there(executor, name: str) -> bool:
    return any(one.name == name and one.is_healthy for one in executor.members())


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("where", ["in a heartbeat", "as lines"])
def test_no_process_rebuilds_an_object_that_a_member_sends(crowd, executor, reports, bombs, kind, where):
    something = OBJECTS[kind](Bomb(bombs))
    name = f"bad-{kind}-{where.replace(' ', '-')}"

    async def attack() -> str:
        intruder = Intruder(crowd.url, name)
        assert (present(await intruder.register()))["status"] == "OK"
        await intruder.say({"op": messages.HEARTBEAT, "card": intruder.card(running=7)})
        await asyncio.to_thread(wait_for, lambda: sees(executor, name, 7), "it to be known")
        if where == "in a heartbeat":
            await intruder.say({"op": messages.HEARTBEAT, "card": intruder.card(running=8, more=something)})
        else:
            await intruder.say({"op": messages.SAY, "lines": something})
        # The hub ends the stream of one that sends such a thing; the scheduler has seen all of it by then.
        with pytest.raises(OSError):
            await asyncio.wait_for(intruder.comm.read(), 20)
        await asyncio.to_thread(wait_for, lambda: not is_there(executor, name), "it to leave")
        return await asyncio.to_thread(fleet_list, crowd.url)

    assert set(asyncio.run(attack()).split()) >= {"ex-a", "ex-b", "ex-c"}
    order = given("true")
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED
    assert victims(bombs) == set()


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("operation", ["identity", "run", "plugin-add", "connection_stream"])
def test_the_port_of_a_member_takes_nothing(crowd, executor, bombs, kind, operation):
    (address,) = [one.address for one in executor.members() if one.name == "ex-a"]
    something, code = OBJECTS[kind](Bomb(bombs)), cloudpickle.dumps(Bomb(bombs))
    asyncio.run(call(address, {"op": operation, "function": something, "plugin": something}))
    answer = asyncio.run(call(address, {"op": operation, "function": code, "plugin": code}))
    assert answer is None
    assert victims(bombs) == set()


@pytest.mark.parametrize(
    "operation",
    ["run_function", "register_scheduler_plugin", "register_worker_plugin", "broadcast", "proxy", "restart", "feed"],
)
def test_the_hub_does_nothing_for_a_client_of_dask(crowd, bombs, operation):
    code = cloudpickle.dumps(Bomb(bombs))
    run = {"op": "run", "function": code}
    message = {"op": operation, "function": code, "plugin": code, "setup": code, "msg": run, "worker": "ex-a"}
    assert asyncio.run(call(crowd.url, message)) is None
    assert victims(bombs) == set()


def test_no_member_can_report_for_another(crowd, executor, reports):
    (real,) = [one.address for one in executor.members() if one.name == "ex-a"]
    order = given("sleep 1000")
    executor.launch(order)
    reports.wait_until(bool)
    end = json.dumps(["finished", *order.key, 1, order.key.scheduled_for, "succeeded", 0, "", 0, None, ""])

    async def attack() -> None:
        intruder = Intruder(crowd.url, "bad-dialect")
        await intruder.register()
        await intruder.say(
            {"op": messages.HEARTBEAT, "card": intruder.card(running=7)},
            {"op": messages.SAY, "lines": f"{end}\n".encode(), "worker": real},
            {"op": messages.HEARTBEAT, "card": intruder.card(name="ex-a", slots=7), "worker": real},
            {"op": messages.HEARTBEAT, "card": intruder.card(running=8)},
        )
        await asyncio.to_thread(wait_for, lambda: sees(executor, "bad-dialect", 8), "its last word")
        intruder.comm.abort()

    asyncio.run(attack())
    assert [one.slots for one in executor.members() if one.name == "ex-a"] == [0]
    executor.stop(order.key, 1, "enough")
    assert reports.end_of(order.key).state is CANCELLED


def test_a_process_that_is_connected_to_a_fleet_has_nothing_of_dask(crowd):
    look = (
        "import sys, tempfile, threading\n"
        "from evertick.executors.fleet.admin import list_members\n"
        "from evertick.executors.fleet.executor import FleetExecutor\n"
        "from evertick.executors.fleet.settings import fleet_at\n"
        f"settings, seen = fleet_at({crowd.url!r}, None), threading.Event()\n"
        "assert list_members(settings)\n"
        "executor = FleetExecutor(tempfile.mkdtemp(), settings)\n"
        "executor.open(lambda report: seen.set())\n"
        "assert seen.wait(60)\n"
        "executor.close()\n"
        "print(sorted({'dask', 'distributed', 'cloudpickle', 'pickle', 'tornado'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_processes_of_a_fleet_listen_at_one_port_each(crowd):
    processes = {"hub": crowd.scheduler.child(), **{name: one.child() for name, one in crowd.members.items()}}
    assert {name: len(listening_ports(pid)) for name, pid in processes.items()} == dict.fromkeys(processes, 1)
