"""The transport to a gateway: a WebSocket, whose messages are frames."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
    WebSocketException,
)

from thermae._error import ThermaeError
from thermae._frames import LARGEST_HEADER, LARGEST_PAYLOAD, BadFrameError, Frame, decode, encode_body
from thermae._gateway import Gateway
from thermae._retry import pause
from thermae._version import VERSION
from thermae.errors import ApiKeyRefused, BadUrl, GatewayUnreachable, NotAGateway, TlsFailed, class_for

_log = logging.getLogger("thermae")

CONNECT_WITHIN = 30.0
"""Seconds that a gateway gets to answer."""

AWAY_FOR = 30.0
"""Seconds that a gateway which was there before may be away."""

AWAY = frozenset({"gateway_unreachable", "draining", "keys_unavailable"})
"""Codes of errors with which a gateway that restarts, or a proxy before it, refuses connections."""

END_WITHIN = 5.0
"""Seconds that it gets to cancel what is under way, and to close the connection."""

PING_EVERY = 20.0
"""Seconds between signs of life."""

SILENT_FOR = 60.0
"""Seconds without an answer to one, after which nobody is there any more."""


class GatewayTransport:
    """A connection to a gateway."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._listening: asyncio.Task[None] | None = None
        self._closing = False

    @classmethod
    async def start(cls, gateway: Gateway, *, again: bool = False) -> "GatewayTransport":
        """Connects.

        Args:
            gateway: The gateway.
            again: Whether it was there before. If it is away now, it restarts, and is tried for `AWAY_FOR`.

        Raises:
            ThermaeError: The URL is malformed, nothing answers there, the key is refused, or TLS fails.
        """
        loop = asyncio.get_running_loop()
        until, failures = loop.time() + AWAY_FOR, 0
        while True:
            try:
                return await cls._connect(gateway)
            except ThermaeError as error:
                error.safe_to_retry = error.code in AWAY  # Nothing was sent.
                wait = pause(failures)
                if not again or error.code not in AWAY or loop.time() + wait > until:
                    raise
                _log.debug("the gateway is away code=%s failures=%d", error.code, failures + 1)
            await asyncio.sleep(wait)
            failures += 1

    @classmethod
    async def _connect(cls, gateway: Gateway) -> "GatewayTransport":
        options: dict[str, Any] = {"ssl": gateway.ssl_context} if gateway.ssl_context is not None else {}
        shown = {"Authorization": f"Bearer {gateway.api_key}"} if gateway.api_key else {}
        try:
            socket = await connect(
                gateway.address,
                additional_headers=shown,
                user_agent_header=f"thermae-python/{VERSION}",
                compression=None,
                open_timeout=CONNECT_WITHIN,
                close_timeout=END_WITHIN,
                ping_interval=PING_EVERY,
                ping_timeout=SILENT_FOR,
                max_size=4 + LARGEST_HEADER + LARGEST_PAYLOAD,
                **options,
            )
        except (OSError, WebSocketException, ValueError, ImportError) as error:
            raise _why(error) from error
        _log.debug("connected to the gateway url=%s", gateway.url)
        return cls(socket)

    def listen(self, take: Callable[[Frame], None], ended: Callable[[Exception | None], None]) -> None:
        """See `Transport`."""
        self._listening = asyncio.create_task(self._listen(take, ended))

    async def send(self, frame: Frame) -> None:
        """See `Transport`."""
        try:
            await self._socket.send(encode_body(frame))
        except ConnectionClosed as error:
            raise ConnectionResetError("the connection has ended") from error

    def try_send(self, frame: Frame) -> bool:
        """See `Transport`. Only the event loop sends here."""
        encode_body(frame)
        return False

    async def close(self) -> None:
        """See `Transport`."""
        self._closing = True
        if self._socket.loop.is_closed():
            self.abandon()  # Nobody is left who could close it in order.
            return
        try:
            async with asyncio.timeout(2 * END_WITHIN):
                await self._socket.close()
        except TimeoutError:
            self._socket.transport.abort()
        if self._listening is not None:
            await asyncio.wait([self._listening])

    def abandon(self) -> None:
        """See `Transport`."""
        connection = self._socket.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                # Nothing forks there, so the connection is this process's own; and its number is none of a file.
                connection.shutdown(socket.SHUT_RDWR)
                return
            # Only this process's copy of the descriptor goes, and nothing says so to the gateway. Something must stay
            # in its place: the socket's object would close the number once more, whatever it is then.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, connection.fileno(), inheritable=False)
            os.close(nothing)

    def last_words(self) -> str:
        """See `Transport`. A gateway says everything in its frames."""
        return ""

    async def _listen(self, take: Callable[[Frame], None], ended: Callable[[Exception | None], None]) -> None:
        why: Exception | None = None
        try:
            while True:
                message = await self._socket.recv()
                if isinstance(message, str):
                    raise BadFrameError("a message of text")
                take(decode(message))
        except ConnectionClosedOK:
            pass
        except ConnectionClosed as error:
            why = None if self._closing else ConnectionResetError(_last(error))
        except BadFrameError as error:
            why = error
            self._socket.transport.abort()
        ended(why)


def _last(error: ConnectionClosed) -> str:
    """How a connection ended that was not closed in order."""
    if error.rcvd is not None:
        return f"the gateway closed it ({error.rcvd.code}{error.rcvd.reason and ': '}{error.rcvd.reason})"
    if error.sent is not None:
        return f"it was given up ({error.sent.reason or error.sent.code})"
    return "the gateway is gone, or the network is"


def _why(error: Exception) -> ThermaeError:
    """Why there is no connection."""
    if isinstance(error, ThermaeError):
        return error
    if isinstance(error, InvalidStatus):
        return _refused(error.response.status_code, bytes(error.response.body or b""))
    if isinstance(error, ssl.SSLError):
        return TlsFailed(
            f"TLS with the gateway failed: {getattr(error, 'verify_message', '') or error.reason or error}"
        )
    if isinstance(error, InvalidProxy | ProxyError | ImportError):
        return GatewayUnreachable(f"the proxy on the way to the gateway can't be used: {error}")
    if isinstance(error, InvalidURI):
        return BadUrl(f"the URL of the gateway is malformed: {error}")
    if isinstance(error, OSError):
        why = "it did not answer in time" if isinstance(error, TimeoutError) else str(error) or "it hung up"
        return GatewayUnreachable(f"the gateway can't be reached: {why}")
    kind = "" if isinstance(error, InvalidHandshake) else f"{type(error).__name__}: "
    return NotAGateway(f"what answers there is no gateway: {kind}{error}")


def _refused(status: int, body: bytes) -> ThermaeError:
    """Why the gateway, or a proxy before it, gave another answer than a WebSocket."""
    try:
        problem: Any = json.loads(body)
    except (ValueError, RecursionError):
        problem = None
    if isinstance(problem, dict) and isinstance(code := cast("dict[str, Any]", problem).get("code"), str):
        said = cast("dict[str, Any]", problem)
        return class_for(code)(str(said.get("detail", code)), code=code, advice=str(said.get("advice") or ""))
    if status == 401:
        return ApiKeyRefused("something before the gateway refused the API key (401)")
    if status in (502, 503, 504):
        return GatewayUnreachable(f"a proxy before the gateway answered {status}")
    return NotAGateway(f"what answers there is no gateway: it answered {status}")
