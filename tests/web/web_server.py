"""`evertick serve` as a real process on a folder of jobs, and a browser for its page."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.ports import free_port
from tests.provision import find_chromium

PATIENCE_SECONDS = 180.0
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 800}
# One that changes its clock, and not that of most machines: a page that mixed zones up would be seen.
ZONE = "Europe/Berlin"

# Its own is five seconds, whatever the context says.
expect.set_options(timeout=PATIENCE_SECONDS * 1_000)


class Address(Protocol):
    """Where a page is, and the token that opens it."""

    url: str
    token: str


class WebServer:
    """A server with a page, and its token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *more: str, with_scheduler: bool = True) -> None:
        module = ["evertick", "serve"] if with_scheduler else ["evertick.api"]
        told = self.folder / "serve.log"
        process = self._run("-m", *module, str(self.folder), "--port", str(self.port), *more, log=told)

        def has_said_it() -> bool:
            found = re.search(r"#token=(\S+)", told.read_text())
            self.token = found[1] if found else ""
            return bool(found) or _is_over(process)

        wait_for(has_said_it)
        wait_for(lambda: _is_listening(self.port) or _is_over(process))

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers={"authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", json.dumps(body or {}).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def delete(self, path: str) -> Any:
        headers = {"authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers=headers, method="DELETE")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def new_token(self, role: str) -> str:
        request = urllib.request.Request(
            f"{self.url}/api/v1/tokens",
            json.dumps({"name": f"a-{role}", "role": role}).encode(),
            {"authorization": f"Bearer {self.token}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return str(json.load(answer)["token"])

    def close(self) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._processes):
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE_SECONDS)

    def _run(self, *words: str, log: Path) -> subprocess.Popen[str]:
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, *words], stdout=file, stderr=file, text=True, env=_environment()
            )
        self._processes.append(process)
        return process


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK_")}
    return {**own, "EVERTICK_TIMEZONE": "UTC"}


def _is_over(process: subprocess.Popen[str]) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"{process.args!r} ended with {process.returncode}")
    return False


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(is_so: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain"
        time.sleep(0.05)


@contextmanager
def open_browser() -> Iterator[Browser]:
    chromium = find_chromium()
    assert chromium is not None, "no Chromium here. Next: python -m tests.provision"
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox of its own; the pages it is shown are ours.
        browser = playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, web_server: Address, browser_errors: list[str], token: str = "", **looks: Any) -> Page:
    """A page that is signed in; whatever the browser complains about is noted."""
    settings = {"viewport": WIDE, "timezone_id": ZONE, "locale": "en-GB", "color_scheme": "light", **looks}
    context: BrowserContext = browser.new_context(**settings)
    context.set_default_timeout(PATIENCE_SECONDS * 1_000)
    context.request.post(f"{web_server.url}/api/v1/session", data={"token": token or web_server.token})
    page = context.new_page()
    page.on("pageerror", lambda error: browser_errors.append(f"error: {error}"))
    page.on("console", lambda said: browser_errors.append(f"console: {said.text}") if said.type == "error" else None)
    return page
