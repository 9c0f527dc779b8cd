"""Dask's scheduler and worker without what a fleet does not use: no tasks, no functions, no pages.

A Dask cluster runs whatever code a client sends it. Evertick sends none: it uses the connections, the heartbeats and
the streams. So every other operation is closed, on the hub as well as on members, and what a member says of itself is
taken only as far as it is needed.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from distributed import Scheduler, Worker
from distributed.comm.core import Comm, CommClosedError
from distributed.metrics import time
from distributed.versions import get_versions

log = logging.getLogger("evertick.fleet")

METRICS: dict[str, Any] = {
    "bandwidth": {"total": 100_000_000, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "memory": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
}
"""What Dask wants to know for placing tasks; there are none."""


class _ClosedServer:
    """What the two have in common."""

    stream_handlers: dict[str, Callable[..., Any]]

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """None. Dask's own settings cannot turn it off."""

    async def handle_stream(self, comm: Comm, extra: dict[str, Any] | None = None) -> None:
        """As Dask's own; but a speaker is who opened the stream, whatever a message says, and the unknown is left."""
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
    def __init__(self, **known: Any) -> None:
        super().__init__(dashboard=False, jupyter=False, extensions={}, **known)
        self.handlers = {"register-worker": self._register, "heartbeat_worker": self._beat}
        self.stream_handlers = {"keep-alive": lambda **_: None}

    async def _register(
        self, comm: Comm, address: str, name: str, server_id: str = "", stimulus_id: str = "", **_: Any
    ) -> None:
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

    def _beat(self, address: str, **_: Any) -> dict[str, Any]:
        return self.heartbeat_worker(address=str(address), metrics=METRICS)


class MemberWorker(_ClosedServer, Worker):
    def __init__(self, url: str, **known: Any) -> None:
        super().__init__(url, dashboard=False, **known)
        self.handlers = {}
        self.stream_handlers = {"close": self.stream_handlers["close"]}

    async def plugin_add(self, plugin: Any, name: str | None = None, catch_errors: bool = True) -> Any:
        if isinstance(plugin, bytes):
            # It would be unpickled.
            raise TypeError("a plugin that the hub has sent is not taken")
        return await super().plugin_add(plugin, name, catch_errors)
