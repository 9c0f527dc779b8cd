"""Reads a log that only a member has: one question to that member through the hub, and its answer.

Schedulers copy logs while they grow; a copy is missing if the connection was lost meanwhile, or the copy was. The
questioner shows a scheduler's certificate, and reads the answer with the same checks as any message of a fleet.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from evertick.errors import EvertickError, MemberUnavailable, MemberUnavailableReason
from evertick.executors import protocol
from evertick.executors.fleet import messages, validation
from evertick.executors.fleet.messages import Heartbeat
from evertick.executors.fleet.settings import need_dask
from evertick.executors.logs import LIMIT_MAX, LogChunk, LogFile, Logs
from evertick.executors.protocol import Message, shard_key
from evertick.model.instant import SECOND
from evertick.model.run import RunKey
from evertick.settings.parts import FleetSettings

ANSWER_SECONDS: Final = 10.0
"""For one question, including the connection."""
LISTED_SECONDS: Final = 1.0
"""How old a cached list of logs may be: a reader that follows a run asks often."""
AWAY_SECONDS: Final = 5.0
"""A member that did not answer is not asked again for this long, so that readers do not wait."""
AT_ONCE: Final = 8
"""Questions of one process at once; others wait, as long as one may take."""
LOGS_MAX: Final = 10_000
KEPT_MAX: Final = 500
_FLEET: Final = ""
"""Represents all members: the fleet is unreachable."""

_Listed = dict[tuple[str, RunKey, int], tuple[float, Sequence[LogFile]]]


class MemberLogs:
    """The logs that members keep. Any thread may use it."""

    def __init__(self, settings: Callable[[], FleetSettings], answer_seconds: float = ANSWER_SECONDS) -> None:
        """`settings` is called on use, because it may raise `SettingsError` without certificates."""
        self._settings = settings
        self._answer_seconds = answer_seconds
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._listed: _Listed = {}
        self._away: dict[str, tuple[float, MemberUnavailable]] = {}

    def list_logs(self, member: str, key: RunKey, attempt: int) -> Sequence[LogFile]:
        """A member's logs of an attempt; raises `MemberUnavailable` if it does not answer."""
        asked = (member, key, attempt)
        with self._lock:
            known = self._listed.get(asked)
            if known is not None and time.monotonic() - known[0] < LISTED_SECONDS:
                return known[1]
        words = self._ask(member, messages.LIST_LOGS, (*key, attempt), (), messages.LISTED)
        try:
            (rows,) = words
            if len(rows) > LOGS_MAX:
                raise ValueError("too many logs")
            found = [_file(attempt, row) for row in rows]
        except (ValueError, TypeError) as error:
            raise self._not_understood(member, error) from error
        with self._lock:
            while len(self._listed) >= KEPT_MAX:
                del self._listed[next(iter(self._listed))]
            self._listed[asked] = (time.monotonic(), found)
        return found

    def read_log(self, member: str, key: RunKey, attempt: int, step: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes from `offset` on."""
        limit = min(limit, LIMIT_MAX)
        words = self._ask(member, messages.READ_LOG, (*key, attempt), (step, offset, limit), messages.READ)
        try:
            text, is_complete = words
            if not isinstance(text, str) or not isinstance(is_complete, bool):
                raise ValueError("not a part of a log")
            data = base64.b64decode(text, validate=True)
            if len(data) > limit:
                raise ValueError("more than was asked for")
        except (ValueError, TypeError) as error:
            raise self._not_understood(member, error) from error
        return LogChunk(data, offset + len(data), is_complete)

    def shard_key(self, key: RunKey, number: int, total: int) -> RunKey:
        """The key of a shard on its member."""
        return shard_key(key, number, total)

    def _not_understood(self, member: str, error: Exception) -> MemberUnavailable:
        return MemberUnavailable(member, MemberUnavailableReason.NOT_UNDERSTOOD, detail=str(error))

    def _ask(
        self, member: str, verb: str, attempt: tuple[object, ...], rest: tuple[object, ...], answer: str
    ) -> Message:
        for away in (self._away.get(member), self._away.get(_FLEET)):
            if away is not None and time.monotonic() - away[0] < AWAY_SECONDS:
                raise away[1] if away[1].member == member else away[1].of(member)
        if not self._places.acquire(timeout=self._answer_seconds):
            raise MemberUnavailable(member, MemberUnavailableReason.BUSY)
        try:
            words = asyncio.run(self._asked(member, verb, attempt, rest))
        except MemberUnavailable as error:
            is_fleet = error.reason is MemberUnavailableReason.FLEET_UNREACHABLE
            self._away[_FLEET if is_fleet else member] = (time.monotonic(), error)
            raise
        finally:
            self._places.release()
        self._away.pop(member, None)
        self._away.pop(_FLEET, None)
        if words[0] != answer:
            raise self._not_understood(member, ValueError("an answer to another question"))
        return words[1:]

    async def _asked(self, member: str, verb: str, attempt: tuple[object, ...], rest: tuple[object, ...]) -> Message:
        asker = secrets.token_hex(16)  # only the member that is asked learns it
        control, heartbeat, seen_at = None, None, None
        try:
            need_dask()
            from evertick.executors.fleet.control import Control  # what it needs comes with the extra `fleet`

            async with asyncio.timeout(self._answer_seconds):
                control = await Control.open(self._settings(), asker)
                heartbeat, seen_at, is_there = _find(await control.read(), member)
                if not is_there:
                    reason = MemberUnavailableReason.AWAY if heartbeat else MemberUnavailableReason.UNKNOWN
                    raise MemberUnavailable(member, reason, seen_at=seen_at)
                if heartbeat is not None and not heartbeat.answers_logs:
                    raise MemberUnavailable(member, MemberUnavailableReason.TOO_OLD, seen_at=seen_at)
                control.send(member, protocol.encode(verb, *attempt, asker, *rest))
                while True:
                    for message in await control.read():
                        lines = message.get("lines")
                        if message.get("member") == member and isinstance(lines, bytes):
                            for words in messages.rows_of(lines):
                                return words
        except TimeoutError:
            reason = MemberUnavailableReason.NO_ANSWER if heartbeat else MemberUnavailableReason.FLEET_UNREACHABLE
            raise MemberUnavailable(member, reason, seen_at=seen_at) from None
        except MemberUnavailable:
            raise
        except EvertickError as error:
            raise MemberUnavailable(member, MemberUnavailableReason.FLEET_UNREACHABLE, detail=str(error)) from error
        except ValueError as error:
            raise self._not_understood(member, error) from error
        finally:
            if control is not None:
                await control.close()


def _find(messages: Sequence[dict[str, Any]], member: str) -> tuple[Heartbeat | None, int | None, bool]:
    """A member's heartbeat in the first message, when it was seen, and whether it is connected."""
    now = time.time_ns() // 1_000
    for message in messages:
        for kind in ("cards", "absent"):
            for one in message.get(kind, ()):
                try:
                    heartbeat, age = validation.heartbeat_of(one["card"]), float(one["age"])
                except (ValueError, TypeError, KeyError):
                    continue  # an invalid heartbeat is ignored
                if heartbeat.name == member:
                    return heartbeat, now - int(age * SECOND), kind == "cards"
    return None, None, False


def _file(attempt: int, row: Any) -> LogFile:
    step, size, is_complete = row
    if not isinstance(is_complete, bool):
        raise ValueError("a log is complete or is not")
    return LogFile(attempt, validation.text_of(step), validation.offset_of(size), is_complete)


def answer_about_logs(logs: Logs, words: Message) -> tuple[str, bytes]:
    """The questioner and the answer; `ValueError` for an invalid question."""
    verb, (key, attempt), (asker, *rest) = validation.attempt_id_of(words)
    validation.text_of(asker, messages.ASKER_MAX)
    if verb == messages.LIST_LOGS:
        files = [file for file in logs.list_logs(key) if file.attempt == attempt][:LOGS_MAX]
        return asker, protocol.encode(messages.LISTED, [[file.step, file.size, file.is_complete] for file in files])
    step, offset, limit = rest
    # The step must be among the logs: a name from outside never becomes a path.
    if step not in {file.step for file in logs.list_logs(key) if file.attempt == attempt}:
        return asker, protocol.encode(messages.READ, "", True)
    piece = logs.read_log(key, attempt, step, validation.offset_of(offset), min(validation.offset_of(limit), LIMIT_MAX))
    return asker, protocol.encode(messages.READ, base64.b64encode(piece.data).decode("ascii"), piece.is_complete)
