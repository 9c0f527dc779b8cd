"""A base image made of this machine's own Python and shell, for machines that reach no registry."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.provision import CACHE

BASE = "localhost/evertick-base:1"
PROGRAMS = (
    *("sh", "bash", "cat", "chmod", "chown", "cp", "date", "echo", "env", "id", "install", "ls", "mkdir", "rm"),
    *("sleep", "test", "touch", "true", "useradd", "dirname"),
)
ETC = ("login.defs", "nsswitch.conf", "ssl/certs/ca-certificates.crt")
LIBRARIES_OF_WHEELS = ("libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1")
LEFT_OUT = frozenset({"test", "tests", "idlelib", "tkinter", "turtledemo", "site-packages", "__pycache__"})
ACCOUNTS = {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n", "shadow": "root:*:19000::::::\n"}


def write_base(path: Path) -> None:
    """A tar of the file system, as `podman import` reads it."""
    prefix = Path(sys.base_prefix)
    files = {f"/usr/bin/{name}": _program(name) for name in PROGRAMS}
    files["/usr/bin/tini"] = _tini()
    extensions = [*(prefix / "lib").glob("python3*/lib-dynload/*.so"), prefix / "bin" / "python3"]
    for one in (*files.values(), *extensions):
        files |= {library: Path(library) for library in _libraries(one)}
    said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    known = {
        words[0]: words[-1]
        for line in said.splitlines()
        if "x86-64" in line or "AArch64" in line
        for words in [line.split()]
    }
    files |= {known[name]: Path(known[name]) for name in LIBRARIES_OF_WHEELS}
    with tarfile.open(path, "w", dereference=True) as tar:
        for folder, mode in (("tmp", 0o1777), ("root", 0o755), ("var/lib", 0o755), ("home", 0o755), ("opt", 0o755)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for link in ("bin", "sbin"):
            _link(tar, link, "usr/bin")
        _link(tar, "usr/sbin", "bin")
        for name, text in ACCOUNTS.items():
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        for name in ETC:
            if Path("/etc", name).exists():
                tar.add(f"/etc/{name}", f"etc/{name}")
        for name, found in sorted(files.items()):
            tar.add(found, name.lstrip("/"))
        for folder in ("bin", "lib"):
            tar.add(prefix / folder, f"{prefix}/{folder}".lstrip("/"), filter=_needed)
        for name in ("python", "python3"):
            _link(tar, f"usr/local/bin/{name}", str(prefix / "bin" / "python3"))


def _program(name: str) -> Path:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))
    assert found is not None, f"there is no {name!r} on this machine"
    return Path(found)


def _tini() -> Path:
    """The machine's own, else the distribution's, unpacked beside the repository."""
    if found := shutil.which("tini"):
        return Path(found)
    unpacked = CACHE / "tini" / "usr" / "bin" / "tini"
    if not unpacked.is_file():
        folder = CACHE / "tini"
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "-q", "download", "tini"], cwd=folder, check=True, capture_output=True)
        subprocess.run(["dpkg", "-x", str(next(folder.glob("tini_*.deb"))), str(folder)], check=True)
    return unpacked


def _libraries(path: Path) -> list[str]:
    said = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    return [word for word in said.split() if word.startswith("/") and not word.startswith(sys.base_prefix)]


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts
    return None if LEFT_OUT & set(parts) or entry.name.endswith((".a", ".pyc")) else entry


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)
