"""Encodes and decodes messages of a fleet: Dask's frames, with plain values only.

Dask's own reader rebuilds any object that a frame names: it unpickles it, or imports its module. So a peer that may
send a message may run code in the process that reads it. This reader accepts maps, lists, texts, bytes, numbers and
booleans only, and rejects a message that claims to be longer than any of ours.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, Final

import msgpack

MESSAGE_MAX: Final = 64 * 1024 * 1024
HEAD_SIZE: Final = 8
_HEAD: Final = struct.Struct("=Q")
_PRELUDE: Final = struct.Struct("=QQ")
HANDSHAKE: Final[dict[str, object]] = {
    "compression": None,
    "python": list(sys.version_info[:3]),
    # Dask requires a number; nothing is ever pickled.
    "pickle-protocol": 5,
}


class FrameError(ValueError):
    """Not a plain message."""


def encode(message: object) -> bytes:
    """The bytes of a message, prefixed by their size."""
    body: bytes = msgpack.packb(message, use_bin_type=True)
    return _HEAD.pack(_PRELUDE.size + len(body)) + _PRELUDE.pack(1, len(body)) + body


def size_of(head: bytes) -> int:
    """How many bytes follow the first eight."""
    size: int = _HEAD.unpack(head)[0]
    if not _PRELUDE.size < size <= MESSAGE_MAX:
        raise FrameError(f"a message of {size} bytes")
    return size


def decode(data: bytes) -> Any:
    """The message in the bytes that follow the first eight."""
    count, length = _PRELUDE.unpack_from(data)
    if count != 1 or length != len(data) - _PRELUDE.size:
        # Further frames hold objects that Dask would rebuild.
        raise FrameError("a message with objects in it")
    try:
        return msgpack.unpackb(
            memoryview(data)[_PRELUDE.size :], raw=False, use_list=False, strict_map_key=False, ext_hook=_refuse
        )
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise FrameError(f"a message that cannot be read ({type(error).__name__})") from error


def _refuse(code: int, _: bytes) -> object:
    raise FrameError(f"a value of the unknown kind {code}")
