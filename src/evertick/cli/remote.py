"""The operations of a server, over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from evertick.cli.connection import Http
from evertick.errors import EvertickError, InvalidArgument, ServerUnavailable, SettingsError

Data = dict[str, Any]

PLACE_FILE: Final = "server.json"
TOKEN_FILE: Final = "token"
WAIT_MAX: Final = 60.0
COUNT_MAX: Final = 1_000
LOG_BYTES: Final = 1 << 20


class FolderServer(NamedTuple):
    """The server of a folder on this machine, as it has noted where it is."""

    url: str
    token: str


@contextmanager
def open_remote(url: str, token_file: Path | None) -> Iterator[RemoteOperations]:
    http = Http(url, find_token(token_file))
    try:
        yield RemoteOperations(http)
    finally:
        http.close()


@contextmanager
def open_neighbour(found: FolderServer | None) -> Iterator[RemoteOperations | None]:
    """The server of this folder, if it answers; None: the ledger is as good."""
    http = None if found is None else _http_of(found)
    try:
        yield RemoteOperations(http) if http is not None and _answers(http) else None
    finally:
        if http is not None:
            http.close()


def _http_of(found: FolderServer) -> Http | None:
    try:
        return Http(found.url, found.token)
    except SettingsError:
        return None  # listening for others, whom a token may not reach in the clear; or a note that is none


def _answers(http: Http) -> bool:
    try:
        http.get("/session")
    except EvertickError:
        return False
    return True


def find_neighbour(state_folder: Path) -> FolderServer | None:
    try:
        place = json.loads((state_folder / PLACE_FILE).read_bytes())
        token = (state_folder / TOKEN_FILE).read_text(encoding="ascii").strip()
        os.kill(int(place["pid"]), 0)
        return FolderServer(str(place["url"]), token)
    except PermissionError:
        return None  # somebody else's
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_token(file: Path | None) -> str | None:
    """From the file that was named, else from the environment; never from an option, which others can see."""
    if file is None:
        return os.environ.get("EVERTICK_TOKEN", "").strip() or None
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise SettingsError(f"Cannot read the token file '{file}': {reason}.") from error
    if mode & 0o077:
        raise SettingsError(f"Other users can read the token file '{file}'. Run: chmod 600 {file}")
    return text or None


class RemoteOperations:
    """Its methods are those of `operations.LocalOperations`, as far as commands use them."""

    def __init__(self, http: Http) -> None:
        self._http = http

    # --- asking

    def list_jobs(
        self,
        search: str = "",
        tags: Collection[str] = (),
        states: Collection[str] = (),
        limit: int = 100,
        after: str | None = None,
        *,
        with_gone: bool = False,
        recent: int = 0,
    ) -> Data:
        query = {"search": search, "tag": list(tags), "state": list(states), "limit": limit, "cursor": after}
        gone = {"gone": "true"} if with_gone else {}
        return self._get("/jobs", {**query, **gone, "sparkline": recent or None})

    def job(self, job_id: str) -> Data:
        return self._get(f"/jobs/{_part(job_id)}")

    def explain(self, job_id: str) -> list[Data]:
        return self._items(f"/jobs/{_part(job_id)}/explain")

    def upcoming(self, job_id: str | None = None, count: int = 20, until: str | None = None) -> Data:
        many = min(count, COUNT_MAX)
        if job_id is None:
            return self._get("/upcoming", {"limit": many, "to": until})
        return self._get(f"/jobs/{_part(job_id)}/upcoming", {"count": many, "to": until})

    def plan(self, until: str, jobs: Collection[str] = (), limit: int = 100) -> Data:
        return self._get("/plan", {"to": until, "job": list(jobs), "limit": min(limit, 10 * COUNT_MAX)})

    def why(self, target: str, at: str | None = None) -> Data:
        if "@" in target and at is None:
            return self._get(f"/runs/{_part(target)}/why")
        return self._get(f"/jobs/{_part(target)}/why", {"at": at})

    def catchup(self, job_id: str, keep: str | None = None) -> Data:
        return self._get(f"/jobs/{_part(job_id)}/catchup", {"keep": keep})

    def list_runs(
        self,
        job: str | None = None,
        states: Collection[str] = (),
        triggers: Collection[str] = (),
        reasons: Collection[str] = (),
        tags: Collection[str] = (),
        since: str | None = None,
        until: str | None = None,
        executor: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Data:
        words = {"state": list(states), "trigger": list(triggers), "reason": list(reasons), "tag": list(tags)}
        query = {"job": job, "from": since, "to": until, "executor": executor, "limit": limit, "cursor": after}
        return self._get("/runs", {**words, **query})

    def run(self, run_id: str) -> Data:
        return self._get(f"/runs/{_part(run_id)}")

    def run_definition(self, run_id: str, attempt: int | None = None) -> Data:
        return self._get(f"/runs/{_part(run_id)}/definition", {"attempt": attempt})

    def list_logs(self, run_id: str) -> list[Data]:
        return self._items(f"/runs/{_part(run_id)}/logs")

    def log_bytes(
        self, run_id: str, attempt: int, step: str, offset: int = 0, limit: int = LOG_BYTES
    ) -> tuple[bytes, int, bool]:
        # As text a log is what can be shown of it; only as a file it is what was printed.
        path = f"/runs/{_part(run_id)}/logs/{attempt}/{_part(step)}"
        data = self._http.get_bytes(path, {"download": "true"}, offset, limit)
        return data, offset + len(data), not data

    def overview(self) -> Data:
        return self._get("/overview")

    def executors(self) -> Data:
        return self._get("/executors")

    def queues(self) -> Data:
        return self._get("/queues")

    def nodes(self) -> Data:
        return self._get("/nodes")

    def forget_node(self, node: str, force: bool = False) -> Data:
        found: Data = self._http.post(f"/nodes/{_part(node)}/forget", {"force": force}, "", {})
        return found

    def status(self) -> Data | None:
        found: Data | None = self._get("/status")["status"]
        return found

    def is_scheduler_running(self) -> bool:
        return bool(self._get("/status")["is_scheduler_running"])

    def verify(self) -> Data:
        return self._get("/ledger/verify")

    # --- doing

    def trigger(
        self,
        job_id: str,
        params: Mapping[str, str] | None = None,
        *,
        request_id: str,
        wait_seconds: float = 0.0,
    ) -> Data:
        body = {"params": dict(params or {}), "trigger": "manual"}
        return self._do(f"/jobs/{_part(job_id)}/trigger", body, request_id, wait_seconds)

    def cancel(self, target: str, *, request_id: str, wait_seconds: float = 0.0) -> Data:
        kind = "runs" if "@" in target else "jobs"
        return self._do(f"/{kind}/{_part(target)}/cancel", None, request_id, wait_seconds)

    def retry(self, run_id: str, from_failed: bool = False, *, request_id: str, wait_seconds: float = 0.0) -> Data:
        return self._do(f"/runs/{_part(run_id)}/retry", {"from_failed": from_failed}, request_id, wait_seconds)

    def pause(self, job_id: str, note: str = "", *, request_id: str, wait_seconds: float = 0.0) -> Data:
        return self._do(f"/jobs/{_part(job_id)}/pause", {"note": note}, request_id, wait_seconds)

    def resume(self, job_id: str, keep: str | None = None, *, request_id: str, wait_seconds: float = 0.0) -> Data:
        return self._do(f"/jobs/{_part(job_id)}/resume", {"catchup": keep}, request_id, wait_seconds)

    def backfill(
        self,
        job_id: str,
        start: str,
        end: str,
        only_missing: bool = True,
        overlap: str = "wait",
        rate: float = 0.0,
        preview: bool = False,
        *,
        request_id: str = "",
        wait_seconds: float = 0.0,
    ) -> Data:
        body = {
            "from": start,
            "to": end,
            "only_missing": only_missing,
            "overlap": overlap,
            "gap_seconds": rate,
            "preview": preview,
        }
        return self._do(f"/jobs/{_part(job_id)}/backfill", body, request_id, wait_seconds)

    def backfill_progress(self, job_id: str, request: str) -> Data:
        return self._get(f"/jobs/{_part(job_id)}/backfill/{_part(request)}")

    def cancel_backfill(self, job_id: str, request: str, *, request_id: str, wait_seconds: float = 0.0) -> Data:
        path, wait = f"/jobs/{_part(job_id)}/backfill/{_part(request)}", min(wait_seconds, WAIT_MAX)
        found: Data = self._http.delete(path, request_id, {"wait": wait}, wait=wait)
        return found

    def answer(self, request_id: str, wait_seconds: float = 0.0) -> Data:
        wait = min(wait_seconds, WAIT_MAX)
        found: Data = self._http.get(f"/requests/{_part(request_id)}", {"wait": wait}, wait=wait)
        return found

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Data:
        found = self._http.get(path, query)
        if not isinstance(found, dict):
            raise ServerUnavailable(f"The server {self._http.url} sends a response that this version does not know.")
        return found

    def _items(self, path: str) -> list[Data]:
        items: list[Data] = self._get(path)["items"]
        return items

    def _do(self, path: str, body: Mapping[str, Any] | None, key: str, wait_seconds: float) -> Data:
        wait = min(wait_seconds, WAIT_MAX)
        found: Data = self._http.post(path, body, key, {"wait": wait}, wait=wait)
        return found


def _part(name: str) -> str:
    """A name as one part of a path: nothing in it leads elsewhere."""
    if name in ("", ".", ".."):
        raise InvalidArgument(f"'{name}' is not a valid name.")
    return quote(name, safe="", errors="surrogateescape")
