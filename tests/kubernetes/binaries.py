"""Where the programs of a Kubernetes cluster come from: the PATH, a cache, or built from source.

No distribution packages them all. They are built from the modules that `sources/*/go.mod` name, through the Go module
proxy; `go.sum` beside each pins every module by its checksum, and Go refuses what does not match. The cache lies
outside the repository. The first build takes 6 to 30 minutes and 3 GB; later runs take none of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.provision import CACHE

HERE = Path(__file__).parent / "sources"
TOOLS = Path(__file__).parent / "tools"
"""What no cluster consists of: another version of these does not make a cluster be built anew."""
BINARIES = CACHE / "kubernetes"
KUBERNETES = "v1.34.4"
GO_AT_LEAST = (1, 24)
_VERSION = "k8s.io/component-base/version"


class Source(NamedTuple):
    """One module, and the programs in it."""

    folder: str
    packages: tuple[str, ...]
    flags: tuple[str, ...] = ()
    cgo: str = "0"
    tags: str = ""
    """What is left out, and then needs no line in go.sum."""

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(self._program(one) for one in self.packages)

    def _program(self, package: str) -> str:
        """The last word of its address; a version is no name."""
        if package.endswith("server/v3"):
            return "etcd"
        words = package.split("/")
        return words[-2] if re.fullmatch(r"v\d+", words[-1]) else words[-1]


def _under(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}/{name}" for name in names)


SOURCES = (
    Source("etcd", ("go.etcd.io/etcd/server/v3",)),
    Source(
        "kubernetes",
        _under("k8s.io/kubernetes/cmd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"),
        (
            f"-X {_VERSION}.gitVersion={KUBERNETES}",
            f"-X {_VERSION}.gitMajor={KUBERNETES.split('.')[0][1:]}",
            f"-X {_VERSION}.gitMinor={KUBERNETES.split('.')[1]}",
        ),
    ),
    Source(
        "containerd",
        _under("github.com/containerd/containerd/v2/cmd", "containerd", "containerd-shim-runc-v2", "ctr"),
        tags="no_zfs",
    ),
    Source(
        "cni",
        _under("github.com/containernetworking/plugins/plugins", "main/bridge", "main/loopback", "ipam/host-local"),
    ),
    # Its first steps in a container are written in C.
    Source("runc", ("github.com/opencontainers/runc",), cgo="1"),
)


KUSTOMIZE = Source("kustomize", ("sigs.k8s.io/kustomize/kustomize/v5",))
HELM = Source("helm", ("helm.sh/helm/v3/cmd/helm",))


class Unobtainable(Exception):
    """A program could not be had: names it, the reason and the next step."""


def folder_of_binaries() -> Path:
    """A folder that holds all of them; built when they are not there yet."""
    return _built(SOURCES, HERE, BINARIES / digest(HERE))


def kustomize() -> Path:
    """The program that makes one text of a folder of manifests; built when it is not there yet."""
    return _tool(KUSTOMIZE)


def helm() -> Path:
    """The program that renders a chart: the one on the PATH, else built when it is not there yet."""
    found = shutil.which("helm")
    return Path(found) if found else _tool(HELM)


def _tool(source: Source) -> Path:
    return _built((source,), TOOLS, BINARIES / f"{source.folder}-{digest(TOOLS, source.folder)}") / source.programs[0]


def _built(sources: Sequence[Source], modules: Path, folder: Path) -> Path:
    missing = [source for source in sources if not all((folder / program).is_file() for program in source.programs)]
    if missing:
        go = _go()
        folder.mkdir(parents=True, exist_ok=True)
        for source in missing:
            _build(go, source, modules / source.folder, folder)
    return folder


def digest(modules: Path, folder: str = "*") -> str:
    """Of what is built: another version is built anew, beside the old one."""
    text = hashlib.sha256()
    for path in sorted(modules.glob(f"{folder}/go.*")):
        text.update(path.read_bytes())
    return text.hexdigest()[:12]


def _go() -> str:
    go = shutil.which("go")
    hint = "Install Go from https://go.dev/dl or your distribution, then run this command again."
    if go is None:
        raise Unobtainable(f"the programs of a cluster have to be built once, and there is no 'go' on the PATH. {hint}")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < GO_AT_LEAST:
        wanted = ".".join(map(str, GO_AT_LEAST))
        raise Unobtainable(f"building a cluster needs Go {wanted} or newer, and {said.strip()} was found. {hint}")
    return go


def _build(go: str, source: Source, module: Path, folder: Path) -> None:
    print(f"building {', '.join(source.programs)} ...", file=sys.stderr, flush=True)  # noqa: T201
    if source.cgo == "1" and not shutil.which("gcc"):
        raise Unobtainable(f"{source.programs[0]} needs a C compiler. Install gcc, then run this command again.")
    flags = " ".join(("-s -w", *source.flags))
    for package, program in zip(source.packages, source.programs, strict=True):
        target = folder / program
        options = ("-mod=readonly", "-trimpath", "-tags", source.tags, "-ldflags", flags)
        command = [go, "build", *options, "-o", f"{target}.part", package]
        done = subprocess.run(
            command, cwd=module, env={**os.environ, "CGO_ENABLED": source.cgo}, stderr=subprocess.PIPE
        )
        if done.returncode:
            end = done.stderr.decode("utf-8", "replace")[-2000:]
            raise Unobtainable(f"{program} could not be built from {package}:\n{end}")
        os.replace(f"{target}.part", target)


if __name__ == "__main__":
    try:
        print(folder_of_binaries(), kustomize(), helm())  # noqa: T201
    except Unobtainable as error:
        sys.exit(f"error: {error}")
