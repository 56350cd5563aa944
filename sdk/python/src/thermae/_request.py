"""One request over a connection: what is sent for it, and what comes back."""

import asyncio
import collections
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from thermae._error import ThermaeError
from thermae._frames import Frame
from thermae._options import redacted
from thermae.errors import NoAnswer, class_for

if TYPE_CHECKING:
    from thermae._connection import Connection

WINDOW = 1 << 20
"""Bytes that the bridge may send for one request before the request's consumer has taken any."""

CHUNK = 256 << 10
"""Most bytes of a request's input in one frame."""

GRACE = 15.0
"""Seconds that an answer can need, after it should be there."""

_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)

END = object()
"""What `Request.next` gives when the request has ended."""


SUBMITTED = object()
"""What `Request.next` gives when the fleet has the job of a run that is detached."""


class Request:
    """One request, as its sender sees it: the payloads of its answers, and how it ended."""

    def __init__(
        self,
        connection: "Connection",
        number: int,
        job: str,
        on_arrival: "Callable[[Request, bytes], Any] | None",
        running: "threading.Lock | None" = None,
    ) -> None:
        """Makes a request.

        Args:
            connection: Its connection.
            number: Its number in the connection.
            job: Id of the job, for errors.
            on_arrival: Called with each payload as soon as it arrives.
            running: A free lock, if another thread waits for the end. Nobody then takes the answers themselves.
        """
        self.id = number
        self.job = job
        self.answer: dict[str, Any] = {}
        self.payload = b""
        self._on_arrival = on_arrival
        self._connection = connection
        self._items: collections.deque[tuple[Any, int]] = collections.deque()
        self._reader: asyncio.Future[None] | None = None
        self._ended = False
        self._left = False
        self._cancelled = False
        self._consumed = 0
        self._room = WINDOW
        self._more_room = asyncio.Event()
        self._end_here: Any = None
        self._running = running
        if running is not None:
            running.acquire()

    async def answers(self, until: float | None = None) -> AsyncIterator[Any]:
        """What arrives, in order, until the request has ended.

        Args:
            until: When the wait for the next answer ends at the earliest, by the event loop's clock.

        Yields:
            The payload of each answer, or what `on_arrival` made of it.

        Raises:
            NoAnswer: Nothing came for too long.
            ThermaeError: The request failed, or the connection was lost.
        """
        while (item := await self.next(until)) is not END:
            yield item

    async def next(self, until: float | None = None) -> Any:
        """The next one of the `answers`, or `END`. Only one task may wait for it."""
        while not self._items:
            loop = asyncio.get_running_loop()
            self._reader = loop.create_future()
            try:
                if until is None:
                    await self._reader
                else:
                    # A reader who takes long between two answers doesn't make the fleet late.
                    async with asyncio.timeout_at(max(until, loop.time()) + GRACE):
                        await self._reader
            except TimeoutError:
                raise NoAnswer("no outcome came in time", request_id=self.job) from None
            finally:
                self._reader = None
        item, size = self._items.popleft()
        if isinstance(item, Exception):
            raise item
        self._credit(size)
        return item

    def wait_here(self, until: float | None) -> Any:
        """Waits for the end, in another thread than the event loop's: `END`, or the error of the request.

        Args:
            until: When the request must have ended, by `time.monotonic`.
        """
        assert self._running is not None
        within = -1 if until is None else max(until - time.monotonic(), 0.0) + GRACE
        if not self._running.acquire(timeout=within):
            return NoAnswer("no outcome came in time", request_id=self.job)
        return self._end_here

    async def send_input(self, data: bytes | bytearray | memoryview, *, end: bool = False) -> bool:
        """Sends input, and waits while the other end has no room for it.

        Args:
            data: The bytes.
            end: Whether they are the last ones.

        Returns:
            Whether they were sent; false if the request has ended.

        Raises:
            ConnectionLost: The connection has ended.
        """
        rest = memoryview(data).cast("B")
        while True:
            while rest and self._room <= 0 and not self._ended:
                self._more_room.clear()
                await self._more_room.wait()
            if self._ended:
                return False
            piece = rest[: min(CHUNK, self._room)]
            rest = rest[len(piece) :]
            self._room -= len(piece)
            await self._connection.send(Frame({"type": "input", "id": self.id, "end": end and not rest}, bytes(piece)))
            if not rest:
                return True

    def reply(self, fields: dict[str, Any], payload: bytes) -> None:
        """Sends something that belongs to this request, such as a tool's answer."""
        if not self._ended:
            self._connection.post(Frame({"id": self.id, **fields}, payload))

    def cancel(self) -> None:
        """Asks the fleet to cancel the request, once. Its answers still come."""
        if not self._ended and not self._cancelled:
            self._cancelled = True
            self._connection.post(Frame({"type": "cancel", "id": self.id}))

    def detach(self) -> None:
        """Nobody waits any more for a run, which goes on. What still comes is dropped."""
        self._left = True
        if not self._ended:
            self._connection.post(Frame({"type": "detach", "id": self.id}))

    def leave(self) -> None:
        """Nobody waits any more: cancels the request if it goes on, and drops what still comes."""
        self._left = True
        if self._ended:
            self._connection.forget(self)
        else:
            self.cancel()

    def take(self, frame: Frame) -> None:
        """Takes a frame that arrived."""
        kind, size = frame.header["type"], len(frame.payload)
        if kind in ("done", "opened"):
            self.answer, self.payload = frame.header, frame.payload
            self._end(END)
        elif kind == "error":
            self._end(error_of(frame.header, self.job))
        elif kind in ("event", "data"):
            self._arrived(self._on_arrival(self, frame.payload) if self._on_arrival else frame.payload, size)
        elif kind == "submitted":
            self._put(SUBMITTED, 0)
        elif kind == "output":
            self._arrived((frame.header["stream"], frame.payload), size)
        elif kind == "credit":
            self._room += frame.header["bytes"]
            self._more_room.set()

    def fail(self, error: Exception) -> None:
        """Ends the request with this error."""
        self._end(error)

    def _end(self, how: Any) -> None:
        self._ended = True
        first = self._connection.forget(self)
        if self._running is None:
            self._more_room.set()
            self._put(how, 0)
        elif first:
            self._end_here = how
            self._running.release()

    def _arrived(self, item: Any, size: int) -> None:
        if self._left or self._running is not None:
            self._credit(size)
        else:
            self._put(item, size)

    def _put(self, item: Any, size: int) -> None:
        self._items.append((item, size))
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _credit(self, size: int) -> None:
        self._consumed += size
        if self._consumed >= WINDOW // 2 and not self._ended:
            self._connection.post(Frame({"type": "credit", "id": self.id, "bytes": self._consumed}))
            self._consumed = 0


def error_of(header: dict[str, Any], job: str = "") -> ThermaeError:
    """The error that a frame of type `error` reports."""
    code = str(header.get("code", "unknown"))
    advice = header.get("advice")
    return class_for(code)(redacted(str(header.get("message", code))), code=code, advice=advice, request_id=job)


def json_payload(value: Any) -> bytes:
    """A payload of JSON.

    Raises:
        ValueError: The value has NaN, an infinity, or text that is not valid Unicode.
    """
    return _JSON.encode(value).encode()
