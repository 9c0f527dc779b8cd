"""Does each page receive every event in order, and does no other wait for one that does not read?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
from collections import deque
from typing import Any

from evertick.api import feed as feed_module
from evertick.api.__main__ import follow_folder
from evertick.api.factory import Control, following
from evertick.api.feed import JOBS_MAX, QUEUE_MAX, RESET, Feed
from evertick.definitions.watch import FolderWatch
from evertick.model.definition import definition_text


def event(number):
    return {"event": number, "kind": "run", "run": f"r{number}"}


async def listen(feed, after=None):
    """Events one by one; None for a sign of life."""
    async with contextlib.aclosing(feed.gather(after)) as gathering:
        async for some in gathering:
            for told in some or [None]:
                yield told


def values_in(told):
    """What a page reads."""
    return json.loads(told.text.split(b"\n")[2].removeprefix(b"data: "))


async def take(listening, count):
    return [told for _ in range(count) if (told := await asyncio.wait_for(anext(listening), 60)) is not None]


def test_every_listener_receives_everything_in_order():
    async def scene():
        feed = Feed()
        pages = [listen(feed) for _ in range(3)]
        waiting = [asyncio.ensure_future(take(page, 5)) for page in pages]
        while feed.listeners < 3:
            await asyncio.sleep(0)
        threading.Thread(target=lambda: deque(map(feed.publish, map(event, range(5))))).start()
        heard = await asyncio.gather(*waiting)
        for page in pages:
            await page.aclose()
        return feed, heard

    feed, heard = asyncio.run(scene())
    assert [[told.number for told in one] for one in heard] == [[1, 2, 3, 4, 5]] * 3
    assert [values_in(told)["event"] for told in heard[0]] == [0, 1, 2, 3, 4]
    assert not any(told.data for told in heard[0]), "beside its text, a message keeps its values"
    assert feed.listeners == 0


def test_a_client_that_returns_continues_where_it_was():
    async def scene():
        feed = Feed()
        for number in range(5):
            feed.publish(event(number))
        page = listen(feed, after=3)
        return [told.number for told in await take(page, 2)]

    assert asyncio.run(scene()) == [4, 5]


def test_a_client_that_returns_too_late_or_from_another_feed_must_read_again():
    async def scene(after):
        feed = Feed()
        feed.publish(event(1))
        return [told.kind for told in await take(listen(feed, after=after), 1)]

    assert asyncio.run(scene(after=99)) == asyncio.run(scene(after=-1)) == [RESET]


def test_a_page_that_does_not_read_loses_events_and_learns_how_many():
    async def scene():
        feed = Feed()
        page = listen(feed)
        first = asyncio.ensure_future(anext(page))
        while not feed.listeners:
            await asyncio.sleep(0)
        for number in range(QUEUE_MAX + 10):
            feed.publish(event(number))
        heard = [await first, *await take(page, 2)]
        return [told.kind for told in heard]

    assert RESET in asyncio.run(scene())


def test_what_happens_in_a_burst_goes_to_a_page_in_handfuls_and_is_written_once():
    async def scene():
        feed = Feed()
        pages = [feed.gather(), feed.gather()]
        first = [asyncio.ensure_future(anext(page)) for page in pages]
        while feed.listeners < 2:
            await asyncio.sleep(0)
        for number in range(300):
            feed.publish(event(number))
        heard = [await one for one in first]
        for page, some in zip(pages, heard, strict=True):
            while len(some) < 300:
                some += await asyncio.wait_for(anext(page), 60)
        return feed, heard

    feed, (one, other) = asyncio.run(scene())
    assert [told.number for told in one] == [told.number for told in other] == list(range(1, 301))
    assert all(
        mine.text is yours.text and mine.text == feed.written(mine) for mine, yours in zip(one, other, strict=True)
    )


def test_a_quiet_time_brings_a_sign_of_life(monkeypatch):
    monkeypatch.setattr(feed_module, "HEARTBEAT_SECONDS", 0.01)

    async def scene():
        return await asyncio.wait_for(anext(listen(Feed())), 60)

    assert asyncio.run(scene()) is None


def test_a_failing_watcher_affects_no_other(caplog):
    feed = Feed()
    heard: list[Any] = []

    def fail(_event):
        raise ZeroDivisionError

    feed.watchers += [fail, heard.append]
    feed.publish(event(1))
    assert heard == [event(1)]
    assert "feed.watcher_failed" in caplog.text


class RestartedScheduler(Control):
    """A scheduler that is restarted."""

    def __init__(self, *lives):
        self.lives = list(lives)
        self.asked = []

    def status(self):
        return None

    def announce_requests(self):
        pass

    def events(self, after=None, feed=None):
        self.asked.append((after, feed))
        yield from self.lives.pop(0) if self.lives else ()


def test_the_scheduler_is_followed_across_breaks():
    control = RestartedScheduler(
        [{"feed": "one", "is_continued": False}, event(1), {"beat": 1}, event(2)],
        [{"feed": "one", "is_continued": True}, event(3), {"event": 4, "kind": "dropped", "count": 7}],
        [{"feed": "two", "is_continued": False}, event(1)],
    )
    follow = following(control)
    heard = [[told["kind"] for told in follow(threading.Event())] for _ in range(3)]
    assert heard == [[RESET, "run", "run"], ["run", RESET], [RESET, "run"]]
    assert control.asked == [(None, None), (2, "one"), (4, "one")]


def test_the_feed_continues_when_following_fails(monkeypatch, caplog):
    monkeypatch.setattr(feed_module, "AWAY_SECONDS", 0.001)
    heard: list[Any] = []
    enough = threading.Event()
    tries = iter(range(100))

    def follow(stop):
        number = next(tries)
        yield event(number)
        if number >= 3:
            enough.set()
            stop.wait(60)
        raise ValueError("garbage on the line")

    feed = Feed(follow)
    feed.watchers.append(heard.append)
    feed.start()
    assert enough.wait(60)
    feed.stop()
    assert heard[:4] == [event(number) for number in range(4)]


def test_an_edit_is_published_once_the_answers_show_it(tmp_path):
    """The scheduler may see an edit first: a page that asks again then is answered by what this process knew before."""
    file = tmp_path / "report.yaml"
    file.write_text('schedule: "0 9 * * *"\ncommand: echo before\n')
    watch, feed = FolderWatch(tmp_path), Feed()
    heard: queue.Queue[tuple[str, str, str]] = queue.Queue()

    def hear(told):
        known = watch.snapshot().jobs.get("report")
        heard.put((told["kind"], told.get("job", ""), definition_text(known) if known else "gone"))

    feed.watchers.append(hear)
    following = threading.Thread(target=follow_folder, args=(watch, feed, lambda: None))
    following.start()
    try:
        kind, _, text = heard.get(timeout=180)
        assert (kind, "echo before" in text) == (RESET, True)
        file.write_text('schedule: "0 9 * * *"\ncommand: echo after\n')
        kind, job, text = heard.get(timeout=180)
        assert (kind, job, "echo after" in text) == ("job", "report", True)
        file.unlink()
        assert heard.get(timeout=180) == ("job", "report", "gone")
    finally:
        watch.stop()
        following.join(60)


def test_of_a_change_to_very_many_jobs_only_that_much_has_changed_is_reported():
    feed = Feed()
    heard: list[Any] = []
    feed.watchers.append(heard.append)
    feed.publish_jobs([f"job-{number}" for number in range(JOBS_MAX + 1)])
    feed.publish_jobs([])
    assert [told["kind"] for told in heard] == [RESET, RESET]
