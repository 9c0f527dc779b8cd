"""The certificate authority of a fleet: its key, the certificates it has signed, and open invitations.

Everything is in one private folder on the hub's machine: `authority/` has the signing key, `authority.json` the record.
Commands and the process of `fleet start` change the record under one lock.

The signing key can be rotated while the fleet runs. First all peers get the next authority to trust beside the present
one; then the next one signs, and all peers get new certificates; then the former one is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from evertick.errors import Conflict, NotFound, SettingsError
from evertick.executors.fleet.certs import (
    HubAddress,
    alternative_name,
    certificate_builder,
    fingerprint_of,
    is_of_key,
    key_usage,
    new_authority,
    new_request,
    write_folder,
)
from evertick.executors.fleet.identity import Role, uri_of
from evertick.executors.fleet.registry import RECORD_FILE
from evertick.executors.fleet.settings import CA_FILE, Certificates
from evertick.model.instant import DAY, HOUR, Instant
from evertick.model.member import is_member_name
from evertick.private_file import write_private

LIFETIME_US = 365 * DAY
AUTHORITY_LIFETIME_US = 10 * 365 * DAY
INVITATION_US = 24 * HOUR
OVERLAP_US = HOUR
"""How long a replaced certificate stays valid, so that open connections can end by themselves."""
RENEWED_MAX = 20
"""Valid certificates of one role and name at a time."""
KEPT_US = 30 * DAY
"""How long expired entries stay in the record."""
OWN = ((Role.HUB, "hub"), (Role.SCHEDULER, "scheduler"))
"""The certificates that a hub issues for itself and its machine, in folders of these names."""
_FOLDER, _KEY = "authority", "ca.key"
_NEXT_CA, _NEXT_KEY, _FORMER_CA = "next.pem", "next.key", "former.pem"


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A signed certificate."""

    serial: str
    role: Role
    name: str
    issued_at: Instant
    expires_at: Instant
    revoked_at: Instant = 0
    """From then on it is rejected; 0: never. It is in the future for one that was replaced."""
    authority: str = ""
    """The fingerprint of its authority; empty: signed before authorities could be rotated."""
    trusts: str = ""
    """The fingerprint of the newest authority that its owner trusts."""

    def is_good(self, at: Instant) -> bool:
        return at < self.expires_at and not 0 < self.revoked_at <= at


@dataclass(frozen=True, slots=True)
class Invitation:
    """Good for one certificate."""

    digest: str
    role: Role
    name: str
    """The member it is for; empty: any."""
    expires_at: Instant
    used_by: str = ""


class Record(NamedTuple):
    issued: tuple[IssuedCertificate, ...] = ()
    invitations: tuple[Invitation, ...] = ()


