"""Whether requests leave objects behind in the server process."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from evertick.api.revalidation import MANIPULATION

PATHS = (
    *("overview", "attention", "status", "jobs?limit=50&sparkline=20", "runs?limit=50", "runs?state=failed&limit=50"),
    *("upcoming?limit=20", "jobs/etl", "jobs/etl/why", "runs/etl@2026-03-02T10:00:00Z", "calendar", "metrics"),
)
ROUNDS = 20


def ask(client) -> None:
    for path in PATHS:
        tag = client.get(f"/api/v1/{path}").headers.get("etag", "")
        client.get(f"/api/v1/{path}", headers={"if-none-match": tag, "a-im": MANIPULATION})


def live() -> Counter[str]:
    """Objects that something refers to, by their type."""
    gc.collect()
    return Counter(type(one).__qualname__ if type(type(one)) is type else "" for one in gc.get_objects())


@pytest.mark.usefixtures("control")
def test_repeated_requests_leave_no_objects(client):
    for _ in range(3):
        ask(client)  # what is remembered once
    before = live()
    for _ in range(ROUNDS):
        ask(client)
    grown = live() - before
    requests = ROUNDS * len(PATHS) * 2
    assert grown.total() < requests / 2, grown.most_common(10)
