"""Builds the API's state from the settings: ledger, job folder, scheduler, tokens and fleet."""

from __future__ import annotations

import hmac
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from evertick.api.app_state import KEY_FILE, AppState, Limiter, Members
from evertick.api.feed import RESET, Feed
from evertick.api.log_endpoint import address_of
from evertick.api.loop_priority import NeverYield, YieldToLoop
from evertick.api.sessions import Sessions
from evertick.api.site import find_site
from evertick.definitions.source import Folder
from evertick.dispatch.events import DROPPED
from evertick.errors import NotFound, SettingsError
from evertick.executors.log_store import LogStore
from evertick.executors.logs import Logs
from evertick.location import Location
from evertick.model.instant import SECOND
from evertick.model.plain_json import Json
from evertick.operations.audit import Audit
from evertick.operations.audit_head import LedgerHead
from evertick.operations.context import now_by_the_clock
from evertick.operations.deferred import import_all_of
from evertick.operations.local import LocalOperations
from evertick.operations.log_files import MembersReader
from evertick.operations.node_logs import NodeLogs
from evertick.operations.run_logs import RunLogs
from evertick.operations.submission import live_nodes
from evertick.operations.tokens import Tokens
from evertick.private_file import own_key
from evertick.settings import Settings
from evertick.settings.exposure import check_exposure, is_loopback
from evertick.settings.load import reveal
from evertick.settings.parts import FleetSettings
from evertick.store import Store

T = TypeVar("T")

KEEP_US = SECOND
"""Maximum age of a response about all jobs: pages ask for the same again and again."""
STATUS_SECONDS = 0.5
NODES_SECONDS = 3.0
FLEET = "fleet"
KEY_SHORTEST = 32
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class Control(Protocol):
    """The interface to the scheduler of this folder, such as `dispatch.control_client.ControlClient`."""

    def status(self) -> Mapping[str, Json] | None: ...
    def announce_requests(self) -> None: ...
    def events(self, after: int | None = None, feed: str | None = None) -> Iterator[Mapping[str, object]]: ...


