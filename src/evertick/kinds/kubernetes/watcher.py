"""Lists objects, watches every change, and lists again when the watch is lost."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable, Cluster, Stream
from evertick.model.plain_json import Document

log = logging.getLogger("evertick.kubernetes")

WATCH_SECONDS: Final = 60
"""The cluster ends a watch after this long and it is resumed; so a hung one is noticed."""
BACKOFF_SECONDS: Final = 0.25
BACKOFF_MAX_SECONDS: Final = 15.0
GONE: Final = 410


class Expired(Exception):
    """The cluster has dropped the changes since our last one: list everything again."""


class Watch:
    """Watches one kind of object: `on_all` gets the list, `on_change` each later change; from one thread."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        selector: str,
        on_all: Callable[[Sequence[Document]], None],
        on_change: Callable[[str, Document], None],
        on_problem: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._path = path
        self._selector = selector
        self._on_all = on_all
        self._on_change = on_change
        self._on_problem = on_problem
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._version: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"evertick-watch{path.rpartition('/')[2]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        if self._stream is not None:
            self._stream.end()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                if self._version is None:
                    items, self._version = self._cluster.list_all(self._path, self._selector)
                    self._on_all(items)
                self._on_problem("")
                self._follow(self._version)
                failures = 0
            except Expired:
                log.info("kubernetes.watch_expired path=%s", self._path)
                self._version = None
            except (ApiUnavailable, ApiError) as error:
                if self._stopping.is_set():
                    return
                failures += 1
                self._on_problem(str(error))
                log.warning("kubernetes.watch_lost path=%s reason=%s", self._path, error)
                self._stopping.wait(min(BACKOFF_SECONDS * 2 ** min(failures, 10), BACKOFF_MAX_SECONDS))

    def _follow(self, version: str) -> None:
        try:
            stream = self._cluster.watch(self._path, self._selector, version, WATCH_SECONDS)
        except ApiError as error:
            if error.status == GONE:
                raise Expired from None
            raise
        self._stream = stream
        if self._stopping.is_set():
            stream.end()
        for line in stream.lines():
            try:
                event = json.loads(line)
                kind, found = event["type"], event["object"]
            except (ValueError, KeyError, TypeError):
                raise ApiUnavailable(f"the watch of {self._path} returned something that is not an event") from None
            if kind == "ERROR":
                if found.get("code") == GONE or found.get("reason") in {"Expired", "Gone"}:
                    raise Expired
                raise ApiError(int(found.get("code") or 500), str(found.get("reason")), str(found.get("message")))
            if kind != "BOOKMARK":
                self._on_change(kind, found)
            self._version = found["metadata"]["resourceVersion"]
