"""The control socket: other processes on this machine query a scheduler and follow its events, as lines of JSON.

    {"ask": "status"}                            -> {"status": {...}}
    {"ask": "events", "after": 17, "feed": "x"}  -> {"feed": "x", "last": 17, ...}, then an event a line, without end

It has a thread and an event loop of its own. The scheduler never waits for a client, and answers how it does even when
its own loop hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evertick.dispatch.control_client import address_of
from evertick.model.plain_json import parse_json

if TYPE_CHECKING:
    from evertick.dispatch.feed import Feed

log = logging.getLogger("evertick.control")

LINE_MAX: Final = 64 * 1024
CLIENTS_MAX: Final = 64
UNSENT_MAX: Final = 256 * 1024
"""Bytes that may be queued for a client; beyond that it gets nothing until it has read, and loses events meanwhile."""
PATIENCE_SECONDS: Final = 30.0
"""A client is disconnected if it sends no request, or does not read queued data, for this long."""
BEAT_SECONDS: Final = 15.0
"""How often a listener gets a beat when there are no events."""


class Control:
    """The socket of one scheduler. Only its own user may connect."""

    def __init__(
        self,
        path: Path,
        status: Callable[[], Mapping[str, object]],
        feed: Feed,
        clients_max: int = CLIENTS_MAX,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`look` checks the ledger for requests; it is called from the socket's thread, and must not wait."""
        self.path = path
        self._status = status
        self._look = look
        self._feed = feed
        self._clients_max = clients_max
        self._clients: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._identity: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._run, name="evertick-control", daemon=True)
        self._is_ready = threading.Event()
        self._listener: socket.socket | None = None
        self.served = 0
        """Connections so far."""
        self.refused = 0
        """Connections refused because there were too many."""

    @property
    def counts(self) -> dict[str, int]:
        return {"clients": len(self._clients), "served": self.served, "refused": self.refused}

    def start(self) -> bool:
        """Start to listen; False if another scheduler listens on the same path, or the socket cannot be created."""
        try:
            if self._is_answered():
                log.warning("control.taken path=%s reason=another scheduler listens there", self.path)
                return False
            self._listener = self._bind()
        except OSError as error:
            log.warning("control.failed path=%s reason=%s", self.path, error.strerror or error)
            return False
        self._thread.start()
        self._is_ready.wait()
        return True

    def stop(self, timeout: float = 5.0) -> None:
        loop, ending = self._loop, self._ending
        if loop is not None and ending is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ending.set)
        if self._thread.is_alive():
            self._thread.join(timeout)
        with contextlib.suppress(OSError):
            # Another scheduler may have taken the path since.
            found = os.stat(self.path)
            if (found.st_dev, found.st_ino) == self._identity:
                os.unlink(self.path)

    def _is_answered(self) -> bool:
        """Whether a process answers on an existing socket."""
        if not self.path.exists():
            return False
        with address_of(self.path) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            trial.settimeout(1.0)
            try:
                trial.connect(address)
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError as error:
                # Something that is not a socket, or a socket that refuses us: only the first may be replaced.
                return isinstance(error, TimeoutError | BlockingIOError)
            return True

    def _bind(self) -> socket.socket:
        """Under a temporary name first: a client finds a socket that is ready, never one that is not."""
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address_of(unfinished) as address:
                listener.bind(address)
            unfinished.chmod(0o600)
            listener.listen(128)
            listener.setblocking(False)
            found = unfinished.stat()
            self._identity = (found.st_dev, found.st_ino)
            unfinished.replace(self.path)
        except BaseException:
            listener.close()
            raise
        return listener

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("control.ended")
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        assert self._listener is not None
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_unix_server(self._take, sock=self._listener, limit=LINE_MAX)
        self._is_ready.set()
        await self._ending.wait()
        server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= self._clients_max:
            self.refused += 1
            writer.write(_line({"error": f"{self._clients_max} clients are connected, which is the limit"}))
            writer.close()
            return
        self.served += 1
        self._clients.add(task)
        writer.transport.set_write_buffer_limits(high=UNSENT_MAX)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception:
            log.exception("control.fault")
        finally:
            self._clients.discard(task)
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()  # it does not read, and closing would wait for it
            else:
                writer.close()
            # A transport of asyncio refers to itself by this method, so only a search for garbage would free it; a
            # scheduler searches rarely, and is asked for its status every second.
            vars(writer.transport).pop("_read_ready_cb", None)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    line = await reader.readline()
            except ValueError:
                await _send(writer, {"error": f"a line has more than {LINE_MAX:,} bytes"})
                return
            if not line.endswith(b"\n"):
                return  # it ended, or was cut off in the middle of a request
            asked = _question(line)
            match asked.get("ask"):
                case "status":
                    await _send(writer, {"status": await asyncio.to_thread(self._status)})
                case "look":
                    self._look()
                    await _send(writer, {"looks": True})
                case "events":
                    await self._stream(asked, reader, writer)
                    return
                case _:
                    await _send(writer, {"error": 'write {"ask": "status"} or {"ask": "events", "after": 0}'})
                    return

    async def _stream(
        self, asked: Mapping[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        feed, news = self._feed, asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(news.set)

        after = asked.get("after")
        is_same = asked.get("feed") in (None, feed.name)
        if type(after) is not int or not 0 <= after <= feed.last or not is_same:
            # From another start of the scheduler, or without a number: the oldest item, or from now on.
            after = 0 if after is not None and not is_same else None
        cursor = feed.open_cursor(wake, after)
        # A client that has closed its sending side may still read; only writing shows whether it does.
        ending = asyncio.ensure_future(_discard(reader))
        ending.add_done_callback(lambda _: news.set())
        try:
            head = {"feed": feed.name, "after": cursor.after, "last": feed.last, "oldest": feed.oldest}
            await _send(writer, {**head, "is_continued": is_same and after is not None})
            while True:
                news.clear()
                events = cursor.take()
                if events:
                    await _write(writer, b"".join([event.line for event in events]))
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_SECONDS):
                        await news.wait()
                    if not ending.done():
                        continue
                await _write(writer, _line({"beat": feed.last}))
        finally:
            ending.cancel()
            feed.close_cursor(cursor)


async def _discard(reader: asyncio.StreamReader) -> None:
    """Discard what a listener sends, so that it cannot accumulate."""
    while await reader.read(LINE_MAX):
        pass


def _question(line: bytes) -> Mapping[str, object]:
    try:
        asked = parse_json(line)
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}


async def _send(writer: asyncio.StreamWriter, data: Mapping[str, object]) -> None:
    await _write(writer, _line(data))


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await writer.drain()


def _line(data: Mapping[str, object]) -> bytes:
    return json.dumps(data, separators=(",", ":"), default=str).encode() + b"\n"
