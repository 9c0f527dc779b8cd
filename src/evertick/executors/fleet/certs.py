"""The files of one who takes part in a fleet: made, written and read; what signs them is the `authority`."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from evertick.executors.fleet.registry import write_private
from evertick.executors.fleet.settings import CA_FILE, CERT_FILE, KEY_FILE, NEXT_KEY_FILE, Certificates

PLACE_FILE = "fleet.json"


class Place(NamedTuple):
    """Where the authority of a certificate can be asked for the next one."""

    url: str
    join_port: int


class Request(NamedTuple):
    """A new key, and the request for a certificate that belongs to it."""

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


def write_folder(folder: Path, ca: bytes, cert: bytes, key: bytes, place: Place | None = None) -> Certificates:
    """The files of one who takes part, for its owner only. The certificate is what others look for.

    Whenever this is cut short, the certificate that is there has its key.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    if place is not None:
        write_private(folder / PLACE_FILE, json.dumps(place._asdict()).encode())
    for name, content in ((CA_FILE, ca), (NEXT_KEY_FILE, key), (CERT_FILE, cert)):
        write_private(folder / name, content)
    with contextlib.suppress(FileNotFoundError):  # one that read them in this moment has done it
        os.replace(folder / NEXT_KEY_FILE, folder / KEY_FILE)
    return Certificates.in_folder(folder)


def place_of(folder: Path) -> Place | None:
    try:
        plain = json.loads((folder / PLACE_FILE).read_text())
        return Place(str(plain["url"]), int(plain["join_port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
