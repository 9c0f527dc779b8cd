"""Which headers every answer carries, so that a browser trusts nothing that is not ours."""

from __future__ import annotations

from functools import cache

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def security_headers(path: str, *, is_secure: bool) -> list[tuple[bytes, bytes]]:
    return _headers(path.startswith(("/api", "/metrics", "/badges", "/healthz", "/readyz")), is_secure)


@cache
def _headers(is_data: bool, is_secure: bool) -> list[tuple[bytes, bytes]]:
    pairs = {
        "content-security-policy": NOTHING if is_data else POLICY,
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
