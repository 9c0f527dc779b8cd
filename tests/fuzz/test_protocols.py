"""Whether hostile messages end a connection or are ignored: to a keeper, and from a member of the fleet."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import Counter
from random import Random

import pytest

from evertick.definitions.parser import parse_definition
from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.fleet.frames import HEAD_SIZE, FrameError, decode, encode
from evertick.executors.keeper.lease import Lease
from evertick.executors.keeper.server import Connection, Server
from evertick.executors.protocol import LaunchMessage, encode_work
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd
from evertick.model.work_json import from_plain
from tests.definitions.test_fuzz import SAMPLE
from tests.executors.contract import NINE
from tests.fleet.test_assignments import Line
from tests.fuzz import drawing
from tests.fuzz.harness import fuzz

pytestmark = pytest.mark.slow

KEY = RunKey("report", NINE)
RUN = [*KEY, 1]
JOB = parse_definition(SAMPLE, "jobs/x.yaml").job
assert JOB is not None
WORK = encode_work(JOB)

TO_KEEPER = [
    [protocol.HELLO, protocol.VERSION, "a1"],
    [protocol.LAUNCH, *RUN, 1, "scheduler", "", None, WORK, {"TOKEN": "x"}, NINE, True],
    [protocol.STOP, *RUN, "by a person"],
    [protocol.RECONCILE, [RUN, RUN], 3],
    [protocol.DELIVERED, 7],
    [protocol.SUB_RUN_ENDED, *RUN, "a", 1, "succeeded", "", {"OUT": "1"}],
    [protocol.LEASE, *range(len(Lease._fields))],
    [protocol.CONFIRMED, [RUN]],
    [protocol.PING],
    [protocol.LEAVE],
]
FROM_MEMBER = [
    [protocol.STARTED, *RUN, NINE],
    [protocol.STEPS, *RUN, "[]"],
    [protocol.FINISHED, *RUN, NINE, "succeeded", 0, "", 7, None, ""],
    [protocol.UNKNOWN, *RUN, 3],
    [protocol.REFUSED, *RUN, "full", 1],
    [protocol.SUB_RUN_WANTED, *RUN, "a", 1, "other", "{}", True],
    [protocol.SUB_RUN_UNWANTED, *RUN, "a", 1, "other"],
    [messages.LOG, *RUN, "main", 0, "aGVsbG8=", True],
    [messages.LOGS_END, *RUN, "0" * 64, 5],
]
CARD = messages.Heartbeat("ex-a", (), True, 0, 0, "1", "1", 0.0, 0, NINE).to_plain()


class CheckedHandler:
    """A keeper's supervisor that runs nothing, and checks that everything it is given has the type it declares."""

    def launch(self, launch: LaunchMessage, instance: str) -> None:
        self.stop(launch.attempt_id, launch.trigger)
        assert isinstance(instance, str)
        assert isinstance(launch.work, str)
        assert type(launch.fence) is int

    def stop(self, attempt_id: AttemptId, detail: str) -> None:
        (job_id, scheduled_for, origin), attempt = attempt_id
        assert isinstance(job_id, str)
        assert isinstance(origin, str)
        assert isinstance(detail, str)
        assert (type(scheduled_for), type(attempt)) == (int, int)

    def reconcile(self, attempt_ids: list[AttemptId], fence: int) -> None:
        self.confirm(attempt_ids)
        assert type(fence) is int

    def delivered(self, serial: int) -> None:
        assert type(serial) is int

    def sub_run_ended(self, attempt_id: AttemptId, step: str, number: int, end: SubRunEnd) -> None:
        self.stop(attempt_id, step)
        assert type(number) is int
        assert all(isinstance(text, str) for text in end.outputs.values())

    def renew(self, lease: Lease, instance: str) -> None:
        assert isinstance(instance, str)
        assert all(type(part) is int for part in lease)

    def confirm(self, attempt_ids: list[AttemptId]) -> None:
        for one in attempt_ids:
            self.stop(one, "")

    def open_reports(self) -> list[bytes]:
        return []

    def leave(self) -> None:
        pass


