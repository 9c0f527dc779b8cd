"""The inbox wakes the loop and loses no message."""

from __future__ import annotations

import asyncio
import threading

from evertick.dispatch.inbox import Inbox
from evertick.loop.messages import Shutdown, TimePassed


def test_messages_sent_before_the_loop_runs_wake_it_at_once():
    inbox = Inbox()
    inbox.report(Shutdown())

    async def wait() -> list[object]:
        inbox.attach()
        await asyncio.wait_for(inbox.wait(600), timeout=180)
        return list(inbox.drain())

    assert asyncio.run(wait()) == [Shutdown()]


def test_a_report_from_another_thread_ends_the_wait():
    inbox = Inbox()

    async def wait() -> int:
        inbox.attach()
        inbox.drain()
        thread = threading.Thread(target=lambda: inbox.report(Shutdown()))
        thread.start()
        await asyncio.wait_for(inbox.wait(600), timeout=180)
        thread.join()
        return len(inbox.drain())

    assert asyncio.run(wait()) == 1


def test_the_wait_ends_by_itself_when_nothing_comes():
    inbox = Inbox()

    async def wait() -> int:
        inbox.attach()
        await asyncio.wait_for(inbox.wait(0.01), timeout=180)
        return len(inbox.drain())

    assert asyncio.run(wait()) == 0


def test_nothing_is_lost_between_many_threads_and_the_loop():
    inbox = Inbox()
    each, threads = 2_000, 4

    async def collect() -> int:
        inbox.attach()
        senders = [
            threading.Thread(target=lambda: [inbox.report(TimePassed(slot)) for slot in range(each)])
            for _ in range(threads)
        ]
        for sender in senders:
            sender.start()
        taken = 0
        while taken < each * threads:
            await asyncio.wait_for(inbox.wait(600), timeout=180)
            taken += len(inbox.drain())
        for sender in senders:
            sender.join()
        return taken

    assert asyncio.run(collect()) == each * threads
