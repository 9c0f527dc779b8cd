"""Everything that the routes use, built once at start."""

from __future__ import annotations

import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from evertick.api.feed import Feed
from evertick.api.loop_priority import LoopPriority, NeverYield
from evertick.api.sessions import Sessions
from evertick.model.instant import Instant
from evertick.model.node_address import NodeAddress
from evertick.operations.audit import Audit
from evertick.operations.local import LocalOperations
from evertick.operations.tokens import Role, Tokens
from evertick.settings import Settings

if TYPE_CHECKING:
    from evertick.web import Site

FAILURES_MAX: Final = 10
WINDOW_SECONDS: Final = 60.0
CALLERS_MAX: Final = 10_000


class Limiter:
    """Counts failures by action and address. A valid token or secret is never affected.

    Every token and secret is long and random, or refused (`SECRET_SHORTEST` for hooks), so this does not limit
    guessing. It limits the work and the audit lines that a flood of failures costs.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def failed(self, tried: str, address: str) -> float:
        """Note a failure; returns how many seconds the caller must wait before failures are answered again, 0: none."""
        caller = (tried, address)
        with self._lock:
            now = self._monotonic()
            began, count = self._failures.pop(caller, (now, 0))
            if now - began >= WINDOW_SECONDS:
                began, count = now, 0
            self._failures[caller] = (began, count + 1)
            while len(self._failures) > CALLERS_MAX:
                self._failures.popitem(last=False)
            return began + WINDOW_SECONDS - now if count >= FAILURES_MAX else 0.0


KEY_FILE = "api.key"


class Members(Protocol):
    """Operator actions on the members of an executor."""

    def drain(self, executor: str, member: str, *, is_draining: bool) -> Mapping[str, object]: ...
    def remove(self, executor: str, member: str, *, by_force: bool) -> Mapping[str, object]: ...
    def forget(self, executor: str, member: str) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller."""

    name: str
    role: Role
    token_id: str = ""
    csrf: str | None = None
    """A session of the web interface."""
    session: str = ""

    @property
    def is_page(self) -> bool:
        return self.csrf is not None


@dataclass(frozen=True, slots=True)
class AppState:
    operations: LocalOperations
    settings: Settings
    state_folder: Path
    tokens: Tokens
    sessions: Sessions
    audit: Audit
    feed: Feed
    limiter: Limiter
    now: Callable[[], Instant]
    node: str
    version: str
    key: bytes = field(repr=False)
    """Signs what must come back unchanged, such as the URL of a badge."""
    node_token: str = field(default="", repr=False)
    """The token with which other nodes of the ledger authenticate; it is announced there. Empty: there are none."""
    address: Callable[[str], NodeAddress | None] = field(default=lambda _: None, repr=False)
    """What to announce for a server that listens at a URL."""
    folder: Path | None = None
    """The errors of job files."""
    hosts: frozenset[str] = frozenset()
    """The host names that this server accepts, in lower case."""
    members: Members | None = None
    """None: there are no members to drain."""
    loop_priority: LoopPriority = field(default_factory=NeverYield)
    site: Site | None = None
    """The page's files; None if they were not built."""

    def sign(self, text: str) -> str:
        return hmac.new(self.key, text.encode(), "sha256").hexdigest()[:32]