class CachedResponse(Generic[T]):
    """A response that is cached for a while; simultaneous callers cause one request."""

    def __init__(self, ask: Callable[[], T], seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._lock = threading.Lock()
        self._known: tuple[float, T] | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._known is None or time.monotonic() - self._known[0] > self._seconds:
                self._known = (time.monotonic(), self._ask())
            return self._known[1]


class RememberedStatus:
    """The scheduler's status, for the operations."""

    def __init__(self, control: Control) -> None:
        self._ask = CachedResponse(control.status, STATUS_SECONDS)
        self.announce_requests = control.announce_requests

    def status(self) -> Mapping[str, Json] | None:
        return self._ask()


def open_app_state(
    store: Store,
    store_url: str,
    definitions: Callable[[], Folder],
    settings: Settings,
    state_folder: Path,
    *,
    folder: Path | None = None,
    control: Control | None = None,
    node: str = "",
    is_firing: Callable[[], bool] | None = None,
) -> AppState:
    """Everything the routes need, on an open ledger; `is_firing` if the loop is in this process too."""
    check_exposure(settings)
    live = None if control is None else RememberedStatus(control)
    now = now_by_the_clock
    nodes = CachedResponse(lambda: bool(live_nodes(store, now())), NODES_SECONDS)
    is_shared = Location(store_url).is_shared

    def is_scheduler_running() -> bool:
        # If one node owns a ledger, its leases never expire: only the node itself can say that it is running.
        return (live is not None and live.status() is not None) or (is_shared and bool(nodes()))

    name, key = node or settings.node or socket.gethostname(), own_key(state_folder / KEY_FILE)
    node_token = hmac.new(key, b"logs for other nodes", "sha256").hexdigest() if is_shared else ""
    loop_priority = NeverYield() if is_firing is None else YieldToLoop(is_firing)
    store.pause_reads_with(loop_priority.breathe)
    import_all_of("evertick.operations")
    operations = LocalOperations(
        store,
        definitions,
        logs=RunLogs(
            Logs(state_folder),
            name,
            NodeLogs(store, now) if is_shared else None,
            LogStore(settings.logs.store) if settings.logs.store else None,
            _member_logs(settings),
        ),
        live=live,
        is_scheduler_running=is_scheduler_running,
        keep_us=KEEP_US,
        breathe=loop_priority.breathe,
        node=name,
        timezone=settings.timezone,
        declared_blackouts=(settings.origins.get("blackouts", "the settings"), settings.blackouts),
    )
    feed = Feed(None if control is None else following(control), loop_priority.pause)
    feed.watchers.append(operations.stir)
    return AppState(
        operations=operations,
        settings=settings,
        state_folder=state_folder,
        tokens=Tokens(state_folder),
        sessions=Sessions(state_folder, settings.api.session_us, now),
        audit=Audit(
            state_folder, key=_audit_key(settings), head=lambda log_id: LedgerHead(store, log_id, now_by_the_clock)
        ),
        feed=feed,
        limiter=Limiter(time.monotonic),
        now=now,
        node=name,
        version=version("evertick"),
        key=key,
        node_token=node_token,
        address=lambda url: address_of(url, name, node_token, settings) if is_shared else None,
        folder=folder,
        hosts=names_of(settings),
        members=members_of(settings),
        loop_priority=loop_priority,
        site=find_site() if settings.web else None,
    )


def _member_logs(settings: Settings) -> MembersReader | None:
    if not settings.fleet.url:
        return None
    from evertick.wiring import member_logs

    return member_logs(settings)


def _audit_key(settings: Settings) -> bytes | None:
    named = settings.api.audit_key
    if not named:
        return None
    key = reveal(named, os.environ, "api.audit_key").encode()
    if len(key) < KEY_SHORTEST:
        raise SettingsError(f"api.audit_key has {len(key)} characters; it needs at least {KEY_SHORTEST}.")
    return key


def following(control: Control) -> Callable[[threading.Event], Iterator[Mapping[str, object]]]:
    """The scheduler's events; after an interruption the stream continues, if the scheduler is the same."""
    after: int | None = None
    feed: str | None = None

    def follow(stop: threading.Event) -> Iterator[Mapping[str, object]]:
        nonlocal after, feed
        for told in control.events(after, feed):
            if stop.is_set():
                return
            if isinstance(name := told.get("feed"), str):
                feed = name
                if not told.get("is_continued"):
                    after = None
                    yield {"kind": RESET}
            elif isinstance(number := told.get("event"), int):
                after = number
                # Events that the scheduler dropped are missing here too.
                yield {"kind": RESET} if told.get("kind") == DROPPED else told

    return follow


def members_of(settings: Settings) -> Members | None:
    """The actions on members of the fleet; None if there is no fleet."""
    return FleetMembers(settings) if settings.fleet.url else None


class FleetMembers:
    """Asks the fleet itself, as the commands do: its state does not depend on the scheduler."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def drain(self, executor: str, member: str, *, is_draining: bool) -> Mapping[str, object]:
        from evertick.executors.fleet import admin

        seen = admin.set_cordon(self._fleet(executor), member, is_closed=is_draining)
        return {"member": seen.name, "is_open": seen.is_open, "running": seen.running}

    def remove(self, executor: str, member: str, *, by_force: bool) -> Mapping[str, object]:
        from evertick.executors.fleet import admin

        admin.remove(self._fleet(executor), member, by_force=by_force)
        return {"member": member, "is_open": False, "running": 0}

    def forget(self, executor: str, member: str) -> Mapping[str, object]:
        from evertick.executors.fleet import admin

        admin.forget(self._fleet(executor), member)
        return {"member": member, "is_open": False, "running": 0}

    def _fleet(self, executor: str) -> FleetSettings:
        from evertick.wiring import fleet_settings

        fleet = fleet_settings(self._settings)
        if executor != FLEET or fleet is None:
            raise NotFound(f"the executor '{executor}' has no members.", (FLEET,))
        return fleet


def names_of(settings: Settings) -> frozenset[str]:
    """The names in a Host header that mean this server. Any other comes from a page whose name points here."""
    names = {*LOCAL_NAMES, *settings.api.allowed_hosts}
    if settings.host.strip("[]") not in ("0.0.0.0", "::"):
        names.add(settings.host.strip("[]"))
    if not is_loopback(settings.host):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in names)
