"""Serves the page's static files. They hold no data, so they need no token."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from evertick.api.app_state import AppState
from evertick.api.problems import problem

if TYPE_CHECKING:
    from evertick.web import File, Site

FOR_EVER = "public, max-age=31536000, immutable"


async def serve_page(request: Request) -> Response:
    """A file of the page, or the page itself for all of its addresses."""
    app_state: AppState = request.state.app_state
    path = request.url.path
    if path.startswith("/api"):
        return problem(404, f"{path} does not exist. Next: /api/v1/openapi.json lists all operations.")
    if request.method not in ("GET", "HEAD"):
        return problem(405, f"{request.method} is not allowed for {path}.", headers={"allow": "GET, HEAD"})
    if app_state.site is None:
        return HTMLResponse(_unbuilt(), 503 if path != "/" else 200)
    file = app_state.site.read(path.lstrip("/"))
    if file is None and path.startswith("/assets/"):
        return problem(404, f"the file {path} does not exist.")
    return _file(request, file or app_state.site.index)


def _file(request: Request, file: File) -> Response:
    headers = {"etag": file.etag, "cache-control": FOR_EVER if file.is_immutable else "no-cache"}
    # Compressed, its tag is a weak one.
    if request.headers.get("if-none-match", "").removeprefix("W/") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)


def find_site() -> Site | None:
    """The page's files; None if they were not built."""
    try:
        from evertick.web import site
    except ImportError:
        return None
    return site()


def how_to_build() -> str:
    try:
        return str(import_module("evertick.web").HOW_TO_BUILD)
    except ImportError:
        return "The page was not built. Next: make web"


def _unbuilt() -> str:
    text = escape(how_to_build())
    return (
        '<!doctype html><html lang="en"><title>Evertick</title>'
        f"<h1>Evertick is running</h1><p>{text}</p><p>The API is at <code>/api/v1</code>.</p></html>"
    )
