"""A line between browser and server that is slow, and can be cut: a proxy of bytes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

PIECE = 4 * 1024


class Line:
    """Listens on a port of its own; all connections share the rate, as they do on a real one."""

    def __init__(self, port: int, bytes_per_second: float = 100_000, delay_seconds: float = 0.2) -> None:
        self._target = port
        self._rate, self._delay = bytes_per_second, delay_seconds
        self._is_cut = False
        self._free_at = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.carried = 0
        """Bytes that have come from the server."""

    def cut(self) -> None:
        """Break all connections, and let no new one through."""
        self._is_cut = True
        self._do(self._drop())

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._is_cut:
                return
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(back)
            try:
                await asyncio.gather(
                    self._carry(reader, back, is_answer=False), self._carry(there, writer, is_answer=True)
                )
            finally:
                self._writers.discard(back)
                back.close()
        except OSError:
            pass  # the server is away, and so is this connection
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await source.read(PIECE):
                if is_answer:
                    self.carried += len(data)
                    self._free_at = max(self._free_at, loop.time()) + len(data) / self._rate
                    await asyncio.sleep(self._free_at - loop.time())
                else:
                    await asyncio.sleep(self._delay)  # once for each request: the way there and back
                sink.write(data)
                await sink.drain()
            sink.write_eof()
