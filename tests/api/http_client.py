"""The HTTP client of the API's tests."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # Starlette prefers a fork of httpx by now; until that is locked, the one that is does the same.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient, WebSocketDenialResponse

__all__ = ["TestClient", "WebSocketDenialResponse"]
