"""Does every line reach the keeper complete and in order, from any thread and however slowly the keeper reads?"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from evertick.executors import protocol
from evertick.executors.keeper_client import KeeperClient
from evertick.settings.parts import KeeperSettings
from tests.executors.contract import PATIENCE_SECONDS

SENDERS, LINES = 4, 12
LONG = "x" * 300_000
"""More than a socket takes at once: of some lines only a part is written, and the rest must follow it."""


class SlowKeeper:
    """Greets, and reads nothing until it is told to."""

    def __init__(self, folder) -> None:
        self._listening = protocol.listen(folder)
        self._listening.setblocking(True)
        self.may_read = threading.Event()
        self.rows: list[list[object]] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        peer, _ = self._listening.accept()
        with peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.sendall(protocol.encode(protocol.HELLO, protocol.VERSION, os.getpid(), "one"))
            self.may_read.wait(PATIENCE_SECONDS)
            rest = b""
            while data := peer.recv(65_536):
                *rows, rest = (rest + data).split(b"\n")
                self.rows += [protocol.decode(row) for row in rows]

    def wait(self) -> None:
        """Until the client has disconnected."""
        self._thread.join(PATIENCE_SECONDS)
        self._listening.close()


@pytest.fixture
def keeper(tmp_path):
    return SlowKeeper(tmp_path)


@pytest.fixture
def client(tmp_path):
    greeted = threading.Event()

    class Listener:
        def keeper_connected(self, *_):
            greeted.set()

        def keeper_sent(self, *_): ...
        def keeper_failed(self, *_): ...

        def keeper_tick(self):
            return False

        def needs_keeper(self, _):
            return True

    client = KeeperClient(tmp_path, tmp_path, KeeperSettings(), {}, Listener())
    client.start()
    client.wake()
    return client, greeted


@pytest.mark.parametrize("when", ["at once", "when it has filled up"])
def test_lines_of_many_threads_arrive_whole_and_in_order(keeper, client, when):
    client, greeted = client
    assert greeted.wait(PATIENCE_SECONDS)
    if when == "at once":
        keeper.may_read.set()

    def send(number: int) -> None:
        for count in range(LINES):
            # Both ways to send, mixed: neither may overtake or cut into the other.
            (client.send_now if (number + count) % 3 else client.send)(protocol.encode("told", number, count, LONG))

    senders = [threading.Thread(target=send, args=(number,)) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(PATIENCE_SECONDS)
    keeper.may_read.set()
    client.close(PATIENCE_SECONDS)
    keeper.wait()
    told = [row for row in keeper.rows if row[0] == "told"]
    assert len(told) == SENDERS * LINES
    for number in range(SENDERS):
        assert [row[2] for row in told if row[1] == number] == list(range(LINES))


class Interrupted(socket.socket):
    """Takes a part of a line that is written at once, while another thread sends a line of its own."""

    meanwhile: Callable[[], None] | None = None

    def send(self, data, flags=0):
        if self.meanwhile is None or threading.current_thread() is not threading.main_thread():
            return super().send(data, flags)
        self.meanwhile()
        return super().send(data[:7], flags)


@pytest.fixture
def interrupted(monkeypatch):
    connect = protocol.connect
    monkeypatch.setattr(protocol, "connect", lambda folder: Interrupted(fileno=connect(folder).detach()))


def test_a_partly_written_line_is_completed_before_any_other(interrupted, keeper, client):
    client, greeted = client
    assert greeted.wait(PATIENCE_SECONDS)
    keeper.may_read.set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client._open is None:
        assert time.monotonic() < deadline, "the client never connected"
        time.sleep(0.001)
    client._open.meanwhile = lambda: client.send(protocol.encode("told", "other"))
    client.send_now(protocol.encode("told", "first"))
    client.close(PATIENCE_SECONDS)
    keeper.wait()
    assert [row for row in keeper.rows if row[0] == "told"] == [["told", "first"], ["told", "other"]]


def test_sending_on_a_closed_client_writes_nowhere_else(keeper, client):
    client, greeted = client
    assert greeted.wait(PATIENCE_SECONDS)
    keeper.may_read.set()
    client.close(PATIENCE_SECONDS)
    pipes = [os.pipe() for _ in range(4)]  # they reuse the numbers of the client's descriptors
    client.send_now(protocol.encode("told", 1))
    client.send(protocol.encode("told", 2))
    for reader, writer in pipes:
        os.close(writer)
        assert os.read(reader, 10) == b""
        os.close(reader)
    keeper.wait()
