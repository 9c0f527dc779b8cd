"""Masks secrets in output: every encoding of them, also when it is split between two reads."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

MASK = b"***"
SHORTEST = 3
"""Characters; masking shorter secrets would make logs unreadable and hide nothing."""
LINE_SHORTEST = 8
"""Characters; longer lines of a multi-line secret are masked on their own."""
BASE64_SHORTEST = 6
"""Characters; shorter pieces occur in ordinary words."""
FOLDED_SHORTEST = 16
"""Characters; longer forms are also found across line breaks, as in base64 and hexadecimal dumps."""
HALF = FOLDED_SHORTEST // 2
_FOLD = re.compile(rb"\r?\n[ \t]*")
_HTML = re.compile("[&<>]")
SAFE_IN_URLS = ("", "/", "!'()*", "!$&'()*+,;=", "!#$&'()*+,/:;=?@")
"""What stays as it is in the address: nothing, a path; for `encodeURIComponent`, a user's name, `encodeURI`."""


class Masker:
    """Masks output piece by piece; it holds back at most the length of the longest secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = sorted({form for secret in secrets for form in forms_of(secret)}, key=len, reverse=True)
        self._foldable = [form for form in self._forms if len(form) >= FOLDED_SHORTEST and b"\n" not in form]
        # A line break splits at most one of the two halves; the other one is intact.
        self._halves = sorted({half for form in self._foldable for half in (form[:HALF], form[HALF : 2 * HALF])})
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
        spans = self._spans(data)
        certain = self._first_doubt(data, 0)
        for begin, end in spans:
            if begin >= certain:
                break
            if end > certain:
                certain = self._first_doubt(data, end)
        self._held = data[certain:]
        return _replaced(data[:certain], [span for span in spans if span[1] <= certain])

    def finish(self) -> bytes:
        """The rest, masked; no more output follows."""
        held, self._held = self._held, b""
        return _replaced(held, self._spans(held))

    def masks(self, data: bytes) -> bool:
        """Whether it contains a secret."""
        return bool(self._spans(data))

    def text(self, text: str) -> str:
        """A complete text, masked; independent of `feed`."""
        if not self._forms:
            return text
        data = text.encode("utf-8", "surrogateescape")
        return _replaced(data, self._spans(data)).decode("utf-8", "surrogateescape")

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets are, in order; the first of overlapping ones, the longest of those that begin together."""
        found = [span for form in self._forms for span in _find_all(data, form)]
        if b"\n" in data and any(half in data for half in self._halves):
            unfolded = _Unfolded(data)
            found += [unfolded.span(*span) for form in self._foldable for span in _find_all(unfolded.data, form)]
        spans: list[tuple[int, int]] = []
        for begin, end in sorted(found, key=lambda span: (span[0], -span[1])):
            if not spans or begin >= spans[-1][1]:
                spans.append((begin, end))
        return spans

    def _first_doubt(self, data: bytes, start: int) -> int:
        """The first position from which the rest could become a secret with the next piece."""
        doubt = self._first_prefix(data, max(start, len(data) - self._longest + 1))
        start = max(start, len(data) - 2 * self._longest)  # with room for line breaks
        if self._foldable and (b"\n" in data[start:] or data.endswith(b"\r")):
            unfolded = _Unfolded(data[start:].removesuffix(b"\r"))
            place = self._first_prefix(unfolded.data, max(0, len(unfolded.data) - self._longest + 1), is_unfolded=True)
            if place < len(unfolded.data):
                doubt = min(doubt, start + unfolded.span(place, place + 1)[0])
        return doubt

    def _first_prefix(self, data: bytes, start: int, *, is_unfolded: bool = False) -> int:
        """The first position from which the data is the beginning of a form; its length if there is none."""
        for place in range(start, len(data)):
            candidates = self._by_beginning.get(data[place : place + SHORTEST])
            if candidates is not None:
                rest = data[place:]
                for form in candidates:
                    may_be = not is_unfolded or (len(form) >= FOLDED_SHORTEST and b"\n" not in form)
                    if may_be and len(form) > len(rest) and form.startswith(rest):
                        return place
        return len(data)


class _Unfolded:
    """Data without its line breaks and the blanks after them, and the original position of its bytes."""

    def __init__(self, data: bytes) -> None:
        pieces, self._starts, self._offsets = [], [0], [0]
        done = length = 0
        for fold in _FOLD.finditer(data):
            pieces.append(data[done : fold.start()])
            length += fold.start() - done
            done = fold.end()
            self._starts.append(length)
            self._offsets.append(done - length)
        pieces.append(data[done:])
        self.data = b"".join(pieces)

    def span(self, begin: int, end: int) -> tuple[int, int]:
        return self._place(begin), self._place(end - 1) + 1

    def _place(self, place: int) -> int:
        return place + self._offsets[bisect_right(self._starts, place) - 1]


def _find_all(data: bytes, form: bytes) -> Iterable[tuple[int, int]]:
    place = data.find(form)
    while place >= 0:
        yield place, place + len(form)
        place = data.find(form, place + 1)


def _replaced(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    masked, done = [], 0
    for begin, end in spans:
        masked += [data[done:begin], MASK]
        done = end
    masked.append(data[done:])
    return b"".join(masked)


def forms_of(secret: str) -> Iterable[bytes]:
    """The common encodings of a secret: plain, as programs quote it, JSON, URL, base64 and hexadecimal."""
    text = secret.strip("\r\n")
    if len(text) < SHORTEST:
        return
    raw = text.encode("utf-8", "surrogateescape")
    yield raw
    yield from (form.encode("utf-8", "surrogateescape") for form in _quoted_forms(text, raw))
    for safe in SAFE_IN_URLS:
        percent = quote(text, safe=safe, errors="surrogateescape")
        yield percent.encode()
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), percent).encode()
    yield quote_plus(text, errors="surrogateescape").encode()
    yield "".join(f"%{byte:02x}" for byte in raw).encode()
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for encode in (b64encode, urlsafe_b64encode):
        yield from (form for form in _base64_forms(raw, encode) if len(form) >= BASE64_SHORTEST)
    if b"\n" in raw:
        yield from (line for line in raw.splitlines() if len(line) >= LINE_SHORTEST)


def _quoted_forms(text: str, raw: bytes) -> Iterable[str]:
    """What JSON, Python, HTML, SQL and shells (also by `set -x`) make of it; most secrets stay as they are."""
    for is_ascii in (True, False):
        found = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield found
        yield found.replace("/", "\\/")  # as PHP does
        yield _HTML.sub(lambda one: f"\\u{ord(one[0]):04x}", found)  # as Go does
        yield json.dumps(found, ensure_ascii=is_ascii)[1:-1]  # JSON in JSON
    yield repr(text)[1:-1]
    yield repr(raw)[2:-1]
    for entity in ("&#x27;", "&#39;"):
        yield html.escape(text, quote=False).replace('"', "&quot;").replace("'", entity)
    yield html.escape(text, quote=False)
    yield text.replace("'", "''")
    for written in ("'\\''", "'\"'\"'"):
        yield text.replace("'", written)
    yield text.replace("\\", "\\\\").replace("'", "\\'")


def _base64_forms(raw: bytes, encode: Callable[[bytes], bytes]) -> Iterable[bytes]:
    """Its base64 at each of the three offsets within a group, without the characters that its neighbours change."""
    for before in range(3):
        encoded = encode(bytes(before) + raw)
        first = (0, 2, 3)[before]
        last = (before + len(raw)) * 8 // 6
        yield encoded[first:last]