class Authority:
    def __init__(self, folder: Path, lifetime_us: int = LIFETIME_US) -> None:
        self.folder = folder
        self._keys = folder / _FOLDER
        self._lifetime_us = lifetime_us

    @property
    def exists(self) -> bool:
        return (self._keys / CA_FILE).exists()

    @property
    def ca(self) -> bytes:
        """The trusted authorities: the one that signs first, then the next and the former one."""
        signing = self.signing
        others = [self._read(name) for name in (CA_FILE, _NEXT_CA, _FORMER_CA)]
        return b"".join(dict.fromkeys([signing, *(one for one in others if one)]))

    @property
    def signing(self) -> bytes:
        """The certificate of the signing key. Replacing the key is the atomic step of a rotation."""
        try:
            key = self._key()
        except FileNotFoundError:
            raise NotFound(f"'{self.folder}' has no fleet. Start one with 'evertick fleet start'.") from None
        found = [one for name in (CA_FILE, _NEXT_CA) if (one := self._read(name)) and is_of_key(one, key)]
        if not found:
            raise SettingsError(f"no certificate in '{self._keys}' belongs to the fleet's key. Restore a backup.")
        return found[0]

    def _read(self, name: str) -> bytes:
        try:
            return (self._keys / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _key(self) -> bytes:
        return (self._keys / _KEY).read_bytes()

    def create(self) -> bool:
        """Create the signing key if it does not exist; whether it was created."""
        with self._lock():
            if self.exists:
                return False
            self._keys.mkdir(mode=0o700, exist_ok=True)
            key, cert = new_authority()
            write_private(self._keys / _KEY, key)
            write_private(self._keys / CA_FILE, cert)
            return True

    # Rotation

    @property
    def next_fingerprint(self) -> str:
        """The fingerprint of the next authority; empty: no rotation is in progress."""
        following = self._read(_NEXT_CA)
        return fingerprint_of(following) if following and following != self.signing else ""

    def begin_rotation(self) -> str:
        """Create the next authority, to be trusted beside the present one; its fingerprint."""
        with self._lock():
            self._settle()
            if self._read(_NEXT_CA):
                raise Conflict(
                    "a rotation is already in progress. Finish it: evertick fleet certs rotate-authority --finish"
                )
            if self._read(_FORMER_CA):
                raise Conflict("certificates of the former authority are still valid. Try again when all are replaced.")
            key, cert = new_authority()
            write_private(self._keys / _NEXT_KEY, key)
            write_private(self._keys / _NEXT_CA, cert)
            return fingerprint_of(cert)

    def untrusting(self) -> list[IssuedCertificate]:
        """The owners of valid certificates that do not trust the next authority yet."""
        at, following = _now(), self.next_fingerprint
        known = [one for one in self.read().issued if one.is_good(at) and not one.revoked_at]
        # The hub renews its own when it starts, and while it runs.
        return [one for one in known if one.trusts != following and (one.role, one.name) not in OWN]

    def finish_rotation(self, *, is_forced: bool = False) -> None:
        """Sign with the next authority from now on; peers that trust it renew their certificates."""
        with self._lock():
            if not self.next_fingerprint:
                raise Conflict("no rotation is in progress. Next: evertick fleet certs rotate-authority")
            left = [f"{one.role} {one.name}" for one in self.untrusting()]
            if left and not is_forced:
                raise Conflict(
                    f"machines that do not trust the next authority yet would be locked out ({len(left)}): "
                    f"{', '.join(left[:10])}. Wait a minute, revoke those that are gone, or use --force."
                )
            write_private(self._keys / _FORMER_CA, self.signing)
            # The rotation is done; `_settle` completes what a crash leaves.
            os.replace(self._keys / _NEXT_KEY, self._keys / _KEY)
            self._settle()

    def forget_former(self) -> bool:
        """Drop the former authority if none of its certificates is valid; whether there was one."""
        former, at = self._read(_FORMER_CA), _now()
        if not former:
            return False
        with self._lock():
            self._settle()
            signing = fingerprint_of(self.signing)
            if any(one.is_good(at) and one.authority != signing for one in self.read().issued):
                return False
            (self._keys / _FORMER_CA).unlink(missing_ok=True)
            return True

    def _settle(self) -> None:
        """Put the certificate of the signing key into its place, also after an interrupted rotation."""
        following = self._read(_NEXT_CA)
        if following and following == self.signing:
            os.replace(self._keys / _NEXT_CA, self._keys / CA_FILE)
        elif self._read(_FORMER_CA) == self.signing:
            (self._keys / _FORMER_CA).unlink()  # written before a rotation that did not happen

    def note_trust(self, serial: str) -> None:
        """Record that the owner of this certificate trusts the newest authority."""
        newest = self.next_fingerprint or fingerprint_of(self.signing)
        if any(one.serial == serial and one.trusts != newest for one in self.read().issued):
            with self._changing() as change:
                change.issued = [replace(one, trusts=newest) if one.serial == serial else one for one in change.issued]

    # Certificates

    def sign(self, csr: bytes, role: Role, name: str, hosts: Sequence[str] = (), *, renews: bool = False) -> bytes:
        """Sign a request; a role and name has one certificate at a time."""
        check_name(name)
        with self._changing() as change:
            return change.sign(csr, role, name, hosts, renews=renews)

    def renew(self, csr: bytes, serial: str) -> bytes:
        """Replace a valid certificate by a new one for the same role and name."""
        with self._changing() as change:
            good = [one for one in change.issued if one.serial == serial and one.is_good(change.at)]
            if not good:
                raise Conflict("that certificate was revoked, or is not in this fleet's record.")
            role, name = good[0].role, good[0].name
            if (
                sum((one.role, one.name) == (role, name) and one.is_good(change.at) for one in change.issued)
                > RENEWED_MAX
            ):
                raise Conflict("the certificate was renewed too often within an hour.")
            return change.sign(csr, role, name, renews=True)

    def issue(
        self, folder: Path, role: Role, name: str, hosts: Sequence[str] = (), address: HubAddress | None = None
    ) -> Certificates:
        """Issue a certificate with a new key, and write all files of a peer."""
        request = new_request(name)
        return write_folder(folder, self.ca, self.sign(request.csr, role, name, hosts), request.key, address)

    def list_certificates(self) -> list[IssuedCertificate]:
        return sorted(self.read().issued, key=lambda one: (one.role, one.name, one.issued_at))

    def revoke(self, which: str) -> list[IssuedCertificate]:
        """Revoke by name or serial number; the certificates that were valid until now."""
        with self._changing() as change:
            ended = [one for one in change.issued if which in (one.name, one.serial) and one.is_good(change.at)]
            if not ended:
                raise NotFound(f"no valid certificate has the name or serial number '{which}'.")
            gone = {one.serial for one in ended}
            change.issued = [replace(one, revoked_at=change.at) if one.serial in gone else one for one in change.issued]
            return ended

    # Invitations

    def invite(self, join_port: int, role: Role = Role.MEMBER, name: str = "", lasts_us: int = INVITATION_US) -> str:
        """A token for one certificate, with the authority's fingerprint: no other server can act as the hub."""
        if name:
            check_name(name)
        secret = secrets.token_urlsafe(18)
        with self._changing() as change:
            change.invitations.append(Invitation(_digest(secret), role, name, change.at + lasts_us))
        return f"{join_port}.{secret}.{fingerprint_of(self.signing)}"

    def redeem(self, secret: str, name: str, csr: bytes) -> bytes:
        check_name(name)
        with self._changing() as change:
            digest = _digest(secret)
            known = next((one for one in change.invitations if secrets.compare_digest(one.digest, digest)), None)
            if known is None or known.expires_at <= change.at:
                raise Conflict("the token is unknown or has expired. Get another: evertick fleet token")
            if known.used_by:
                raise Conflict(f"the token was already used by {known.used_by}. Get another: evertick fleet token")
            if known.name and known.name != name:
                raise Conflict(f"the token is for {known.name}, not for {name}.")
            cert = change.sign(csr, known.role, name)
            change.invitations = [replace(one, used_by=name) if one is known else one for one in change.invitations]
            return cert

    # The record

    def read(self) -> Record:
        try:
            plain = json.loads((self.folder / RECORD_FILE).read_bytes())
        except FileNotFoundError:
            return Record()
        return Record(
            tuple(IssuedCertificate(**{**one, "role": Role(one["role"])}) for one in plain["certificates"]),
            tuple(Invitation(**{**one, "role": Role(one["role"])}) for one in plain["invitations"]),
        )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Change]:
        with self._lock():
            before = self.read()
            newest = self.next_fingerprint
            change = _Change(self.signing, self._key(), _now(), before, self._lifetime_us, newest)
            yield change
            horizon = change.at - KEPT_US
            plain = {
                "certificates": [asdict(one) for one in change.issued if one.expires_at > horizon],
                "invitations": [asdict(one) for one in change.invitations if one.expires_at > horizon],
            }
            write_private(self.folder / RECORD_FILE, json.dumps(plain, indent=1).encode())

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.folder / f".{RECORD_FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


