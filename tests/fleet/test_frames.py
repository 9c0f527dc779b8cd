"""Does Dask read what we write, and is what we read plain data, whatever was sent?"""

from __future__ import annotations

import contextlib
import enum
import struct

import msgpack
import pytest
from distributed.comm.tcp import _add_frames_header
from distributed.protocol.core import dumps, loads
from distributed.protocol.serialize import Serialize, ToPickle
from distributed.protocol.utils import unpack_frames
from hypothesis import given
from hypothesis import strategies as st

from evertick.executors.fleet.frames import HEAD_SIZE, MESSAGE_MAX, FrameError, decode, encode, size_of

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Colour(enum.Enum):
    RED = 1


def as_dask_writes(message: object) -> bytes:
    return b"".join(bytes(frame) for frame in _add_frames_header(dumps(message))[0])


@given(PLAIN)
def test_dask_and_we_read_each_other(message):
    written = encode(message)
    assert size_of(written[:HEAD_SIZE]) == len(written) - HEAD_SIZE
    assert loads(unpack_frames(written[HEAD_SIZE:])) == message
    theirs = as_dask_writes(message)
    assert size_of(theirs[:HEAD_SIZE]) == len(theirs) - HEAD_SIZE
    assert decode(theirs[HEAD_SIZE:]) == message


@given(st.binary(min_size=17, max_size=200))
def test_garbage_is_refused_or_plain(data):
    with contextlib.suppress(FrameError):
        assert encode(decode(data))


@given(st.binary(max_size=200))
def test_garbage_in_a_frame_is_refused_or_plain(body):
    with contextlib.suppress(FrameError):
        assert encode(decode(struct.pack("=QQ", 1, len(body)) + body))


@pytest.mark.parametrize("wrap", [Serialize, ToPickle])
def test_objects_are_refused(wrap):
    with pytest.raises(FrameError, match="objects"):
        decode(as_dask_writes({"card": wrap(object())})[HEAD_SIZE:])


def test_what_names_a_module_is_a_map_like_any_other():
    assert decode(as_dask_writes({"colour": Colour.RED})[HEAD_SIZE:])["colour"]["__Enum__"] is True


def test_kinds_of_values_that_are_not_ours_are_refused():
    with pytest.raises(FrameError):
        decode(encode({"a": msgpack.ExtType(5, b"x")})[HEAD_SIZE:])


@pytest.mark.parametrize("size", [0, 16, MESSAGE_MAX + 1, 2**64 - 1])
def test_sizes_that_cannot_be_are_refused(size):
    with pytest.raises(FrameError):
        size_of(struct.pack("=Q", size))


def test_depth_is_limited():
    with pytest.raises(FrameError):
        decode(struct.pack("=QQ", 1, 200_000) + b"\x91" * 200_000)
