"""The routes about who is who: signing in and out, tokens, settings, the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from evertick.api import models_people
from evertick.api.app_state import AppState, Caller
from evertick.api.auth import too_often
from evertick.api.models_base import Shape
from evertick.api.problems import problem
from evertick.api.route_decorators import At, Routes, Who, items, written
from evertick.api.sessions import COOKIE
from evertick.operations.time_text import read_moment
from evertick.operations.tokens import Role, read_role

routes = Routes("people")


class SignIn(Shape):
    token: str = Field(max_length=200)


class TokenBody(Shape):
    name: str = Field(max_length=64)
    role: str = Field(max_length=20)
    expires_at: str | None = Field(None, max_length=64)


@routes.post("/session", None, models_people.SessionState)
def sign_in(at: At, request: Request, body: SignIn) -> Any:
    """Show a token once, and have a cookie from then on."""
    token = at.tokens.check(body.token.strip())
    if token is None:
        wait = at.limiter.failed("sign-in", request.client.host if request.client else "unknown")
        return too_often(wait) if wait else problem(401, "the token is not good, or no longer.")
    name, session = at.sessions.begin(token)
    request.state.caller = Caller(token.name, token.role, token.id)
    response = written(_state(at, token.name, token.role, session.csrf))
    _set_cookie(response, request, name, at.settings.api.session_us // 1_000_000)
    return response


@routes.get("/session", Role.VIEWER, models_people.SessionState)
def get_session(at: At, who: Who) -> Any:
    """Who asks, and what they may do."""
    return _state(at, who.name, who.role, who.csrf)


@routes.delete("/session", Role.VIEWER, status_code=204, response_class=Response)
def sign_out(at: At, who: Who, request: Request) -> Response:
    """End the session; the cookie is worth nothing from then on."""
    if who.session:
        at.sessions.end(who.session)
    response = Response(status_code=204)
    _set_cookie(response, request, "", 0)
    return response


@routes.get("/tokens", Role.ADMIN, models_people.TokenList)
def list_tokens(at: At) -> Any:
    """The tokens there are; what proves them is not kept."""
    return items([token.data() for token in at.tokens.list()])


@routes.post("/tokens", Role.ADMIN, models_people.NewToken)
def create_token(at: At, who: Who, request: Request, body: TokenBody) -> Any:
    """A new token, shown this once."""
    request.state.noted = {"name": body.name, "role": body.role}
    expires_at = None if body.expires_at is None else read_moment(body.expires_at, "UTC")
    token, text = at.tokens.create(body.name, read_role(body.role), by=who.name, expires_at=expires_at)
    return {**token.data(), "token": text}


@routes.delete("/tokens/{token}", Role.ADMIN, models_people.TokenState)
def revoke_token(at: At, token: Annotated[str, Path(max_length=64, description="Its name or id.")]) -> Any:
    """Make a token, and the sessions begun with it, worth nothing at once."""
    return at.tokens.revoke(token).data()


@routes.get("/settings", Role.ADMIN, models_people.SettingsList)
def list_settings(at: At) -> Any:
    """Every setting, its value and where it came from; of secrets only where they are kept."""
    from evertick.settings.catalogue import catalogue
    from evertick.settings.listing import lines

    known = catalogue()
    return items(
        [
            {
                "name": line.key,
                "value": line.value,
                "default": known[line.key].shown or known[line.key].kind.show(known[line.key].default),
                "origin": line.origin,
                "meaning": line.meaning,
                "variable": line.variable,
            }
            for line in lines(at.settings)
        ]
    )


@routes.get("/audit", Role.ADMIN, models_people.AuditPage)
def list_audit(
    at: At,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Annotated[int | None, Query(ge=1)] = None,
) -> Any:
    """Who did what, newest first, and whether the chain of seals is whole."""
    found, following = at.audit.page(cursor, limit)
    verdict = at.audit.verify() if cursor is None else None
    return {
        "items": [line for line in found if "broken" not in line],
        "next": None if following is None else str(following),
        "chain_ok": None if verdict is None else verdict.is_whole,
        "broken_at": None if verdict is None else verdict.broken_at,
        "missing": None if verdict is None else verdict.missing,
    }


def _state(at: AppState, name: str, role: Role, csrf: str | None) -> dict[str, Any]:
    return {
        "user": name,
        "role": str(role),
        "csrf": csrf,
        "version": at.version,
        "node": at.node,
        "timezone": at.settings.timezone,
    }


def _set_cookie(response: Response, request: Request, name: str, seconds: int) -> None:
    is_secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, name, max_age=seconds, path="/", secure=is_secure, httponly=True, samesite="strict")
