"""Who is let into a fleet: its authority, the certificates that it has signed, and the invitations that are open.

Everything is in one folder on the machine of the hub, for its owner only: `authority/` has the key that signs,
`authority.json` the record. Commands and the process of `fleet start` change the record under one lock.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import fcntl
import hashlib
import ipaddress
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
from evertick.executors.fleet.certs import Place, new_request, pem_of, write_folder
from evertick.executors.fleet.identity import AUTHORITY, Role, uri_of
from evertick.executors.fleet.names import RECORD_FILE, write_private
from evertick.executors.fleet.settings import CA_FILE, Certificates
from evertick.model.instant import DAY, HOUR, SECOND, Instant
from evertick.model.member import is_member_name

LIFETIME_US = 365 * DAY
AUTHORITY_LIFETIME_US = 10 * 365 * DAY
INVITATION_US = 24 * HOUR
OVERLAP_US = HOUR
"""How long a certificate is still good when its owner has a newer one: connections that are open end by themselves."""
KEPT_US = 30 * DAY
"""How long what is over stays in the record."""
_FOLDER, _KEY = "authority", "ca.key"


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that was signed."""

    serial: str
    role: Role
    name: str
    issued_at: Instant
    expires_at: Instant
    revoked_at: Instant = 0
    """From when on it is not taken any more; 0: never. It lies ahead for one that was replaced by a newer one."""

    def is_good(self, at: Instant) -> bool:
        return at < self.expires_at and not 0 < self.revoked_at <= at


@dataclass(frozen=True, slots=True)
class Invitation:
    """Lets one in, once."""

    digest: str
    role: Role
    name: str
    """Whom it is for; empty: whoever comes with it."""
    expires_at: Instant
    used_by: str = ""


