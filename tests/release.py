"""`make release`: builds what is published, tries it in a clean environment, and prints what to upload.

Nothing is uploaded. It ends with an error if the checkout has changes that are not committed, if a file names another
version, if the changelog has no part for the version, or if what was built does not work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.test_packaging import PROGRAM, call, clean_export

ROOT = Path(__file__).parent.parent
JOB = "schedule: [{every: 1s}]\ncommand: echo hello\n"
START_SECONDS = 120.0


def version() -> str:
    """The version, from the one place where it is written."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def mistakes(wanted: str, root: Path = ROOT) -> Iterator[str]:
    """What would make a release of this version wrong."""
    if not re.search(rf"^## {re.escape(wanted)} \(\d{{4}}-\d\d-\d\d\)$", (root / "CHANGELOG.md").read_text(), re.M):
        yield f"CHANGELOG.md has no part '## {wanted} (DATE)'."
    for path, pattern in PLACES.items():
        found = re.findall(pattern, (root / path).read_text(), re.M)
        if not found or any(not wanted.startswith(one) for one in found):
            yield f"{path} names the version {', '.join(found) or 'nowhere'}, not {wanted}."


PLACES = {
    "README.md": r"This is version (\d+\.\d+)\.",
    "deploy/kubernetes/base/kustomization.yaml": r'newTag: "(\d+\.\d+\.\d+)"',
    "deploy/helm/evertick/Chart.yaml": r'^(?:version|appVersion): "?(\d+\.\d+\.\d+)"?$',
}
"""Files that people read or apply as they are, and how each names the version."""


def unknown_commits(root: Path = ROOT) -> Iterator[str]:
    """Figures of the documentation that cannot be repeated, because their commit is not in the history."""
    for path in sorted((root / "docs/results").rglob("*.json")):
        named = set(re.findall(r'"commit": "([^"]+)"', path.read_text()))
        for commit in sorted(one for one in named if not is_in_history(one, root)):
            yield f"{path.relative_to(root)} has results of commit {commit}, which is not in the history."


def is_in_history(commit: str, root: Path) -> bool:
    command = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def build(folder: Path) -> list[Path]:
    """The sdist and the wheel, of what is committed."""
    export = clean_export(folder / "export")
    call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", cwd=export)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    shutil.copytree(export / "dist", ROOT / "dist")
    return sorted((ROOT / "dist").iterdir())


def try_out(built: Path, folder: Path, wanted: str) -> None:
    """Install it beside nothing else, and use it: version, program, types, server and page."""
    venv.create(folder / "fresh")
    python = folder / "fresh/bin/python"
    call(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", built, cwd=folder)
    evertick = folder / "fresh/bin/evertick"
    assert call(evertick, "--version", cwd=folder).split() == ["evertick", wanted]
    (folder / "program.py").write_text(PROGRAM)
    assert call(python, "program.py", cwd=folder).strip() == "42 True ['add', 'report']"
    call(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "program.py", cwd=folder)
    (folder / "jobs").mkdir()
    (folder / "jobs/hello.yaml").write_text(JOB)
    with serving(evertick, folder) as url:
        assert b"<html" in _get(f"{url}/"), "the page is not there"
        deadline = time.monotonic() + START_SECONDS
        while not json.loads(call(evertick, "history", "hello", "--folder", "jobs", "-o", "json", cwd=folder))["items"]:
            assert time.monotonic() < deadline, "the job did not run"
            time.sleep(0.5)


@contextmanager
def serving(evertick: Path, folder: Path) -> Iterator[str]:
    """A server on a free port, until the block ends; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("EVERTICK_", "PYTHON"))}
    command = [str(evertick), "serve", "jobs", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
            while True:
                try:
                    _get(f"{url}/healthz")
                    break
                except OSError:
                    assert server.poll() is None, "the server ended"
                    assert time.monotonic() < deadline, "the server does not answer"
                    time.sleep(0.5)
            yield url
        finally:
            server.terminate()


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content


def main() -> int:
    wanted = version()
    found = list(mistakes(wanted))
    if call("git", "status", "--porcelain", cwd=ROOT).strip():
        found.append("the checkout has changes that are not committed.")
    for mistake in found:
        sys.stderr.write(f"release {wanted}: {mistake}\n")
    if found:
        return 1
    for note in unknown_commits():
        sys.stderr.write(f"note: {note} Measure it again, or keep the commit.\n")
    with tempfile.TemporaryDirectory() as folder:
        files = build(Path(folder))
        for number, file in enumerate(files):
            sys.stderr.write(f"trying {file.name} in a clean environment ...\n")
            place = Path(folder) / f"try-{number}"
            place.mkdir()
            try_out(file, place, wanted)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(ROOT)}" for file in files]
    names = " ".join(str(file.relative_to(ROOT)) for file in files)
    sys.stdout.write(
        "\n".join([*lines, "", f"git tag -s v{wanted} && git push origin v{wanted}", f"twine upload {names}", ""])
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
