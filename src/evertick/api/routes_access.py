"""The routes about access: sessions, tokens, settings, the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from evertick.api.app_state import AppState, Caller
from evertick.api.auth import too_often
from evertick.api.problems import problem
from evertick.api.route_decorators import At, Body, Routes, Who, respond
from evertick.api.sessions import COOKIE
from evertick.operations.codec import from_data
from evertick.operations.results.access import (
    AuditLine,
    AuditPage,
    NewToken,
    SessionState,
    SettingLine,
    SettingsList,
    TokenList,
    TokenState,
)
from evertick.operations.time_text import read_moment
from evertick.operations.tokens import Role, read_role

routes = Routes("access")


class SignIn(Body):
    token: str = Field(max_length=200)


class TokenBody(Body):
    name: str = Field(max_length=64)
    role: str = Field(max_length=20)
    expires_at: str | None = Field(None, max_length=64)


@routes.post("/session", None)
def sign_in(at: At, request: Request, body: SignIn) -> SessionState | Response:
    """Sign in with a token; a cookie keeps the session."""
    token = at.tokens.check(body.token.strip())
    if token is None:
        wait = at.limiter.failed("sign-in", request.client.host if request.client else "unknown")
        return too_often(wait) if wait else problem(401, "the token is invalid or has expired.")
    name, session = at.sessions.begin(token)
    request.state.caller = Caller(token.name, token.role, token.id)
    response = respond(_state(at, token.name, token.role, session.csrf))
    _set_cookie(response, request, name, at.settings.api.session_us // 1_000_000)
    return response


@routes.get("/session", Role.VIEWER)
def get_session(at: At, who: Who) -> SessionState:
    """Get the caller and its role."""
    return _state(at, who.name, who.role, who.csrf)


@routes.delete("/session", Role.VIEWER, status_code=204, response_class=Response)
def sign_out(at: At, who: Who, request: Request) -> Response:
    """Sign out; the cookie becomes invalid."""
    if who.session:
        at.sessions.end(who.session)
    response = Response(status_code=204)
    _set_cookie(response, request, "", 0)
    return response


@routes.get("/tokens", Role.ADMIN)
def list_tokens(at: At) -> TokenList:
    """List the tokens; their secrets are not kept."""
    return TokenList(tuple(token.state for token in at.tokens.list()))


@routes.post("/tokens", Role.ADMIN)
def create_token(at: At, who: Who, request: Request, body: TokenBody) -> NewToken:
    """Create a token; its text is shown only once."""
    request.state.noted = {"name": body.name, "role": body.role}
    expires_at = None if body.expires_at is None else read_moment(body.expires_at, "UTC")
    token, text = at.tokens.create(body.name, read_role(body.role), by=who.name, expires_at=expires_at)
    return token.shown_with(text)


@routes.delete("/tokens/{token}", Role.ADMIN)
def revoke_token(at: At, token: Annotated[str, Path(max_length=64, description="Its name or id.")]) -> TokenState:
    """Revoke a token and its sessions."""
    return at.tokens.revoke(token).state


@routes.get("/settings", Role.ADMIN)
def list_settings(at: At) -> SettingsList:
    """List every setting with its value and origin; for a secret, only where it is stored."""
    from evertick.settings.catalogue import catalogue, lines

    known = catalogue()
    return SettingsList(
        tuple(
            SettingLine(
                name=line.key,
                value=line.value,
                default=known[line.key].shown or known[line.key].kind.show(known[line.key].default),
                origin=line.origin,
                meaning=line.meaning,
                variable=line.variable,
            )
            for line in lines(at.settings)
        )
    )


@routes.get("/audit", Role.ADMIN)
def list_audit(
    at: At,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Annotated[int | None, Query(ge=1)] = None,
) -> AuditPage:
    """List the audit log, newest first, and verify its chain of hashes."""
    found, following = at.audit.page(cursor, limit)
    verdict = at.audit.verify() if cursor is None else None
    return AuditPage(
        items=tuple(from_data(AuditLine, line) for line in found if "broken" not in line),
        next=None if following is None else str(following),
        chain_ok=None if verdict is None else verdict.is_whole,
        broken_at=None if verdict is None else verdict.broken_at,
        missing=None if verdict is None else verdict.missing,
    )


def _state(at: AppState, name: str, role: Role, csrf: str | None) -> SessionState:
    return SessionState(name, str(role), csrf, at.version, at.node, at.settings.timezone)


def _set_cookie(response: Response, request: Request, name: str, seconds: int) -> None:
    is_secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, name, max_age=seconds, path="/", secure=is_secure, httponly=True, samesite="strict")
