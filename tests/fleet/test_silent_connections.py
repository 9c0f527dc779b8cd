"""Do silent connections make room for others, by address and in all, on the port of the hub too?"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from distributed.comm import registry
from distributed.comm.core import listen

from evertick.executors.fleet import transport
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.identity import Role
from evertick.executors.fleet.silent_connections import AT_ONCE, PER_ADDRESS, SilentConnections
from evertick.executors.fleet.transport import Rules, install, security_of

ADDRESS = "192.0.2.7"


def test_the_oldest_of_an_address_makes_room_and_those_that_spoke_are_left_alone():
    dropped: list[int] = []
    silent = SilentConnections(dropped.append)
    silent.opened(-1, "192.0.2.8")
    for number in range(PER_ADDRESS):
        silent.opened(number, ADDRESS)
    silent.spoke(0)
    assert dropped == []
    silent.opened(100, ADDRESS)
    silent.opened(101, ADDRESS)
    assert dropped == [1]


def test_the_oldest_of_all_makes_room():
    dropped: list[int] = []
    silent = SilentConnections(dropped.append)
    for number in range(AT_ONCE + 2):
        silent.opened(number, f"192.0.2.{number}")
    assert dropped == [0, 1]


def test_a_port_of_the_fleet_keeps_few_that_show_no_certificate(tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_SECONDS", 600.0)
    monkeypatch.setattr(registry, "backends", {})
    monkeypatch.setattr(transport, "_rules", transport._rules)
    authority = Authority(tmp_path / "hub")
    authority.create()
    certificates = authority.issue(tmp_path / "certs", Role.HUB, "hub", ["127.0.0.1"])
    asyncio.run(_flood(security_of(certificates).get_listen_args("scheduler")))


async def _flood(listen_args):
    install(Rules(frozenset(Role), frozenset(Role)))
    listener = await listen("tls://127.0.0.1:0", _nothing, **listen_args)
    place = ("127.0.0.1", int(listener.contact_address.rpartition(":")[2]))
    loop = asyncio.get_running_loop()
    try:
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.socket()) for _ in range(PER_ADDRESS + 1)]
            for one in silent:
                one.setblocking(False)
                await loop.sock_connect(one, place)
            assert await asyncio.wait_for(loop.sock_recv(silent[0], 1), 60) == b""
    finally:
        listener.stop()


async def _nothing(comm):
    await comm.close()
