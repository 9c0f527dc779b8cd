"""What a service manager receives, on a real datagram socket."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick.dispatch.systemd import ServiceManager

PATIENCE = 180


class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(PATIENCE)
        self.socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self.environ = {"NOTIFY_SOCKET": address}

    def hear(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def hears_nothing(self) -> bool:
        self.socket.setblocking(False)
        try:
            self.socket.recv(4096)
        except BlockingIOError:
            return True
        return False


@pytest.fixture(params=["a file", "a name"])
def manager(request, tmp_path) -> Iterator[Manager]:
    address = f"@evertick-{secrets.token_hex(8)}" if request.param == "a name" else str(tmp_path / "notify")
    found = Manager(address)
    yield found
    found.socket.close()


def test_systemd_is_notified_once_that_the_scheduler_is_ready_and_that_it_stops(manager):
    told = ServiceManager(lambda: 0.0, manager.environ)
    told.start()
    assert manager.hear() == ["READY=1", f"MAINPID={os.getpid()}"]
    told.leaving()
    told.leaving()
    told.stop()
    assert manager.hear() == ["STOPPING=1"]
    assert manager.hears_nothing()


def test_the_watchdog_is_kicked_while_the_loop_turns(manager):
    told = ServiceManager(lambda: 0.0, {**manager.environ, "WATCHDOG_USEC": "30000", "WATCHDOG_PID": str(os.getpid())})
    told.start()
    assert [manager.hear()[0] for _ in range(4)] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
    told.stop()
    assert told.withheld == 0


def test_the_watchdog_is_not_kicked_while_the_loop_hangs_and_again_while_it_stops(manager, caplog):
    told = ServiceManager(lambda: 3600.0, {**manager.environ, "WATCHDOG_USEC": "30000"})
    told.start()
    assert manager.hear()[0] == "READY=1"
    while told.withheld < 3:
        pass_a_moment()
    told.leaving()
    # Nothing came in between: the next thing that is heard is the stop.
    assert manager.hear() == ["STOPPING=1"]
    assert manager.hear() == ["WATCHDOG=1"]
    told.stop()
    assert "watchdog.withheld" in caplog.text


def pass_a_moment() -> None:
    import threading

    threading.Event().wait(0.005)


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}, id="another process's"),
        pytest.param({"WATCHDOG_USEC": "0"}, id="none wanted"),
        pytest.param({"WATCHDOG_USEC": "soon"}, id="nonsense"),
        pytest.param({}, id="not set"),
    ],
)
def test_without_a_watchdog_nothing_is_sent(manager, environ):
    told = ServiceManager(lambda: 0.0, {**manager.environ, **environ})
    told.start()
    assert manager.hear()[0] == "READY=1"
    told.stop()
    assert manager.hear() == ["STOPPING=1"]


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_without_a_manager_nothing_happens(address, caplog):
    told = ServiceManager(lambda: 0.0, {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000"})
    told.start()
    told.stop()
    assert ("systemd.not_told" in caplog.text) is (address == "/nowhere/at/all")


def test_a_service_manager_that_does_not_read_blocks_nothing(tmp_path):
    found = Manager(str(tmp_path / "notify"))
    told = ServiceManager(lambda: 0.0, found.environ)
    for _ in range(10_000):
        told.notify("STATUS=well")
    assert Path(found.environ["NOTIFY_SOCKET"]).exists()
    found.socket.close()
