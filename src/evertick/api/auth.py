"""Authenticates and authorizes every request before a route sees it; what is not declared is refused.

The order is: the host name, the caller, what its role permits, and for a cookie that the request comes from the page
itself. A refusal reveals nothing about what is behind it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import cache
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio.to_thread
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Message, Receive, Scope, Send

from evertick.api.app_state import AppState, Caller
from evertick.api.problems import problem
from evertick.api.sessions import COOKIE, is_same
from evertick.errors import AuditUnavailable, EvertickError
from evertick.operations.tokens import Role, read_role

SLASH: Final = "\ue0fe"
"""Replaces an escaped slash while a path is matched; a private-use character that no name of ours contains."""
PART: Final = "part"


class PartConvertor(Convertor[str]):
    """One part of a path, with the slashes that were escaped in it."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", SLASH)


register_url_convertor(PART, PartConvertor())


def with_whole_parts(scope: Scope) -> Scope:
    """The scope with a path in which only unescaped slashes separate parts.

    Authentication and routes must look at the same path, so this is done before either of them.
    """
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower() or not str(scope["path"]).startswith("/api/"):
        return scope
    parts = raw.decode("ascii", "replace").split("/")
    return {**scope, "path": "/".join(unquote(part).replace("/", SLASH) for part in parts)}


log = logging.getLogger("evertick.api")

