"""Frames: the messages between this package and the bridge.

A frame is a JSON header and a payload of bytes. On a stream of bytes, two lengths (`u32`, little-endian) come first: of
all that follows the first length, and of the header.
"""

import json
import struct
from typing import Any, NamedTuple, cast

LARGEST_HEADER = 64 << 10
LARGEST_PAYLOAD = 32 << 20

_LENGTHS = struct.Struct("<II")
_HEADER_LENGTH = struct.Struct("<I")
_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class Frame(NamedTuple):
    """One message: its header, and bytes whose meaning the header's `type` gives."""

    header: dict[str, Any]
    payload: bytes = b""


class BadFrameError(Exception):
    """Bytes that are not a frame. The connection can't go on."""


def encode(frame: Frame) -> bytes:
    """The bytes of a frame on a stream, with both lengths.

    Raises:
        ValueError: The header or the payload is too large.
    """
    header = _header(frame)
    return _LENGTHS.pack(_HEADER_LENGTH.size + len(header) + len(frame.payload), len(header)) + header + frame.payload


def encode_body(frame: Frame) -> bytes:
    """The bytes of a frame as a message of its own, without the first length.

    Raises:
        ValueError: The header or the payload is too large.
    """
    header = _header(frame)
    return _HEADER_LENGTH.pack(len(header)) + header + frame.payload


def _header(frame: Frame) -> bytes:
    header = _JSON.encode(frame.header).encode()
    if len(header) > LARGEST_HEADER:
        raise ValueError(f"the header of a frame has {len(header)} bytes, more than {LARGEST_HEADER}")
    if len(frame.payload) > LARGEST_PAYLOAD:
        raise ValueError(f"the payload of a frame has {len(frame.payload)} bytes, more than {LARGEST_PAYLOAD}")
    return header


def body_length(first: bytes | bytearray | memoryview) -> int:
    """The number of bytes that follow the first four bytes of a frame.

    Raises:
        BadFrameError: No frame has this length.
    """
    (length,) = _HEADER_LENGTH.unpack_from(first)
    if not _HEADER_LENGTH.size <= length <= _HEADER_LENGTH.size + LARGEST_HEADER + LARGEST_PAYLOAD:
        raise BadFrameError(f"a frame of {length} bytes")
    return int(length)


def decode(body: bytes | memoryview) -> Frame:
    """A frame from all its bytes but the first length. What it returns has no part of a view.

    Raises:
        BadFrameError: The bytes are not a frame.
    """
    if len(body) < _HEADER_LENGTH.size:
        raise BadFrameError("a frame without the length of its header")
    (length,) = _HEADER_LENGTH.unpack_from(body)
    end = _HEADER_LENGTH.size + length
    if length > LARGEST_HEADER or end > len(body) or len(body) - end > LARGEST_PAYLOAD:
        raise BadFrameError(f"a frame of {len(body)} bytes whose header has {length}")
    try:
        header: Any = json.loads(str(body[_HEADER_LENGTH.size : end], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFrameError("the header of a frame is not JSON") from error
    if not isinstance(header, dict) or not isinstance(cast("dict[str, Any]", header).get("type"), str):
        raise BadFrameError("the header of a frame has no type")
    return Frame(cast("dict[str, Any]", header), bytes(body[end:]))