class Record(NamedTuple):
    issued: tuple[Issued, ...] = ()
    invitations: tuple[Invitation, ...] = ()


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._keys = folder / _FOLDER

    @property
    def exists(self) -> bool:
        return (self._keys / CA_FILE).exists()

    @property
    def ca(self) -> bytes:
        """What everybody has to trust."""
        try:
            return (self._keys / CA_FILE).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"there is no fleet in '{self.folder}'. Start one with 'evertick fleet start'.") from None

    def create(self) -> bool:
        """Make a key that signs, unless there is one; True: it was made."""
        with self._lock():
            if self.exists:
                return False
            self._keys.mkdir(mode=0o700, exist_ok=True)
            key = ec.generate_private_key(ec.SECP256R1())
            words = [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, AUTHORITY),
                x509.NameAttribute(NameOID.COMMON_NAME, f"{AUTHORITY} {secrets.token_hex(4)}"),
            ]
            subject = x509.Name(words)
            builder = _builder(subject, subject, key.public_key(), _now(), AUTHORITY_LIFETIME_US)
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            cert = builder.add_extension(_usage(is_authority=True), critical=True).sign(key, hashes.SHA256())
            write_private(self._keys / _KEY, pem_of(key))
            write_private(self._keys / CA_FILE, cert.public_bytes(serialization.Encoding.PEM))
            return True

    # Certificates

    def sign(self, csr: bytes, role: Role, name: str, hosts: Sequence[str] = (), *, renews: bool = False) -> bytes:
        """A certificate for the key of a request; a role and a name have one at a time."""
        check_name(name)
        with self._changing() as change:
            return change.sign(csr, role, name, hosts, renews=renews)

    def issue(
        self, folder: Path, role: Role, name: str, hosts: Sequence[str] = (), place: Place | None = None
    ) -> Certificates:
        """All files of one who takes part, with a new key."""
        request = new_request(name)
        return write_folder(folder, self.ca, self.sign(request.csr, role, name, hosts), request.key, place)

    def list_certificates(self) -> list[Issued]:
        return sorted(self.read().issued, key=lambda one: (one.role, one.name, one.issued_at))

    def revoke(self, which: str) -> list[Issued]:
        """Take nothing more from whoever has it, by name or serial number; answers those that were good until now."""
        with self._changing() as change:
            ended = [one for one in change.issued if which in (one.name, one.serial) and one.is_good(change.at)]
            if not ended:
                raise NotFound(f"no certificate that is still good has the name or serial number '{which}'.")
            gone = {one.serial for one in ended}
            change.issued = [replace(one, revoked_at=change.at) if one.serial in gone else one for one in change.issued]
            return ended

    # Invitations

    def invite(self, join_port: int, role: Role = Role.MEMBER, name: str = "", lasts_us: int = INVITATION_US) -> str:
        """A token that is good for one certificate. It names the authority, so that nobody else can take its place."""
        if name:
            check_name(name)
        secret = secrets.token_urlsafe(18)
        with self._changing() as change:
            change.invitations.append(Invitation(_digest(secret), role, name, change.at + lasts_us))
        return f"{join_port}.{secret}.{fingerprint_of(self.ca)}"

    def redeem(self, secret: str, name: str, csr: bytes) -> bytes:
        check_name(name)
        with self._changing() as change:
            digest = _digest(secret)
            known = next((one for one in change.invitations if secrets.compare_digest(one.digest, digest)), None)
            if known is None or known.expires_at <= change.at:
                raise Conflict("the token is not known, or its time is over. Get another: evertick fleet token")
            if known.used_by:
                raise Conflict(f"the token was used by {known.used_by}. Get another: evertick fleet token")
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
            tuple(Issued(**{**one, "role": Role(one["role"])}) for one in plain["certificates"]),
            tuple(Invitation(**{**one, "role": Role(one["role"])}) for one in plain["invitations"]),
        )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Change]:
        with self._lock():
            before = self.read()
            change = _Change(self.ca, (self._keys / _KEY).read_bytes(), _now(), before)
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
    """The record while it is being changed."""

    def __init__(self, ca: bytes, key: bytes, at: Instant, before: Record) -> None:
        self._ca, self._key = ca, key
        self.at = at
        self.issued = list(before.issued)
        self.invitations = list(before.invitations)

    def sign(self, csr: bytes, role: Role, name: str, hosts: Sequence[str] = (), *, renews: bool = False) -> bytes:
        had = [one for one in self.issued if (one.role, one.name) == (role, name) and one.is_good(self.at)]
        if had and not renews:
            raise Conflict(
                f"the {role} '{name}' has a certificate already. If it is lost, revoke it first: "
                f"evertick fleet certs revoke {name}"
            )
        ours = x509.load_pem_x509_certificate(self._ca)
        key = serialization.load_pem_private_key(self._key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        try:
            request = x509.load_pem_x509_csr(csr)
            is_sound = request.is_signature_valid
        except ValueError as error:
            raise Conflict(f"the request for a certificate cannot be read: {error}") from None
        public = request.public_key()
        if not is_sound or not isinstance(public, ec.EllipticCurvePublicKey):
            raise Conflict("the request for a certificate is not signed with its own key.")
        # Of the request only the key counts: who it is for is not for the one who asks to say.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri_of(role, name)), *map(_alternative, hosts)]
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = _builder(subject, ours.subject, public, self.at, LIFETIME_US)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(is_authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = builder.sign(key, hashes.SHA256())
        until = self.at + OVERLAP_US
        self.issued = [replace(one, revoked_at=one.revoked_at or until) if one in had else one for one in self.issued]
        self.issued.append(Issued(f"{cert.serial_number:X}", role, name, self.at, self.at + LIFETIME_US))
        return cert.public_bytes(serialization.Encoding.PEM)


def check_name(name: str) -> None:
    if not is_member_name(name):
        raise SettingsError(f"'{name}' cannot be a name in a fleet. Write letters, digits, '-', '_' and '.'.")


def fingerprint_of(ca: bytes) -> str:
    der = x509.load_pem_x509_certificate(ca).public_bytes(serialization.Encoding.DER)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")


def expires_at(cert: bytes) -> Instant:
    """When the certificate in a file is over."""
    return int(x509.load_pem_x509_certificate(cert).not_valid_after_utc.timestamp() * SECOND)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, at: Instant, lasts_us: int
) -> x509.CertificateBuilder:
    # Clocks differ a little between machines.
    begin = datetime.datetime.fromtimestamp((at - HOUR) / SECOND, datetime.UTC)
    end = datetime.datetime.fromtimestamp((at + lasts_us) / SECOND, datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _now() -> Instant:
    return time.time_ns() // 1_000
