"""A connection to a bridge: many requests at once over one transport."""

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from thermae._error import ThermaeError
from thermae._frames import Frame
from thermae._request import Request, error_of, json_payload
from thermae._transport import Transport
from thermae._version import VERSION
from thermae.errors import BadTool, ConnectionLost, JobTooLarge, SandboxClosed, UnsupportedProtocol

if TYPE_CHECKING:
    from thermae._tools import Tool

_log = logging.getLogger("thermae")

OPEN_WITHIN = 60.0
"""Seconds that a bridge can need to open a fleet."""

PART = 8 << 20
"""Bytes of a job in one frame. The rest of a larger job follows in frames of its own."""

VERSIONS = [1]
"""Versions of the frames that this package speaks."""

PROTOCOL = 1
"""Version of jobs that this package writes."""


class Connection:
    """Requests over one transport. It belongs to the event loop on which it was opened.

    Attributes:
        transport: What carries the frames.
        facts: What the bridge said about the fleet.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.facts: dict[str, Any] = {}
        self._ids = itertools.count(1)
        self._requests: dict[int, Request] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: ThermaeError | None = None
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        transport.listen(self._take, self._lose)
        self._living = asyncio.create_task(self._live())

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

    async def check_tools(self, tools: "Iterable[Tool[..., Any]]") -> None:
        """Lets the bridge read the schemas of tools that nobody has read so far.

        Raises:
            BadTool: The fleet can't read one of them, so no program could call that tool.
        """
        new = [tool for tool in tools if not tool.is_checked]
        if not new:
            return
        wires: list[bytes] = []
        for tool in new:
            try:
                wires.append(json_payload(tool.to_wire()))
            except (TypeError, ValueError, RecursionError) as error:
                raise BadTool(f"the tool {tool.name!r} can't be written as JSON: {error}") from None
        async with self.request("check_tools", {}, b"[%b]" % b",".join(wires)) as request:
            async for _ in request.answers(asyncio.get_running_loop().time()):
                pass
        for tool in new:
            tool.is_checked = True

    @contextlib.asynccontextmanager
    async def request(
        self,
        kind: str,
        fields: dict[str, Any],
        payload: bytes = b"",
        *,
        job: str = "",
        on_arrival: Callable[[Request, bytes], Any] | None = None,
    ) -> AsyncGenerator[Request, None]:
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
        on_arrival: Callable[[Request, bytes], Any] | None = None,
    ) -> Request:
        """Sends a request whose caller calls `leave` in any case; otherwise as `request`."""
        if self._end is not None:
            raise self._lost(job)
        request = Request(self, next(self._ids), job, on_arrival)
        self._requests[request.id] = request
        first, rest = payload, memoryview(b"")
        if kind == "run" and len(payload) > PART:
            first, rest = payload[:PART], memoryview(payload)[PART:]
            fields = {**fields, "more": True}
        try:
            await self.send(Frame({"type": kind, "id": request.id, **fields}, first))
            while rest:
                part, rest = rest[:PART], rest[PART:]
                await self.send(Frame({"type": "input", "id": request.id, "end": not rest}, bytes(part)))
        except ValueError as error:
            request.fail(JobTooLarge(str(error), request_id=job))
        except BaseException:
            request.leave()
            raise
        return request

    def expect_here(self, job: str, on_arrival: Callable[[Request, bytes], Any]) -> Request:
        """A request of another thread than the event loop's, which sends it and waits with `Request.wait_here`."""
        request = Request(self, next(self._ids), job, on_arrival, threading.Lock())
        self._requests[request.id] = request
        return request

    def send_here(self, request: Request, kind: str, fields: dict[str, Any], payload: bytes) -> None:
        """Sends a request of `expect_here`. Whoever is interrupted here does not know whether it was sent."""
        if self._end is not None:
            request.fail(self._lost(request.job))
            return
        frame = Frame({"type": kind, "id": request.id, **fields}, payload)
        try:
            if not self.transport.try_send(frame):
                self._loop.call_soon_threadsafe(self.post, frame)
        except ValueError as error:
            request.fail(JobTooLarge(str(error), request_id=request.job))
        except RuntimeError:  # The loop has ended.
            request.fail(SandboxClosed())

    async def close(self) -> None:
        """Ends all requests and the connection."""
        if self._end is None:
            self._finish(ConnectionLost("the sandbox was closed"))
            with contextlib.suppress(OSError):
                async with asyncio.timeout(1):
                    await self.transport.send(Frame({"type": "close"}))
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

    def call_soon(self, work: Callable[[], object]) -> None:
        """Calls a function on the event loop, from any thread. If the loop has ended, nothing happens."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)

    def forget(self, request: Request) -> bool:
        """Takes a request that has ended off the list. Says whether it was there; of several threads, to one."""
        return self._requests.pop(request.id, None) is not None

    async def send(self, frame: Frame) -> None:
        """Sends a frame, and waits while the bridge takes nothing.

        Raises:
            ConnectionLost: The connection has ended.
            ValueError: The frame is too large. Nothing was sent.
        """
        try:
            await self.transport.send(frame)
        except OSError as error:
            # The transport finds out why, and its reason is the better one.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._ended.wait()
            raise self._lost("") from error

    async def _live(self) -> None:
        try:
            await self._ended.wait()
        except asyncio.CancelledError:
            if self._end is None:
                # The loop ends and cancels all its tasks, before anybody has closed this.
                self._finish(ConnectionLost("the event loop ended"))
                await self.transport.close()
            raise

    def _take(self, frame: Frame) -> None:
        kind, number = frame.header["type"], frame.header.get("id")
        try:
            if (request := self._requests.get(number)) is not None:  # type: ignore[arg-type]
                request.take(frame)
            elif kind == "error" and number is None:
                self._lose(error_of(frame.header))
            elif kind == "hello" and PROTOCOL not in (read := frame.header.get("protocols", ())):
                versions = ", ".join(map(str, read)) or "none"
                self._lose(UnsupportedProtocol(f"this package writes protocol {PROTOCOL}; the fleet reads {versions}"))
        except Exception as error:
            self._lose(error)

    def _lose(self, why: Exception | None) -> None:
        """The transport has ended, or what it brings is of no use any more."""
        if why is None:
            end: ThermaeError = ConnectionLost("the connection to the fleet ended")
        elif isinstance(why, ThermaeError):
            end = why
        else:
            end = ConnectionLost(f"the connection to the fleet broke: {why}")
        if words := self.transport.last_words():
            end.message += f"; the bridge said last: {words.splitlines()[-1]}"
        self._finish(end)

    def _finish(self, end: ThermaeError) -> None:
        if self._end is not None:
            return
        self._end = end
        self._ended.set()
        _log.debug("connection ended reason=%s", end.message)
        for request in list(self._requests.values()):
            request.fail(self._lost(request.job))

    def _lost(self, job: str) -> ThermaeError:
        end = self._end or ConnectionLost("the connection to the fleet ended")
        return type(end)(end.message, code=end.code, advice=end.advice, request_id=job)
