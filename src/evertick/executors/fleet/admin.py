"""Operator actions on a fleet: list members, drain, remove and forget them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from evertick.errors import Conflict, ExecutorUnavailable, NotFound
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.validation import heartbeat_of
from evertick.model.member import Member
from evertick.settings.parts import FleetSettings

ANSWER_SECONDS = 10.0

T = TypeVar("T")


def list_members(settings: FleetSettings, timeout: float = 2 * ANSWER_SECONDS) -> list[Member]:
    """All members by name, connected or not; `ExecutorUnavailable` when the fleet does not respond in time."""

    async def look(view: _View) -> list[Member]:
        return view.usable()

    return _ask(settings, look, timeout)


def set_cordon(settings: FleetSettings, name: str, *, is_closed: bool) -> Member:
    """Stop or resume sending runs to a member. Its active runs continue; the state survives restarts."""

    async def cordon(view: _View) -> Member:
        view.member(name)
        view.send(name, protocol.encode(messages.CORDON, is_closed))
        return await view.wait_for(name, lambda member: member.is_open is not is_closed, ANSWER_SECONDS)

    return _ask(settings, cordon)


def drain(settings: FleetSettings, name: str, timeout: float, said: Callable[[Member], None]) -> Member:
    """Stop sending runs to a member, and wait until its active runs have ended."""

    async def wait(view: _View) -> Member:
        view.member(name)
        view.send(name, protocol.encode(messages.CORDON, True))
        member = await view.wait_for(name, lambda member: not member.is_open, ANSWER_SECONDS)
        said(member)
        return await view.wait_for(name, lambda member: not member.running, timeout)

    return _ask(settings, wait)


def remove(settings: FleetSettings, name: str, *, by_force: bool) -> None:
    """Remove a member and free its name; with active runs only by force, which ends them.

    By force also when the member is not connected.
    """

    async def leave(view: _View) -> None:
        if by_force and name not in {member.name for member in view.members()}:
            view.release(name)
            return
        member = view.member(name)
        if member.running and not by_force:
            running = "1 active attempt" if member.running == 1 else f"{member.running} active attempts"
            raise Conflict(f"{name} has {running}. Drain it first, or use --force to end them.")
        view.send(name, protocol.encode(messages.LEAVE))
        await view.wait_until_gone(name, ANSWER_SECONDS)
        view.release(name)

    _ask(settings, leave)


def forget(settings: FleetSettings, name: str) -> None:
    """Remove a disconnected member from the list and free its name.

    Its certificate stays valid: revoke it if the machine must not return.
    """

    async def ask(view: _View) -> None:
        if name in {member.name for member in view.members()}:
            raise Conflict(f"{name} is connected. Next: remove it instead.")
        if not await view.forget(name, ANSWER_SECONDS):
            raise _unknown_member(name, [member.name for member in view.known()])

    _ask(settings, ask)


class _View:
    """The members of a fleet as one connection sees them."""

    def __init__(self, settings: FleetSettings, control: Any) -> None:
        self._membership = Membership(settings)
        self._membership.connected(time.monotonic())
        self._control = control
        self._forgotten: dict[str, bool] = {}
        """Names that the hub has freed, and whether it knew them."""

    async def look(self) -> None:
        """Apply the next messages of the hub."""
        now, instant = time.monotonic(), time.time_ns() // 1_000
        for message in await self._control.read():
            for one in message.get("cards", [message] if "card" in message else []):
                with contextlib.suppress(ValueError):  # an invalid heartbeat is ignored
                    self._membership.seen(heartbeat_of(one["card"]), one["address"], now, instant, one.get("age", 0.0))
            for one in message.get("absent", ()):
                with contextlib.suppress(ValueError):
                    self._membership.restored(heartbeat_of(one["card"]), one["address"], now, instant, one["age"])
            if "gone" in message:
                self._membership.disconnect(message["gone"])
            if messages.FORGOTTEN in message:
                self._forgotten[str(message[messages.FORGOTTEN])] = message.get("is_known") is True

    def usable(self) -> list[Member]:
        """All members, with whether they are usable under the lease of these settings."""
        return self._membership.usable(time.monotonic())

    def known(self) -> list[Member]:
        """All members, connected or not."""
        return list(self._membership.members(time.monotonic()))

    def members(self) -> list[Member]:
        there = set(self._membership.connected_names())
        return [member for member in self._membership.members(time.monotonic()) if member.name in there]

    def member(self, name: str) -> Member:
        found = {member.name: member for member in self.members()}
        if name not in found:
            if name in {member.name for member in self.known()}:
                raise Conflict(f"{name} is not connected. Next: forget it, if it will not return.")
            raise _unknown_member(name, list(found))
        return found[name]

    def send(self, name: str, line: bytes) -> None:
        self._control.send(name, line)

    def release(self, name: str) -> None:
        self._control.release(name)

    async def forget(self, name: str, timeout: float) -> bool:
        """Whether the hub knew the name; returns when the hub has freed it."""

        async def until() -> bool:
            while name not in self._forgotten:
                await self.look()
            return self._forgotten[name]

        self.release(name)
        return await _within(until(), timeout, name)

    async def wait_for(self, name: str, holds: Callable[[Member], bool], timeout: float) -> Member:
        async def until() -> Member:
            while not holds(self.member(name)):
                await self.look()
            return self.member(name)

        return await _within(until(), timeout, name)

    async def wait_until_gone(self, name: str, timeout: float) -> None:
        async def until() -> None:
            while name in self._membership.connected_names():
                await self.look()

        await _within(until(), timeout, name)


def _unknown_member(name: str, known: Sequence[str]) -> NotFound:
    members = f"Members: {', '.join(known)}." if known else "The fleet has no members."
    return NotFound(f"unknown member '{name}'. {members}")


async def _within(waiting: Awaitable[T], timeout: float, name: str) -> T:
    try:
        return await asyncio.wait_for(waiting, timeout)
    except TimeoutError:
        raise Conflict(
            f"{name} did not respond within {timeout:g} s. The request was sent and may still take effect."
        ) from None


def _ask(
    settings: FleetSettings, question: Callable[[_View], Coroutine[Any, Any, T]], timeout: float | None = None
) -> T:
    async def ask() -> T:
        from evertick.executors.fleet.control import Control

        control = await Control.open(settings)
        try:
            view = _View(settings, control)
            try:
                await asyncio.wait_for(view.look(), ANSWER_SECONDS)
            except TimeoutError:
                raise ExecutorUnavailable(f"the fleet at {settings.url} does not respond.") from None
            return await question(view)
        finally:
            await control.close()

    async def bounded() -> T:
        try:
            return await asyncio.wait_for(ask(), timeout)
        except TimeoutError:
            raise ExecutorUnavailable(f"the fleet at {settings.url} does not respond.") from None

    return asyncio.run(bounded())
