"""How the tests run the pages of the documentation: each page is a session in its own folder.

A block that begins with a comment that names a file (`# jobs/report.yaml`) is written to that file. Then:

- `yaml` must be a valid job, unless its file is not a job file, and must not contain a relative path that does not
  exist in the folder of the job file, where commands start; `toml` and `json` must be valid;
- `python` runs as a program;
- `sh` runs in bash, which stops at the first command that fails; the PATH that it leaves applies to later blocks;
- `console` does the same for its lines after `$ `. The lines below each command must be in its output: digits, dates
  and names of the machine may differ, and a line `...` stands for any lines.

Where a page names or means the default port of a server, the session uses a free one: two checkouts can run their tests
at once.

A comment in the line before a block changes this, and gives the reason:

    <!-- not run: needs an account -->        the block is only read
    <!-- background: until the page ends -->  the block runs while the rest of the page runs
    <!-- fragment: the rest is above -->      yaml that is not a whole job
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evertick.definitions.parser import parse_definition
from evertick.model.job import Job
from evertick.model.work import Command, ConditionKind
from evertick.settings import Settings
from tests.ports import free_port
from tests.serve_for import READY

LIMIT_SECONDS = 180
FLEET_URL = "tls://127.0.0.1:8786"
"""Where a hub listens by default."""
FROM_THE_START = ("README.md",)
"""Pages that begin before anything is installed, and put `evertick` on the PATH themselves."""

_FENCE = re.compile(
    r"^(?:<!-- (?P<marker>not run|background|fragment)(?:: (?P<reason>[^>]*?))? -->\n)?"
    r"(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^(?P=indent)```\s*$",
    re.M | re.S,
)
_NAME = re.compile(r"(?:#|//) ([\w./-]+\.(?:py|yaml|yml|toml|json|sh|txt|csv))(?: .*)?$")


ROOT = Path(__file__).parent.parent
# The seconds count from when the scheduler is ready, however long a busy machine takes to start it.
_FLEET_START = re.compile(r"evertick fleet start(?=\n)")
_FOR_A_WHILE = re.compile(r"timeout --preserve-status -s INT (?=\d+ evertick serve )")


class Block(NamedTuple):
    language: str
    line: int
    text: str
    marker: str = ""
    reason: str = ""

    @property
    def file(self) -> str | None:
        """The file that its first line names."""
        found = _NAME.match(self.text.partition("\n")[0])
        return found[1] if found else None


def blocks_of(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for found in _FENCE.finditer(markdown):
        line = markdown.count("\n", 0, found.start("text")) + 1
        indent = len(found["indent"])
        text = "".join(row[indent:] for row in found["text"].splitlines(True))
        yield Block(found["language"], line, text, found["marker"] or "", (found["reason"] or "").strip())


def with_free_ports(markdown: str) -> str:
    """The page with a fleet at an address of its own."""
    url = f"tls://127.0.0.1:{free_port()}"
    start = f"evertick fleet start --url {url} --join-port {free_port()}"
    return _FLEET_START.sub(start, markdown).replace(FLEET_URL, url)


def relative_paths(job: Job, folder: Path) -> list[str]:
    """The relative paths in the commands of a job file that has no other working folder."""
    work = job.work
    if work.working_dir not in (None, str(folder)) or job.routing.is_remote:
        return []  # a bundle is where its job begins
    handlers = work.handlers
    steps = [*work.steps, handlers.on_success, handlers.on_failure, handlers.on_cancel, handlers.on_exit]
    texts = [
        " ".join(step.kind.words)
        for step in steps
        if step is not None and isinstance(step.kind, Command) and step.working_dir is None
    ]
    texts += [condition.value for condition in work.preconditions if condition.kind is not ConditionKind.HTTP]
    return [path for text in texts for path in _RELATIVE.findall(text)]


_RELATIVE = re.compile(r"(?<![\w/.~$}%:@-])(?:\.{1,2}/[\w./-]+|[\w-]+(?:/[\w-]+)*\.(?:py|sh|txt|csv|sql))(?![\w/])")


class Session:
    """Runs the blocks of one page."""

    def __init__(self, page: str, folder: Path) -> None:
        self.page, self.folder = page, folder
        own = str(Path(sys.executable).parent)
        self._path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != own)
        if page in FROM_THE_START:
            # As after `make run`: the environment exists, and is not on the PATH.
            (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
            (folder / "examples").symlink_to(ROOT / "examples")
        else:
            self._path = f"{own}{os.pathsep}{self._path}"
        self._background: list[subprocess.Popen[bytes]] = []

    def run(self, markdown: str) -> None:
        try:
            for block in blocks_of(with_free_ports(markdown)):
                self._do(block)
        finally:
            self.end()

    def end(self) -> None:
        for process in self._background:
            with suppress(ProcessLookupError):  # it has ended by itself, and what was wrong is told
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(LIMIT_SECONDS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def _do(self, block: Block) -> None:
        place = f"{self.page}:{block.line}"
        if block.file is not None and block.language != "console":
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        match block.language:
            case "yaml" if block.marker not in ("fragment", "not run"):
                self._check_job(block, place)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case "python" if block.marker == "not run":
                compile(block.text, place, "exec")
            case "python":
                file = block.file or f"block_{block.line}.py"
                (self.folder / file).write_text(block.text)
                self._run([sys.executable, file], place, block)
            case "sh" if block.marker != "not run":
                kept = self.folder / ".path"
                text = _FOR_A_WHILE.sub(f"'{sys.executable}' -P '{ROOT}/tests/serve_for.py' ", block.text)
                text = text if block.marker else f'{text}\nprintf %s "$PATH" >{kept}\n'
                self._run(["bash", "-eo", "pipefail", "-c", text], place, block)
                self._path = kept.read_text() if kept.exists() else self._path
            case "console" if block.marker != "not run":
                for command, shown in commands_of(block.text):
                    output = self._run(["bash", "-euo", "pipefail", "-c", command], place, block)
                    missing = [line for line in shown if not is_shown(line, output)]
                    assert not missing, f"{place}: {command} did not print {missing}, but:\n{output}"

    def _check_job(self, block: Block, place: str) -> None:
        home = (self.folder / block.file).parent if block.file else self.folder
        parsed = parse_definition(block.text, block.file or place, Settings.load(home, {}), folder=str(home))
        assert parsed.errors == (), f"{place}: {[str(error) for error in parsed.errors]}"
        assert parsed.job is not None
        astray = [path for path in relative_paths(parsed.job, home) if not (home / path).exists()]
        assert astray == [], f"{place}: commands start in the folder of the job file, which does not have: {astray}"

    def _run(self, command: list[str], place: str, block: Block) -> str:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK_")}
        environ |= {
            "PATH": self._path,
            "HOME": str(self.folder),
            "NO_COLOR": "1",
            "COLUMNS": "160",
            "PYTHONUNBUFFERED": "1",
            "EVERTICK_PORT": "0",
        }
        if block.marker == "background":
            self._start(command, place, environ)
            return ""
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{place} ended with {ended.returncode}:\n{ended.stdout}"
        return ended.stdout

    def _start(self, command: list[str], place: str, environ: dict[str, str]) -> None:
        log = self.folder / f"background-{len(self._background)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._background.append(process)
        deadline = time.monotonic() + LIMIT_SECONDS
        while READY not in log.read_text():
            assert process.poll() is None, f"{place} ended:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"{place} is not ready:\n{log.read_text()}"
            time.sleep(0.05)


def commands_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a `console` block, each with the lines that are shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, [line for line in shown.splitlines() if line.strip() and line.strip() != "..."]


def is_shown(line: str, output: str) -> bool:
    return _plain(line) in {_plain(other) for other in output.splitlines()}


def _plain(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r" \([^)]* UTC\)", "", line)
    line = re.sub(r"\b(?:on|of) node \S+", "on node N", line)
    line = re.sub(r"local@[\w.-]+", "local@N", line)
    line = re.sub(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "Day", line)
    line = re.sub(r"\b[0-9a-f]{12}\b", "0", line)
    line = re.sub(r"\d+(?:[.,:-]\d+)*(?:ms|us|[smhd])?(?:\d+(?:ms|[smhd]))*", "0", line)
    return re.sub(r"[\s─]+", " ", line).strip()
