"""The route through which other systems start a job: they authenticate with the job's own secret.

Two ways: the secret itself as a token, or better a signature over the time and the body, which cannot be used for
anything else. A signed call that is sent twice is one request.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
from typing import Annotated

from fastapi import Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from evertick.api.app_state import AppState, Caller
from evertick.api.auth import too_often
from evertick.api.problems import problem
from evertick.api.route_decorators import At, JobId, RequestId, Routes
from evertick.api.sessions import is_same
from evertick.errors import InvalidArgument, SettingsError
from evertick.model.ids import digest
from evertick.model.instant import SECOND
from evertick.model.lifecycle import Trigger
from evertick.model.plain_json import parse_json
from evertick.operations.results.requests import RequestStatus
from evertick.operations.tokens import Role
from evertick.settings.load import reveal

log = logging.getLogger("evertick.api")

routes = Routes("hooks")

TOLERANCE_US = 300 * SECOND
PARAMS_MAX = 100
SECRET_SHORTEST = 16
"""Characters: a shorter secret can be guessed, however slowly its guesses are answered."""
_SIGNATURE = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")


@routes.post("/hooks/{job}", None)
async def call_hook(
    at: At,
    request: Request,
    request_id: RequestId,
    job: JobId,
    x_evertick_signature: Annotated[
        str | None, Header(max_length=200, description="`t=SECONDS,v1=HEX`: HMAC-SHA256 of `SECONDS.BODY`.")
    ] = None,
    x_evertick_token: Annotated[str | None, Header(max_length=500, description="The secret itself.")] = None,
) -> RequestStatus | Response:
    """Start a job from another system. The body may be JSON with `params`."""
    body = await request.body()
    secret = _secret_of(at, job)
    # A job without a hook gets the same response as a wrong secret.
    used_id = request_id
    if x_evertick_signature is not None and secret:
        is_good = is_signed(secret, x_evertick_signature, body, at.now())
        used_id = f"hook-{digest(f'{job} {x_evertick_signature}')}"
    else:
        is_good = bool(secret) and is_same(x_evertick_token or "", secret or "")
    if not is_good:
        wait = at.limiter.failed(f"hook {job}", request.client.host if request.client else "unknown")
        return too_often(wait) if wait else problem(401, "the signature or the secret of this request is invalid.")
    request.state.caller = Caller(f"hook of {job}", Role.OPERATOR)
    params = _params(body)
    return await run_in_threadpool(_trigger, at, job, params, used_id)


def signature(secret: str, seconds: int, body: bytes) -> str:
    """The value for X-Evertick-Signature."""
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, "sha256").hexdigest()
    return f"t={seconds},v1={digest}"


def is_signed(secret: str, written: str, body: bytes, now: int) -> bool:
    """Whether a signature matches the secret and the body, and is at most five minutes old or ahead."""
    # As it is, without taking blanks off: a copy that is written otherwise would count as another call.
    found = _SIGNATURE.fullmatch(written)
    if found is None or abs(int(found[1]) * SECOND - now) > TOLERANCE_US:
        return False
    return is_same(signature(secret, int(found[1]), body), written)


def _trigger(at: AppState, job: str, params: dict[str, str], request_id: str) -> RequestStatus:
    return at.operations.trigger(job, params, Trigger.WEBHOOK, request_id=request_id, by=f"hook of {job}")


def _secret_of(at: AppState, job: str) -> str | None:
    known = dict(at.settings.api.hooks).get(job)
    try:
        secret = reveal(known, os.environ, f"the secret of the hook of '{job}'") if known else None
    except SettingsError:
        return None  # fail closed
    if secret is not None and len(secret) < SECRET_SHORTEST:
        log.error("hook.closed job=%s reason=its secret has fewer than %d characters", job, SECRET_SHORTEST)
        return None
    return secret


def _params(body: bytes) -> dict[str, str]:
    if not body.strip():
        return {}
    try:
        data = parse_json(body)
    except ValueError:
        raise InvalidArgument("the body is not JSON.", hint='Send {"params": {"NAME": "value"}}, or nothing.') from None
    given = data.get("params", {}) if isinstance(data, dict) else {}
    if (
        not isinstance(given, dict)
        or len(given) > PARAMS_MAX
        or not all(isinstance(one, str) for one in given.values())
    ):
        raise InvalidArgument(
            "'params' must be an object with text values.", hint='Send {"params": {"NAME": "value"}}.'
        )
    return given
