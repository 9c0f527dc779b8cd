"""Publishes in the ledger the address at which other nodes can read this node's logs."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable

from evertick.errors import EvertickError
from evertick.model.instant import MINUTE, Instant
from evertick.model.node_address import HOLDER_MAX, NodeAddress
from evertick.operations.node_logs import fingerprint, is_loopback, machine_name
from evertick.settings import Settings
from evertick.store import Store

log = logging.getLogger("evertick.api")

LEASE_US = MINUTE
AGAIN_SECONDS = 20.0
_ANY = ("//0.0.0.0:", "//[::]:")


def address_of(url: str, node: str, token: str, settings: Settings) -> NodeAddress | None:
    """What to announce for a server that listens at a URL; None if the token would be sent unencrypted."""
    api = settings.api
    reached = api.url.rstrip("/") or url
    for anywhere in _ANY:
        reached = reached.replace(anywhere, f"//{socket.getfqdn()}:")
    if reached.startswith("http://") and not is_loopback(reached):
        log.warning("node.not_announced url=%s reason=the setting api.url must name an https address", reached)
        return None
    # Behind a proxy, clients see the proxy's certificate, which an authority has signed.
    pem = api.tls_cert.read_text() if api.tls_cert and not api.behind_proxy else ""
    certificate = fingerprint(ssl.PEM_cert_to_DER_cert(_first(pem))) if pem else ""
    address = NodeAddress(node, reached, token, machine_name(), certificate)
    if len(address.holder) > HOLDER_MAX or " " in reached:
        log.warning("node.not_announced url=%s reason=it is too long", reached)
        return None
    return address


def _first(pem: str) -> str:
    """A file may hold the whole chain; the first certificate is the server's own."""
    end = "-----END CERTIFICATE-----"
    begin = pem.find("-----BEGIN CERTIFICATE-----")
    return pem[begin : pem.find(end, begin) + len(end)]


class LogEndpoint:
    """Holds a lease on the address while it runs; the ledger may be unavailable meanwhile."""

    def __init__(self, store: Store, address: NodeAddress, now: Callable[[], Instant]) -> None:
        self._store, self._address, self._now = store, address, now
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-announcer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(AGAIN_SECONDS)

    def announce(self) -> None:
        store, address, now = self._store, self._address, self._now()
        for lease in store.lease((), "", 0, now):
            if lease.name == address.lease_name and lease.holder != address.holder:
                # This node's own, from before it was restarted with another address.
                store.lease([lease.name], lease.holder, 0, now)
        store.lease([address.lease_name], address.holder, LEASE_US, now)

    def _run(self) -> None:
        while True:
            try:
                self.announce()
            except EvertickError as error:
                log.warning("node.not_announced reason=%s", error)
            if self._stopping.wait(AGAIN_SECONDS):
                break
        try:
            self._store.lease([self._address.lease_name], self._address.holder, 0, self._now())
        except EvertickError as error:
            log.info("node.not_withdrawn reason=%s", error)
