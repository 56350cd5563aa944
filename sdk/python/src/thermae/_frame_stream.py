"""Frames over a stream of bytes of the event loop, such as a socket."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import cast

from thermae._frames import BadFrameError, Frame, body_length, decode, encode

LENGTH = 4
"""Bytes of the length before each frame."""

SMALL = 64 << 10
"""Size of the buffer that frames arrive in. It grows for a larger frame, but only as its bytes come."""

LARGE = 1 << 20
"""Size above which the buffer of a large frame is not kept for the next one."""


class FrameStream(asyncio.BufferedProtocol):
    """One connection. A frame is taken in the turn of the event loop in which it arrives, and written without one.

    Attributes:
        lost: Done when the connection has ended.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Makes a connection over this socket, which the event loop's transport also gets."""
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._take: Callable[[Frame], None] | None = None
        self._ended: Callable[[Exception | None], None] | None = None
        self._why: Exception | None = None
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._socket = sock
        # Held while bytes are written. `_idle` says that all bytes before were written, and that more may be.
        self._writing = threading.RLock()
        self._idle = False
        self._rest = b""
        # The buffer, and where in it the bytes are that were not taken yet.
        self._buffer = bytearray(SMALL)
        self._begin = self._end = 0

    def listen(self, take: Callable[[Frame], None], ended: Callable[[Exception | None], None]) -> None:
        """See `Transport`. The other end says nothing before it hears something, so no frame comes before this."""
        self._take, self._ended = take, ended
        if self.lost.done():
            asyncio.get_running_loop().call_soon(ended, self._why)

    async def send(self, frame: Frame) -> None:
        """Sends a frame; see `Transport`."""
        data = encode(frame)
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection has ended")
        with self._writing:
            self._write(data)
        if not self._room.is_set():
            await self._room.wait()
            if self.lost.done():
                raise ConnectionResetError("the connection has ended")

    def try_send(self, frame: Frame) -> bool:
        """Sends a frame from any thread; see `Transport`."""
        data = encode(frame)
        with self._writing:
            if not self._idle:
                return False
            # Ctrl-C can come as soon as `send` has returned, and a part of the frame is out then. In this form, nothing
            # of Python's runs before it is known how much.
            sent: list[int] = []
            try:
                sent.extend(map(self._socket.send, (data,)))
            except OSError:  # The buffer is full, or the connection has ended, as the event loop will find out.
                return False
            finally:
                if sent and sent[0] < len(data):
                    self._idle, self._rest = False, data[sent[0] :]
                    self._loop.call_soon_threadsafe(self._write_rest)
        return True

    def close(self) -> None:
        """Ends the connection as soon as everything is written."""
        with self._writing:
            self._idle = False
            if self._transport is not None:
                self._write(b"")
                self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        with self._writing:
            self._idle = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        self._transport = cast("asyncio.Transport", transport)
        # Whenever the transport keeps bytes, it says so.
        self._transport.set_write_buffer_limits(0)
        self._idle = True

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        self._why = self._why or exc
        self._idle = False
        self.lost.set_result(None)
        self._room.set()
        if self._ended is not None:
            self._ended(self._why)

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol`. Only a write makes the transport keep bytes, so `_writing` is held."""
        self._idle = False
        self._room.clear()

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._room.set()
        with self._writing:
            self._idle = not self._rest and not self.lost.done()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._end += nbytes
        view, needed = memoryview(self._buffer), LENGTH
        try:
            while self._end - self._begin >= needed:
                body = self._begin + LENGTH
                needed = LENGTH + body_length(view[self._begin : body])
                if self._end - self._begin < needed:
                    break
                frame = decode(view[body : self._begin + needed])
                self._begin += needed
                needed = LENGTH
                if self._take is not None:
                    self._take(frame)
        except BadFrameError as error:
            self._why = error
            self.abort()
        self._make_room(needed)

    def _write(self, data: bytes) -> None:
        """Writes what another thread could not, and this. `_writing` must be held."""
        rest, self._rest = self._rest, b""
        if (rest or data) and self._transport is not None:
            self._transport.write(rest + data if rest else data)

    def _write_rest(self) -> None:
        with self._writing:
            self._write(b"")
            self._idle = self._room.is_set() and self._transport is not None and not self._transport.is_closing()

    def _make_room(self, needed: int) -> None:
        """Makes room for the next frame, which has so many bytes at least."""
        left = self._end - self._begin
        if not left:
            self._begin = self._end = 0
            if len(self._buffer) > LARGE:
                self._buffer = bytearray(SMALL)
        elif self._begin + needed > len(self._buffer):
            rest = self._buffer[self._begin : self._end]
            if needed > len(self._buffer) and left > len(self._buffer) // 2:
                self._buffer = bytearray(min(needed, 2 * len(self._buffer)))
            self._buffer[:left] = rest
            self._begin, self._end = 0, left
