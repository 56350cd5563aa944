"""An interpreter that keeps its variables, for programs without an event loop."""

import os
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack, cast

from thermae._async_session import AsyncSession
from thermae._commands import Command, CommandOptions, ExecOptions, ExecResult
from thermae._jobs import RunOptions, StreamOptions
from thermae._loop import Runner
from thermae._process import Process
from thermae._results import Result
from thermae._run import Run
from thermae._session_files import Files
from thermae._stream import Stream

if TYPE_CHECKING:
    from thermae._sandbox import Sandbox


class Session:
    """An interpreter that stays alive between runs, and keeps its variables and its files.

    Attributes:
        name: Its name, with which `connect` finds it again.
        files: Its files.
    """

    def __init__(self, sandbox: "Sandbox", session: AsyncSession, runner: Runner) -> None:
        self.name = session.name
        self._sandbox = sandbox
        self._session = session
        self._runner = runner
        self.files = Files(session.files, runner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner.pid == os.getpid():  # In a forked child, the session is the parent's.
            self._runner.run(self._session.leave(failed=error is not None))

    def run(self, code: str = "", **options: Unpack[RunOptions]) -> Result:
        """Runs a program in the session; as `Sandbox.run`.

        Raises:
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        return self._sandbox.run(code, **cast("RunOptions", {**options, **self._session.claim()}))

    def stream(self, code: str = "", **options: Unpack[StreamOptions]) -> Stream:
        """Runs a program in the session, and gives its events; as `Sandbox.stream`."""
        return self._sandbox.stream(code, **cast("StreamOptions", {**options, **self._session.claim()}))

    def submit(self, code: str = "", **options: Unpack[StreamOptions]) -> Run:
        """Begins a program in the session that goes on without this process; as `Sandbox.submit`.

        A session that no run has made yet is made first.
        """
        return Run(self._runner.run(self._session.submit(code, **options)), self._runner)

    def exec(self, command: Command, **options: Unpack[ExecOptions]) -> ExecResult:
        """Runs a command beside the session's programs, and waits for its result. Ctrl-C kills the command.

        Processes that the command leaves in the background live on until the session ends. A session that no run has
        made yet is made first.

        Args:
            command: A command line for `bash`, or a list of a program and its arguments.
            options: See `ExecOptions` and `CommandOptions`.

        Returns:
            The result, also if the command failed or took too long. With `check=True`, only if it exited with 0.

        Raises:
            FileError: The command could not be started: there is no such program (`FileNotFound`), for example.
            OutputLimit: It wrote more than `max_output`, and was killed. `exec_result` has the beginning.
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        return self._runner.run(self._session.exec(command, **options))

    def popen(self, command: Command, *, stdin: bool = False, **options: Unpack[CommandOptions]) -> Process:
        """Starts a command beside the session's programs, and gives its output as it comes.

        Args:
            command: A command line for `bash`, or a list of a program and its arguments.
            stdin: Whether to open standard input, for `process.stdin`. By default, it is empty.
            options: See `CommandOptions`.
        """
        return Process(self._runner.run(self._session.popen(command, stdin=stdin, **options)), self._runner)

    def keepalive(self) -> None:
        """Lets the session's idle time begin anew, as any run and any other use does.

        Raises:
            SessionExpired: The session was idle for too long.
            SessionEvicted: It made room for another session.
            SessionLost: It was lost with its worker, or with its interpreter.
        """
        self._runner.run(self._session.keepalive())

    def close(self) -> None:
        """Ends the session, after the runs that it has got. If it is gone already, nothing happens."""
        self._runner.run(self._session.close())

    def detach(self) -> str:
        """Lets go of the session without ending it: it lives on until it has been idle for too long.

        Returns:
            Its name, for `connect`.
        """
        return self._session.detach()
