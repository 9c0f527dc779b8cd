"""What the pods of the tests run in: an image made of this machine's own shell, so that nothing is downloaded."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

PROGRAMS = ("sh", "sleep", "cat", "env", "true", "echo", "id", "mkdir", "date", "head", "tr")
SHELL = "localhost/evertick-shell:1"
PAUSE = "localhost/evertick-pause:1"


def write_images(path: Path) -> None:
    """An archive of both images, as `ctr images import` reads it."""
    layer = _layer()
    name = hashlib.sha256(layer).hexdigest()
    manifests = []
    with tarfile.open(path, "w") as archive:
        _add(archive, f"{name}.tar", layer)
        for image, command in ((SHELL, ["/bin/sh"]), (PAUSE, ["/bin/sleep", "infinity"])):
            config = json.dumps(
                {
                    "architecture": _architecture(),
                    "os": "linux",
                    "config": {"Env": ["PATH=/bin"], "Cmd": command},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{name}"]},
                }
            ).encode()
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, config_name, config)
            manifests.append({"Config": config_name, "RepoTags": [image], "Layers": [f"{name}.tar"]})
        _add(archive, "manifest.json", json.dumps(manifests).encode())


def _layer() -> bytes:
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as layer:
        for folder in ("bin", "etc", "tmp", "dev", "proc", "sys"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            layer.addfile(entry)
        _add(layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        libraries: set[str] = set()
        for program in PROGRAMS:
            path = shutil.which(program)
            assert path is not None, f"there is no {program!r} on this machine"
            _add(layer, f"bin/{program}", Path(path).read_bytes(), 0o755)
            libraries |= set(_libraries(path))
        for library in sorted(libraries):
            _add(layer, library.lstrip("/"), Path(library).read_bytes(), 0o755)
    return found.getvalue()


def _libraries(path: str) -> list[str]:
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
