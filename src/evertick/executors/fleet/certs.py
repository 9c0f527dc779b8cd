"""How those who take part in a fleet come to certificates: an authority of one's own, and a folder for each name."""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evertick.errors import SettingsError
from evertick.executors.fleet.settings import Certificates
from evertick.model.member import is_member_name

DAYS = 825
_AUTHORITY = "authority"


def make_certificates(folder: Path, names: Sequence[str], hosts: Sequence[str] = ()) -> list[Certificates]:
    """A folder for each name with its certificate, key and the authority's certificate; made once, then added to.

    The authority's key stays in `folder/authority`: whoever has it can let others in.
    """
    for name in names:
        if not is_member_name(name) or name == _AUTHORITY:
            raise SettingsError(
                f"'{name}' cannot be the name of a certificate. Write letters, digits, '-', '_' and '.'."
            )
    if shutil.which("openssl") is None:
        raise SettingsError("certificates are made with openssl, which is not here. Install it.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = folder / _AUTHORITY
    if not (authority / "ca.pem").exists():
        _make_authority(authority)
    return [_make(folder / name, authority, name, hosts) for name in names]


def _make_authority(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    subject = ("-x509", "-days", str(10 * 365), "-subj", "/CN=Evertick fleet")
    usage = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _openssl("req", *_NEW_KEY, *subject, *usage, "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.pem"))


def _make(folder: Path, authority: Path, name: str, hosts: Sequence[str]) -> Certificates:
    if (folder / "cert.pem").exists():
        return Certificates.in_folder(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    key, cert = folder / "key.pem", folder / "cert.pem"
    with tempfile.TemporaryDirectory() as scratch:
        request, extensions = Path(scratch, "request.pem"), Path(scratch, "extensions")
        names = ",".join([*map(_alternative, hosts), f"DNS:{name}"])
        # Everybody answers and calls: members are called by each other, the scheduler by all.
        extensions.write_text(
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            f"extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName={names}\n"
        )
        _openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        signing = ("-CA", str(authority / "ca.pem"), "-CAkey", str(authority / "ca.key"), "-CAcreateserial")
        where = ("-in", str(request), "-extfile", str(extensions), "-out", str(cert))
        _openssl("x509", "-req", "-days", str(DAYS), *signing, *where)
    shutil.copyfile(authority / "ca.pem", folder / "ca.pem")
    return Certificates.in_folder(folder)


_NEW_KEY = ("-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def _openssl(*words: str) -> None:
    before = os.umask(0o077)
    try:
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    finally:
        os.umask(before)
    if done.returncode:
        raise SettingsError(f"openssl could not make a certificate: {done.stderr.strip()[-400:]}")
