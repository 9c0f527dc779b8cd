"""The application: routes, their description, and the authentication in front."""

from __future__ import annotations

from functools import cache

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evertick.api import (
    badges,
    definitions,
    health,
    problems,
    routes_access,
    routes_events,
    routes_hooks,
    routes_jobs,
    routes_runs,
    routes_time,
)
from evertick.api.app_state import AppState
from evertick.api.auth import App, AuthMiddleware
from evertick.api.compression import Compressing
from evertick.api.openapi import describe
from evertick.api.revalidation import Revalidating
from evertick.api.route_decorators import Routes
from evertick.api.site import serve_page
from evertick.operations.tokens import Role

ROUTES = (
    routes_jobs.routes,
    routes_runs.routes,
    routes_time.routes,
    routes_time.machinery,
    routes_events.routes,
    routes_access.routes,
    definitions.routes,
    routes_hooks.routes,
    badges.routes,
    badges.pictures,
    health.routes,
)

own = Routes("api")


@own.get("/openapi.json", Role.VIEWER)
def get_openapi() -> Response:
    """Get this description."""
    return JSONResponse(describe(make_routes(is_described=True)))


@cache
def make_routes(*, is_described: bool = False) -> FastAPI:
    """All routes without authentication and without state, which comes with each request.

    Only a description needs the schemas of the results: to build them takes longer than the rest of a start.
    """
    app = FastAPI(title="Evertick", openapi_url=None, docs_url=None, redoc_url=None)
    for routes in (*ROUTES, own):
        routes.install(app, is_described=is_described)
    problems.install(app)
    app.router.routes.append(Route("/{path:path}", serve_page, methods=None, include_in_schema=False))
    return app


def make_app(app_state: AppState) -> App:
    """The whole ASGI application."""
    app = make_routes()
    return AuthMiddleware(Compressing(Revalidating(app, app_state.key)), app_state, app.router.routes)
