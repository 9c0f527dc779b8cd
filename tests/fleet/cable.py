"""A cable between a member and its fleet that a test can cut and mend."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Cable:
    """Carries bytes both ways. A way that is cut lets nothing pass, and nobody is told, as when a switch is dead."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._ways: dict[str, asyncio.Event] = {}
        """From the member to its fleet, and back: whether each is whole."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def cut(self, *ways: str) -> None:
        """Both ways, unless it is said which: `there` is from the member to the fleet, `back` from the fleet."""
        self._call(lambda: [self._ways[way].clear() for way in ways or self._ways])

    def mend(self) -> None:
        self._call(lambda: [way.set() for way in self._ways.values()])

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _call(self, change) -> None:
        done = threading.Event()

        def act() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._ways, self._closing = {"there": asyncio.Event(), "back": asyncio.Event()}, asyncio.Event()
        for way in self._ways.values():
            way.set()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._closing.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        await self._ways["there"].wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(self._carry(reader, far_writer, "there"), self._carry(far_reader, writer, "back"))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, far_writer):
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        while data := await reader.read(65_536):
            await self._ways[way].wait()
            writer.write(data)
            await writer.drain()
        await self._ways[way].wait()
        writer.close()
