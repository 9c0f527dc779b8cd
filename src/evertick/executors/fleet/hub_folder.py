"""The certificates that a hub makes for itself, and for the scheduler and the commands on its machine."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from evertick.errors import NotFound
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.certs import HubAddress, hub_address_of, new_request, write_folder
from evertick.executors.fleet.identity import Role
from evertick.executors.fleet.renewal import needs_renewal
from evertick.executors.fleet.settings import CA_FILE, CERT_FILE, PORT, Certificates

ANY_ADDRESS = ("0.0.0.0", "::")


class Provision(NamedTuple):
    certificates: Certificates
    authority: Authority
    is_new: bool
    """Whether the authority was created by this call."""


def provide(folder: Path, address: HubAddress) -> Provision:
    """Create the certificates, or renew those that expire soon."""
    authority = Authority(folder)
    is_new = authority.create()
    authority.forget_former()
    hosts = [reachable_host(address.url), "localhost", "127.0.0.1"]
    certificates = _own(authority, Role.HUB, "hub", list(dict.fromkeys(hosts)), address)
    _own(authority, Role.SCHEDULER, "scheduler", [], address)
    return Provision(certificates, authority, is_new)


def hub_address_in(folder: Path) -> HubAddress:
    """The address of the hub of this folder, as of its last start."""
    address = hub_address_of(folder / Role.HUB)
    if address is None:
        raise NotFound(f"no fleet in '{folder}'. Start one with 'evertick fleet start', or name its --folder.")
    return address


def reachable_host(url: str) -> str:
    """The host under which others reach the hub, which may listen on all addresses."""
    host = urlsplit(url).hostname or ""
    return socket.getfqdn() if host in ANY_ADDRESS else host


def reachable_url(url: str) -> str:
    host = reachable_host(url)
    return f"tls://{f'[{host}]' if ':' in host else host}:{urlsplit(url).port or PORT}"


def _own(authority: Authority, role: Role, name: str, hosts: list[str], address: HubAddress) -> Certificates:
    folder = authority.folder / name
    if (folder / CERT_FILE).exists() and (folder / CA_FILE).read_bytes() == authority.ca:
        certificates = Certificates.in_folder(folder)
        if hub_address_of(folder) == address and not needs_renewal(certificates):
            return certificates
    request = new_request(name)
    cert = authority.sign(request.csr, role, name, hosts, renews=True)
    return write_folder(folder, authority.ca, cert, request.key, address)
