"""`python -m evertick.executors.fleet scheduler|member JSON`: runs the hub (Dask's scheduler) or a member.

`process_supervisor` starts and restarts it. It stops when its standard input ends, which means that the supervisor has.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Scheduler, Worker

from evertick.errors import ExecutorUnavailable
from evertick.executors.fleet import transport
from evertick.executors.fleet.control import probe
from evertick.executors.fleet.identity import Role
from evertick.executors.fleet.member import MemberPlugin
from evertick.executors.fleet.process_supervisor import LEFT, Part
from evertick.executors.fleet.registry import RECORD_FILE, MemberRegistry, Revocations, member_id
from evertick.executors.fleet.relay import Relay
from evertick.executors.fleet.servers import Hub, MemberWorker, Refusal
from evertick.executors.fleet.settings import PORT, fleet_at, is_loopback
from evertick.executors.paths import private_folder
from evertick.long_lived import hide_process
from evertick.model.instant import SECOND

log = logging.getLogger("evertick.fleet")

LOOK_SECONDS = 5.0
"""A member that has not connected by then prints the reason."""
CLOSE_SECONDS = 10.0
CONFIG = {
    "distributed.scheduler.allowed-failures": 0,  # Evertick decides what happens to the runs of a lost member
    "distributed.scheduler.worker-ttl": "10s",
    "distributed.worker.daemon": False,
    "distributed.comm.timeouts.connect": "10s",
    "distributed.admin.low-level-log-length": 100,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    # An idle member took 3 % of a core: to sample stacks of tasks that only wait for a keeper, and to time the loop.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
}


async def be_scheduler(settings: Part, stopping: asyncio.Event) -> int:
    parts = urlsplit(settings.url)
    folder = private_folder(Path(settings.folder))
    names, revocations = MemberRegistry(folder), Revocations(folder / RECORD_FILE)
    revocations.look()
    transport.install(transport.Rules(frozenset({Role.SCHEDULER, Role.MEMBER}), frozenset(), revocations))
    scheduler = Hub(
        names,
        revocations,
        settings.http_port,
        host=parts.hostname,
        port=parts.port or PORT,
        protocol=parts.scheme,
        security=transport.security_of(settings.certificates),
    )

    async def arrange() -> None:
        await scheduler.register_scheduler_plugin(Relay(names), idempotent=True)

    is_well = await _keep(scheduler, stopping, arrange)
    return 0 if is_well else 1


async def be_member(settings: Part, stopping: asyncio.Event) -> int:
    lease_us = int(settings.lease_seconds * SECOND)
    plugin = MemberPlugin(settings.name, settings.labels, settings.folder, settings.slots, lease_us, settings.offers)
    transport.install(transport.Rules(frozenset({Role.HUB}), frozenset({Role.HUB})))
    worker = MemberWorker(
        settings.url,
        member_id(private_folder(Path(settings.folder))),
        settings.http_port,
        name=settings.name,
        nthreads=1,
        host=settings.host or _own_address(settings.url),
        port=settings.worker_port,
        security=transport.security_of(settings.certificates),
        local_directory=os.path.join(settings.folder, "dask"),
        plugins=(plugin,),
        memory_limit=0,
        death_timeout=settings.patience_seconds,
    )
    looking = asyncio.create_task(_report_unreachable(settings))

    async def arrange() -> None:
        looking.cancel()

    is_well = await _keep(worker, stopping, arrange)
    looking.cancel()
    return LEFT if is_well and (plugin.has_left or stopping.is_set()) else 1


async def _keep(server: Scheduler | Worker, stopping: asyncio.Event, arrange: Callable[[], Awaitable[None]]) -> bool:
    """Run a server until it ends or `stopping` is set; False when it could not start, for a reason that was printed."""
    stop = asyncio.create_task(stopping.wait())
    start = asyncio.ensure_future(server)
    try:
        await asyncio.wait([start, stop], return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            return True  # it was stopped while it looked for the fleet
        if (error := start.exception()) is not None:
            _print(_why_not(error))
            return False
        await arrange()
        _print_ready(server.address)
        ended = asyncio.create_task(server.finished())
        await asyncio.wait([ended, stop], return_when=asyncio.FIRST_COMPLETED)
        return True
    finally:
        stop.cancel()
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        with contextlib.suppress(Exception):  # one that never started has little to close
            await asyncio.wait_for(server.close(), CLOSE_SECONDS)


def _why_not(error: BaseException) -> str:
    """The reason and the next step; the errors of Dask name neither."""
    cause = error.__cause__ or error
    if Refusal.NAME in str(cause):
        return (
            "cannot join: the name belongs to another member. Choose another --name; if that one is gone for good, "
            "free its name with 'evertick fleet remove --force'."
        )
    if Refusal.CERTIFICATE in str(cause):
        return "cannot join: its certificate is not for this name. Use the --name that it was created for."
    if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
        return "cannot start: its address is in use. Stop the other program, or choose another --url."
    return f"cannot start: {' '.join(str(cause).split()) or type(cause).__name__}"


async def _report_unreachable(settings: Part) -> None:
    """Print why the worker cannot connect: Dask retries in silence."""
    fleet, told = fleet_at(settings.url, settings.certificates), ""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await probe(fleet)
        except ExecutorUnavailable as error:
            if str(error) != told:
                told = str(error)
                _print(f"waits: {told}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _print_ready(address: str) -> None:
    # The objects of Dask live until the end: a full garbage collection over them would delay a launch now and then.
    gc.collect()
    gc.freeze()
    _print(f"ready {address}")


def _own_address(url: str) -> str:
    """The address of this machine on the route to the fleet; never all addresses."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    if is_loopback(parts.hostname):
        return "127.0.0.1"
    family, kind, proto, _, target = socket.getaddrinfo(parts.hostname, parts.port or 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, proto) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


async def _main(role: str, settings: Part) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    threading.Thread(target=_watch_parent, args=(loop, stopping), daemon=True).start()
    return await {"scheduler": be_scheduler, "member": be_member}[role](settings, stopping)


def _watch_parent(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """A member whose supervisor was killed must not stay behind."""
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(stopping.set)


def main(arguments: list[str]) -> int:
    role, text = arguments
    hide_process()
    settings = Part.from_text(text)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("evertick").setLevel(logging.INFO)
    # Dask has set up its own, for those who look after Dask.
    logging.getLogger("distributed").setLevel(logging.WARNING)
    with dask.config.set(CONFIG):
        return asyncio.run(_main(role, settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
