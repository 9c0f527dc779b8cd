"""Keys and certificates of a fleet's peers: created, written and read. The `authority` signs them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import ipaddress
import json
import os
import secrets
import time
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from evertick.executors.fleet.identity import AUTHORITY
from evertick.executors.fleet.settings import CA_FILE, CERT_FILE, KEY_FILE, NEXT_KEY_FILE, Certificates
from evertick.model.instant import DAY, HOUR, SECOND, Instant
from evertick.private_file import write_private

ADDRESS_FILE = "fleet.json"


AUTHORITY_LIFETIME_US = 10 * 365 * DAY


class HubAddress(NamedTuple):
    """Where the hub's enrolment server listens."""

    url: str
    join_port: int


class Request(NamedTuple):
    """A new key, and its certificate request."""

    key: bytes
    csr: bytes


def new_request(name: str) -> Request:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return Request(pem_of(key), csr.public_bytes(serialization.Encoding.PEM))


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_folder(folder: Path, ca: bytes, cert: bytes, key: bytes, address: HubAddress | None = None) -> Certificates:
    """Write the private files of a peer. Other processes watch the certificate.

    Whenever this is cut short, the certificate that is there has its key.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    if address is not None:
        write_private(folder / ADDRESS_FILE, json.dumps(address._asdict()).encode())
    for name, content in ((CA_FILE, ca), (NEXT_KEY_FILE, key), (CERT_FILE, cert)):
        write_private(folder / name, content)
    with contextlib.suppress(FileNotFoundError):  # a reader has done it meanwhile
        os.replace(folder / NEXT_KEY_FILE, folder / KEY_FILE)
    return Certificates.in_folder(folder)


def hub_address_of(folder: Path) -> HubAddress | None:
    try:
        plain = json.loads((folder / ADDRESS_FILE).read_text())
        return HubAddress(str(plain["url"]), int(plain["join_port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


# Authorities and what they sign


def fingerprint_of(ca: bytes) -> str:
    der = x509.load_pem_x509_certificate(ca).public_bytes(serialization.Encoding.DER)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")


def new_authority() -> tuple[bytes, bytes]:
    """A signing key and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, AUTHORITY),
        x509.NameAttribute(NameOID.COMMON_NAME, f"{AUTHORITY} {secrets.token_hex(4)}"),
    ]
    subject = x509.Name(attributes)
    builder = certificate_builder(subject, subject, key.public_key(), time.time_ns() // 1_000, AUTHORITY_LIFETIME_US)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    cert = builder.add_extension(key_usage(is_authority=True), critical=True).sign(key, hashes.SHA256())
    return pem_of(key), cert.public_bytes(serialization.Encoding.PEM)


def is_of_key(cert: bytes, key: bytes) -> bool:
    private = serialization.load_pem_private_key(key, None)
    return x509.load_pem_x509_certificate(cert).public_key() == private.public_key()


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, at: Instant, lasts_us: int
) -> x509.CertificateBuilder:
    # The clocks of machines differ a little.
    begin = datetime.datetime.fromtimestamp((at - HOUR) / SECOND, datetime.UTC)
    end = datetime.datetime.fromtimestamp((at + lasts_us) / SECOND, datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)


def key_usage(*, is_authority: bool) -> x509.KeyUsage:
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


def alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
