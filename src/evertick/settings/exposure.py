"""Who can reach the server, and whether something protects the connection."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING

from evertick.errors import SettingsError

if TYPE_CHECKING:
    from evertick.settings.load import Settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def check_exposure(settings: Settings) -> None:
    """Refuse to listen for other machines without encryption."""
    api = settings.api
    if bool(api.tls_cert) is not bool(api.tls_key):
        raise SettingsError("api.tls_cert and api.tls_key belong together; only one of them is set.")
    proxies = proxy_networks(settings)
    if is_loopback(settings.host) or api.tls_cert:
        return
    if not api.behind_proxy:
        raise SettingsError(
            f"the host '{settings.host}' can be reached from other machines, and the connection is not encrypted. "
            "Next: set api.tls_cert and api.tls_key, or api.behind_proxy and api.proxies where a proxy serves HTTPS, "
            "or host = 127.0.0.1."
        )
    if not proxies:
        raise SettingsError(
            f"the host '{settings.host}' can be reached from other machines, and api.behind_proxy does not say by "
            "which proxy. Next: name its address in api.proxies, such as 10.0.0.5; no other machine can connect then."
        )


def proxy_networks(settings: Settings) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in settings.api.proxies)
    except ValueError as error:
        raise SettingsError(f"api.proxies: {error}. Write addresses or networks, such as 10.0.0.5.") from None


def callers_of(settings: Settings) -> Callable[[str], bool]:
    """Which addresses may connect: without encryption only this machine and the named proxies."""
    if settings.api.tls_cert:
        return lambda _: True
    proxies = proxy_networks(settings)

    def may_connect(address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return mapped.is_loopback or any(mapped in network for network in proxies)

    return may_connect


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
