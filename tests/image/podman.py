"""Podman with storage of its own, to build the image and to start containers of it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

from tests import provision
from tests.image.base import BASE, write_base
from tests.kinds.servers import without_hybrid_cgroups

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
IMAGE = "localhost/evertick:test"


class Podman:
    def __init__(self, folder: Path) -> None:
        program = provision.find_podman()
        assert program is not None, f"Podman is not installed. {provision.PODMAN_BY_HAND}"
        self.folder = folder
        settings = folder / "containers.conf"
        most = min(4_096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        settings.write_text(
            f'[containers]\ndefault_ulimits = ["nofile={most}:{most}", "nproc={most}:{most}"]\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        self._env = {**os.environ, "CONTAINERS_CONF": str(settings)}
        places = ["--root", str(folder / "root"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]
        self._words = [*without_hybrid_cgroups(), str(program), *places]

    def call(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*self._words, *words], env=self._env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, (
            f"podman {' '.join(words)}\n{done.stdout[-3_000:]}{done.stderr[-3_000:]}"
        )
        return done

    def build(self) -> None:
        """Build the Containerfile of the project; its base is this machine's Python, its page the one that is built."""
        base = self.folder / "base.tar"
        write_base(base)
        self.call("import", str(base), BASE)
        base.unlink()
        context = self.folder / "context"
        context.mkdir()
        for name in ("src", "web", "requirements", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, context / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
            else:
                shutil.copy2(source, context / name)
        environment = [f"--env={name}={value}" for name, value in os.environ.items() if name.startswith("PIP_CERT")]
        words = ("--format", "docker", "--network", "host", "--build-arg", f"PYTHON_IMAGE={BASE}")
        self.call("build", *words, *environment, "-t", IMAGE, "-f", str(CONTAINERFILE), str(context))

    def close(self) -> None:
        self.call("rm", "--all", "--force", "--time", "0", check=False)
        self.call("volume", "rm", "--all", "--force", check=False)
        self.call("rmi", "--all", "--force", check=False)