App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_MAX: Final = 1 << 20
THREADS: Final = 64
"""How many requests are answered at once; the ledger answers in other threads than the event loop's."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN: Final = "open"
"""The role of routes that contain no data or check a secret of their own."""
_SAME_SITE: Final = ("", "same-origin", "none")

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DATA_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class AuthMiddleware:
    def __init__(self, app: App, app_state: AppState, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._app_state = app_state
        self._routes = [
            (route, role) for route in routes if isinstance(route, Route) and (role := role_of(route)) is not None
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            # WebSockets are not supported: any connection is refused before it is opened.
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Begin and end with the server."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
                self._app_state.feed.start()
            else:
                self._app_state.feed.stop()
                await asyncio.to_thread(self._app_state.audit.close)
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        app_state, method, asked = self._app_state, str(scope["method"]), str(scope["path"])
        scope = with_whole_parts(scope)
        is_head, status = method == "HEAD", 500
        if is_head:
            # HEAD works wherever GET does and has the same status: a probe must not get 200 because the page's
            # own file would be returned.
            scope = {**scope, "method": "GET"}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                _add_headers(message, scope)
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        request = Request(scope)
        address = request.client.host if request.client else "unknown"
        route, role = self._route(scope)
        caller, refusal = self._admit(request, address, role)
        scope["state"] = {"caller": caller, "app_state": app_state, "is_head": is_head}
        if refusal is None and route and method not in SAFE:
            refusal = await self._why_not_noted()
        try:
            if refusal is not None:
                await refusal(scope, receive, sending)
            else:
                await app_state.loop_priority.wait()
                await self._app(scope, _bounded(receive), sending)
        finally:
            has_only_looked = scope["state"].get("is_preview", False) and status < 400
            if not has_only_looked and _is_noted(method, route, status, request):
                await self._note(scope, f"{method} {route or 'nothing'}", asked, address, status)

    async def _why_not_noted(self) -> Response | None:
        """Why an action must not happen now: it would not be in the audit log. None: it may."""
        if not self._app_state.settings.api.require_audit:
            return None
        try:
            await asyncio.to_thread(self._app_state.audit.prepare)
        except AuditUnavailable as error:
            log.error("audit.closed reason=%s", error)
            return problem(503, "the audit log cannot be written, so changes are rejected. Next: see the server's log.")
        return None

    async def _note(self, scope: Scope, action: str, asked: str, address: str, status: int) -> None:
        found: Caller | None = scope["state"]["caller"]
        note = functools.partial(self._app_state.audit.write, found.name if found else "nobody", action, asked)
        try:
            await asyncio.to_thread(note, origin=address, outcome=str(status), detail=scope["state"].get("noted"))
        except AuditUnavailable as error:
            log.error("audit.not_written action=%s status=%d reason=%s", action, status, error)

    def _admit(self, request: Request, address: str, role: Role | str | None) -> tuple[Caller | None, Response | None]:
        """The caller, and the refusal; None: the request may pass."""
        app_state, method, headers = self._app_state, request.method, request.headers
        if not _is_our_name(headers.get("host", ""), app_state.hosts):
            return None, problem(
                421, "unknown host name in the request. Next: add it to the setting api.allowed_hosts."
            )
        if method not in SAFE and not _is_same_origin(request):
            return None, problem(403, "requests from pages of another origin are rejected.")
        if "\0" in request.scope["path"] or b"%00" in request.scope.get("query_string", b""):
            return None, problem(400, "the request contains a NUL character.")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > BODY_MAX:
            return None, problem(413, f"a request has at most {BODY_MAX:,} bytes.")
        try:
            caller, is_wrong = self._identify(headers, request.cookies)
        except EvertickError as error:
            log.error("guard.closed reason=%s", error)
            return None, problem(503, "the server cannot check tokens now. Next: see its log.")
        if is_wrong:
            wait = app_state.limiter.failed("token", address)
            return None, too_often(wait) if wait else _unproved("the token or the session is invalid or has expired.")
        if role == OPEN:
            return caller, None
        if caller is None:
            return None, _unproved(
                "a token is required. Next: sign in with a token, or open the link that the first start printed."
            )
        if role is None:
            return caller, None  # there is no such route; an authenticated caller learns this
        if isinstance(role, Role) and caller.role < role:
            return caller, problem(
                403, f"the role {caller.role} does not permit this; it needs {role}.", needs=str(role)
            )
        if caller.is_page and method not in SAFE and not is_same(headers.get("x-csrf-token", ""), caller.csrf or ""):
            return caller, problem(403, "the header X-CSRF-Token is missing or wrong. Next: GET /api/v1/session.")
        return caller, None

    def _identify(self, headers: Headers, cookies: MutableMapping[str, str]) -> tuple[Caller | None, bool]:
        """The caller, and whether authentication was tried and failed. A token takes precedence over a cookie."""
        app_state, written = self._app_state, headers.get("authorization")
        if written is not None:
            kind, _, text = written.partition(" ")
            if kind.lower() == "bearer" and app_state.node_token and is_same(text.strip(), app_state.node_token):
                return Caller("another node", Role.VIEWER), False
            token = app_state.tokens.check(text.strip()) if kind.lower() == "bearer" else None
            return (None, True) if token is None else (Caller(token.name, token.role, token.id), False)
        name = cookies.get(COOKIE)
        if not name:
            return None, False
        session = app_state.sessions.find(name)
        token = app_state.tokens.find(session.token_id) if session is not None else None
        if session is None or token is None:
            # An old cookie is not an attack: its holder signs in again.
            return None, False
        return Caller(token.name, token.role, token.id, session.csrf, name), False

    def _route(self, scope: Scope) -> tuple[str, Role | str | None]:
        """The route that would answer, and its required role; None: access is denied."""
        path = scope["path"]
        for route, role in self._routes:
            # Its pattern first: a route may add more checks.
            if route.path_regex.match(path) and route.matches(scope)[0] is Match.FULL:
                return route.path_format, role
        # The page's own files contain no data. Unauthenticated callers learn nothing about the rest.
        is_page = not scope["path"].startswith("/api") and scope["method"] in SAFE
        return "", OPEN if is_page else None


def _is_noted(method: str, route: str, status: int, request: Request) -> bool:
    """Whether to write it to the audit log: every change, and every failed attempt to authenticate."""
    has_tried = "authorization" in request.headers or route.endswith(("/session", "/hooks/{job}"))
    if status == 429 or (status == 401 and not has_tried):
        return False  # of a flood, the first few are enough: a line costs more than the request
    return method not in SAFE or (status in (401, 403) and bool(route))


def role_of(route: BaseRoute) -> Role | str | None:
    """The lowest role that a route requires; None if it is not one of our routes."""
    written = (getattr(route, "openapi_extra", None) or {}).get("x-role")
    return written if written in (None, OPEN) else read_role(written)


def _is_our_name(host: str, hosts: frozenset[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name.lower() in hosts


def _is_same_origin(request: Request) -> bool:
    """Whether a browser says that the request comes from our own page; other programs send nothing."""
    headers = request.headers
    if headers.get("sec-fetch-site", "") not in _SAME_SITE:
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.netloc.lower() == headers.get("host", "").lower() and parts.scheme in ("http", "https")


def _unproved(detail: str) -> Response:
    return problem(401, detail, headers={"www-authenticate": 'Bearer realm="evertick"'})


def too_often(wait: float) -> Response:
    """The response to a caller that has failed too often."""
    return problem(429, "too many failed attempts.", headers={"retry-after": str(int(wait) + 1)})


def _bounded(receive: Receive) -> Receive:
    """A body without a length, or with a wrong one, is cut off too."""
    total = 0

    async def receiving() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > BODY_MAX:
            raise HTTPException(413, f"a request has at most {BODY_MAX:,} bytes.")
        return message

    return receiving


def _add_headers(message: Message, scope: Scope) -> None:
    headers, is_secure = message.setdefault("headers", []), scope.get("scheme") == "https"
    known = {name.lower() for name, _ in headers}
    headers += [pair for pair in security_headers(scope["path"], is_secure=is_secure) if pair[0] not in known]


def security_headers(path: str, *, is_secure: bool) -> list[tuple[bytes, bytes]]:
    """The headers of every response, so that a browser runs and loads only our own files."""
    return _headers(path.startswith(("/api", "/metrics", "/badges", "/healthz", "/readyz")), is_secure)


@cache
def _headers(is_data: bool, is_secure: bool) -> list[tuple[bytes, bytes]]:
    pairs = {
        "content-security-policy": DATA_POLICY if is_data else PAGE_POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }
    if is_data:
        pairs["cache-control"] = "no-store"
    if is_secure:
        pairs["strict-transport-security"] = "max-age=31536000"
    return [(name.encode(), value.encode()) for name, value in pairs.items()]
