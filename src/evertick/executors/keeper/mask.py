"""How secrets are kept out of logs: every form of them is replaced, also where it was cut between two reads."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

MASK = b"***"
SHORTEST = 3
"""Characters; to mask shorter ones would make every log unreadable and hide nothing."""
LINE_SHORTEST = 8
"""Characters of a line of a secret of several lines, to be masked by itself."""
BASE64_SHORTEST = 6
"""Characters; shorter pieces turn up in ordinary words."""


class Masker:
    """Takes output in pieces and gives it back masked; at most the longest secret is held back between two."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first: an alternation takes the first that fits, and a secret may begin with another.
        self._forms = sorted({form for secret in secrets for form in forms_of(secret)}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms)))
        self._longest = len(self._forms[0]) if self._forms else 0
        self._by_beginning: dict[bytes, list[bytes]] = {}
        for form in self._forms:
            for length in range(1, SHORTEST + 1):
                self._by_beginning.setdefault(form[:length], []).append(form)
        self._held = b""

    @property
    def is_needed(self) -> bool:
        return bool(self._forms)

    def feed(self, data: bytes) -> bytes:
        if not self._forms:
            return data
        data = self._held + data
        masked, done = [], 0
        certain = self._first_doubt(data, 0)
        # Looking for each form is far faster than the alternation, and nearly always finds none.
        has_some = any(form in data for form in self._forms)
        for found in self._pattern.finditer(data) if has_some else ():
            if found.start() >= certain:
                break
            masked += [data[done : found.start()], MASK]
            done = found.end()
            if done > certain:
                certain = self._first_doubt(data, done)
        self._held = data[certain:]
        masked.append(data[done:certain])
        return b"".join(masked)

    def finish(self) -> bytes:
        """What was held back; nothing more comes behind it."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK, held) if self._forms else held

    def masks(self, data: bytes) -> bool:
        """Whether there is a secret in it."""
        return bool(self._forms) and self._pattern.search(data) is not None

    def text(self, text: str) -> str:
        """A whole text, masked; independent of what is being fed."""
        if not self._forms:
            return text
        return self._pattern.sub(MASK, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def _first_doubt(self, data: bytes, start: int) -> int:
        """From where on what follows could still become a secret with the next piece."""
        for place in range(max(start, len(data) - self._longest + 1), len(data)):
            candidates = self._by_beginning.get(data[place : place + SHORTEST])
            if candidates is not None:
                rest = data[place:]
                if any(len(form) > len(rest) and form.startswith(rest) for form in candidates):
                    return place
        return len(data)


def forms_of(secret: str) -> Iterable[bytes]:
    """The ways in which a secret is commonly written: as it is, in JSON, for an address, in base64 at any position."""
    text = secret.strip("\r\n")
    if len(text) < SHORTEST:
        return
    raw = text.encode("utf-8", "surrogateescape")
    yield raw
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    yield quote(text, safe="", errors="surrogateescape").encode()
    yield quote(text, safe="/", errors="surrogateescape").encode()
    yield quote_plus(text, errors="surrogateescape").encode()
    for encode in (b64encode, urlsafe_b64encode):
        yield from (form for form in _base64_forms(raw, encode) if len(form) >= BASE64_SHORTEST)
    if b"\n" in raw:
        yield from (line for line in raw.splitlines() if len(line) >= LINE_SHORTEST)


def _base64_forms(raw: bytes, encode: Callable[[bytes], bytes]) -> Iterable[bytes]:
    """Its base64 where it starts at the first, second or third byte of a group, without what its neighbours change."""
    for before in range(3):
        encoded = encode(bytes(before) + raw)
        first = (0, 2, 3)[before]
        last = (before + len(raw)) * 8 // 6
        yield encoded[first:last]
