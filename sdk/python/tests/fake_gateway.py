"""A gateway whose bridges are fake ones (`FAKE_BIN`): it passes frames on, and checks the key."""

import asyncio
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
from typing import Any

from helpers import until
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State

KEY = "the-right-key"


class FakeGateway:
    """Runs in a thread until it is stopped.

    Attributes:
        url: Where it is.
        refusal: If there is one, its status and body answer every connection.
        seen: The requests for connections.
        bridges: The fake bridges, of all connections.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.refusal: tuple[int, bytes] | None = None
        self.seen: list[Request] = []
        self.bridges: list[subprocess.Popen[bytes]] = []
        self._sockets: list[ServerConnection] = []
        self._relays: set[ServerConnection] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._main(ready)))
        self._thread.start()
        assert ready.wait(20)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self._loop.close()

    def say(self, header: dict[str, Any]) -> None:
        """Sends a frame on all connections, and ends them in order."""

        async def say() -> None:
            text = json.dumps(header).encode()
            for one in self._sockets:
                await one.send(struct.pack("<I", len(text)) + text)
                await one.close()

        asyncio.run_coroutine_threadsafe(say(), self._loop).result(20)

    def settle(self) -> None:
        """Waits until the bridges of connections that have ended have read everything."""
        until(lambda: all(one.state is State.OPEN for one in list(self._relays)))

    def die(self) -> None:
        """Cuts all connections off."""
        for one in self._sockets:
            self._loop.call_soon_threadsafe(one.transport.abort)

    async def _main(self, ready: threading.Event) -> None:
        async with serve(
            self._relay, "127.0.0.1", 0, process_request=self._check, max_size=64 << 20, compression=None, ssl=self._tls
        ) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
            ready.set()
            await self._stop.wait()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.seen.append(request)
        status, body = self.refusal or (401, b'{"code": "bad_token", "detail": "no such key", "advice": "ask"}')
        if self.refusal is None and request.headers.get("Authorization") == f"Bearer {KEY}":
            return None
        answer = connection.respond(status, "")
        del answer.headers["Content-Length"]
        answer.headers["Content-Length"] = str(len(body))
        answer.body = body
        return answer

    async def _relay(self, client: ServerConnection) -> None:
        ours, theirs = socket.socketpair()
        command = [os.environ["FAKE_BIN"], "bridge", "--fd", str(theirs.fileno()), "--parent", str(os.getpid())]
        bridge = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        theirs.close()
        self.bridges.append(bridge)
        self._sockets.append(client)
        self._relays.add(client)
        reader, writer = await asyncio.open_connection(sock=ours)
        down = asyncio.create_task(self._down(reader, client))
        try:
            async for message in client:
                assert isinstance(message, bytes)
                writer.write(struct.pack("<I", len(message)) + message)
                await writer.drain()
        except (OSError, ConnectionClosed):
            pass
        finally:
            writer.close()
            self._sockets.remove(client)
            await asyncio.to_thread(self._end, bridge)
            await asyncio.wait([down])
            self._relays.remove(client)

    def _end(self, bridge: subprocess.Popen[bytes]) -> None:
        """Waits until the bridge has seen the end of its client."""
        try:
            bridge.wait(5)
        except subprocess.TimeoutExpired:
            bridge.kill()
            bridge.wait()

    async def _down(self, reader: asyncio.StreamReader, client: ServerConnection) -> None:
        """Passes on what the bridge says. If it dies, the connection is cut off."""
        first = b""
        try:
            while True:
                first = await reader.readexactly(4)
                (length,) = struct.unpack("<I", first)
                # What is no frame is passed on as it is.
                await client.send(await reader.readexactly(length) if length < 64 << 20 else first)
        except ConnectionClosed:
            pass
        except (asyncio.IncompleteReadError, OSError):
            if self.bridges[-1].poll() in (None, 0):
                await client.close()
            else:
                client.transport.abort()
