"""The transport to a bridge in a process of its own, over a socket pair."""

import asyncio
import collections
import contextlib
import logging
import os
import socket
import subprocess
import threading

from thermae._binary import find_binary
from thermae._frames import Frame, body_length, decode, encode
from thermae.errors import EmbeddedUnavailable

_log = logging.getLogger("thermae.bridge")

END_WITHIN = 10.0
"""Seconds that the bridge gets to drain and end. After that, it is killed."""


class BridgeTransport:
    """A `thermae bridge` that this process has started, and that ends with it."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, stderr: int) -> None:
        self._process = process
        self._socket = sock
        self._stderr = stderr
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._words: collections.deque[str] = collections.deque(maxlen=20)
        self._listener = threading.Thread(target=self._listen, daemon=True, name="thermae-log")
        self._listener.start()

    @classmethod
    async def start(cls) -> "BridgeTransport":
        """Starts a bridge.

        Raises:
            EmbeddedUnavailable: There is no `thermae`, or it can't be started.
        """
        binary = find_binary()
        ours, theirs = socket.socketpair()
        stderr, their_stderr = os.pipe()
        command = [binary, "bridge", "--fd", str(theirs.fileno()), "--parent", str(os.getpid())]
        try:
            # In a session of its own, Ctrl-C in a terminal reaches this process alone, which then cancels in order.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=their_stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(stderr)
            raise EmbeddedUnavailable(f"{binary} can't be started: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(their_stderr)
        _log.debug("bridge started bridge.pid=%d", process.pid)
        self = cls(process, ours, stderr)
        ours.setblocking(False)
        try:
            self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        except BaseException:
            ours.close()
            process.kill()
            process.wait()
            raise
        return self

    async def send(self, frame: Frame) -> None:
        """See `Transport`."""
        data = encode(frame)
        if self._writer is None or self._writer.is_closing():
            raise ConnectionResetError("the bridge has ended")
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> Frame | None:
        """See `Transport`."""
        if self._reader is None:
            return None
        try:
            length = body_length(await self._reader.readexactly(4))
            return decode(await self._reader.readexactly(length))
        except asyncio.IncompleteReadError:
            return None

    async def close(self) -> None:
        """See `Transport`."""
        if self._writer is not None:
            self._writer.close()
            try:
                async with asyncio.timeout(END_WITHIN):
                    await self._writer.wait_closed()
            except (OSError, TimeoutError):
                self._writer.transport.abort()
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._reap))

    def abandon(self) -> None:
        """See `Transport`."""
        # Only this process's copies of the descriptors go. The streams of the parent's event loop are not touched: its
        # epoll is shared.
        self._socket.close()
        os.close(self._stderr)
        self._process.returncode = 0

    def last_words(self) -> str:
        """See `Transport`."""
        return "\n".join(self._words)

    def _reap(self) -> None:
        try:
            self._process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            _log.warning("bridge did not end in time and is killed bridge.pid=%d", self._process.pid)
            self._process.kill()
            self._process.wait()
        self._listener.join(1)
        _log.debug("bridge ended bridge.pid=%d bridge.status=%d", self._process.pid, self._process.returncode)

    def _listen(self) -> None:
        # No file object reads this: after a fork, its lock could be held for ever in the child.
        rest = b""
        with contextlib.suppress(OSError):  # A program that closes all descriptors closes this one, too.
            while chunk := os.read(self._stderr, 65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._hear(line)
            os.close(self._stderr)
        if rest:
            self._hear(rest)

    def _hear(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        self._words.append(text)
        _log.debug("%s", text)
