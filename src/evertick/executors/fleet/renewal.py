"""Renews certificates in time, and when the authority was rotated.

Members, the hub and schedulers on other machines renew their own while they run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509

from evertick.errors import Conflict
from evertick.executors.fleet.certs import hub_address_of
from evertick.executors.fleet.settings import CA_FILE, Certificates
from evertick.model.instant import HOUR, SECOND
from evertick.private_file import write_private

LOOK_SECONDS = 60.0
LOOK_LEAST_SECONDS = 1.0
MARGIN_US = HOUR
"""How long before its creation a certificate becomes valid."""
LOOKS_IN_A_LIFETIME = 12


def needs_renewal(certificates: Certificates) -> bool:
    """Whether less than a third of its lifetime is left, or another authority signs now."""
    cert, ca = (Path(file).read_bytes() for file in (certificates.cert, certificates.ca))
    own, signing = x509.load_pem_x509_certificate(cert), x509.load_pem_x509_certificate(ca)
    return own.issuer != signing.subject or _left_us(own) < _lifetime_us(own) / 3


def renew_if_due(folder: Path) -> float:
    """Update the trusted authorities, and renew the certificate if due; the seconds until the next check.

    Files without the address of a hub are managed by the operator, and those of a hub by the hub.
    """
    from evertick.executors.fleet.enrolment import ask_trust, renew

    address = hub_address_of(folder)
    if address is None or (folder.parent / "authority").is_dir():
        return LOOK_SECONDS
    certificates = Certificates.in_folder(folder)
    with _exclusive(folder) as is_exclusive:
        if is_exclusive:
            with contextlib.suppress(Conflict):  # a hub of an earlier version does not answer this
                trusted = ask_trust(address, certificates)
                if trusted != Path(certificates.ca).read_bytes():
                    write_private(folder / CA_FILE, trusted)
            if needs_renewal(certificates):
                renew(folder)
    own = x509.load_pem_x509_certificate(Path(certificates.cert).read_bytes())
    often = _lifetime_us(own) / SECOND / LOOKS_IN_A_LIFETIME
    return max(LOOK_LEAST_SECONDS, min(LOOK_SECONDS, often))


def _left_us(cert: x509.Certificate) -> float:
    return cert.not_valid_after_utc.timestamp() * SECOND - time.time_ns() / 1_000


def _lifetime_us(cert: x509.Certificate) -> float:
    return (cert.not_valid_after_utc - cert.not_valid_before_utc).total_seconds() * SECOND - MARGIN_US


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[bool]:
    """Whether no other process renews the same files: two could leave a key with the other's certificate."""
    fd = os.open(folder / ".renewal.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)
