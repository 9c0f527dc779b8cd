"""The settings of a fleet: its address, its certificates, and its timeouts."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from evertick.errors import SettingsError
from evertick.model.instant import SECOND

PORT = 8786
LEASE_US = 60 * SECOND
"""Long enough to restart the hub: members end their attempts when they do not hear it for this long."""
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


@dataclass(frozen=True, slots=True)
class FleetSettings:
    url: str
    """`tls://host:8786`, or `tcp://127.0.0.1:8786` on one machine."""
    certificates: Certificates | None = None
    lease_us: int = LEASE_US
    """A member that was silent for this long is given up; its attempts are lost and may be retried elsewhere."""
    silence_us: int = 5 * SECOND
    """A member that was silent for this long gets no launches."""
    expected: tuple[str, ...] = ()
    """Members that should be connected."""

    def __post_init__(self) -> None:
        check_url(self.url, self.certificates)


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
            f"'{url}' needs certificates. On the machine of the hub 'evertick fleet start' has made them; "
            "elsewhere get some with 'evertick fleet certs request', and name their folder."
        )
    if parts.scheme == "tcp" and certificates is not None:
        raise SettingsError(f"'{url}' does not use the certificates that were given. Write tls:// instead of tcp://.")
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
