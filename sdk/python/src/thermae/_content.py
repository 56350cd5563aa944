"""What commands and files in sessions get: content of any size, piece by piece."""

import contextvars
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from thermae._request import CHUNK
from thermae._thread import in_thread

T = TypeVar("T")

Bytes: TypeAlias = bytes | bytearray | memoryview


@runtime_checkable
class Readable(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


Content: TypeAlias = str | Bytes | Path | Readable | Iterable[Bytes] | AsyncIterable[Bytes]
"""Text, bytes, a `Path` of this machine, a binary file, or pieces of bytes, which are taken as they are needed."""


def whole(content: Content) -> Bytes | None:
    """The content, if it is in memory already.

    Raises:
        TypeError: It is no content.
    """
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return cast("Bytes", content)
    kinds = (Path, Readable, Iterable, AsyncIterable)
    # A mapping would give its keys.
    if isinstance(content, Mapping) or not isinstance(content, kinds):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            "content is text, bytes, a Path, a file that is open for reading bytes, or an iterable of bytes, "
            f"not {type(cast('object', content)).__name__}"
        )
    return None


async def pieces(content: Content) -> AsyncGenerator[Bytes, None]:
    """The content, piece by piece. Files and iterators are read in a thread, so that they hold nothing up.

    Raises:
        TypeError: It is no content, or a piece of it is not bytes.
        OSError: A file of this machine can't be read.
    """
    if (data := whole(content)) is not None:
        yield data
    elif isinstance(content, Path):
        with await _apart(lambda: open(content, "rb")) as file:
            async for part in _of_file(file):
                yield part
    elif isinstance(content, AsyncIterable):
        async for piece in content:
            yield checked(piece)
    elif isinstance(content, Readable):
        async for part in _of_file(content):
            yield part
    else:
        source = iter(cast("Iterable[Bytes]", content))
        while (next_piece := await _apart(partial(_next, source))) is not None:
            yield checked(next_piece)


def _next(source: Iterator[Bytes]) -> Bytes | None:
    return next(source, None)


async def _apart(work: Callable[[], T]) -> T:
    return await in_thread(partial(contextvars.copy_context().run, work), "thermae-input")


async def _of_file(file: Readable) -> AsyncGenerator[bytes, None]:
    while piece := await _apart(partial(file.read, CHUNK)):
        checked(piece)
        yield piece


def checked(piece: Bytes) -> Bytes:
    """A piece of content.

    Raises:
        TypeError: It is not bytes.
    """
    if not isinstance(piece, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"content comes in pieces of bytes, not of {type(piece).__name__}")
    return piece
