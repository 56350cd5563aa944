"""A connection to a bridge: many requests at once over one transport."""

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any

from thermae._error import ThermaeError
from thermae._frames import BadFrameError, Frame
from thermae._options import redacted
from thermae._transport import Transport
from thermae._version import VERSION
from thermae.errors import ConnectionLost, JobTooLarge, NoAnswer, class_for

_log = logging.getLogger("thermae")

WINDOW = 1 << 20
"""Bytes that the bridge may send for one request before the request's consumer has taken any."""

CHUNK = 256 << 10
"""Most bytes of a request's input in one frame."""

GRACE = 15.0
"""Seconds that an answer can need, after it should be there."""

OPEN_WITHIN = 60.0
"""Seconds that a bridge can need to open a fleet."""

VERSIONS = [1]
"""Versions of the frames that this package speaks."""


PROTOCOLS = [1, 2]
"""Versions of jobs that this package writes."""


class Connection:
    """Requests over one transport. It belongs to the event loop on which it was opened.

    Attributes:
        transport: What carries the frames.
        facts: What the bridge said about the fleet.
        protocol: The newest version of jobs that both ends know.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.facts: dict[str, Any] = {}
        self.protocol = 1
        self._ids = itertools.count(1)
        self._requests: dict[int, Request] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: ThermaeError | None = None
        self._reading = asyncio.create_task(self._read())

    @property
    def lost(self) -> bool:
        """Whether the connection has ended, by itself or by `close`."""
        return self._end is not None

    async def open(self, options: dict[str, Any]) -> None:
        """Greets the bridge and opens the fleet that the options name. Its facts are then in `facts`.

        Raises:
            ThermaeError: The bridge refused, or there is no fleet.
        """
        await self.send(Frame({"type": "hello", "versions": VERSIONS, "sdk": f"python/{VERSION}"}))
        async with self.request("open", options) as opening:
            async for _ in opening.answers(asyncio.get_running_loop().time() + OPEN_WITHIN):
                pass
            self.facts = {name: fact for name, fact in opening.answer.items() if name not in ("type", "id")}
        _log.debug("fleet opened facts=%s", self.facts)

    @contextlib.asynccontextmanager
    async def request(
        self,
        kind: str,
        fields: dict[str, Any],
        payload: bytes = b"",
        *,
        job: str = "",
        on_arrival: "Callable[[Request, bytes], Any] | None" = None,
    ) -> "AsyncGenerator[Request, None]":
        """Sends a request. If the block ends before the request, the request is cancelled and its answers are dropped.

        Args:
            kind: The type of the request's frame.
            fields: The other fields of its header.
            payload: Its payload.
            job: Id of the job, for errors.
            on_arrival: Called with each payload as soon as it arrives. What it returns takes the payload's place.

        Raises:
            ConnectionLost: The connection has ended.
            JobTooLarge: No frame is large enough for the payload.
        """
        request = await self.begin(kind, fields, payload, job=job, on_arrival=on_arrival)
        try:
            yield request
        finally:
            request.leave()

    async def begin(
        self,
        kind: str,
        fields: dict[str, Any],
        payload: bytes = b"",
        *,
        job: str = "",
        on_arrival: "Callable[[Request, bytes], Any] | None" = None,
    ) -> "Request":
        """Sends a request whose caller calls `leave` in any case; otherwise as `request`."""
        if self._end is not None:
            raise self._lost(job)
        request = Request(self, next(self._ids), job, on_arrival)
        self._requests[request.id] = request
        try:
            await self.send(Frame({"type": kind, "id": request.id, **fields}, payload))
        except ValueError as error:
            request.fail(JobTooLarge(str(error), request_id=job))
        except BaseException:
            request.leave()
            raise
        return request

    async def close(self) -> None:
        """Ends all requests and the connection."""
        if self._end is None:
            self._finish(ConnectionLost("the sandbox was closed"))
            with contextlib.suppress(OSError):
                async with asyncio.timeout(1):
                    await self.transport.send(Frame({"type": "close"}))
        self._reading.cancel()
        for task in self._tasks:
            task.cancel()
        await self.transport.close()

    def post(self, frame: Frame) -> None:
        """Sends a frame without waiting for it. If the connection has ended, the frame is dropped."""

        async def send() -> None:
            with contextlib.suppress(OSError):
                await self.transport.send(frame)

        if self._end is None:
            self.spawn(send())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something that the connection owns; its end ends it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, request: "Request") -> None:
        """Takes a request that has ended off the list."""
        self._requests.pop(request.id, None)

    async def send(self, frame: Frame) -> None:
        """Sends a frame, and waits while the bridge takes nothing.

        Raises:
            ConnectionLost: The connection has ended.
            ValueError: The frame is too large. Nothing was sent.
        """
        try:
            await self.transport.send(frame)
        except OSError as error:
            # The reader finds out why, and its reason is the better one.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._reading}, timeout=1)
            raise self._lost("") from error

    async def _read(self) -> None:
        end: ThermaeError = ConnectionLost("the connection to the fleet ended")
        try:
            while (frame := await self.transport.receive()) is not None:
                if refusal := self._take(frame):
                    end = refusal
                    break
        except (BadFrameError, OSError) as error:
            end = ConnectionLost(f"the connection to the fleet broke: {error}")
        if words := self.transport.last_words():
            end.message += f"; the bridge said last: {words.splitlines()[-1]}"
        self._finish(end)

    def _take(self, frame: Frame) -> ThermaeError | None:
        """Takes one frame. An error without an id, which ends the connection, is given back."""
        kind, number = frame.header["type"], frame.header.get("id")
        if kind == "error" and number is None:
            return error_of(frame.header)
        if kind == "hello":
            self.protocol = max(set(frame.header.get("protocols", ())) & set(PROTOCOLS), default=1)
        if (request := self._requests.get(number)) is not None:  # type: ignore[arg-type]
            request.take(frame)
        return None

    def _finish(self, end: ThermaeError) -> None:
        if self._end is not None:
            return
        self._end = end
        _log.debug("connection ended reason=%s", end.message)
        for request in list(self._requests.values()):
            request.fail(self._lost(request.job))

    def _lost(self, job: str) -> ThermaeError:
        end = self._end or ConnectionLost("the connection to the fleet ended")
        return type(end)(end.message, code=end.code, advice=end.advice, request_id=job)


class Request:
    """One request, as its sender sees it: the payloads of its answers, and how it ended."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        job: str,
        on_arrival: "Callable[[Request, bytes], Any] | None",
    ) -> None:
        self.id = number
        self.job = job
        self.answer: dict[str, Any] = {}
        self.payload = b""
        self._on_arrival = on_arrival
        self._connection = connection
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._ended = False
        self._left = False
        self._consumed = 0
        self._room = WINDOW
        self._more_room = asyncio.Event()

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
        """The next one of the `answers`, or `END`."""
        try:
            # A reader who takes long between two answers doesn't make the fleet late.
            now = asyncio.get_running_loop().time()
            async with asyncio.timeout_at(None if until is None else max(until, now) + GRACE):
                item, size = await self._queue.get()
        except TimeoutError:
            raise NoAnswer("no outcome came in time", request_id=self.job) from None
        if isinstance(item, Exception):
            raise item
        self._credit(size)
        return item

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
        """Asks the fleet to cancel the request. Its answers still come."""
        if not self._ended:
            self._connection.post(Frame({"type": "cancel", "id": self.id}))

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
        self._more_room.set()
        self._queue.put_nowait((how, 0))
        self._connection.forget(self)

    def _arrived(self, item: Any, size: int) -> None:
        if self._left:
            self._credit(size)
        else:
            self._queue.put_nowait((item, size))

    def _credit(self, size: int) -> None:
        self._consumed += size
        if self._consumed >= WINDOW // 2 and not self._ended:
            self._connection.post(Frame({"type": "credit", "id": self.id, "bytes": self._consumed}))
            self._consumed = 0


END = object()
"""What `Request.next` gives when the request has ended."""


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
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
