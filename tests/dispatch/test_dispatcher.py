"""The loop is told how time went before it is told anything else."""

from __future__ import annotations

import asyncio

from evertick.dispatch.clock import SystemClock
from evertick.dispatch.dispatcher import Dispatcher
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.writer import Writer
from evertick.loop.effects import Effect
from evertick.loop.messages import Message, RunHeartbeat, Shutdown, TimePassed
from evertick.loop.settings import LoopSettings
from evertick.loop.state import State
from evertick.model.run import RunKey
from evertick.stores.memory import MemoryStore


def test_a_jump_of_the_clock_is_known_before_what_was_said_since():
    """A sign of life is counted from the clock as it is now; moved with a jump after that, its run would be lost."""
    clock, inbox = SystemClock(), Inbox(100)
    seen: list[Message | Effect] = []
    dispatcher = Dispatcher(
        State(LoopSettings(), "node", "start", clock.now()),
        inbox,
        Writer(MemoryStore(), inbox.report),
        {},
        clock,
        resync=lambda: None,
        release=lambda _: None,
        observe=seen.append,
    )
    inbox.report(RunHeartbeat(RunKey("a", 0), 1))
    inbox.report(Shutdown())
    asyncio.run(dispatcher.run())
    assert [type(message) for message in seen[:3]] == [TimePassed, RunHeartbeat, Shutdown]
