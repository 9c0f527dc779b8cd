"""How the files of one who takes part in a fleet stay good: a certificate is replaced in time, and by a new authority.

Members, the hub and schedulers on other machines look after their own, as long as they run.
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
from evertick.executors.fleet.certs import place_of
from evertick.executors.fleet.registry import write_private
from evertick.executors.fleet.settings import CA_FILE, Certificates
from evertick.model.instant import HOUR, SECOND

LOOK_SECONDS = 60.0
LOOK_LEAST_SECONDS = 1.0
MARGIN_US = HOUR
"""By which a certificate begins before it was made."""
LOOKS_IN_A_LIFETIME = 12


def needs_renewal(certificates: Certificates) -> bool:
    """Whether a third of its life or less is left, or another authority signs by now."""
    cert, ca = (Path(file).read_bytes() for file in (certificates.cert, certificates.ca))
    own, signing = x509.load_pem_x509_certificate(cert), x509.load_pem_x509_certificate(ca)
    return own.issuer != signing.subject or _left_us(own) < _lifetime_us(own) / 3


def look_after(folder: Path) -> float:
    """Ask the hub what is to be trusted now, and for a new certificate if it is time; answers when to look again.

    In seconds. Files that do not say which hub they are for are the operator's, and so are those of a hub itself.
    """
    from evertick.executors.fleet.enrolment import ask_trust, renew

    place = place_of(folder)
    if place is None or (folder.parent / "authority").is_dir():
        return LOOK_SECONDS
    certificates = Certificates.in_folder(folder)
    with _alone(folder) as is_alone:
        if is_alone:
            with contextlib.suppress(Conflict):  # a hub of an earlier version does not know the question
                trusted = ask_trust(place, certificates)
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
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other process looks after the same files now: two would leave a key beside the other's certificate."""
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
