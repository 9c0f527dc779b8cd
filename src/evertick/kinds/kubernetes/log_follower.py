"""Follows a container's log: every line once, even if the connection is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable, Cluster, Stream
from evertick.kinds.kubernetes.manifest import CONTAINER

RETRY_SECONDS: Final = 0.5
TRIES_AFTER_END: Final = 10
"""Reads of a log whose container has ended, before giving up."""
LINE_MAX: Final = 1024 * 1024
"""Bytes of a line that are buffered until its end."""


class LogFollower:
    """One container's log. `run` blocks; `sink` gets the output without the cluster's timestamps."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str, sink: Callable[[bytes], None]) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._pod = pod
        self._sink = sink
        self._stream: Stream | None = None
        self._stopping = threading.Event()
        self._last: tuple[int, int] | None = None
        """The timestamp of the last line passed to the sink: seconds, nanoseconds."""

    def run(self, is_over: Callable[[], bool]) -> str:
        """Until the log and its container have ended; why a part may be missing, or empty."""
        tries_left = TRIES_AFTER_END
        while not self._stopping.is_set():
            was_over = is_over()
            try:
                self._copy()
                problem = ""
                if was_over:
                    return ""
            except ApiError as error:
                if error.status == 404:
                    return "" if self._last is not None else "its pod was gone before its log was read"
                problem = str(error)
            except ApiUnavailable as error:
                problem = str(error)
            if was_over:
                tries_left -= 1
                if tries_left <= 0:
                    return problem
            self._stopping.wait(RETRY_SECONDS)
        return ""

    def end(self) -> None:
        self._stopping.set()
        if self._stream is not None:
            self._stream.end()

    def _copy(self) -> None:
        since = _text(self._last) if self._last is not None else None
        self._stream = self._cluster.follow_log(self._namespace, self._pod, CONTAINER, since)
        if self._stopping.is_set():
            self._stream.end()
        is_wanted = True
        for beginning, data in _pieces(self._stream.chunks()):
            if beginning is not None:
                is_wanted = self._last is None or beginning > self._last
                if is_wanted:
                    self._last = beginning
            if is_wanted:
                self._sink(data)


def _pieces(chunks: Iterator[bytes]) -> Iterator[tuple[tuple[int, int] | None, bytes]]:
    """Lines with their timestamps; the later pieces of a too long line without.

    Part of a line at a lost connection is dropped: it comes again, complete, with the next connection.
    """
    rest, is_within = b"", False
    for chunk in chunks:
        rest += chunk
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield (None, line + b"\n") if is_within else _timed(line + b"\n")
            is_within = False
        if len(rest) > LINE_MAX:
            yield (None, rest) if is_within else _timed(rest)
            rest, is_within = b"", True
    if rest:
        yield (None, rest) if is_within else _timed(rest)


def _timed(line: bytes) -> tuple[tuple[int, int] | None, bytes]:
    time, space, text = line.partition(b" ")
    moment = _moment(time) if space else None
    return (moment, text) if moment is not None else (None, line)


def _moment(text: bytes) -> tuple[int, int] | None:
    """To the nanosecond, which a datetime cannot hold; the offset is the node's."""
    try:
        written = text.decode("ascii")
        whole, _, rest = written.partition(".")
        digits = ""
        if rest:
            digits = rest.rstrip("Z").partition("+")[0].partition("-")[0]
            whole += rest[len(digits) :]
        return int(datetime.fromisoformat(whole).timestamp()), int(digits.ljust(9, "0")[:9] or 0)
    except (UnicodeDecodeError, ValueError):
        return None


def _text(moment: tuple[int, int]) -> str:
    whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment[0])
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{moment[1]:09}Z"
