"""A compromised member: it speaks Dask by hand, has a valid certificate, and sends objects that execute code."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import count
from pathlib import Path
from typing import Any

from distributed.comm.core import connect
from distributed.protocol.serialize import Serialize, ToPickle
from distributed.security import Security

from evertick.executors.fleet import messages
from evertick.executors.fleet.servers import MEMBER_ID

PORTS = count(1)


class Bomb:
    """Whoever unpickles it leaves a file with the number of its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        code = f"__import__('pathlib').Path({self._folder!r}, str(__import__('os').getpid())).touch()"
        return eval, (code,)


OBJECTS = {"serialized": Serialize, "pickled": ToPickle}
"""The ways in which Dask's frames carry an object."""


def victims(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir()}


def connection(certs: Path | None) -> dict[str, Any]:
    if certs is None:
        return {}
    files = {"tls_client_cert": str(certs / "cert.pem"), "tls_client_key": str(certs / "key.pem")}
    return Security(require_encryption=True, tls_ca_file=str(certs / "ca.pem"), **files).get_connection_args("client")


async def call(url: str, message: dict[str, Any], certs: Path | None = None) -> Any:
    """One request of Dask's own, and what was answered; None: the connection was ended."""
    try:
        comm = await asyncio.wait_for(connect(url, timeout=10, **connection(certs)), 20)
    except (OSError, TimeoutError):
        return None
    try:
        await comm.write({"reply": True, **message})
        return await asyncio.wait_for(comm.read(), 20)
    except OSError:
        return None
    finally:
        comm.abort()


class Intruder:
    """Registers as a worker, and says what it likes on its stream."""

    def __init__(self, url: str, name: str, certs: Path | None = None) -> None:
        self._url, self._name, self._certs = url, name, certs
        self.address = f"{url.partition(':')[0]}://127.0.0.1:{next(PORTS)}"

    async def register(self, **more: Any) -> dict[str, Any] | None:
        """What the hub answers; None: it ended the connection."""
        now = time.time()
        known = {"name": self._name, "address": self.address, "pid": os.getpid(), "server_id": f"bad-{now}"}
        dull = {"status": "running", "nthreads": 1, "resources": {}, "memory_limit": 0, "services": {}, "versions": {}}
        rest = {
            "local_directory": "",
            "nanny": None,
            "extra": {MEMBER_ID: self._name},
            "metrics": METRICS,
            "stimulus_id": "",
            "now": now,
        }
        try:
            self.comm = await connect(self._url, timeout=10, **connection(self._certs))
            await self.comm.write({"op": "register-worker", "reply": False, **dull, **rest, **known, **more})
            return await asyncio.wait_for(self.comm.read(), 20)
        except OSError:
            return None

    async def say(self, *messages: dict[str, Any]) -> None:
        await self.comm.write(list(messages))

    def card(self, **more: Any) -> dict[str, Any]:
        card = messages.Heartbeat(self._name, (), True, 0, 0, "0", "bad", 0.0, 0, time.time_ns() // 1_000)
        return {**card.to_plain(), **more}


METRICS = {
    "bandwidth": {"total": 1, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "memory": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
}
