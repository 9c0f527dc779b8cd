"""The control socket of a scheduler, with well-behaved clients, broken ones, and many of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evertick.dispatch import control as controls
from evertick.dispatch.control import Control
from evertick.dispatch.control_client import SOCKET, ControlClient, address_of
from evertick.dispatch.control_client import main as health
from evertick.dispatch.feed import Feed
from evertick.model.instant import SECOND
from evertick.model.lifecycle import RUNNING
from evertick.model.run import Change, RunKey
from tests.present import present

NINE = 1_772_442_000 * SECOND
PATIENCE = 180


def change(number: int) -> Change:
    return Change(RunKey("a", NINE + number * SECOND), RUNNING, NINE, detail="x" * 50)


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, what
        pause.wait(0.01)


class Scene:
    def __init__(self, folder: Path, size: int = 1_000, clients_max: int = 64) -> None:
        self.feed = Feed("f1", lambda: NINE, size)
        self.looks: list[str] = []
        self.control = Control(
            folder / SOCKET,
            lambda: {"node": "a1", "last": self.feed.last},
            self.feed,
            clients_max,
            lambda: self.looks.append("looked"),
        )
        self.client = ControlClient(folder, timeout=PATIENCE)

    def publish(self, count: int) -> None:
        for number in range(count):
            self.feed([change(number)])

    @contextlib.contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one, address_of(self.control.path) as address:
            one.settimeout(PATIENCE)
            one.connect(address)
            yield one


@contextlib.contextmanager
def scene_in(folder: Path, **options: int) -> Iterator[Scene]:
    scene = Scene(folder, **options)
    assert scene.control.start()
    try:
        yield scene
    finally:
        scene.control.stop(PATIENCE)


@pytest.fixture
def scene(tmp_path) -> Iterator[Scene]:
    with scene_in(tmp_path) as found:
        yield found


def read_all(connection: socket.socket) -> list[dict]:
    with connection.makefile("rb") as lines:
        return [json.loads(line) for line in lines]


class TestAsking:
    def test_the_status_is_reported_again_and_again_over_one_connection(self, scene):
        with scene.connection() as one, one.makefile("rb") as lines:
            for _ in range(3):
                one.sendall(b'{"ask": "status"}\n')
                assert json.loads(lines.readline()) == {"status": {"node": "a1", "last": 0}}

    def test_by_the_client(self, scene):
        assert scene.client.status() == {"node": "a1", "last": 0}

    def test_a_connection_that_is_over_leaves_nothing_behind(self, scene):
        """A scheduler looks for garbage rarely, so the connections of a day would otherwise stay in its memory."""

        def transports() -> list[object]:
            return [one for one in gc.get_objects() if isinstance(one, asyncio.Transport)]

        gc.collect()
        gc.disable()
        try:
            before = len(transports())
            for _ in range(20):
                assert scene.client.status() is not None
            wait_for(lambda: not scene.control.counts["clients"], "the connections to end")
            wait_for(lambda: len(transports()) <= before, "closed connections stay in memory")
        finally:
            gc.enable()

    def test_a_request_is_looked_for_at_once(self, scene):
        scene.client.announce_requests()
        wait_for(lambda: scene.looks == ["looked"], "it to look")
        with scene.connection() as one:
            one.sendall(b'{"ask": "look"}\n')
            assert one.makefile().readline() == '{"looks":true}\n'
        assert len(scene.looks) == 2

    def test_without_a_scheduler_an_announcement_does_nothing(self, tmp_path):
        ControlClient(tmp_path).announce_requests()

    def test_without_a_scheduler_there_is_no_status_and_no_events(self, tmp_path):
        client = ControlClient(tmp_path)
        assert (client.status(), list(client.events())) == (None, [])

    def test_a_status_that_raises_costs_the_asker_its_answer_and_nothing_else(self, tmp_path, caplog):
        scene = Scene(tmp_path)
        scene.control._status = _fails
        scene.control.start()
        assert scene.client.status() is None
        scene.control._status = lambda: {"node": "a1"}
        assert scene.client.status() == {"node": "a1"}
        scene.control.stop(PATIENCE)
        assert "control.fault" in caplog.text


class TestTheHealthCheck:
    @pytest.mark.parametrize(
        ("lag", "still", "is_stopping", "code", "alive"),
        [
            pytest.param(0.2, 0.1, False, 0, 0, id="well"),
            pytest.param(31.0, 0.1, False, 1, 0, id="behind, because the ledger is away"),
            pytest.param(31.0, 31.0, False, 1, 1, id="hanging"),
            pytest.param(31.0, 31.0, True, 0, 0, id="stopping"),
        ],
    )
    def test_its_exit_code_says_whether_the_scheduler_is_well_or_only_alive(
        self, scene, tmp_path, monkeypatch, lag, still, is_stopping, code, alive
    ):
        planner = {"lag_seconds": lag, "seconds_since_turn": still}
        told = {"node": "a1", "uptime_seconds": 5.0, "planner": planner, "is_stopping": is_stopping}
        scene.control._status = lambda: told
        for flags, expected in (([], code), (["--alive"], alive)):
            monkeypatch.setattr(sys, "argv", ["x", *flags, str(tmp_path)])
            assert health() == expected

    @pytest.mark.parametrize("words", [[], ["--alive"], ["--well", "here"], ["one", "two"]])
    def test_a_wrong_call_shows_the_usage(self, monkeypatch, words):
        monkeypatch.setattr(sys, "argv", ["x", *words])
        assert health() == 2


class TestListening:
    def test_events_come_from_a_number_on_and_as_they_happen(self, scene):
        scene.publish(5)
        events = scene.client.events(after=3, feed="f1")
        head = next(events)
        assert (head["feed"], head["after"], head["is_continued"]) == ("f1", 3, True)
        assert [next(events)["event"] for _ in range(2)] == [4, 5]
        scene.publish(2)
        assert [next(events)["event"] for _ in range(2)] == [6, 7]
        events.close()

    @pytest.mark.parametrize(
        ("after", "feed", "first"),
        [
            pytest.param(None, None, 4, id="without a number: from now on"),
            pytest.param(2, "another", 1, id="from another start of the scheduler: all there is"),
            pytest.param(99, "f1", 4, id="a number that never was: from now on"),
            pytest.param(-5, "f1", 4, id="a number that cannot be: from now on"),
        ],
    )
    def test_where_it_begins(self, scene, after, feed, first):
        scene.publish(3)
        events = scene.client.events(after, feed)
        assert next(events)["is_continued"] is False
        scene.publish(1)
        assert next(events)["event"] == first
        events.close()

    def test_with_asyncio_and_when_the_scheduler_ends_the_events_do(self, tmp_path):
        with scene_in(tmp_path) as scene:
            heard: list[int] = []
            for told in scene.client.events(after=0):
                if "feed" in told:
                    scene.publish(10)
                elif "event" in told:
                    heard.append(told["event"])
                    if told["event"] == 10:
                        present(scene.control._loop).call_soon_threadsafe(present(scene.control._ending).set)
        assert heard == list(range(1, 11))

    def test_silence_is_broken_by_beats(self, scene, monkeypatch):
        monkeypatch.setattr(controls, "BEAT_SECONDS", 0.01)
        events = scene.client.events()
        next(events)
        assert next(events) == {"beat": 0}
        events.close()

    @pytest.mark.slow
    def test_many_listeners_receive_the_same_ten_thousand_events(self, tmp_path):
        with scene_in(tmp_path, size=20_000) as scene:
            heard: list[list[int]] = [[] for _ in range(20)]
            ready = threading.Barrier(21)

            def hear(mine: list[int]) -> None:
                for told in scene.client.events(after=0):
                    if "feed" in told:
                        ready.wait(PATIENCE)
                    elif "event" in told:
                        mine.append(told["event"])
                        if told["event"] == 10_000:
                            return

            threads = [threading.Thread(target=hear, args=(mine,)) for mine in heard]
            for thread in threads:
                thread.start()
            ready.wait(PATIENCE)
            scene.publish(10_000)
            for thread in threads:
                thread.join(PATIENCE)
            assert all(mine == list(range(1, 10_001)) for mine in heard)
            wait_for(lambda: scene.feed.listeners == 0, "the listeners were not let go")


class TestClientsThatMisbehave:
    def test_a_client_that_never_reads_delays_no_other_and_is_disconnected(self, tmp_path, monkeypatch):
        monkeypatch.setattr(controls, "PATIENCE_SECONDS", 0.5)
        with scene_in(tmp_path) as scene, scene.connection() as deaf:
            deaf.sendall(b'{"ask": "events", "after": 0}\n')
            wait_for(lambda: scene.feed.listeners == 1, "it does not listen")
            scene.publish(20_000)
            assert present(scene.client.status())["last"] == 20_000
            wait_for(lambda: scene.feed.listeners == 0, "it was not let go")

    def test_a_client_that_reads_too_slowly_receives_the_number_of_lost_events(self, tmp_path):
        with scene_in(tmp_path, size=100) as scene, scene.connection() as slow, slow.makefile("rb") as lines:
            slow.sendall(b'{"ask": "events", "after": 0}\n')
            assert json.loads(lines.readline())["feed"] == "f1"
            seen = 0
            while scene.feed.dropped == 0:
                scene.publish(100)  # more than the buffers on the way can hold, sooner or later
            last = scene.feed.last
            numbers, lost = [], 0
            while seen < last:
                told = json.loads(lines.readline())
                if told["kind"] == "dropped":
                    lost += told["count"]
                else:
                    numbers.append(told["event"])
                seen = told["event"]
            assert numbers == sorted(numbers)
            assert (len(numbers) + lost, scene.feed.dropped) == (last, lost)

    @pytest.mark.parametrize(
        "line",
        [
            pytest.param(b"hello\n", id="no JSON"),
            pytest.param(b"[1,2]\n", id="no object"),
            pytest.param(b'{"ask": "money"}\n', id="an unknown question"),
            pytest.param(b'{"ask": ["status"]}\n', id="a question that is none"),
            pytest.param(b"[" * 50_000 + b"\n", id="deep"),
            pytest.param(b"\xff\xfe\x00\n", id="bytes"),
            pytest.param(b"x" * 200_000 + b"\n", id="a line without end"),
        ],
    )
    def test_garbage_is_answered_with_what_to_write_and_the_end(self, scene, line):
        with scene.connection() as one, contextlib.suppress(ConnectionError):
            one.sendall(line)
            (answer,) = read_all(one)
            assert set(answer) == {"error"}
        assert scene.client.status() == {"node": "a1", "last": 0}

    @pytest.mark.parametrize("sent", [b"", b'{"ask": "sta'], ids=["nothing", "half a question"])
    def test_a_client_that_closes_its_end_before_its_request_gets_nothing(self, scene, sent):
        with scene.connection() as one:
            one.sendall(sent)
            one.shutdown(socket.SHUT_WR)
            assert read_all(one) == []

    def test_a_client_that_closes_its_end_after_its_request_is_still_answered(self, scene):
        with scene.connection() as one, one.makefile("rb") as lines:
            one.sendall(b'{"ask": "events", "after": 0}\n')
            one.shutdown(socket.SHUT_WR)
            told = [json.loads(lines.readline())]
            scene.publish(1)
            while "event" not in told[-1]:
                told.append(json.loads(lines.readline()))
            assert told[-1]["event"] == 1

    def test_a_client_that_is_gone_is_noticed_at_once(self, scene):
        with scene.connection() as one:
            one.sendall(b'{"ask": "events", "after": 0}\n')
            wait_for(lambda: scene.feed.listeners == 1, "it does not listen")
        wait_for(lambda: scene.feed.listeners == 0, "it was not let go")

    def test_a_client_that_sends_without_end_while_it_listens_fills_no_memory(self, scene):
        with scene.connection() as one, one.makefile("rb") as lines:
            one.sendall(b'{"ask": "events", "after": 0}\n')
            lines.readline()
            for _ in range(200):
                one.sendall(b"x" * 65_536)
            scene.publish(1)
            assert json.loads(lines.readline())["event"] == 1

    def test_too_many_are_turned_away_with_the_reason(self, tmp_path):
        with scene_in(tmp_path, clients_max=2) as scene, scene.connection(), scene.connection():
            wait_for(lambda: scene.control.counts["clients"] == 2, "they are not connected")
            with scene.connection() as third:
                assert read_all(third) == [{"error": "2 clients are connected, which is the limit"}]
            assert scene.control.counts["refused"] == 1


class TestThePlace:
    def test_only_its_user_may_connect(self, scene):
        assert stat.S_IMODE(scene.control.path.stat().st_mode) == 0o600

    def test_a_path_longer_than_an_address_may_be(self, tmp_path):
        folder = tmp_path / ("d" * 100) / ("e" * 100)
        folder.mkdir(parents=True)
        with scene_in(folder) as scene:
            assert scene.client.status() == {"node": "a1", "last": 0}

            assert next(iter(scene.client.events()))["feed"] == "f1"

    def test_the_socket_of_a_dead_process_is_replaced(self, tmp_path):
        code = (
            "import os, socket, sys\n"
            "one = socket.socket(socket.AF_UNIX); one.bind(sys.argv[1]); one.listen(); os._exit(0)"
        )
        with address_of(tmp_path / SOCKET) as address:
            subprocess.run([sys.executable, "-c", code, address], check=True)
        assert (tmp_path / SOCKET).exists()
        with scene_in(tmp_path) as scene:
            assert scene.client.status() == {"node": "a1", "last": 0}

    def test_a_file_that_is_not_a_socket_is_replaced_too(self, tmp_path):
        (tmp_path / SOCKET).write_text("what")
        with scene_in(tmp_path) as scene:
            assert scene.client.status() == {"node": "a1", "last": 0}

    def test_a_scheduler_that_answers_keeps_its_place(self, scene, tmp_path, caplog):
        second = Scene(tmp_path)
        assert not second.control.start()
        second.control.stop()
        assert "control.taken" in caplog.text
        assert scene.client.status() == {"node": "a1", "last": 0}

    def test_the_socket_is_gone_when_the_scheduler_is_unless_another_has_taken_it(self, tmp_path):
        with scene_in(tmp_path) as scene:
            assert scene.control.path.exists()
        assert os.listdir(tmp_path) == []
        first = Scene(tmp_path)
        first.control.start()
        first.control.path.unlink()
        with scene_in(tmp_path) as second:
            first.control.stop(PATIENCE)
            assert second.client.status() == {"node": "a1", "last": 0}

    def test_a_folder_that_cannot_be_written_costs_the_socket_and_not_the_scheduler(self, tmp_path, caplog):
        scene = Scene(tmp_path / "nowhere")
        assert not scene.control.start()
        scene.control.stop()
        assert "control.failed" in caplog.text


def _fails() -> dict[str, object]:
    raise ZeroDivisionError