class _Change:
    """A change of the record."""

    def __init__(
        self, ca: bytes, key: bytes, at: Instant, before: Record, lifetime_us: int, next_fingerprint: str
    ) -> None:
        self._ca, self._key = ca, key
        self._lifetime_us = lifetime_us
        self._next_fingerprint = next_fingerprint
        self.at = at
        self.issued = list(before.issued)
        self.invitations = list(before.invitations)

    def sign(self, csr: bytes, role: Role, name: str, hosts: Sequence[str] = (), *, renews: bool = False) -> bytes:
        had = [one for one in self.issued if (one.role, one.name) == (role, name) and one.is_good(self.at)]
        if had and not renews:
            raise Conflict(
                f"the {role} '{name}' already has a certificate. If it is lost, revoke it first: "
                f"evertick fleet certs revoke {name}"
            )
        ours = x509.load_pem_x509_certificate(self._ca)
        key = serialization.load_pem_private_key(self._key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        try:
            request = x509.load_pem_x509_csr(csr)
            is_sound = request.is_signature_valid
        except ValueError as error:
            raise Conflict(f"the certificate request cannot be read: {error}") from None
        public = request.public_key()
        if not is_sound or not isinstance(public, ec.EllipticCurvePublicKey):
            raise Conflict("the certificate request is not signed with its own key.")
        # Only the key of the request counts; the authority decides the role and name.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(uri_of(role, name)),
            *map(alternative_name, hosts),
        ]
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = certificate_builder(subject, ours.subject, public, self.at, self._lifetime_us)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(key_usage(is_authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = builder.sign(key, hashes.SHA256())
        until = self.at + OVERLAP_US
        self.issued = [replace(one, revoked_at=one.revoked_at or until) if one in had else one for one in self.issued]
        ends_at, own = self.at + self._lifetime_us, fingerprint_of(self._ca)
        # A certificate comes with all trusted authorities.
        trusts = self._next_fingerprint or own
        self.issued.append(
            IssuedCertificate(f"{cert.serial_number:X}", role, name, self.at, ends_at, authority=own, trusts=trusts)
        )
        return cert.public_bytes(serialization.Encoding.PEM)


def check_name(name: str) -> None:
    if not is_member_name(name):
        raise SettingsError(f"'{name}' is not a valid name in a fleet. Use letters, digits, '-', '_' and '.'.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _now() -> Instant:
    return time.time_ns() // 1_000
