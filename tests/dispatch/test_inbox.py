"""The inbox turns askers away when it is full, and reporters never."""

from __future__ import annotations

import asyncio
import threading

import pytest

from evertick.dispatch.inbox import Inbox
from evertick.errors import InboxFull
from evertick.loop.messages import AskStatistics, Shutdown


def test_a_full_inbox_tells_the_asker_so_and_keeps_what_it_has():
    inbox = Inbox(requests_max=2)
    inbox.ask(AskStatistics(1))
    inbox.ask(AskStatistics(2))
    with pytest.raises(InboxFull, match=r"2 messages are waiting.*Try again"):
        inbox.ask(AskStatistics(3))
    assert inbox.drain() == [AskStatistics(1), AskStatistics(2)]


def test_what_has_happened_is_taken_however_full_it_is():
    inbox = Inbox(requests_max=1)
    inbox.ask(AskStatistics(1))
    inbox.report_all([Shutdown()] * 5)
    assert len(inbox.drain()) == 6


def test_messages_sent_before_the_loop_runs_wake_it_at_once():
    inbox = Inbox(requests_max=10)
    inbox.report(Shutdown())

    async def wait() -> list[object]:
        inbox.attach()
        await asyncio.wait_for(inbox.wait(600), timeout=60)
        return list(inbox.drain())

    assert asyncio.run(wait()) == [Shutdown()]


def test_a_report_from_another_thread_ends_the_wait():
    inbox = Inbox(requests_max=10)

    async def wait() -> int:
        inbox.attach()
        inbox.drain()
        thread = threading.Thread(target=lambda: inbox.report(Shutdown()))
        thread.start()
        await asyncio.wait_for(inbox.wait(600), timeout=60)
        thread.join()
        return len(inbox.drain())

    assert asyncio.run(wait()) == 1


def test_the_wait_ends_by_itself_when_nothing_comes():
    inbox = Inbox(requests_max=10)

    async def wait() -> int:
        inbox.attach()
        await asyncio.wait_for(inbox.wait(0.01), timeout=60)
        return len(inbox.drain())

    assert asyncio.run(wait()) == 0


def test_nothing_is_lost_between_many_threads_and_the_loop():
    inbox = Inbox(requests_max=10)
    each, threads = 2_000, 4

    async def collect() -> int:
        inbox.attach()
        senders = [
            threading.Thread(target=lambda: [inbox.report(AskStatistics(slot)) for slot in range(each)])
            for _ in range(threads)
        ]
        for sender in senders:
            sender.start()
        taken = 0
        while taken < each * threads:
            await asyncio.wait_for(inbox.wait(600), timeout=60)
            taken += len(inbox.drain())
        for sender in senders:
            sender.join()
        return taken

    assert asyncio.run(collect()) == each * threads
