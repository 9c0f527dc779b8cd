"""Dask's scheduler and worker without what a fleet does not use: no tasks, no functions, no pages.

A Dask cluster runs any code that a client sends. Evertick sends none: it uses the connections, heartbeats and streams.
So every other operation is removed, on the hub and on members, and only the needed fields of a member are read.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from distributed import Scheduler, Worker
from distributed.comm.core import Comm, CommClosedError
from distributed.metrics import time
from distributed.versions import get_versions
from tornado.ioloop import PeriodicCallback

from evertick.executors.fleet.identity import Peer, Role
from evertick.executors.fleet.registry import MemberRegistry, Revocations

log = logging.getLogger("evertick.fleet")

METRICS: dict[str, object] = {
    "bandwidth": {"total": 100_000_000, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "memory": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
}
"""What Dask needs for placing tasks; there are none."""


MEMBER_ID = "evertick-id"
LOOK_MS = 1_000
"""How often revoked certificates are checked."""


class Refusal(StrEnum):
    """Why a member is refused, in Dask's answer to it."""

    NAME = "evertick-refusal-name-taken"
    CERTIFICATE = "evertick-refusal-other-certificate"


class _ClosedServer:
    """What hub and member have in common."""

    stream_handlers: dict[str, Callable[..., object]]
    http_port = 0

    def start_http_server(self, routes: object, *_: object, **__: object) -> None:
        """Only if requested, and on the loopback address. Dask opens one regardless of its settings."""
        if self.http_port:
            super().start_http_server(routes, f"127.0.0.1:{self.http_port}")  # type: ignore[misc]

    async def handle_stream(self, comm: Comm, extra: dict[str, object] | None = None) -> None:
        """As Dask's own, but the sender is the peer that opened the stream, and unknown operations are ignored."""
        try:
            while True:
                messages = await comm.read()
                for message in messages if isinstance(messages, tuple) else (messages,):
                    operation = message.pop("op")
                    if operation == "close-stream":
                        return
                    handler = self.stream_handlers.get(operation)
                    done = handler(**{**message, **(extra or {})}) if handler is not None else None
                    if inspect.isawaitable(done):
                        await done
        except CommClosedError:
            pass
        except Exception as error:
            log.warning("connection.ended address=%s reason=%s", comm.peer_address, f"{error!r}"[:200])
        finally:
            await comm.close()


class Hub(_ClosedServer, Scheduler):
    def __init__(self, names: MemberRegistry, revocations: Revocations, http_port: int = 0, **known: Any) -> None:
        self.http_port = http_port
        super().__init__(dashboard=False, jupyter=False, extensions={}, **known)
        self.names = names
        self._revocations = revocations
        self.handlers = {"register-worker": self._register, "heartbeat_worker": self._beat}
        self.stream_handlers = {"keep-alive": lambda **_: None}
        self.periodic_callbacks["evertick-revoked"] = PeriodicCallback(self._drop_revoked, LOOK_MS)

    async def _register(
        self,
        comm: Comm,
        address: str,
        name: str,
        extra: object = None,
        server_id: str = "",
        stimulus_id: str = "",
        **_: object,
    ) -> None:
        refusal: Refusal | None
        peer = peer_behind(comm)
        owner = extra.get(MEMBER_ID, "") if isinstance(extra, dict) else ""
        if peer is not None and peer != (Role.MEMBER, str(name), peer.serial):
            refusal = Refusal.CERTIFICATE
        elif str(name) in self.aliases or not self.names.claim(str(name), str(owner)):
            refusal = Refusal.NAME
        else:
            refusal = None
        if refusal is not None:
            log.warning("member.refused member=%s address=%s reason=%s", name, comm.peer_address, refusal)
            await comm.write({"status": "error", "message": refusal, "time": time()})
            return
        await self.add_worker(
            comm,
            address=str(address),
            status="running",
            server_id=str(server_id),
            nthreads=1,
            name=str(name),
            now=time(),
            resources={},
            memory_limit=0,
            metrics=METRICS,
            services={},
            local_directory="",
            versions=get_versions(),
            nanny="",
            extra={},
            stimulus_id=str(stimulus_id),
        )

    def _beat(self, comm: Comm, address: str, **_: object) -> dict[str, object]:
        peer, worker = peer_behind(comm), self.workers.get(str(address))
        if peer is not None and (worker is None or worker.name != peer.name):
            return {"status": "missing"}
        return self.heartbeat_worker(address=str(address), metrics=METRICS)

    def _drop_revoked(self) -> None:
        self._revocations.look()
        for name in self._revocations.freed:
            self.names.release(name)
        for comm in list(self._comms):
            peer = peer_behind(comm)
            if peer is not None and self._revocations(peer):
                log.warning("connection.revoked role=%s name=%s address=%s", peer.role, peer.name, comm.peer_address)
                comm.abort()


class MemberWorker(_ClosedServer, Worker):
    def __init__(self, url: str, member_id: str, http_port: int = 0, **known: Any) -> None:
        self.http_port = http_port
        super().__init__(url, dashboard=False, **known)
        self._member_id = member_id
        self.handlers = {}
        self.stream_handlers = {"close": self.stream_handlers["close"]}

    async def get_startup_information(self) -> dict[str, object]:
        return {MEMBER_ID: self._member_id}

    async def plugin_add(self, plugin: Any, name: str | None = None, catch_errors: bool = True) -> Any:
        if isinstance(plugin, bytes):
            # Dask would unpickle it.
            raise TypeError("rejected a plugin that the hub sent")
        return await super().plugin_add(plugin, name, catch_errors)


def peer_behind(comm: Comm) -> Peer | None:
    """The peer by its certificate; None without certificates."""
    peer = getattr(comm, "peer", None)
    return peer if isinstance(peer, Peer) else None
