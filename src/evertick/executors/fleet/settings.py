"""The settings of a fleet: its address, its certificates, and its timeouts."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from evertick.errors import SettingsError
from evertick.settings.parts import FleetSettings

PORT = 8786
LEASE_US: Final = FleetSettings().lease_us
"""Long enough to restart the hub: members end their attempts when they receive nothing from it for this long."""
CA_FILE, CERT_FILE, KEY_FILE = "ca.pem", "cert.pem", "key.pem"
NEXT_KEY_FILE = "next-key.pem"
"""The key of a certificate that is being written; it replaces the key once the certificate is in place."""
HUB_FOLDER = ".evertick-fleet"
"""In the home of the hub's user."""


class Certificates(NamedTuple):
    """The files of a peer: trusted authorities, its certificate, its key."""

    ca: str
    cert: str
    key: str

    @classmethod
    def in_folder(cls, folder: Path | str) -> Certificates:
        """The files in a folder."""
        settle_key(Path(folder))
        paths = [Path(folder).absolute() / name for name in (CA_FILE, CERT_FILE, KEY_FILE)]
        missing = [str(path) for path in paths if not path.is_file()]
        if missing:
            raise SettingsError(f"{missing[0]} does not exist. Get certificates with 'evertick fleet certs request'.")
        return cls(*map(str, paths))

    @classmethod
    def of_this_machine(cls) -> Certificates | None:
        """Those that `fleet start` created for schedulers and commands of its user; None: it has not run here."""
        try:
            folder = Path.home() / HUB_FOLDER / "scheduler"
        except RuntimeError:  # a user without a home
            return None
        return cls.in_folder(folder) if (folder / CERT_FILE).is_file() else None


def fleet_at(url: str, certificates: Certificates | None, settings: FleetSettings | None = None) -> FleetSettings:
    """The fleet at an address, reached with these certificates; the rest as the settings have it."""
    check_url(url, certificates)
    settings = replace(settings or FleetSettings(), url=url)
    if certificates is None:
        return replace(settings, tls_ca=None, tls_cert=None, tls_key=None)
    ca, cert, key = map(Path, certificates)
    return replace(settings, tls_ca=ca, tls_cert=cert, tls_key=key)


def certificates_of(settings: FleetSettings) -> Certificates | None:
    """The files that the settings name; None: the connection is not encrypted."""
    if settings.tls_ca and settings.tls_cert and settings.tls_key:
        return Certificates(str(settings.tls_ca), str(settings.tls_cert), str(settings.tls_key))
    return None


def check_url(url: str, certificates: Certificates | None) -> None:
    """Reject an address without encryption, except on this machine."""
    parts = urlsplit(url)
    try:
        has_address = parts.scheme in {"tcp", "tls"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_address = False
    if not has_address:
        raise SettingsError(f"'{url}' is not the address of a fleet. Write tls://host:{PORT}.")
    if parts.scheme == "tls" and certificates is None:
        raise SettingsError(
            f"'{url}' needs certificates. 'evertick fleet start' creates them on the hub's machine; on another, "
            "run 'evertick fleet certs request' and name the folder."
        )
    if parts.scheme == "tcp" and certificates is not None:
        raise SettingsError(f"'{url}' is unencrypted and uses no certificates. Write tls:// instead of tcp://.")
    if parts.scheme == "tcp" and not is_loopback(parts.hostname or ""):
        raise SettingsError(
            f"'{url}' is not on this machine, and without certificates everyone could run programs there. "
            "Write tls:// instead."
        )


def need_dask() -> None:
    """Raise `SettingsError` if Dask is not installed."""
    if find_spec("distributed") is None:
        raise SettingsError("the fleet runs on Dask, which is not installed. Run: pip install 'evertick[fleet]'")


def need_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise SettingsError("certificates need a library that is not installed. Run: pip install 'evertick[fleet]'")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def settle_key(folder: Path) -> None:
    """Finish writing a new certificate and key that a killed process left."""
    following = folder / NEXT_KEY_FILE
    if following.exists():
        import ssl  # imported on use

        with contextlib.suppress(
            OSError, ValueError
        ):  # its certificate is not written yet, or another process finished it
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(folder / CERT_FILE, following)
            os.replace(following, folder / KEY_FILE)
