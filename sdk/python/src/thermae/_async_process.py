"""Commands under way, on an event loop."""

import asyncio
import contextlib
import signal as signals
from dataclasses import replace
from types import TracebackType
from typing import Self, cast

from thermae._commands import MAX_OUTPUT, Command, CommandOptions, ExecResult, Output, command_to_wire
from thermae._content import Bytes, Content, checked
from thermae._jobs import environment_timeout
from thermae._request import END
from thermae._requests import Requester, SessionRequest, begin
from thermae._units import to_bytes
from thermae.errors import SandboxClosed

LARGEST_SIGNAL = 64
"""The largest number of a signal of Linux."""


class AsyncStdin:
    """Standard input of a command."""

    def __init__(self, request: SessionRequest, *, closed: bool) -> None:
        self._request = request
        self._closed = closed
        self._lock = asyncio.Lock()

    async def write(self, data: Bytes) -> None:
        """Sends bytes, and waits while the command does not take them.

        Raises:
            TypeError: It is not bytes.
            ValueError: Standard input is closed, or was never open (`stdin=True`).
            BrokenPipeError: The command has ended.
        """
        if self._closed:
            raise ValueError("standard input is closed; `popen(…, stdin=True)` opens it")
        checked(data)
        async with self._lock:
            if len(data) and not await self._request.send_input(data):
                raise BrokenPipeError("the command has ended")

    async def close(self) -> None:
        """Ends standard input, after all that was written. Can be called twice."""
        if not self._closed:
            self._closed = True
            async with self._lock:
                await self._request.send_input(b"", end=True)


class AsyncProcess:
    """A command under way. `async for stream, data in process` gives its output as it comes.

    At the end of its `async with` block, a command that goes on is killed.

    Attributes:
        stdin: Its standard input, if `popen` was told to open it.
        result: Its result, once it has ended. `stdout` and `stderr` are only what nobody took piece by piece.
    """

    def __init__(self, request: SessionRequest, *, stdin: bool, max_output: int) -> None:
        self.stdin = AsyncStdin(request, closed=not stdin)
        self.result: ExecResult | None = None
        self._request = request
        self._max_output = max_output
        self._error: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._reading = asyncio.Lock()
        self._rest: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._size = 0

    @classmethod
    async def start(
        cls,
        session: Requester,
        command: Command,
        options: CommandOptions,
        *,
        content: Content | None = None,
        stdin: bool = False,
    ) -> Self:
        """Starts a command in a session."""
        work = command_to_wire(command, options)
        timeout = options.get("timeout")
        if timeout is None:
            timeout = environment_timeout()
        limit = to_bytes(options.get("max_output", MAX_OUTPUT))
        request = await begin(session, work, timeout=timeout, content=content, more_input=stdin)
        return cls(request, stdin=stdin, max_output=limit)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output:
        async with self._reading:
            if (output := await self._next()) is None:
                raise StopAsyncIteration
            return output

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def __del__(self) -> None:
        with contextlib.suppress(RuntimeError):  # The loop may be closed by now.
            self._loop.call_soon_threadsafe(self._request.leave)

    async def wait(self) -> ExecResult:
        """Waits for the end, and takes all output that is left. A wait that is cancelled can be begun anew.

        A command that reads standard input to its end also needs `stdin.close()`.

        Raises:
            FileError: The command could not be started.
            OutputLimit: There is more output left than `max_output`. The command was killed.
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        async with self._reading:
            while (output := await self._next()) is not None:
                self._rest[output.stream].append(output.data)
                self._size += len(output.data)
                if self._size > self._max_output:
                    self.result = ExecResult("output_limit", None, None, b"", b"", 0.0, self._request.id)
                    self._request.leave()
            result = cast("ExecResult", self.result)
            if self._size:
                out, err = (b"".join(self._rest.pop(stream)) for stream in ("stdout", "stderr"))
                self.result = result = replace(result, stdout=out, stderr=err)
                self._size = 0
            if result.status == "output_limit":
                result.raise_for_status()
            return result

    def send_signal(self, number: int) -> None:
        """Sends a signal to the command's process group. If it has ended, nothing happens.

        Raises:
            TypeError: It is not a number, such as `signal.SIGINT`.
            ValueError: There is no such signal.
        """
        if not isinstance(number, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a signal is a number, such as signal.SIGINT, not {number!r}")
        if not 0 <= number <= LARGEST_SIGNAL:
            raise ValueError(f"a signal is a number from 0 to {LARGEST_SIGNAL}, not {number}")
        self._request.signal(number)

    def terminate(self) -> None:
        """Asks the command to end, by SIGTERM."""
        self.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """Kills the command's process group. Its result is then `cancelled`."""
        self._request.cancel()

    def leave(self) -> None:
        """Kills the command if it goes on, without waiting for its end."""
        if self.result is None and self._error is None:
            self._error = SandboxClosed("the command was left before its end")
        self._request.leave()

    async def _next(self) -> Output | None:
        if self._error is not None:
            raise self._error
        if self.result is not None:
            return None
        try:
            if (item := await self._request.next()) is not END:
                return Output(*item)
            done = self._request.done()
        except Exception as error:
            self._error = error
            raise
        self.result = ExecResult(
            status=done["how"],
            exit_code=done.get("code"),
            signal=done.get("signal"),
            stdout=b"",
            stderr=b"",
            duration=done.get("wall_ms", 0) / 1000,
            request_id=self._request.id,
        )
        return None