class OpenTransport(asyncio.Transport):
    """The other end of a connection, until it is aborted."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__({"socket": end})
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False

    def is_closing(self) -> bool:
        return not self.is_open

    def write(self, data: object) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def test_messages_to_a_keeper():
    ours, theirs = socket.socketpair()

    def draw(dice: Random) -> bytes:
        hello = json.dumps(TO_KEEPER[0]).encode() + b"\n" if dice.random() < 0.9 else b""
        return hello + drawing.lines(dice, TO_KEEPER)

    def send(data: bytes) -> str:
        server = Server("1")
        server.handler = CheckedHandler()
        connection, transport = Connection(server), OpenTransport(ours)
        connection.connection_made(transport)
        connection.data_received(data)
        connection.connection_lost(None)
        assert not server.is_connected
        return "taken" if transport.is_open else "closed"

    with ours, theirs:
        fuzz("messages to a keeper", draw, send, few=2_000)


def test_work_of_a_launch():
    plain = json.loads(WORK)

    def draw(dice: Random) -> str:
        if dice.random() < 0.1:
            return drawing.mutated(dice, WORK)
        return json.dumps(drawing.changed(dice, plain))

    def send(text: str) -> str:
        try:
            from_plain(json.loads(text))
        except ValueError:
            return "refused"
        return "accepted"

    fuzz("work of a launch", draw, send, few=1_000)


@pytest.fixture
def warnings():
    """How many the fleet logged. pytest does not see them: it would keep the lines of all inputs."""
    logger = logging.getLogger("evertick.fleet")
    counted: Counter[str] = Counter()
    handler = logging.Handler()
    handler.emit = lambda record: counted.update([record.getMessage()[:30]])
    logger.addHandler(handler)
    logger.propagate = False
    yield counted
    logger.propagate = True
    logger.removeHandler(handler)


def test_messages_of_a_member(tmp_path, warnings):
    sent = 0
    line = Line(tmp_path)

    def draw(dice: Random) -> bytes:
        return drawing.lines(dice, FROM_MEMBER)

    def send(data: bytes) -> str:
        nonlocal sent, line
        if sent % 500 == 0:  # what was never ended is kept, and would slow the later inputs down
            line = Line(tmp_path).connect("ex-a")
        sent += 1
        line.launch(attempt=sent)
        line.reports.clear()
        line.told.clear()
        # The attempt of this input, so that it reaches the parts behind the question whose it is.
        data = data.replace(b", 1, ", f", {sent}, ".encode(), 1)
        try:
            line.assignments.receive("ex-a", data, line.now)
        except ValueError:  # the relay drops the connection of who sends it
            return "closed"
        return "reported" if line.news() else "passed over"

    fuzz("messages of a member", draw, send, few=500)


def test_heartbeats_of_a_member(tmp_path, warnings):
    line = Line(tmp_path).connect("ex-b")

    def draw(dice: Random) -> object:
        return drawing.changed(dice, CARD)

    def send(card: object) -> str:
        warnings.clear()
        line.assignments.heartbeat(card, "tcp://there", line.now, NINE)  # type: ignore[arg-type]
        return "passed over" if warnings else "taken"

    fuzz("heartbeat of a member", draw, send, few=1_000)


def test_frames_of_the_fleet():
    def draw(dice: Random) -> bytes:
        if dice.random() < 0.2:
            return dice.randbytes(dice.randrange(17, 200))
        frame = bytearray(encode({"op": "say", "lines": drawing.lines(dice, FROM_MEMBER), "from": "ex-a"})[HEAD_SIZE:])
        for _ in range(dice.choice((0, 1, 1, 3))):
            frame[dice.randrange(len(frame))] = dice.randrange(256)
        # `size_of` refuses shorter ones before they are read.
        return bytes(frame[: dice.randrange(17, len(frame))]) if dice.random() < 0.1 else bytes(frame)

    def send(data: bytes) -> str:
        try:
            message = decode(data)
        except FrameError:
            return "refused"
        assert encode(message)
        return "plain"

    fuzz("frame of the fleet", draw, send, few=2_000)
