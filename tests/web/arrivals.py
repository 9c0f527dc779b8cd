"""The answers of the server held back and let through one by one: a page as it looks in any order of their arrival."""

from __future__ import annotations

import enum
import re

from playwright.sync_api import Page, Request, Route

ANSWERS = re.compile(r"/api/v1/(?!events)")
"""The feed of events stays open; it has nothing to say while nothing happens."""

SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


class Order(enum.Enum):
    """Of any two answers, one order has the first of them earlier, and the other has it later."""

    AS_ASKED = "as asked"
    REVERSED = "reversed"


class Arrivals:
    """Holds what a page asks of the server until it is let through."""

    def __init__(self, page: Page, order: Order) -> None:
        self._page = page
        self._order = order
        self._held: list[Route] = []
        self._open: set[Request] = set()
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)
        page.route(ANSWERS, self._hold)

    def go_to(self, url: str) -> None:
        """Open a page; what the one before it still waits for is no longer wanted."""
        self._page.goto(url, wait_until="commit")
        self._held = [route for route in self._held if route.request.failure is None]

    def let_through(self) -> bool:
        """Let the next answer arrive and be shown; False if the page has asked for nothing more."""
        self._settle()
        if not self._held:
            return False
        route = self._held.pop(0 if self._order is Order.AS_ASKED else -1)
        if route.request.failure is None:
            self._open.add(route.request)
            route.continue_()
        self._settle()
        return True

    def _begin(self, request: Request) -> None:
        if "/api/v1/events" not in request.url:
            self._open.add(request)

    def _end(self, request: Request) -> None:
        self._open.discard(request)
        self._held = [route for route in self._held if route.request != request]

    def _hold(self, route: Route) -> None:
        self._open.discard(route.request)
        self._held.append(route)

    def _settle(self) -> None:
        """Until the page has shown all that has arrived, and has asked for all that this makes it ask for."""
        self._page.evaluate(SETTLED)
        while self._open:
            self._page.evaluate(SETTLED)
