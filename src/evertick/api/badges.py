"""Badges: small pictures of a job's status, for other pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from xml.sax.saxutils import escape

from fastapi import Query, Request
from starlette.responses import Response

from evertick.api.app_state import AppState
from evertick.api.problems import problem
from evertick.api.route_decorators import At, JobId, Routes
from evertick.api.sessions import is_same
from evertick.errors import NotFound
from evertick.model.lifecycle import JobStatus, Light
from evertick.operations.results.base import Result
from evertick.operations.tokens import Role


@dataclass(frozen=True, slots=True)
class Badge(Result):
    path: str


routes = Routes("badges")
pictures = Routes("badges", prefix="")

COLOURS: Mapping[str, str] = {
    Light.ON_TIME: "#2e7d32",
    Light.LATE: "#b26a00",
    Light.DOWN: "#c62828",
    JobStatus.RUNNING: "#1565c0",
    JobStatus.ERROR: "#c62828",
}
GREY = "#6d6d6d"
CHAR_PX = 6.6
NAME_MAX = 40


@routes.get("/jobs/{job}/badge", Role.VIEWER)
def get_badge(at: At, job: JobId) -> Badge:
    """Get the URL of a job's badge; everyone who knows it can see the badge and nothing else."""
    at.operations.require(job)
    return Badge(f"/badges/{job}.svg?token={at.sign(f'badge:{job}')}")


@pictures.get(
    "/badges/{job}.svg",
    None,
    response_class=Response,
    responses={200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}},
)
def draw_badge(at: At, request: Request, job: JobId, token: Annotated[str, Query(max_length=64)] = "") -> Response:
    """Get the badge of a job as SVG."""
    if request.state.caller is None and not is_same(token, at.sign(f"badge:{job}")):
        return problem(401, "this badge needs its token. Next: GET /api/v1/jobs/{job}/badge")
    headers = {"cache-control": "max-age=30", "cross-origin-resource-policy": "cross-origin"}
    return Response(svg(job, _word(at, job)), media_type="image/svg+xml", headers=headers)


def svg(name: str, word: str) -> str:
    """The two halves of a badge; the word says what the colour does."""
    shown = name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"
    left, right = (round(len(text) * CHAR_PX + 14) for text in (shown, word))
    colour, label = COLOURS.get(word, GREY), escape(f"{shown}: {word}", {'"': "&quot;"})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{label}">'
        f"<title>{label}</title>"
        f'<rect width="{left}" height="20" fill="#3a3a3a"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">{escape(shown)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(word)}</text></g></svg>'
    )


def _word(at: AppState, job: str) -> str:
    try:
        found = at.operations.job(job)
    except NotFound:
        return "unknown"
    return str(found.status if found.light is None else found.light)
