"""The transport to a bridge in a process of its own, over a socket pair."""

import asyncio
import collections
import contextlib
import functools
import logging
import os
import socket
import subprocess
import threading
from collections.abc import Callable

from thermae._binary import find_binary
from thermae._frame_stream import FrameStream
from thermae._frames import Frame
from thermae.errors import EmbeddedUnavailable

_log = logging.getLogger("thermae.bridge")

END_WITHIN = 10.0
"""Seconds that the bridge gets to drain and end. After that, it is killed."""

WORDS_WITHIN = 0.5
"""Seconds that what the bridge said last can need to arrive, after the connection has ended."""


class BridgeTransport:
    """A `thermae bridge` that this process has started, and that ends with it."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, stderr: int) -> None:
        self._process = process
        self._socket = sock
        self._stderr = stderr
        self._frames = FrameStream(sock)
        self._words: collections.deque[str] = collections.deque(maxlen=20)
        self._loop = asyncio.get_running_loop()
        self._ended: Callable[[], None] | None = None
        self._silent = False
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
            await asyncio.get_running_loop().create_connection(lambda: self._frames, sock=ours)
        except BaseException:
            ours.close()
            process.kill()
            process.wait()
            raise
        return self

    def listen(self, take: Callable[[Frame], None], ended: Callable[[Exception | None], None]) -> None:
        """See `Transport`."""

        def lost(why: Exception | None) -> None:
            # What the bridge said last comes on another way, which a child of the bridge may hold open.
            self._ended = functools.partial(ended, why)
            if self._silent:
                self._tell()
            else:
                self._loop.call_later(WORDS_WITHIN, self._tell)

        self._frames.listen(take, lost)

    async def send(self, frame: Frame) -> None:
        """See `Transport`."""
        await self._frames.send(frame)

    def try_send(self, frame: Frame) -> bool:
        """See `Transport`."""
        return self._frames.try_send(frame)

    async def close(self) -> None:
        """See `Transport`."""
        self._frames.close()
        try:
            async with asyncio.timeout(END_WITHIN):
                await asyncio.shield(self._frames.lost)
        except TimeoutError:
            self._frames.abort()
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._reap))
        self._tell()

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

    def _tell(self) -> None:
        """Tells the end, once."""
        self._silent = True
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

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
        with contextlib.suppress(RuntimeError):  # The loop may be closed by now.
            self._loop.call_soon_threadsafe(self._tell)

    def _hear(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        self._words.append(text)
        _log.debug("%s", text)
