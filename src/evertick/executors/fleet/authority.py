"""Who is let into a fleet: its authority, the certificates that it has signed, and the invitations that are open.

Everything is in one folder on the machine of the hub, for its owner only: `authority/` has the key that signs,
`authority.json` the record. Commands and the process of `fleet start` change the record under one lock.

The key that signs can be replaced while the fleet runs. First everybody is given the next authority to trust beside the
present one; then the next one signs, and everybody gets a new certificate; then the former one is forgotten.
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
from evertick.executors.fleet.registry import RECORD_FILE, write_private
from evertick.executors.fleet.settings import CA_FILE, Certificates
from evertick.model.instant import DAY, HOUR, SECOND, Instant
from evertick.model.member import is_member_name

LIFETIME_US = 365 * DAY
AUTHORITY_LIFETIME_US = 10 * 365 * DAY
INVITATION_US = 24 * HOUR
OVERLAP_US = HOUR
"""How long a certificate is still good when its owner has a newer one: connections that are open end by themselves."""
RENEWED_MAX = 20
"""Certificates of one role and name that are good side by side: more would only fill the record."""
KEPT_US = 30 * DAY
"""How long what is over stays in the record."""
OWN = ((Role.HUB, "hub"), (Role.SCHEDULER, "scheduler"))
"""Those that a hub makes for itself and for its machine, in folders of these names."""
_FOLDER, _KEY = "authority", "ca.key"
_NEXT_CA, _NEXT_KEY, _FORMER_CA = "next.pem", "next.key", "former.pem"


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
    authority: str = ""
    """The fingerprint of what signed it; empty: it was signed before authorities could be replaced."""
    trusts: str = ""
    """The fingerprint of the newest authority that its owner was told of."""

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
    def __init__(self, folder: Path, lifetime_us: int = LIFETIME_US) -> None:
        self.folder = folder
        self._keys = folder / _FOLDER
        self._lifetime_us = lifetime_us

    @property
    def exists(self) -> bool:
        return (self._keys / CA_FILE).exists()

    @property
    def ca(self) -> bytes:
        """What everybody has to trust: the authority that signs first, then those that will, or did."""
        signing = self.signing
        others = [self._read(name) for name in (CA_FILE, _NEXT_CA, _FORMER_CA)]
        return b"".join(dict.fromkeys([signing, *(one for one in others if one)]))

    @property
    def signing(self) -> bytes:
        """The certificate of the key that signs. The key alone decides, so that a switch is done or not done."""
        try:
            key = self._key()
        except FileNotFoundError:
            raise NotFound(f"there is no fleet in '{self.folder}'. Start one with 'evertick fleet start'.") from None
        found = [one for name in (CA_FILE, _NEXT_CA) if (one := self._read(name)) and _is_of(one, key)]
        if not found:
            raise SettingsError(f"no certificate in '{self._keys}' belongs to the key of the fleet. Restore a backup.")
        return found[0]

    def _read(self, name: str) -> bytes:
        try:
            return (self._keys / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _key(self) -> bytes:
        return (self._keys / _KEY).read_bytes()

    def create(self) -> bool:
        """Make a key that signs, unless there is one; True: it was made."""
        with self._lock():
            if self.exists:
                return False
            self._keys.mkdir(mode=0o700, exist_ok=True)
            key, cert = _new_authority()
            write_private(self._keys / _KEY, key)
            write_private(self._keys / CA_FILE, cert)
            return True

    # Replacing the authority

    @property
    def next_fingerprint(self) -> str:
        """Of the authority that will sign; empty: none is being prepared."""
        following = self._read(_NEXT_CA)
        return fingerprint_of(following) if following and following != self.signing else ""

    def begin_rotation(self) -> str:
        """Make the next authority, for everybody to trust beside the present one; answers its fingerprint."""
        with self._lock():
            self._settle()
            if self._read(_NEXT_CA):
                raise Conflict(
                    "the next authority is there already. Finish: evertick fleet certs rotate-authority --finish"
                )
            if self._read(_FORMER_CA):
                raise Conflict("certificates of the former authority are still good. Try again when all are replaced.")
            key, cert = _new_authority()
            write_private(self._keys / _NEXT_KEY, key)
            write_private(self._keys / _NEXT_CA, cert)
            return fingerprint_of(cert)

    def untrusting(self) -> list[Issued]:
        """Whose certificates are good and who have not been told of the next authority yet."""
        at, following = _now(), self.next_fingerprint
        known = [one for one in self.read().issued if one.is_good(at) and not one.revoked_at]
        # The hub gives its own new ones when it starts, and while it runs.
        return [one for one in known if one.trusts != following and (one.role, one.name) not in OWN]

    def finish_rotation(self, *, is_forced: bool = False) -> None:
        """Let the next authority sign from now on; everybody who trusts it gets a new certificate in time."""
        with self._lock():
            if not self.next_fingerprint:
                raise Conflict("no next authority is being prepared. Begin: evertick fleet certs rotate-authority")
            left = [f"{one.role} {one.name}" for one in self.untrusting()]
            if left and not is_forced:
                raise Conflict(
                    f"{len(left)} would be shut out, because they do not know the next authority yet: "
                    f"{', '.join(left[:10])}. Wait a minute, revoke those that are gone, or use --force."
                )
            write_private(self._keys / _FORMER_CA, self.signing)
            # From here on it is done: what is left to do is done by whoever comes next.
            os.replace(self._keys / _NEXT_KEY, self._keys / _KEY)
            self._settle()

    def forget_former(self) -> bool:
        """Trust the former authority no more when no certificate of it is good; whether it was there to forget."""
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
        """Put the certificate of the key that signs into its place, after a switch that was cut short too."""
        following = self._read(_NEXT_CA)
        if following and following == self.signing:
            os.replace(self._keys / _NEXT_CA, self._keys / CA_FILE)
        elif self._read(_FORMER_CA) == self.signing:
            (self._keys / _FORMER_CA).unlink()  # written before a switch that did not come about

    def note_trust(self, serial: str) -> None:
        """Remember that the owner of this certificate was told of the newest authority."""
        newest = self.next_fingerprint or fingerprint_of(self.signing)
        if any(one.serial == serial and one.trusts != newest for one in self.read().issued):
            with self._changing() as change:
                change.issued = [replace(one, trusts=newest) if one.serial == serial else one for one in change.issued]

    # Certificates

    def sign(self, csr: bytes, role: Role, name: str, hosts: Sequence[str] = (), *, renews: bool = False) -> bytes:
        """A certificate for the key of a request; a role and a name have one at a time."""
        check_name(name)
        with self._changing() as change:
            return change.sign(csr, role, name, hosts, renews=renews)

    def renew(self, csr: bytes, serial: str) -> bytes:
        """A certificate in the place of one that is good, for the same role and name."""
        with self._changing() as change:
            good = [one for one in change.issued if one.serial == serial and one.is_good(change.at)]
            if not good:
                raise Conflict("that certificate was revoked, or is not in the record of this fleet.")
            role, name = good[0].role, good[0].name
            if (
                sum((one.role, one.name) == (role, name) and one.is_good(change.at) for one in change.issued)
                > RENEWED_MAX
            ):
                raise Conflict("it was renewed too often within an hour.")
            return change.sign(csr, role, name, renews=True)

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
        return f"{join_port}.{secret}.{fingerprint_of(self.signing)}"

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
    """The record while it is being changed."""

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
        builder = _builder(subject, ours.subject, public, self.at, self._lifetime_us)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(is_authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = builder.sign(key, hashes.SHA256())
        until = self.at + OVERLAP_US
        self.issued = [replace(one, revoked_at=one.revoked_at or until) if one in had else one for one in self.issued]
        ends_at, own = self.at + self._lifetime_us, fingerprint_of(self._ca)
        # Whoever gets a certificate gets with it all that is to be trusted.
        trusts = self._next_fingerprint or own
        self.issued.append(
            Issued(f"{cert.serial_number:X}", role, name, self.at, ends_at, authority=own, trusts=trusts)
        )
        return cert.public_bytes(serialization.Encoding.PEM)


def check_name(name: str) -> None:
    if not is_member_name(name):
        raise SettingsError(f"'{name}' cannot be a name in a fleet. Write letters, digits, '-', '_' and '.'.")


def fingerprint_of(ca: bytes) -> str:
    der = x509.load_pem_x509_certificate(ca).public_bytes(serialization.Encoding.DER)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")


def _new_authority() -> tuple[bytes, bytes]:
    """A key that signs, and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    words = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, AUTHORITY),
        x509.NameAttribute(NameOID.COMMON_NAME, f"{AUTHORITY} {secrets.token_hex(4)}"),
    ]
    subject = x509.Name(words)
    builder = _builder(subject, subject, key.public_key(), _now(), AUTHORITY_LIFETIME_US)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    cert = builder.add_extension(_usage(is_authority=True), critical=True).sign(key, hashes.SHA256())
    return pem_of(key), cert.public_bytes(serialization.Encoding.PEM)


def _is_of(cert: bytes, key: bytes) -> bool:
    private = serialization.load_pem_private_key(key, None)
    return x509.load_pem_x509_certificate(cert).public_key() == private.public_key()


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
