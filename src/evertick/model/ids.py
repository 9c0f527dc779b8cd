"""How requests and runs are named: short, the same for the same cause, safe in a URL, a file name and a shell."""

from __future__ import annotations

import base64
import hashlib
import re

ORIGIN_MAX = 32
"""A request's id up to this long is the end of its run's id. Those made today have 16 at most; older ones stay."""
DIGEST_CHARACTERS = 11
"""Fifty-five bits: enough among the requests that people make while a ledger remembers them."""
REQUEST_CHARACTERS = 32
"""For requests that the scheduler makes itself, up to one for every run."""
SHORTEST = 10
"""Fifty bits: enough among the requests of one job and instant."""

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
_PREFIX = re.compile(r"[a-z]{1,5}", re.ASCII)


def digest(text: str, characters: int = DIGEST_CHARACTERS) -> str:
    """A digest of the text in lower-case letters and digits."""
    raw = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(raw).decode("ascii").lower()[:characters]


def request_id_of(kind: str, *parts: object) -> str:
    """The id of a request that the scheduler makes: the same cause always gives the same id."""
    cause = "\n".join(map(str, parts))
    return f"{kind}-{digest(cause, REQUEST_CHARACTERS)}"


def origin_of(request_id: str) -> str:
    """The part of a run's id that comes from its request: the request's id if that is short."""
    if len(request_id) <= ORIGIN_MAX and _SAFE.fullmatch(request_id):
        return request_id
    prefix = _PREFIX.match(request_id)
    return f"{prefix[0] if prefix else 'r'}-{digest(request_id, SHORTEST)}"
