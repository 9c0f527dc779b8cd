"""Operator actions on a fleet: list members, drain, remove and forget them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from evertick.errors import Conflict, ExecutorUnavailable, NotFound
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.settings import FleetSettings
from evertick.executors.fleet.validation import heartbeat_of
from evertick.model.member import Member

ANSWER_SECONDS = 10.0

T = TypeVar("T")


def list_members(settings: FleetSettings, timeout: float = 2 * ANSWER_SECONDS) -> list[Member]:
    """Who is there, and who was and is away now, by name; `ExecutorUnavailable` after that many seconds."""

    async def look(view: _View) -> list[Member]:
        return view.usable()

    return _ask(settings, look, timeout)


def set_cordon(settings: FleetSettings, name: str, *, is_closed: bool) -> Member:
    """Let a member take nothing new, or let it again; what it runs goes on. It remembers over restarts."""

    async def cordon(view: _View) -> Member:
        view.member(name)
        view.tell(name, protocol.encode(messages.CORDON, is_closed))
        return await view.wait_for(name, lambda member: member.is_open is not is_closed, ANSWER_SECONDS)

    return _ask(settings, cordon)


def drain(settings: FleetSettings, name: str, timeout: float, said: Callable[[Member], None]) -> Member:
    """Let a member take nothing new, and wait until nothing runs there."""

    async def wait(view: _View) -> Member:
        view.member(name)
        view.tell(name, protocol.encode(messages.CORDON, True))
        member = await view.wait_for(name, lambda member: not member.is_open, ANSWER_SECONDS)
        said(member)
        return await view.wait_for(name, lambda member: not member.running, timeout)

    return _ask(settings, wait)


def remove(settings: FleetSettings, name: str, *, by_force: bool) -> None:
    """Let a member leave for good; one that still runs something only by force, which ends it.

    Its name is free then. By force also where the member itself is not there to be asked.
    """

    async def leave(view: _View) -> None:
        if by_force and name not in {member.name for member in view.members()}:
            view.release(name)
            return
        member = view.member(name)
        if member.running and not by_force:
            running = "1 attempt" if member.running == 1 else f"{member.running} attempts"
            raise Conflict(f"{name} runs {running}. Drain it first, or use --force to end what runs.")
        view.tell(name, protocol.encode(messages.LEAVE))
        await view.wait_until_gone(name, ANSWER_SECONDS)
        view.release(name)

    _ask(settings, leave)


def forget(settings: FleetSettings, name: str) -> None:
    """Tell no more of a member that is away, and let another machine have its name.

    Its certificate stays good: where the machine itself may not come back, that is to be revoked.
    """

    async def ask(view: _View) -> None:
        if name in {member.name for member in view.members()}:
            raise Conflict(f"{name} is there. Next: evertick fleet remove {name}")
        if not await view.forget(name, ANSWER_SECONDS):
            known = ", ".join(member.name for member in view.known()) or "nobody"
            raise NotFound(f"there is no member '{name}' in the fleet; there are: {known}.")

    _ask(settings, ask)


class _View:
    """What a person sees of a fleet while connected."""

    def __init__(self, settings: FleetSettings, control: Any) -> None:
        self._membership = Membership(settings)
        self._membership.connected(time.monotonic())
        self._control = control
        self._forgotten: dict[str, bool] = {}
        """Names that the hub has freed, and whether they were known."""

    async def look(self) -> None:
        """Take in what is said next."""
        now, instant = time.monotonic(), time.time_ns() // 1_000
        for message in await self._control.read():
            for one in message.get("cards", [message] if "card" in message else []):
                with contextlib.suppress(ValueError):  # one that makes no sense is not there
                    self._membership.seen(heartbeat_of(one["card"]), one["address"], now, instant, one.get("age", 0.0))
            for one in message.get("absent", ()):
                with contextlib.suppress(ValueError):
                    self._membership.restored(heartbeat_of(one["card"]), one["address"], now, instant, one["age"])
            if "gone" in message:
                self._membership.disconnect(message["gone"])
            if messages.FORGOTTEN in message:
                self._forgotten[str(message[messages.FORGOTTEN])] = message.get("is_known") is True

    def usable(self) -> list[Member]:
        """Those that are away too, and what they are to one whose lease is as our settings say."""
        return self._membership.usable(time.monotonic())

    def known(self) -> list[Member]:
        """Those that are away too."""
        return list(self._membership.members(time.monotonic()))

    def members(self) -> list[Member]:
        there = set(self._membership.connected_names())
        return [member for member in self._membership.members(time.monotonic()) if member.name in there]

    def member(self, name: str) -> Member:
        found = {member.name: member for member in self.members()}
        if name not in found:
            if name in {member.name for member in self.known()}:
                raise Conflict(f"{name} is away. Next, if it does not come back: evertick fleet forget {name}")
            known = ", ".join(found) or "nobody"
            raise NotFound(f"there is no member '{name}' in the fleet; there are: {known}.")
        return found[name]

    def tell(self, name: str, line: bytes) -> None:
        self._control.tell(name, line)

    def release(self, name: str) -> None:
        self._control.release(name)

    async def forget(self, name: str, timeout: float) -> bool:
        """Whether it was known; answered when the hub has done it."""

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


async def _within(waiting: Awaitable[T], timeout: float, name: str) -> T:
    try:
        return await asyncio.wait_for(waiting, timeout)
    except TimeoutError:
        raise Conflict(f"{name} has not come so far in {timeout:g} s. It was asked, and may get there yet.") from None


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
                raise ExecutorUnavailable(f"the fleet at {settings.url} does not answer.") from None
            return await question(view)
        finally:
            await control.close()

    async def bounded() -> T:
        try:
            return await asyncio.wait_for(ask(), timeout)
        except TimeoutError:
            raise ExecutorUnavailable(f"the fleet at {settings.url} does not answer.") from None

    return asyncio.run(bounded())
