import contextlib
import random
import struct

import pytest

from thermae._frames import LARGEST_HEADER, LARGEST_PAYLOAD, BadFrameError, Frame, body_length, decode, encode


@pytest.mark.parametrize(
    "frame",
    [
        Frame({"type": "close"}),
        Frame({"type": "event", "id": 7}, b"\x00\xff" * 1000),
        Frame({"type": "größe", "x": {"y": [1, None, "\u2028"]}}, b""),
        Frame({"type": "data"}, b"x" * LARGEST_PAYLOAD),
    ],
)
def test_what_is_encoded_is_decoded(frame: Frame) -> None:
    data = encode(frame)
    assert body_length(data[:4]) == len(data) - 4
    assert decode(data[4:]) == frame


def test_the_layout_is_the_protocols() -> None:
    assert encode(Frame({"type": "a"}, b"xy")) == struct.pack("<II", 18, 12) + b'{"type":"a"}' + b"xy"


@pytest.mark.parametrize(
    "frame", [Frame({"type": "x" * LARGEST_HEADER}), Frame({"type": "x"}, b"x" * (LARGEST_PAYLOAD + 1))]
)
def test_frames_that_are_too_large_are_refused(frame: Frame) -> None:
    with pytest.raises(ValueError, match="bytes, more than"):
        encode(frame)


@pytest.mark.parametrize("length", [0, 3, LARGEST_HEADER + LARGEST_PAYLOAD + 5, (1 << 32) - 1])
def test_impossible_lengths_are_refused_before_anything_is_read(length: int) -> None:
    with pytest.raises(BadFrameError):
        body_length(struct.pack("<I", length))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01\x00\x00",
        struct.pack("<I", 5) + b"{}",
        struct.pack("<I", 0xFFFFFFFF) + b"{}",
        struct.pack("<I", 2) + b"{}",
        struct.pack("<I", 2) + b"[]",
        struct.pack("<I", 10) + b'{"type":1}',
        struct.pack("<I", 4) + b"\xff\xfe{}",
        struct.pack("<I", 60000) + b"[" * 60000,
    ],
)
def test_hostile_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(BadFrameError):
        decode(body)


def test_random_bytes_are_a_frame_or_refused() -> None:
    source = random.Random(7)
    good = encode(Frame({"type": "event", "id": 1}, b"payload"))[4:]
    for _ in range(20_000):
        body = bytearray(good)
        for _ in range(source.randrange(1, 4)):
            body[source.randrange(len(body))] = source.randrange(256)
        with contextlib.suppress(BadFrameError):
            assert isinstance(decode(bytes(body[: source.randrange(len(body) + 1)])).header["type"], str)
