"""The application: routes, their description, and the guard in front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from evertick.api import (
    badges,
    definitions,
    health,
    problems,
    routes_events,
    routes_hooks,
    routes_jobs,
    routes_people,
    routes_runs,
    routes_time,
)
from evertick.api.guard import App, Guard
from evertick.api.office import Office
from evertick.api.openapi import describe
from evertick.api.routing import PREFIX, Routes
from evertick.api.site import serve_page
from evertick.operations.tokens import Role

ROUTES = (
    routes_jobs.routes,
    routes_runs.routes,
    routes_time.routes,
    routes_time.machinery,
    routes_events.routes,
    routes_people.routes,
    definitions.routes,
    routes_hooks.routes,
    badges.routes,
    badges.pictures,
    health.routes,
)
THREADS = 64
"""Questions that are answered at once; the ledger answers them in other threads than the one that talks."""

own = Routes("api")


@own.get("/openapi.json", Role.VIEWER, response_model=None)
async def get_openapi() -> Any:
    """This description."""
    return describe(make_routes())


def make_routes() -> FastAPI:
    """All routes without a guard and without anything behind them: what the description is made from."""

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        import anyio.to_thread

        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        app.state.office.feed.start()
        yield
        app.state.office.feed.stop()

    app = FastAPI(title="Evertick", openapi_url=None, docs_url=None, redoc_url=None, lifespan=living)
    for routes in (*ROUTES, own):
        routes.install(app)
    problems.install(app)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    app.router.routes.append(Route("/{path:path}", serve_page, methods=None, include_in_schema=False))
    return app


def make_app(office: Office) -> App:
    """The whole application for an office."""
    app = make_routes()
    app.state.office = office
    return Guard(app, office, app.router.routes)


__all__ = ["PREFIX", "make_app", "make_routes"]
