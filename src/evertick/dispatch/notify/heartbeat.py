"""The heartbeat: a ping whose absence shows that the scheduler is dead."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from evertick.dispatch.notify.channels import Outcome, ping
from evertick.dispatch.notify.config import NotifySettings
from evertick.dispatch.notify.egress import EgressGuard, masked
from evertick.errors import SettingsError

log = logging.getLogger("evertick.notify")


class Heartbeat:
    """Pings an address regularly while `is_alive` reports that the loop runs.

    It has a thread of its own: a loop that hangs must not report that it is healthy.
    """

    def __init__(
        self,
        url: str,
        every_seconds: float,
        is_alive: Callable[[], bool],
        settings: NotifySettings,
        *,
        ping_once: Callable[[str], Outcome] | None = None,
    ) -> None:
        if every_seconds <= 0:
            raise SettingsError(
                f"the interval of the heartbeat is {every_seconds} s. Write a positive number of seconds."
            )
        guard = EgressGuard.allowing(settings.allowed_targets)
        self._url = url
        self._every = every_seconds
        self._is_alive = is_alive
        self._ping = ping_once or (lambda address: ping(address, settings, guard))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-heartbeat", daemon=True)
        self.pings = 0
        self.failures = 0
        self.withheld = 0
        """Times when the loop was not running, and nothing was sent."""
        self.last: Outcome | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def beat(self) -> None:
        """One iteration of the thread."""
        try:
            is_alive = self._is_alive()
        except Exception:
            log.exception("heartbeat.fault")
            is_alive = False
        if not is_alive:
            self.withheld += 1
            log.warning("heartbeat.withheld receiver=%s", masked(self._url))
            return
        self.last = outcome = self._ping(self._url)
        if outcome.is_delivered:
            self.pings += 1
        else:
            self.failures += 1
            log.warning("heartbeat.failed detail=%s", outcome.detail)

    def _run(self) -> None:
        while True:
            try:
                self.beat()
            except Exception:
                log.exception("heartbeat.fault")
            if self._stopping.wait(self._every):
                return
