"""Requests to live sessions: commands and operations on files, which run beside the session's programs."""

import asyncio
import base64
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from thermae._commands import path_from_wire
from thermae._connection import Connection
from thermae._content import Content, pieces, whole
from thermae._error import ThermaeError
from thermae._jobs import START_WITHIN, written
from thermae._request import END, WINDOW, Request
from thermae._units import to_ms
from thermae.errors import Cancelled, OutOfMemory, WallTimeout, class_for, file_error

INLINE = 64 << 10
"""Bytes of input that go into the request itself."""


class SessionRequest:
    """A request to a session, which has been sent. Call `leave` in any case: it cancels a request that goes on.

    Attributes:
        id: Its id.
    """

    def __init__(self, request: Request, until: float | None) -> None:
        self.id = request.job
        self._request = request
        self._until = until
        self._feeding: asyncio.Task[None] | None = None

    async def next(self) -> Any:
        """The next piece of output, with the name of its stream, or `END`."""
        return await self._request.next(self._until)

    async def send_input(self, data: bytes | bytearray | memoryview, *, end: bool = False) -> bool:
        """As `Request.send_input`."""
        return await self._request.send_input(data, end=end)

    def signal(self, number: int) -> None:
        """Sends a signal to the command's process group."""
        self._request.reply({"type": "signal", "signal": number}, b"")

    def cancel(self) -> None:
        """Kills the command, or ends the operation."""
        self._request.cancel()

    def leave(self) -> None:
        """Nobody waits any more."""
        if self._feeding is not None:
            self._feeding.cancel()
        self._request.leave()

    def feed(self, content: Content) -> None:
        """Sends this content as input, to its end."""
        self._feeding = asyncio.create_task(self._feed(content))

    def done(self) -> dict[str, Any]:
        """How the request ended, as the wire has it.

        Raises:
            FileError: The kernel refused it.
            ThermaeError: The fleet could not carry it out.
        """
        done: dict[str, Any] = json.loads(self._request.payload)
        match done["how"]:
            case "failed":
                raise file_error(done["errno"], done["message"], path_from_wire(done["path"]), self.id)
            case "error":
                error = done["error"]
                kind, safe = class_for(error["code"]), error.get("safe_to_retry")
                raise kind(error["message"], code=error["code"], request_id=self.id, safe_to_retry=safe)
            case "exited" | "signaled" | "timed_out" | "cancelled" | "out_of_memory":
                return done
            case how:
                raise ThermaeError(f"the request ended in a way that this release does not know: {how}")

    def value(self) -> Any:
        """The result of an operation that is no command.

        Raises:
            ThermaeError: It did not end well.
        """
        done = self.done()
        match done["how"]:
            case "exited" if done["code"] == 0:
                return done.get("value")
            case "timed_out":
                raise WallTimeout("the operation took too long", request_id=self.id)
            case "out_of_memory":
                raise OutOfMemory("the session's memory ran out", request_id=self.id)
            case "cancelled":
                raise Cancelled("the operation was cancelled", request_id=self.id)
            case how:
                raise ThermaeError(f"what does the operation in the sandbox ended: {how}", request_id=self.id)

    async def _feed(self, content: Content) -> None:
        try:
            async with contextlib.aclosing(pieces(content)) as source:
                async for piece in source:
                    if not await self._request.send_input(piece):
                        return
            await self._request.send_input(b"", end=True)
        except Exception as error:  # The caller's own source raised it, so the caller gets it.
            self._request.cancel()
            self._request.fail(error)


class Requester(Protocol):
    """A session that can be asked."""

    name: str

    async def connection(self) -> Connection:
        """Makes sure that the session was made, and gives the connection to its fleet."""
        ...


async def begin(
    session: Requester,
    work: dict[str, Any],
    *,
    timeout: float | None = None,
    content: Content | None = None,
    more_input: bool = False,
) -> SessionRequest:
    """Sends a request.

    Args:
        session: The session.
        work: What to do, as the wire has it.
        timeout: Seconds that it can take.
        content: Its input.
        more_input: Whether the caller sends more input.
    """
    body = {"id": uuid.uuid4().hex, "session": session.name, **work}
    if timeout is not None:
        body["timeout_ms"] = to_ms(timeout)
    data = None if content is None else whole(content)
    if data is not None and len(data) <= INLINE:
        body["input"] = base64.b64encode(data).decode()
        content = None
    if content is not None or more_input:
        body["more_input"] = True
    payload = written(body)
    connection = await session.connection()
    until = None if timeout is None else asyncio.get_running_loop().time() + START_WITHIN + timeout
    request = SessionRequest(await connection.begin("request", {"window": WINDOW}, payload, job=str(body["id"])), until)
    if content is not None:
        request.feed(content)
    return request


async def ask(
    session: Requester,
    work: dict[str, Any],
    *,
    timeout: float | None = None,
    content: Content | None = None,
) -> Any:
    """Sends a request, and waits for its result. Output is dropped. The arguments are those of `begin`."""
    request = await begin(session, work, timeout=timeout, content=content)
    try:
        while await request.next() is not END:
            pass
        return request.value()
    finally:
        request.leave()


async def output(session: Requester, work: dict[str, Any], timeout: float | None) -> AsyncGenerator[bytes, None]:
    """Sends a request, and gives its output, piece by piece."""
    request = await begin(session, work, timeout=timeout)
    try:
        while (item := await request.next()) is not END:
            yield item[1]
        request.value()
    finally:
        request.leave()
