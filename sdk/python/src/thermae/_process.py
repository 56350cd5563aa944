"""Commands under way, for programs without an event loop."""

from types import TracebackType
from typing import Self

from thermae._async_process import AsyncProcess, AsyncStdin
from thermae._commands import ExecResult, Output
from thermae._content import Bytes
from thermae._loop import Runner


class Stdin:
    """Standard input of a command."""

    def __init__(self, stdin: AsyncStdin, runner: Runner) -> None:
        self._stdin = stdin
        self._runner = runner

    def write(self, data: Bytes) -> None:
        """Sends bytes, and waits while the command does not take them.

        Raises:
            ValueError: Standard input is closed, or was never open (`stdin=True`).
            BrokenPipeError: The command has ended.
        """
        self._runner.run(self._stdin.write(data))

    def close(self) -> None:
        """Ends standard input, after all that was written. Can be called twice."""
        self._runner.run(self._stdin.close())


class Process:
    """A command under way. `for stream, data in process` gives its output as it comes.

    At the end of its `with` block, a command that goes on is killed.

    Attributes:
        stdin: Its standard input, if `popen` was told to open it.
    """

    def __init__(self, process: AsyncProcess, runner: Runner) -> None:
        self.stdin = Stdin(process.stdin, runner)
        self._process = process
        self._runner = runner

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Output:
        if (output := self._runner.run(_next(self._process))) is None:
            raise StopIteration
        return output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    @property
    def result(self) -> ExecResult | None:
        """Its result, once it has ended. `stdout` and `stderr` are only what nobody took piece by piece."""
        return self._process.result

    def wait(self) -> ExecResult:
        """Waits for the end, and takes all output that is left.

        A command that reads standard input to its end also needs `stdin.close()`.

        Raises:
            FileError: The command could not be started.
            OutputLimit: There is more output left than `max_output`. The command was killed.
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        return self._runner.run(self._process.wait())

    def send_signal(self, number: int) -> None:
        """Sends a signal to the command's process group. If it has ended, nothing happens.

        Raises:
            TypeError: It is not a number, such as `signal.SIGINT`.
            ValueError: There is no such signal.
        """
        self._runner.run(_send_signal(self._process, number))

    def terminate(self) -> None:
        """Asks the command to end, by SIGTERM."""
        self._runner.run(_terminate(self._process))

    def kill(self) -> None:
        """Kills the command's process group. Its result is then `cancelled`."""
        self._runner.run(_kill(self._process))

    def leave(self) -> None:
        """Kills the command if it goes on, without waiting for its end."""
        self._runner.begin(_leave(self._process))


async def _next(process: AsyncProcess) -> Output | None:
    return await anext(process, None)


async def _send_signal(process: AsyncProcess, number: int) -> None:
    process.send_signal(number)


async def _terminate(process: AsyncProcess) -> None:
    process.terminate()


async def _kill(process: AsyncProcess) -> None:
    process.kill()


async def _leave(process: AsyncProcess) -> None:
    process.leave()
